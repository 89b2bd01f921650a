"""The section "Is it healthy?": checks in words, then balance, separation, bounds and losses of one condensed graph."""

from __future__ import annotations

from plgc.evaluation.theory import Diagnosis
from plgc.report.charts import Series, bar_chart, line_chart
from plgc.report.html import Html, details, facts, join, tag
from plgc.report.scores import Scores
from plgc.report.study import Balance, Study
from plgc.report.text import NONE, counted, number, percent, whole

GOOD, LOOK, SILENT = "good", "look", "silent"
MARKS = {GOOD: ("✓", "Good"), LOOK: ("!", "Look here"), SILENT: ("·", "Nothing to say")}
UNEVEN = 0.5  # effective clusters below this share of all are worth a look
FAITHFUL = 0.8  # share of the pseudo-labels' variance that a rebuilt backbone should give back
CURVES = {  # name in the file: title, axis
    "pseudo_label_loss": ("Stage I: loss of the pseudo-labels", "epoch"),
    "explained": ("Stage I: variance that the pseudo-labels explain", "round"),
    "synthesis_loss": ("Stage II: loss of the synthetic features", "step"),
}


def health(study: Study, scores: list[Scores]) -> Html:
    """The section's content for one file."""
    marks = check_list(study, scores)
    charts = [_balance_chart(study), *_curves(study), _reconstruction(study)]
    return join([marks, tag("div", *charts, class_="charts"), _missing(study), _separation(study)])


def checks(study: Study, scores: list[Scores]) -> list[tuple[str, str]]:
    """What a reader should know first: how good it looks, and a sentence."""
    found = [_balance_check(study.classes or study.counts, "class" if study.classes else "cluster")]
    if study.reconstructed is not None:
        kind = GOOD if study.reconstructed >= FAITHFUL else LOOK
        share = percent(study.reconstructed, 3)
        found.append((kind, f"A rebuilt backbone gives back {share} of the pseudo-labels' variance."))
    explained = study.condensed.curves.get("explained")
    if explained:
        kind = GOOD if explained[-1] >= 0.5 else LOOK
        found.append((kind, f"The pseudo-labels explain {percent(explained[-1], 3)} of the embeddings' variance."))
    if study.same is not None:
        same = "is the one that was condensed" if study.same else "is not the one that was condensed"
        found.append((GOOD if study.same else LOOK, f"The graph given {same}, by the fingerprint in the file."))
    for one in scores:
        clear, where = one.beats(one.control), "" if one.task == "node" else " on links"
        words = "is clearly above" if clear else "is not clearly above"
        few = "" if one.shots is None else f" with {counted(one.shots, 'label')} per class"
        text = f"It {words} the better control{where}{few}, over {counted(len(one.control.values), 'seed')}."
        found.append((GOOD if clear else LOOK, text))
    if study.theory is not None:
        found.append(_theory_check(study.theory))
    return found


def check_list(study: Study, scores: list[Scores]) -> Html:
    """The checks as a list, each with a mark and its meaning in words."""
    return tag("ul", *(_check(*check) for check in checks(study, scores)), class_="checks")


def _check(kind: str, text: str) -> Html:
    mark, words = MARKS[kind]
    return tag("li", tag("span", mark, aria_hidden="true"), tag("b", words, class_="hidden"), " ", text, class_=kind)


def _balance_check(balance: Balance, noun: str) -> tuple[str, str]:
    total, share = len(balance.sizes), balance.effective / len(balance.sizes)
    plural = "classes" if noun == "class" else "clusters"
    empty = f"{balance.empty} of {total} {plural} are empty. " if balance.empty else f"No {noun} is empty. "
    even = f"The {total} {plural} are as even as {number(balance.effective)} equal ones would be."
    return LOOK if balance.empty or share < UNEVEN else GOOD, empty + even


def _theory_check(theory: Diagnosis) -> tuple[str, str]:
    right = theory.normalized.recovered / theory.points
    seen = f"{percent(right, 3)} of held-out nodes are nearest to their own pseudo-label"
    if theory.promised.separation is None:
        return SILENT, f"Theorem 1 promises nothing here, its bound is too wide for clusters this small; still, {seen}."
    return GOOD, f"Theorem 1 promises a separation of {number(theory.promised.separation)}; {seen}."


