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
from plgc.experiments.differences import Difference, Draw, less_best
from plgc.experiments.grid import cells, label_seeds
from plgc.experiments.levels import ALL
from plgc.experiments.numbers import NONE, mean_std
from plgc.experiments.spec import METRICS, Experiment, GraphPlan
from plgc.rivals.methods import METHODS
from plgc.runtime.errors import SettingError

# The fields of a cell that are the same for all methods.
PROTOCOL = ("backbone", "shots", "labels", "noise", "imbalance", "inductive")
PROTOCOL += ("parts", "partition", "sources", "combine", "release")
ANY = ("noise", "partition", "sources", "combine")  # a row without a value holds for all of them
MESSAGE = 200  # characters of an error that a footnote shows
# A path from the root, the home folder or the current folder: it says where a machine keeps its files.
PATH = re.compile(r"""(?<![\w.~/\\])(?:~|\.{1,2}|[A-Za-z]:)?[/\\](?!/)[^\s'"(),;:]+""")


@dataclass
class SummaryRow:
    """One method on one graph at one size under one protocol, over its seeds and label draws.

    Attributes:
        graph, nodes, preset, method: as in a cell.
        protocol: the cell's values of :data:`PROTOCOL`.
        metric: what the values are of.
        values: the metric, by seed and label draw.
        learned: that of the learned parts of the embedding by themselves, where it has others.
        errors: messages of the seeds that failed.
        paper: the paper's mean and standard deviation, where it has them; empty where it ran out of memory.
        less_control: the difference to the best of the controls that were run.
        less_all: the difference to the best of them and of the experiment's other references.
        also: the experiment's other metrics and costs, by name.
        machines, commits, versions: what the values were made with.
    """

    graph: str
    nodes: int | None
    preset: str | None
    method: str
    protocol: tuple[Any, ...]
    metric: str = ""
    values: dict[Draw, float] = field(default_factory=dict)
    learned: dict[Draw, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    paper: tuple[float, ...] | None = None
    less_control: Difference | None = None
    less_all: Difference | None = None
    also: dict[str, list[float]] = field(default_factory=dict)
    machines: set[str] = field(default_factory=set)
    commits: set[str] = field(default_factory=set)
    versions: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        """The method as tables call it."""
        return self.method if self.preset in (None, "default") else f"{self.method} ({self.preset} preset)"

    def level(self, name: str) -> Any:
        """One value of the protocol."""
        return self.protocol[PROTOCOL.index(name)]

    @property
    def seeds(self) -> int:
        """How many have values."""
        return len({draw.seed for draw in self.values})

    @property
    def difference(self) -> float | None:
        """Our mean less the paper's."""
        return statistics.fmean(self.values.values()) - self.paper[0] if self.values and self.paper else None

    def line(self) -> dict[str, Any]:
        """Everything as one line of a file, with every value in full."""
        mean, std = mean_std(self.values.values()) if self.values else (None, None)
        learned_mean, learned_std = mean_std(self.learned.values()) if self.learned else (None, None)
        paper_mean, paper_std = self.paper or (None, None)
        pairs = self.less_control
        return {
            "graph": self.graph,
            "nodes": self.nodes,
            "preset": self.preset,
            "method": self.method,
            **dict(zip(PROTOCOL, self.protocol, strict=True)),
            "metric": self.metric,
            "mean": mean,
            "std": std,
            "seeds": self.seeds,
            "values": " ".join(repr(float(value)) for _, value in sorted(self.values.items())),
            "paper_mean": paper_mean,
            "paper_std": paper_std,
            "difference": self.difference,
            "learned_mean": learned_mean,
            "learned_std": learned_std,
            **_difference_line("paired", "control", pairs),
            "paired_std": None if pairs is None else mean_std(pairs.values.values())[1],
            **_difference_line("best", "of", self.less_all),
            "machine": "; ".join(sorted(self.machines)),
            "commit": "; ".join(sorted(self.commits)),
            "error": "; ".join(dict.fromkeys(self.errors)),
        }


def _difference_line(name: str, other: str, found: Difference | None) -> dict[str, Any]:
    low, high = (found.interval if found else None) or (None, None)
    values = {other: found.other if found else None, "mean": found.mean if found else None, "low": low, "high": high}
    return {f"{name}_{key}": value for key, value in values.items()}


def summarise(
    experiment: Experiment, records: Iterable[Mapping[str, Any]], metric: str | None = None
) -> list[SummaryRow]:
    """Records over their seeds, in the experiment's order, paired with controls and matched with the paper's numbers.

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
        key = (cell["graph"], cell["nodes"], cell["preset"], cell["method"], tuple(cell.get(name) for name in PROTOCOL))
        own = metric or experiment.metric_of(cell["graph"])
        row = found.setdefault(key, SummaryRow(*key, metric=own))
        recorded.update(record.get("metrics", ()))
        wanted.add(own)
        if "error" in record:
            row.errors.append(_short(record["error"]))
        elif own not in record["metrics"]:
            row.errors.append(f"there is no {own}: it was not recorded, or was not finite")
        else:
            row.values |= _drawn(record, own)
            row.learned |= _drawn(record, f"learned_{own}")
            for name in experiment.also:
                value = record["metrics"].get(name, record.get(name))
                if value is not None:
                    row.also.setdefault(name, []).append(value)
            row.machines.add(record.get("machine") or "unknown")
            row.commits.add(record.get("commit") or "unknown")
            row.versions.add(record.get("version") or "unknown")
    if not wanted & recorded and (recorded or not wanted <= set(METRICS)):
        known = ", ".join(sorted(recorded)) or ", ".join(METRICS)
        raise SettingError(f"there is no metric {metric or experiment.metric!r} in the records: choose {known}")
    if metric in (None, experiment.metric) and experiment.across is None:
        _add_paper(experiment, found)
    _compare(found.values(), experiment.against)
    return sorted(found.values(), key=_order(experiment))


def _drawn(record: Mapping[str, Any], metric: str) -> dict[Draw, float]:
    """A record's values of a metric, by seed and label draw; none where it does not have it."""
    if metric not in record["metrics"]:
        return {}
    seed = record["cell"]["seed"]
    values = record.get("values", {}).get(metric, [record["metrics"][metric]])
    seeds = label_seeds(seed, record["cell"].get("draws"))
    return {Draw(seed, labels): value for labels, value in zip(seeds, values, strict=True)}


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
                    found.setdefault(key, SummaryRow(*key, metric=experiment.metric)).paper = tuple(pair)


def _planned_protocols(experiment: Experiment, plan: GraphPlan) -> list[tuple[Any, ...]]:
    planned = cells(replace(experiment, graphs=(replace(plan, seeds=1),)))
    return list(dict.fromkeys(tuple(getattr(cell, name) for name in PROTOCOL) for cell in planned))


def _compare(rows: Collection[SummaryRow], against: Collection[str]) -> None:
    """Differences to the best control and to the best of all references, on the draws that they have in common.

    A reference without values is not compared with.
    """
    everything = (*CONTROLS, *against)
    references = [row for row in rows if row.method in everything and row.values]
    for row in rows:
        if row.method in everything:
            continue
        near = {c.method: c.values for c in references if c.graph == row.graph and _covers(c.protocol, row.protocol)}
        row.less_control = less_best(row.values, {name: values for name, values in near.items() if name in CONTROLS})
        row.less_all = less_best(row.values, near) if against else None


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
