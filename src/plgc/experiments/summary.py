"""Records summarised over their seeds: a row for every method and way of scoring, with the paper's numbers.

:mod:`plgc.experiments.compare` adds the differences; :mod:`plgc.experiments.tables` and
:mod:`plgc.experiments.figures` show them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from plgc.experiments.compare import compare
from plgc.experiments.differences import Draw
from plgc.experiments.grid import cells, label_seeds
from plgc.experiments.rows import PROTOCOL, PUBLISHED, WAYS, SummaryRow
from plgc.experiments.spec import METRICS, Experiment, GraphPlan
from plgc.rivals.methods import METHODS
from plgc.runtime.errors import SettingError

MESSAGE = 200  # characters of an error that a footnote shows
# A path from the root, the home folder or the current folder: it says where a machine keeps its files.
PATH = re.compile(r"""(?<![\w.~/\\])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?!/)[^\s'"(),;:]+""")


def summarise(
    experiment: Experiment, records: Iterable[Mapping[str, Any]], metric: str | None = None
) -> list[SummaryRow]:
    """Records over their seeds, in the experiment's order, with every difference and the paper's numbers.

    Records of other experiments, graphs or sizes are left out; methods and levels beyond the file's are kept.
    ``metric`` is by default each graph's own.
    """
    sizes: dict[str, set[int | None]] = {}
    for plan in experiment.graphs:
        sizes.setdefault(plan.name, {None}).update(plan.nodes)
    found: dict[tuple[Any, ...], SummaryRow] = {}
    recorded, wanted = set[str](), {metric or experiment.metric}
    for record in records:
        cell = record["cell"]
        if cell["experiment"] != experiment.name or cell["nodes"] not in sizes.get(cell["graph"], ()):
            continue
        case = (cell["graph"], cell["nodes"], cell["preset"], cell["method"])
        protocol = tuple(cell.get(name) for name in PROTOCOL)
        own = metric or experiment.metric_of(cell["graph"])
        row = _row(found, (*case, protocol, PUBLISHED, own, experiment.task))
        recorded.update(record.get("metrics", ()))
        wanted.add(own)
        if "error" in record:
            row.errors.append(_short(record["error"]))
        elif own not in record["metrics"]:
            row.errors.append(f"there is no {own}: it was not recorded, or was not finite")
        else:
            for name in experiment.also:
                value = record["metrics"].get(name, record.get(name))
                if value is not None:
                    row.also.setdefault(name, []).append(value)
            for way in WAYS:
                if drawn := _drawn(record, f"{way}_{own}" if way else own):
                    _add(_row(found, (*case, protocol, way, own, experiment.task)), record, drawn)
    if not wanted & recorded and (recorded or not wanted <= set(METRICS)):
        known = ", ".join(sorted(recorded)) or ", ".join(METRICS)
        raise SettingError(f"there is no metric {metric or experiment.metric!r} in the records: choose {known}")
    if metric in (None, experiment.metric) and experiment.across is None:
        _add_paper(experiment, found)
    compare(found.values(), experiment.against)
    return sorted(found.values(), key=_order(experiment))


def _row(found: dict[tuple[Any, ...], SummaryRow], key: tuple[Any, ...]) -> SummaryRow:
    return found.setdefault(key, SummaryRow(*key))


def _add(row: SummaryRow, record: Mapping[str, Any], drawn: dict[Draw, float]) -> None:
    """Add a record's values to a row, and what they were made with."""
    row.values |= drawn
    row.machines.add(record.get("machine") or "unknown")
    row.commits.add(record.get("commit") or "unknown")
    row.versions.add(record.get("version") or "unknown")


def _drawn(record: Mapping[str, Any], metric: str) -> dict[Draw, float]:
    """A record's values of a metric, by seed and label draw; none where it does not have it."""
    if metric not in record["metrics"]:
        return {}
    seed = record["cell"]["seed"]
    values = record.get("values", {}).get(metric, [record["metrics"][metric]])
    seeds = label_seeds(seed, record["cell"].get("draws"))
    return {Draw(seed, labels): value for labels, value in zip(seeds, values, strict=True)}


def level_values(experiment: Experiment, rows: Iterable[SummaryRow], level: str) -> list[Any]:
    """The values of a level that the experiment names or that were run: numbers in order, all labels last."""
    named = [value for levels in (experiment, *experiment.graphs) for value in levels.levels.get(level, ())]
    values = list(dict.fromkeys([*named, *(row.level(level) for row in rows)]))
    if any(isinstance(value, str) for value in values):
        return values
    return sorted(values, key=lambda value: (value is None, value or 0))


def _add_paper(experiment: Experiment, found: dict[tuple[Any, ...], SummaryRow]) -> None:
    """Add the paper's numbers to our rows, and rows of their own for methods that we have no records of.

    A graph with several levels gets none: the file does not say which of them the paper's numbers are of.
    """
    run = {row.graph for row in found.values()}
    for plan in experiment.graphs:
        protocols = _planned_protocols(experiment, plan)
        if plan.name not in run or len(protocols) != 1:
            continue
        for method, numbers in plan.paper.items():
            for nodes, pair in zip(plan.nodes if METHODS[method].sized else (None,), numbers, strict=True):
                case = (method, protocols[0], PUBLISHED, experiment.metric, experiment.task)
                keys = [key for key in found if (key[0], key[1], *key[3:]) == (plan.name, nodes, *case)]
                for key in keys or [(plan.name, nodes, None, *case)]:
                    _row(found, key).paper = tuple(pair)


def _planned_protocols(experiment: Experiment, plan: GraphPlan) -> list[tuple[Any, ...]]:
    planned = cells(replace(experiment, graphs=(replace(plan, seeds=1),)))
    return list(dict.fromkeys(tuple(getattr(cell, name, None) for name in PROTOCOL) for cell in planned))


def _order(experiment: Experiment) -> Any:
    graphs = {plan.name: place for place, plan in reversed(list(enumerate(experiment.graphs)))}
    methods = {name: place for place, name in enumerate(dict.fromkeys((*experiment.methods, *METHODS)))}
    levels = {name: level_values(experiment, (), name) for name in PROTOCOL}

    def place(row: SummaryRow) -> tuple[Any, ...]:
        level = [
            (levels[name].index(value), "") if value in levels[name] else (len(levels[name]), str(value))
            for name, value in zip(PROTOCOL, row.protocol, strict=True)
        ]
        preset = (row.preset not in (None, "default"), row.preset or "")
        method = methods.get(row.method, len(methods))
        return graphs[row.graph], row.nodes or 0, *level, method, preset, list(WAYS).index(row.way)

    return place


def _short(message: str) -> str:
    """An error's first line, without the paths of files, which mean nothing on another machine."""
    line = PATH.sub("…", " ".join(message.split("\n", 1)[0].split()))
    return line if len(line) <= MESSAGE else line[: MESSAGE - 1] + "…"
