"""Recorded runs (``plgc experiment run``) as curves and tables: few labels, wrong labels and the like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.levels import NAMES
from plgc.experiments.numbers import mean_std, unit, with_interval
from plgc.experiments.rows import ANY, PROTOCOL, PUBLISHED, SummaryRow, level_name
from plgc.experiments.spec import Experiment, list_experiments
from plgc.experiments.styles import AXES
from plgc.experiments.summary import level_values, summarise
from plgc.graphs.catalog import normalised, title
from plgc.report.charts import NumberTable, Series, line_chart
from plgc.report.formatting import NONE, counted, spread

FIRST = ("plgc", "whole", "whole_mlp", *reversed(CONTROLS))  # drawn first
PANELS = 12
COLOURS = (5, 0, 2, 3, 4, 6, 7, 1)  # of the page, in the order of the lines: ours first, as everywhere
TITLES = {"shots": "Few labels", "noise": "Wrong labels while condensing", "imbalance": "Uneven labels"}
METRIC_NAMES = {"macro_f1": "macro-F1", "auroc": "AUROC", "nmi": "NMI", "ari": "ARI"}


def recorded_runs(records: Sequence[Mapping[str, Any]], graph: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    """Every experiment of the records, and the names of those that this version does not know.

    An experiment has ``charts`` where it varies a number, else ``tables``; both are empty where it has no results.

    Args:
        records: as :func:`plgc.experiments.records.read_records` returns them.
        graph: where the records have this graph, it alone is shown.
    """
    recorded = {record["cell"]["experiment"] for record in records}
    known = {experiment.name: experiment for experiment in (list_experiments() if records else [])}
    runs = [_run(experiment, records, graph) for name, experiment in known.items() if name in recorded]
    return runs, sorted(recorded - set(known))


def _run(experiment: Experiment, records: Sequence[Mapping[str, Any]], graph: str | None) -> dict[str, Any]:
    entries = [entry for entry in summarise(experiment, records) if entry.values]
    same = [entry for entry in entries if graph is not None and normalised(entry.graph) == normalised(graph)]
    entries, across = same or entries, experiment.across
    run: dict[str, Any] = {"name": experiment.name, "charts": [], "tables": [], "panels": 0}
    if not entries:
        return run
    title = f"{experiment.title}. " if across in TITLES else ""
    run["heading"] = TITLES.get(across or "", experiment.title)
    run["about"] = f"{title}{_seeds(entries)}; from the records of the run {experiment.name}."
    if across is None:
        return run | {"tables": [_table(experiment, entries)]}
    panels = _panels([entry for entry in entries if entry.way == PUBLISHED], across)
    for place, (panel, members) in enumerate(list(panels.items())[:PANELS]):
        ticks, series = _lines(experiment, across, members)
        metric, axis = _metric(experiment, members[0].metric), AXES.get(across, across)
        if across in NAMES:
            run["tables"].append(_level_table(f"{panel}: {metric}", ticks, series))
        else:
            chart = f"run-{experiment.name}-{place}"
            run["charts"].append(
                line_chart(chart, panel, series, x_label=axis, y_label=metric, ticks=ticks, markers=True)
            )
    return run | {"panels": len(panels)}


def _metric(experiment: Experiment, metric: str) -> str:
    """The metric's name with its unit."""
    return unit(experiment, metric).name.replace(metric, METRIC_NAMES.get(metric, metric))


def _seeds(entries: Sequence[SummaryRow]) -> str:
    counts = sorted({entry.seeds for entry in entries})
    many = counted(counts[0], "seed") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds"
    drawn = any(entry.seeds < len(entry.values) for entry in entries)
    return f"Mean and standard deviation over {many}{' and their label draws' if drawn else ''}"


