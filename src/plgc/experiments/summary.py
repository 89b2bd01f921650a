"""Records summarised over their seeds: the values, their differences to the controls, and the paper's numbers.

:mod:`plgc.experiments.tables` and :mod:`plgc.experiments.curves` show them.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.grid import cells
from plgc.experiments.spec import METRICS, Experiment, GraphPlan
from plgc.rivals.methods import METHODS
from plgc.runtime.errors import SettingError

# The fields of a cell that are the same for all methods.
PROTOCOL = ("backbone", "shots", "labels", "noise", "imbalance", "inductive")
PROTOCOL += ("parts", "partition", "sources", "combine", "release")
ANY = ("noise", "partition", "sources", "combine")  # a row without a value holds for all of them
NONE, ALL = "-", "all"
MESSAGE = 200  # characters of an error that a footnote shows
# A path from the root, the home folder or the current folder: it says where a machine keeps its files.
PATH = re.compile(r"""(?<![\w.~/\\])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?!/)[^\s'"(),;:]+""")


@dataclass
class SummaryRow:
    """One method on one graph at one size under one protocol, over its seeds.

    Attributes:
        graph, nodes, preset, method: as in a cell.
        protocol: the cell's values of :data:`PROTOCOL`.
        values: the metric by seed.
        errors: messages of the seeds that failed.
        paper: the paper's mean and standard deviation, where it has them; empty where it ran out of memory.
        control: the best of the controls that were run, on the seeds in common.
        pairs: differences to that control, seed by seed.
        also: the experiment's other metrics and costs, by name.
        machines, commits: what the values were made with.
    """

    graph: str
    nodes: int | None
    preset: str | None
    method: str
    protocol: tuple[Any, ...]
    values: dict[int, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    paper: tuple[float, ...] | None = None
    control: str | None = None
    pairs: list[float] = field(default_factory=list)
    also: dict[str, list[float]] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    commits: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The method as tables call it."""
        return self.method if self.preset in (None, "default") else f"{self.method} ({self.preset} preset)"

    def level(self, name: str) -> Any:
        """One value of the protocol."""
        return self.protocol[PROTOCOL.index(name)]

    @property
    def difference(self) -> float | None:
        """Our mean less the paper's."""
        return statistics.fmean(self.values.values()) - self.paper[0] if self.values and self.paper else None

    def line(self, metric: str) -> dict[str, Any]:
        """Everything as one line of a file, with every seed's value in full."""
        mean, std = mean_std(self.values.values()) if self.values else (None, None)
        paired_mean, paired_std = mean_std(self.pairs) if self.pairs else (None, None)
        paper_mean, paper_std = self.paper or (None, None)
        return {
            "graph": self.graph,
            "nodes": self.nodes,
            "preset": self.preset,
            "method": self.method,
            **dict(zip(PROTOCOL, self.protocol, strict=True)),
            "metric": metric,
            "mean": mean,
            "std": std,
            "seeds": len(self.values),
            "values": " ".join(repr(float(value)) for _, value in sorted(self.values.items())),
            "paper_mean": paper_mean,
            "paper_std": paper_std,
            "difference": self.difference,
            "paired_control": self.control,
            "paired_mean": paired_mean,
            "paired_std": paired_std,
            "machine": "; ".join(sorted(self.machines)),
            "commit": "; ".join(sorted(self.commits)),
            "error": "; ".join(dict.fromkeys(self.errors)),
        }


def summarise(experiment: Experiment, records: Iterable[Mapping[str, Any]], metric: str) -> list[SummaryRow]:
    """Records over their seeds, in the experiment's order, paired with controls and matched with the paper's numbers.

    Records of other experiments, graphs or sizes are left out; methods and levels beyond the file's are kept.
    """
    sizes: dict[str, set[int | None]] = {}
    for plan in experiment.graphs:
        sizes.setdefault(plan.name, {None}).update(plan.nodes)
    found: dict[tuple[Any, ...], SummaryRow] = {}
    recorded: set[str] = set()
    for record in records:
        cell = record["cell"]
        if cell["experiment"] != experiment.name or cell["nodes"] not in sizes.get(cell["graph"], ()):
            continue
        key = (cell["graph"], cell["nodes"], cell["preset"], cell["method"], tuple(cell.get(name) for name in PROTOCOL))
        row = found.setdefault(key, SummaryRow(*key))
        recorded.update(record.get("metrics", ()))
        if "error" in record:
            row.errors.append(_short(record["error"]))
        elif metric not in record["metrics"]:
            row.errors.append(f"there is no {metric}: it was not recorded, or was not finite")
        else:
            row.values[cell["seed"]] = record["metrics"][metric]
            for name in experiment.also:
                value = record["metrics"].get(name, record.get(name))
                if value is not None:
                    row.also.setdefault(name, []).append(value)
            row.machines.add(record.get("machine") or "unknown")
            row.commits.add(record.get("commit") or "unknown")
    if metric not in recorded and (recorded or metric not in METRICS):
        known = ", ".join(sorted(recorded)) or ", ".join(METRICS)
        raise SettingError(f"there is no metric {metric!r} in the records: choose {known}")
    if metric == experiment.metric and experiment.across is None:
        _add_paper(experiment, found)
    _pair_with_controls(found.values())
    return sorted(found.values(), key=_order(experiment))


def mean_std(values: Collection[float]) -> tuple[float, float | None]:
    """Mean and standard deviation (n − 1); a single value has none."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def level_name(level: str, value: Any) -> str:
    """A level's value in a heading or on an axis; no number of labels means all of them."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ALL if level in ("shots", "labels") else "any" if level in ANY else NONE
    return value if isinstance(value, str) else f"{value:g}"


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
                keys = [key for key in found if (key[0], key[1], *key[3:]) == (plan.name, nodes, method, protocols[0])]
                for key in keys or [(plan.name, nodes, None, method, protocols[0])]:
                    found.setdefault(key, SummaryRow(*key)).paper = tuple(pair)


def _planned_protocols(experiment: Experiment, plan: GraphPlan) -> list[tuple[Any, ...]]:
    planned = cells(replace(experiment, graphs=(replace(plan, seeds=1),)))
    return list(dict.fromkeys(tuple(getattr(cell, name) for name in PROTOCOL) for cell in planned))


def _pair_with_controls(rows: Collection[SummaryRow]) -> None:
    """The difference to the best control, on the seeds in common; a control without values is not compared with."""
    controls = [row for row in rows if row.method in CONTROLS and row.values]
    for row in rows:
        near = {c.method: c.values for c in controls if c.graph == row.graph and _covers(c.protocol, row.protocol)}
        seeds = sorted(set(row.values).intersection(*near.values()))
        if near and seeds and row.method not in CONTROLS:
            means = {name: statistics.fmean(values[seed] for seed in seeds) for name, values in near.items()}
            row.control = max(means, key=means.__getitem__)
            row.pairs = [row.values[seed] - near[row.control][seed] for seed in seeds]


def _covers(general: tuple[Any, ...], special: tuple[Any, ...]) -> bool:
    """Whether results under one protocol hold for the other, too."""
    return all(
        ours == theirs or (name in ANY and ours is None)
        for name, ours, theirs in zip(PROTOCOL, general, special, strict=True)
    )


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
        return graphs[row.graph], row.nodes or 0, *level, methods.get(row.method, len(methods)), preset

    return place


def _short(message: str) -> str:
    """An error's first line, without the paths of files, which mean nothing on another machine."""
    line = PATH.sub("…", " ".join(message.split("\n", 1)[0].split()))
    return line if len(line) <= MESSAGE else line[: MESSAGE - 1] + "…"