def _balance_chart(study: Study) -> Html:
    counts = study.counts.sizes
    if study.classes is not None:
        return bar_chart(
            "balance",
            "Class balance",
            study.classes.sizes,
            x_label="class",
            y_label="synthetic nodes",
            names=[str(place) for place in range(len(study.classes.sizes))],
        )
    title = "Cluster balance" + (" (noisy counts)" if "noise" in study.condensed.settings else "")
    return bar_chart("balance", title, counts, x_label="synthetic nodes, largest first", y_label="original nodes")


def _curves(study: Study) -> list[Html]:
    charts = []
    for place, (name, values) in enumerate(study.condensed.curves.items()):
        if values:
            title, axis = CURVES.get(name, (name.replace("_", " "), "step"))
            one = Series(name.replace("_", " "), range(1, len(values) + 1), values)
            charts.append(line_chart(f"curve-{place}", title, [one], x_label=axis, y_label=_short(name)))
    return charts


def _missing(study: Study) -> Html | None:
    """Why there are no training curves."""
    if any(study.condensed.curves.values()):
        return None
    why = (
        "it was made with noise, which curves would undo"
        if "noise" in study.condensed.settings
        else "the method keeps none"
    )
    return tag("p", f"The file has no training curves: {why}.", class_="note")


def _short(name: str) -> str:
    return "share" if name == "explained" else "loss" if name.endswith("loss") else name.replace("_", " ")


def _reconstruction(study: Study) -> Html | None:
    if not study.losses:
        return None
    one = Series("reconstruction loss", range(1, len(study.losses) + 1), study.losses)
    title = f"Reconstruction: loss while a backbone is rebuilt, {number(study.losses[-1])} at the end"
    return line_chart("reconstruction", title, [one], x_label="step", y_label="loss", start=0.0)


def _separation(study: Study) -> Html | None:
    if study.theory is None:
        gap = None if study.gap is None else f"The two closest pseudo-labels are {number(study.gap)} apart. "
        note = f"{gap or ''}{study.theory_note or ''}"
        return tag("p", note, class_="note") if note else None
    return join([tag("h3", "Separation and bounds"), facts(bounds(study.theory)), theory_note(study.theory)])


def bounds(theory: Diagnosis) -> dict[str, str]:
    """Theorem 1 beside what is seen, in words and numbers."""
    promised, seen = theory.promised, theory.normalized
    epsilon = [value for value in theory.epsilon if value is not None]
    radius = "vacuous" if promised.interior_radius is None else number(promised.interior_radius)
    kept = "vacuous" if promised.separation is None else number(promised.separation)
    enough = "none: two means coincide" if theory.sufficient_size is None else whole(theory.sufficient_size)
    return {
        "Separation Δ of the two closest means": number(theory.gap),
        "Noise σ within clusters (from below)": number(theory.sigma),
        "Deviation ε of a mean, promised": f"{number(min(epsilon))} to {number(max(epsilon))}",
        "Deviation of a mean, seen on halves": f"median {number(seen.distance_median)}, "
        f"most {number(seen.distance_max)}",
        "Interior radius, promised (Δ/2 − ε)": radius,
        "Separation kept, promised (Δ − 2ε)": kept,
        "Separation kept, seen on halves": number(seen.separation),
        "Cluster size that would suffice": f"{enough} (have it: {theory.sufficient_clusters} of {theory.compared})",
        "Held-out nodes nearest to their own": f"{percent(seen.recovered / theory.points, 3)} of "
        f"{whole(theory.points)}",
        "Clusters on this graph": f"{theory.compared} of {theory.clusters} compared; {theory.empty} empty, "
        f"{theory.single} of one node",
    }


def theory_note(theory: Diagnosis) -> Html:
    """How to read the bounds."""
    return details(
        "How to read this",
        tag(
            "p",
            f"Theorem 1 holds with probability {number(1 - theory.delta)}: a mean of s nodes lies within ε of its true "
            "centre, so that nodes well inside a cluster stay nearest to it, and clusters stay apart. “Vacuous” says "
            "that ε is too large for the theorem to promise anything; what is seen may still be good. Each cluster is "
            "cut into random halves: one half's mean stands for the centre, the other's for the pseudo-label.",
        ),
    )


def share_or_none(value: float | None) -> str:
    """A share in per cent, or a dash."""
    return NONE if value is None else percent(value, 3)