def _panels(entries: Sequence[SummaryRow], across: str) -> dict[str, list[SummaryRow]]:
    """Entries by graph, size and the rest of the protocol; entries that hold for any size or level go to each."""
    names = [name for name in PROTOCOL if name != across]

    def rest(entry: SummaryRow) -> tuple[Any, ...]:
        return tuple(entry.level(name) for name in names)

    def belongs(entry: SummaryRow, graph: str, nodes: int | None, others: tuple[Any, ...]) -> bool:
        near = zip(names, rest(entry), others, strict=True)
        fits = all(own == value or (name in ANY and own is None) for name, own, value in near)
        return fits and entry.graph == graph and entry.nodes in (nodes, None)

    keys = list(dict.fromkeys((entry.graph, entry.nodes, rest(entry)) for entry in entries))
    sized = {graph for graph, nodes, _ in keys if nodes is not None}
    keys = [key for key in keys if key[1] is not None or key[0] not in sized]
    found: dict[str, list[SummaryRow]] = {}
    for graph, nodes, others in keys:
        near = [other for name, size, other in keys if (name, size) == (graph, nodes)]
        differing = [
            f"{name} {level_name(name, value)}"
            for place, (name, value) in enumerate(zip(names, others, strict=True))
            if len({other[place] for other in near}) > 1
        ]
        heading = ", ".join([title(graph), *([] if nodes is None else [f"{nodes} nodes"]), *differing])
        found[heading] = [entry for entry in entries if belongs(entry, graph, nodes, others)]
    return found


def _lines(
    experiment: Experiment, across: str, entries: Sequence[SummaryRow]
) -> tuple[list[tuple[float, str]], list[Series]]:
    """The levels of one panel as ticks, and a line for every method."""
    values = [v for v in level_values(experiment, entries, across) if any(e.level(across) == v for e in entries)]
    if across in ANY and len(values) > 1:
        values = [value for value in values if value is not None]
    numeric = across == "noise" and None not in values  # other levels grow by factors: they are set at equal distances
    places = {value: float(value if numeric else place) for place, value in enumerate(values)}
    methods: dict[str, list[SummaryRow]] = {}
    for entry in sorted(entries, key=_order):
        methods.setdefault(entry.name, []).append(entry)
    series = []
    for name, members in methods.items():
        points = [
            (place, *mean_std([unit(experiment, entry.metric).factor * v for v in entry.values.values()]))
            for value, place in places.items()
            for entry in members
            if entry.level(across) in (value, None if across in ANY else value)
        ]
        if points:
            x, means, deviations = zip(*points, strict=True)
            colour = COLOURS[len(series) % len(COLOURS)]
            series.append(Series(name.replace("_", " "), x, means, [value or 0.0 for value in deviations], colour))
    return [(place, level_name(across, value)) for value, place in places.items()], series


def _order(entry: SummaryRow) -> tuple[int, float]:
    """Ours, the whole graph and the controls first, then the others, best first."""
    if entry.method in FIRST and entry.preset in (None, "default"):
        return FIRST.index(entry.method), 0.0
    return len(FIRST), -mean_std(entry.values.values())[0]


def _level_table(title: str, ticks: Sequence[tuple[float, str]], series: Sequence[Series]) -> NumberTable:
    """The lines of a panel as a table, for levels that are names and have no order."""
    rows = []
    for one in series:
        cells = {x: spread(mean, deviation) for x, mean, deviation in one.points}
        rows.append([one.name, *(cells.get(place, NONE) for place, _ in ticks)])
    return NumberTable(title, ["", *(name for _, name in ticks)], rows)


def _table(experiment: Experiment, entries: Sequence[SummaryRow]) -> NumberTable:
    rows = []
    for entry in entries:
        form = unit(experiment, entry.metric)
        values = [form.factor * value for value in entry.values.values()]
        nodes = NONE if entry.nodes is None else str(entry.nodes)
        less = with_interval(entry.less_control, form) if entry.less_control else NONE
        name = entry.name.replace("_", " ")
        rows.append([title(entry.graph), name, nodes, spread(*mean_std(values), form.digits), less, entry.seeds])
    metrics = list(dict.fromkeys(_metric(experiment, entry.metric) for entry in entries))
    head = ["graph", "method", "nodes", "; ".join(metrics), "less the best control, 95 % interval", "seeds"]
    return NumberTable(experiment.title, head, rows, 2)
