"""Curves and tables of recorded runs (``plgc experiment run``): label efficiency, wrong labels and the like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.curves import AXES
from plgc.experiments.spec import METRICS, NAMES, Experiment, list_experiments
from plgc.experiments.summary import ANY, PROTOCOL, SummaryRow as Entry, level_name, level_values, mean_std, summarise
from plgc.graphs.catalog import normalised
from plgc.report.charts import Series, line_chart
from plgc.report.html import Html, join, table, tag
from plgc.report.text import NONE, counted, spread

FIRST = ("plgc", "whole", *reversed(CONTROLS))  # drawn first, in these colours
PANELS = 12
COLOURS = (5, 0, 2, 3, 4, 6, 7, 1)  # of the page, in the order of the lines
TITLES = {"shots": "Few labels", "noise": "Wrong labels while condensing", "imbalance": "Uneven labels"}


def show_runs(records: Sequence[Mapping[str, Any]], graph: str | None) -> Html:
    """Every experiment of the records: curves where it runs along a level, else a table.

    Args:
        records: as :func:`plgc.experiments.records.read_records` returns them.
        graph: where the records have this graph, it alone is shown.
    """
    recorded = {record["cell"]["experiment"] for record in records}
    known = {experiment.name: experiment for experiment in list_experiments()}
    shown = [_show(known[name], records, graph) for name in known if name in recorded]
    missing = sorted(recorded - set(known))
    if missing:
        shown.append(tag("p", f"Not shown, as this version does not know the experiment: {', '.join(missing)}."))
    return join(shown)


def _show(experiment: Experiment, records: Sequence[Mapping[str, Any]], graph: str | None) -> Html:
    entries = [entry for entry in summarise(experiment, records, experiment.metric) if entry.values]
    same = [entry for entry in entries if graph is not None and normalised(entry.graph) == normalised(graph)]
    entries = same or entries
    if not entries:
        return tag("p", f"The records of {experiment.name} hold no results yet.")
    heading = tag("h3", TITLES.get(experiment.across or "", experiment.title))
    title = f"{experiment.title}. " if experiment.across in TITLES else ""
    about = tag("p", f"{title}{_seeds(entries)}; from the records of the run {experiment.name}.")
    if experiment.across is None:
        return join([heading, about, _table(experiment, entries)])
    panels = _panels(entries, experiment.across)
    charts = [
        _panel(f"run-{experiment.name}-{place}", experiment, title, members)
        for place, (title, members) in enumerate(list(panels.items())[:PANELS])
    ]
    left = tag("p", f"The first {PANELS} of {len(panels)} are shown.") if len(panels) > PANELS else None
    shape = "charts tables" if experiment.across in NAMES else "charts"
    return join([heading, about, tag("div", *charts, class_=shape), left])


def _metric(experiment: Experiment) -> str:
    """The metric as people write it, with its unit."""
    name = {"macro_f1": "macro-F1", "auroc": "AUROC", "nmi": "NMI", "ari": "ARI"}.get(
        experiment.metric, experiment.metric
    )
    return f"{name}, %" if METRICS.get(experiment.metric, 1) == 1 else name


def _seeds(entries: Iterable[Entry]) -> str:
    counts = sorted({len(entry.values) for entry in entries})
    many = counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    return f"Mean and standard deviation over {many}"


def _panels(entries: Sequence[Entry], across: str) -> dict[str, list[Entry]]:
    """Entries by graph, size and the rest of the protocol, with those that hold for any size or level beside."""
    names = [name for name in PROTOCOL if name != across]

    def rest(entry: Entry) -> tuple[Any, ...]:
        return tuple(entry.level(name) for name in names)

    def belongs(entry: Entry, graph: str, nodes: int | None, others: tuple[Any, ...]) -> bool:
        near = zip(names, rest(entry), others, strict=True)
        fits = all(own == value or (name in ANY and own is None) for name, own, value in near)
        return fits and entry.graph == graph and entry.nodes in (nodes, None)

    keys = list(dict.fromkeys((entry.graph, entry.nodes, rest(entry)) for entry in entries))
    sized = {graph for graph, nodes, _ in keys if nodes is not None}
    keys = [key for key in keys if key[1] is not None or key[0] not in sized]
    found: dict[str, list[Entry]] = {}
    for graph, nodes, others in keys:
        near = [other for name, size, other in keys if (name, size) == (graph, nodes)]
        apart = [
            f"{name} {level_name(name, value)}"
            for place, (name, value) in enumerate(zip(names, others, strict=True))
            if len({other[place] for other in near}) > 1
        ]
        title = ", ".join([graph, *([] if nodes is None else [f"{nodes} nodes"]), *apart])
        found[title] = [entry for entry in entries if belongs(entry, graph, nodes, others)]
    return found


def _panel(identity: str, experiment: Experiment, title: str, entries: Sequence[Entry]) -> Html:
    across = experiment.across
    assert across is not None
    values = [v for v in level_values(experiment, entries, across) if any(e.level(across) == v for e in entries)]
    if across in ANY and len(values) > 1:
        values = [value for value in values if value is not None]
    numeric = across == "noise" and None not in values  # other levels grow by factors: they stand at equal distances
    places = {value: float(value if numeric else place) for place, value in enumerate(values)}
    lines: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=_order):
        lines.setdefault(entry.name, []).append(entry)
    series = []
    for name, members in lines.items():
        points = []
        for value, place in places.items():
            for entry in members:
                if entry.level(across) in (value, None if across in ANY else value):
                    points.append((place, *mean_std(entry.values.values())))
        if points:
            x, means, deviations = zip(*points, strict=True)
            widths = [value or 0.0 for value in deviations]
            series.append(Series(name.replace("_", " "), x, means, widths, colour=_colour(len(series))))
    metric = _metric(experiment)
    ticks = [(place, level_name(across, value)) for value, place in places.items()]
    if across in NAMES:
        rows = [[one.name, *_cells(one, ticks)] for one in series]
        return table(["", *(name for _, name in ticks)], rows, f"{title}: {metric}")
    label = AXES.get(across, across)
    return line_chart(identity, title, series, x_label=label, y_label=metric, ticks=ticks, markers=True)


def _colour(place: int) -> int:
    """Ours comes first and has the colour it has everywhere; the one most like it comes last."""
    return COLOURS[place % len(COLOURS)]


def _cells(one: Series, ticks: Sequence[tuple[float, str]]) -> list[str]:
    found = dict(zip(one.x, zip(one.y, one.spread or one.y, strict=True), strict=True))
    return [spread(*found[place]) if place in found else NONE for place, _ in ticks]


def _order(entry: Entry) -> tuple[int, float]:
    place = FIRST.index(entry.method) if entry.method in FIRST else len(FIRST)
    place = place if entry.preset in (None, "default") else len(FIRST)
    return place, 0.0 if place < len(FIRST) else -sum(entry.values.values()) / len(entry.values)


def _table(experiment: Experiment, entries: Sequence[Entry]) -> Html:
    digits = METRICS.get(experiment.metric, 1)
    rows = []
    for entry in entries:
        nodes = NONE if entry.nodes is None else str(entry.nodes)
        pairs = spread(*mean_std(entry.pairs), digits) if entry.pairs else NONE
        mean = spread(*mean_std(list(entry.values.values())), digits)
        rows.append([entry.graph, entry.name.replace("_", " "), nodes, mean, pairs, len(entry.values)])
    head = ["graph", "method", "nodes", _metric(experiment), "less the better control", "seeds"]
    return table(head, rows, experiment.title, names=2)
