"""Several condensed graphs side by side: a table, their curves in one picture, and how each of them looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.report.charts import Series, line_chart
from plgc.report.health import CURVES, check_list, share_or_none
from plgc.report.html import Html, details, join, table, tag
from plgc.report.making import making, options, quoted
from plgc.report.study import Study
from plgc.report.text import NONE, number, percent, plain, size, whole

SOURCES_MIN_CLUSTER = 5  # what 'plgc condense' takes for several sources


def side_by_side(studies: Sequence[Study], partition: Mapping[str, Any] | None) -> Html:
    """The sources: sizes, counts and quality, a row each."""
    head = ["source", "method", "nodes", "bytes", "original nodes", "ratio", "fewest", "median", "most", "effective"]
    head += ["explained", "given back", "closest two", "seed"]
    rows = [_row(study) for study in studies]
    notes = {
        "effective": "as many equal clusters would be as uneven",
        "explained": "share of the embeddings' variance that the pseudo-labels explain",
        "given back": "share of the pseudo-labels' variance that a rebuilt backbone reproduces",
        "closest two": "distance of the two closest pseudo-labels",
    }
    words = "; ".join(f"{name}: {text}" for name, text in notes.items())
    cut = None
    if partition is not None:
        cut = tag("p", f"One graph in {partition['parts']} {partition['how']} parts{_cut_text(partition)}.")
    return join([cut, table(head, rows, "The sources side by side", names=2), tag("p", f"{words}.", class_="note")])


def _cut_text(partition: Mapping[str, Any]) -> str:
    """The share of edges that were cut; nothing where the manifest, of clipped or noisy files, leaves it out."""
    if "edges" not in partition:
        return ""
    return f": {percent(partition['edges_cut'] / max(1, partition['edges']), 3)} of its edges were cut"


def compared_health(studies: Sequence[Study]) -> Html:
    """Balance and curves of all sources in the same pictures, then what to know of each."""
    balance = [
        Series(one.name, [place / max(1, len(sizes) - 1) for place in range(len(sizes))], sizes)
        for one in studies
        if (sizes := sorted(one.counts.sizes, reverse=True))
    ]
    label = "synthetic nodes, largest first (share)"
    charts = [line_chart("balance", "Cluster balance", balance, x_label=label, y_label="original nodes", start=0.0)]
    names = list(dict.fromkeys(name for one in studies for name, values in one.condensed.curves.items() if values))
    for place, name in enumerate(names):
        title, axis_name = CURVES.get(name, (name.replace("_", " "), "step"))
        lines = [_curve(one.name, one.condensed.curves.get(name, [])) for one in studies]
        label = "share" if name == "explained" else "loss"
        charts.append(line_chart(f"curve-{place}", title, lines, x_label=axis_name, y_label=label))
    losses = [_curve(one.name, one.losses) for one in studies]
    title = "Reconstruction: loss while a backbone is rebuilt from each"
    charts.append(line_chart("reconstruction", title, losses, x_label="step", y_label="loss", start=0.0))
    missing = [one.name for one in studies if not any(one.condensed.curves.values())]
    note = tag("p", f"No training curves are in {', '.join(missing)}.", class_="note") if missing else None
    return join([tag("div", *charts, class_="charts"), note, _theory(studies), *map(_each, studies)])


def compared_making(studies: Sequence[Study], partition: Mapping[str, Any] | None, graph: str | None) -> Html:
    """The command for all parts of a cut graph, and what made every file."""
    parts: list[Html | None] = []
    if partition is not None:
        text = partition_command(studies, partition, graph)
        parts.append(tag("pre", tag("code", text), tabindex="0", role="region", aria_label="The command for all parts"))
    parts += [details(one.name, making(one, None if partition is not None else graph)) for one in studies]
    return join(parts)


def partition_command(studies: Sequence[Study], partition: Mapping[str, Any], graph: str | None) -> str:
    """The command that cuts the graph again and condenses its parts into a folder."""
    first, words = studies[0].condensed, ["--parts", partition["parts"], "--partition", partition["how"]]
    words += ["--alpha", f"{partition['alpha']:g}"] if "alpha" in partition else []
    words += ["--halo", partition["halo"]] if partition["halo"] else []
    words += ["--nodes", sum(one.condensed.nodes_requested for one in studies), "--seed", partition["seed"]]
    words += ["--shared-seed"] if all(one.condensed.seed == partition["seed"] for one in studies) else []
    words += ["--fingerprint"] if first.fingerprint is not None else []
    words += [*options(first, SOURCES_MIN_CLUSTER), "--cpus", first.threads, "-o", "parts"]
    return quoted(graph, words)


def _row(study: Study) -> list[str]:
    condensed, counts = study.condensed, study.counts
    original, explained = condensed.source.get("nodes"), condensed.curves.get("explained")
    return [
        study.name,
        condensed.method,
        whole(condensed.num_nodes),
        size(study.bytes),
        NONE if original is None else whole(original),
        NONE if not original else percent(condensed.num_nodes / original),
        whole(min(counts.sizes)),
        number(counts.median),
        whole(max(counts.sizes)),
        number(counts.effective),
        share_or_none(explained[-1] if explained else None),
        share_or_none(study.reconstructed),
        number(study.gap),
        plain(condensed.seed),
    ]


def _curve(name: str, values: Sequence[float]) -> Series:
    return Series(name, range(1, len(values) + 1), values)


def _theory(studies: Sequence[Study]) -> Html | None:
    rows = []
    for one in studies:
        if one.theory is not None:
            seen = one.theory.normalized
            kept = one.theory.promised.separation
            rows.append(
                [
                    one.name,
                    number(one.theory.gap),
                    number(one.theory.sigma),
                    "vacuous" if kept is None else number(kept),
                    number(seen.separation),
                    percent(seen.recovered / one.theory.points, 3),
                ]
            )
    head = ["source", "separation Δ", "noise σ", "kept, promised", "kept, seen", "nodes nearest to their own"]
    return table(head, rows, "Separation and bounds on the graph given") if rows else None


def _each(study: Study) -> Html:
    return details(f"{study.name} in words", check_list(study, []))
