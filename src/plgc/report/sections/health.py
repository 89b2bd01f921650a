"""The section "Is it healthy?": checks in words, then balance, training curves, separation and bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from plgc.artifact.degenerate import warnings_of
from plgc.evaluation.theory import Diagnosis
from plgc.report.charts import Chart, NumberTable, Series, bar_chart, line_chart
from plgc.report.facts.files import Balance, FileFacts
from plgc.report.facts.scores import Scores
from plgc.report.formatting import number, percent

GOOD, ATTENTION, NEUTRAL = "good", "attention", "neutral"
EVEN = 0.5  # of the clusters are effective, at least
FAITHFUL = 0.8  # of the pseudo-labels' variance is reproduced by a rebuilt backbone, at least
HANDFUL = 30  # test nodes: fewer decide no check
EXPLAINED = 0.5  # of the embeddings' variance is explained by the pseudo-labels, at least
CURVES = {  # name in the file: title, axis
    "pseudo_label_loss": ("Stage I: loss of the pseudo-labels", "epoch"),
    "explained": ("Stage I: variance that the pseudo-labels explain", "round"),
    "synthesis_loss": ("Stage II: loss of the synthetic features", "step"),
}
Check = tuple[str, str]  # GOOD, ATTENTION or NEUTRAL, and a sentence


def health_section(files: Sequence[FileFacts], scores: Sequence[Scores]) -> dict[str, Any]:
    """Checks by file, charts, and bounds: of one file in full, of several as a table."""
    several = len(files) > 1
    first = files[0]
    balance = _balance_lines(files) if several else _balance_bars(first)
    gap = "" if first.gap is None else f"The two closest pseudo-labels are {number(first.gap)} apart. "
    return {
        "checks": {file.name: checks(file, [] if several else scores) for file in files},
        "charts": [chart for chart in [balance, *_curves(files), _reconstruction(files)] if chart],
        "curves_note": _curves_note(files),
        "theory": None if several else first.theory,
        "theory_note": None if several else f"{gap}{first.theory_note or ''}",
        "theory_table": _theory_table(files) if several else None,
    }


def checks(file: FileFacts, scores: Sequence[Scores]) -> list[Check]:
    """What a reader should know first."""
    nouns = ("class", "classes") if file.classes else ("cluster", "clusters")
    found = [(ATTENTION, f"{text[0].upper()}{text[1:]}.") for text in warnings_of(file.condensed)]
    found.append(_balance_check(file.classes or file.counts, *nouns))
    if file.reconstructed is not None:
        text = f"A rebuilt backbone reproduces {percent(file.reconstructed, 3)} of the pseudo-labels' variance."
        found.append(_check(file.reconstructed >= FAITHFUL, text))
    if file.explained is not None:
        text = f"The pseudo-labels explain {percent(file.explained, 3)} of the embeddings' variance."
        found.append(_check(file.explained >= EXPLAINED, text))
    if file.same_graph is not None:
        same = "is" if file.same_graph else "is not"
        text = f"The graph given {same} the one that was condensed, by the fingerprint in the file."
        found.append(_check(file.same_graph, text))
    found += [_control_check(one) for one in scores]
    if file.theory is not None:
        found.append(_theory_check(file.theory))
    return found


def _check(good: bool, text: str) -> Check:
    return GOOD if good else ATTENTION, text


def _control_check(scores: Scores) -> Check:
    """Whether the file is above the best control; no verdict on a handful of nodes, or one seed."""
    claim = scores.claims[scores.control.name]
    where = "" if scores.task == "node" else " on links"
    few = f" with {scores.few_labels}" if scores.few_labels else ""
    what = f"above the best control{where}{few}"
    if claim.interval is None or (claim.nodes is not None and claim.nodes < HANDFUL):
        return NEUTRAL, f"Whether it is {what} cannot be told from {claim.rests_on}."
    good = claim.verdict == "above"
    return _check(good, f"It {'is' if good else 'is not'} {what}, by the 95 % interval over {claim.rests_on}.")


def _balance_check(balance: Balance, noun: str, plural: str) -> Check:
    total = len(balance.sizes)
    empty = f"{balance.empty} of {total} {plural} are empty." if balance.empty else f"No {noun} is empty."
    even = f"The {total} {plural} are as even as {number(balance.effective)} equal ones would be."
    return _check(not balance.empty and balance.effective / total >= EVEN, f"{empty} {even}")


def _theory_check(theory: Diagnosis) -> Check:
    right = theory.normalized.recovered / theory.points
    seen = f"{percent(right, 3)} of held-out nodes are nearest to their own pseudo-label"
    if theory.promised.separation is None:
        text = f"Theorem 1 promises nothing here, its bound is too wide for clusters this small; still, {seen}."
        return NEUTRAL, text
    return GOOD, f"Theorem 1 promises a separation of {number(theory.promised.separation)}; {seen}."


def _balance_bars(file: FileFacts) -> Chart:
    if file.classes is not None:
        sizes, labels = file.classes.sizes, {"x_label": "class", "y_label": "synthetic nodes"}
        return bar_chart("balance", "Class balance", sizes, **labels, names=[str(k) for k in range(len(sizes))])
    made = file.condensed.settings
    kind = " (noisy counts)" if "noise" in made else " (rounded counts)" if made.get("private") else ""
    title = f"Cluster balance{kind}"
    labels = {"x_label": "synthetic nodes, largest first", "y_label": "original nodes"}
    return bar_chart("balance", title, file.counts.sizes, **labels)


def _balance_lines(files: Sequence[FileFacts]) -> Chart | None:
    lines = []
    for file in files:
        sizes = sorted(file.counts.sizes, reverse=True)
        lines.append(Series(file.name, [place / max(1, len(sizes) - 1) for place in range(len(sizes))], sizes))
    label = "synthetic nodes, largest first (share)"
    return line_chart("balance", "Cluster balance", lines, x_label=label, y_label="original nodes", start=0.0)


def _curves(files: Sequence[FileFacts]) -> list[Chart | None]:
    """One chart per training curve, with a line for every file that has it."""
    names = dict.fromkeys(name for file in files for name, values in file.condensed.curves.items() if values)
    charts = []
    for place, name in enumerate(names):
        words = name.replace("_", " ")
        title, axis = CURVES.get(name, (words, "step"))
        unit = "share" if name == "explained" else "loss" if name.endswith("loss") else words
        curves = [file.condensed.curves.get(name, []) for file in files]
        charts.append(line_chart(f"curve-{place}", title, _lines(files, curves, words), x_label=axis, y_label=unit))
    return charts


def _reconstruction(files: Sequence[FileFacts]) -> Chart | None:
    curves = [file.losses for file in files]
    end = " from each" if len(files) > 1 else f", {number(curves[0][-1])} at the end" if curves[0] else ""
    title, lines = (
        f"Reconstruction: loss while a backbone is rebuilt{end}",
        _lines(files, curves, "reconstruction loss"),
    )
    return line_chart("reconstruction", title, lines, x_label="step", y_label="loss", start=0.0)


def _lines(files: Sequence[FileFacts], curves: Sequence[Sequence[float]], words: str) -> list[Series]:
    """A line for every file, under its name; the line of a single file is named after what it shows."""
    names = [file.name for file in files] if len(files) > 1 else [words]
    return [Series(name, range(1, len(curve) + 1), curve) for name, curve in zip(names, curves, strict=True)]


def _curves_note(files: Sequence[FileFacts]) -> str | None:
    missing = [file for file in files if not any(file.condensed.curves.values())]
    if not missing:
        return None
    if len(files) > 1:
        return f"No training curves are in {', '.join(file.name for file in missing)}."
    settings = missing[0].condensed.settings
    hidden = "noise" in settings or settings.get("private")
    why = "it is private or noisy, which curves would undo" if hidden else "the method keeps none"
    return f"The file has no training curves: {why}."


def _theory_table(files: Sequence[FileFacts]) -> NumberTable | None:
    rows = []
    for file in files:
        if file.theory is not None:
            seen, kept = file.theory.normalized, file.theory.promised.separation
            values = [file.theory.gap, file.theory.sigma, kept, seen.separation]
            texts = ["vacuous" if value is None else number(value) for value in values]
            rows.append([file.name, *texts, percent(seen.recovered / file.theory.points, 3)])
    head = ["source", "separation Δ", "noise σ", "kept, promised", "kept, seen", "nodes nearest to their own"]
    return NumberTable("Separation and bounds on the graph given", head, rows) if rows else None
