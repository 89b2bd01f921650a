"""An experiment as a reviewed text file: graphs, sizes, methods, protocols, seeds, and the paper's own numbers.

The files are in ``plgc/experiments/specs``; :mod:`plgc.experiments.grid` makes cells of them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib import resources
from typing import Any, TypeVar

from plgc.experiments.levels import (
    HISTORIES,
    LEVELS,
    as_tuple,
    check_levels,
    check_releases,
    read_level,
    require,
    require_once,
)
from plgc.graphs.catalog import normalised
from plgc.graphs.views.protocol import Protocol
from plgc.method.settings import PRESETS
from plgc.rivals.methods import METHODS, method_named
from plgc.runtime.errors import SettingError

T = TypeVar("T")
# Digits shown of every metric.
METRICS = {"accuracy": 1, "macro_f1": 1, "auroc": 3, "ap": 3, "nmi": 3, "ari": 3, "auc": 3, "tpr": 3, "edges_cut": 1}
REUSE = ("all", "supervised", "none")


@dataclass(frozen=True)
class GraphPlan:
    """One graph of an experiment.

    Attributes:
        name: as the catalogue spells it.
        nodes: the sizes, K.
        ratios: the sizes as the paper prints them; empty for a graph the paper does not have.
        paper: the paper's numbers: for every method one [mean, standard deviation] per size; an empty pair where the
            paper ran out of memory.
        metric: what tables show of it, where not the experiment's: AUROC where two classes are unbalanced.
        seeds: where not the experiment's.
        draws: the most label draws of a seed, for a costly graph.
        presets: of our method, where not the experiment's.
        labels: clean labels in all (wrong labels, several sources).
        inductive: whether condensation is given the training nodes alone.
        parts: how many sources the graph is cut into.
        family: graphs that are sources for one another, this one among them.
        levels: values of a level, where not the experiment's.
    """

    name: str
    nodes: tuple[int, ...]
    ratios: tuple[str, ...] = ()
    paper: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    metric: str | None = None
    seeds: int | None = None
    draws: int | None = None
    presets: tuple[str, ...] | None = None
    labels: int | None = None
    inductive: bool = False
    parts: int | None = None
    family: tuple[str, ...] = ()
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"graph {self.name!r}"
        require(self.parts is None or self.parts >= 2, f"{where}: parts is {self.parts}, at least 2 are needed")
        own = not self.family or self.name in self.family
        require(own, f"{where}: its family {list(self.family)} must name the graph itself")
        whole = all(isinstance(count, int) and count >= 2 for count in self.nodes)
        require(bool(self.nodes) and whole, f"{where}: nodes is {list(self.nodes)}, whole numbers from 2 are needed")
        require_once(self.nodes, f"{where}: nodes")
        require(not self.ratios or len(self.ratios) == len(self.nodes), f"{where}: give a ratio for every node count")
        _require_counts(self, "seeds", "draws", where=f"{where}: ")
        if self.metric is not None:
            _require_metric(self.metric, f"{where}: ")
        check_levels(self.levels, f"{where}: ")
        for method, values in self.paper.items():
            require(method in METHODS, f"{where}: the paper's numbers name an unknown method {method!r}")
            needed = len(self.nodes) if METHODS[method].sized else 1
            require(len(values) == needed, f"{where}: {len(values)} of the paper's numbers for {method}, not {needed}")
            for pair in values:
                sound = len(pair) in (0, 2) and all(math.isfinite(value) for value in pair)
                require(sound, f"{where}: {method} has {list(pair)}, not a mean and a standard deviation")


@dataclass(frozen=True)
class CostlyPart:
    """The part of the grid that a costly method runs, unless it is chosen by name; None: all of it.

    Attributes:
        graphs: by name.
        nodes: of their sizes.
        noise: of the rates.
        seeds: how many, from 0.
        draws: the most label draws of a seed.
    """

    graphs: tuple[str, ...] | None = None
    nodes: tuple[int, ...] | None = None
    noise: tuple[float, ...] | None = None
    seeds: int | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        for name in ("graphs", "nodes", "noise"):
            require(getattr(self, name) != (), f"{name} is empty: name at least one, or leave it out")
        _require_counts(self, "seeds", "draws")


@dataclass(frozen=True)
class Within:
    """How far a file may be below another one of the same graph: ``history`` within so many points ``of`` another."""

    history: str
    of: str
    points: float

    def __post_init__(self) -> None:
        for name in (self.history, self.of):
            require(name in HISTORIES, f"within: unknown history {name!r}: choose {', '.join(HISTORIES)}")
        require(self.points > 0, f"within: points is {self.points}, a number above 0 is needed")


@dataclass(frozen=True)
class Experiment:
    """A whole experiment, as its file says.

    Attributes:
        name: the file's name.
        title: one line.
        task: one of :data:`plgc.graphs.views.protocol.TASKS`.
        methods: by name.
        graphs: what to run on.
        about: what the paper does not say, and what we do about it.
        metric: the one that tables show; others are recorded.
        also: further metrics, or costs of a record (``condense_seconds``, ``bytes``, …), to show beside it.
        presets: of our method.
        seeds: how many, from 0.
        draws: label draws of a seed, by the number of labels per class; they share a condensed graph that has seen no
            label. A number without an entry is drawn once, with the seed itself.
        levels: the values of each of :data:`LEVELS` that varies. None among the ``shots``: all training labels.
        across: the level whose values are the columns of the table; None gives one value a row, beside the paper's.
        against: references that count beside the controls in "− best of all", which a table then shows.
        reuse: which methods may use a condensed graph that was made before, one of :data:`REUSE`; others condense anew
            for every cell.
        costly: the part of the grid that a method runs which needs minutes or hours a cell.
        within: which histories are compared, and how close they are to be.
        pending: what is still missing before it can run; None once it can.
    """

    name: str
    title: str
    task: str
    methods: tuple[str, ...]
    graphs: tuple[GraphPlan, ...]
    about: str = ""
    metric: str = "accuracy"
    also: tuple[str, ...] = ()
    presets: tuple[str, ...] = ("default",)
    seeds: int = 10
    draws: Mapping[int, int] = field(default_factory=dict)
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    across: str | None = None
    against: tuple[str, ...] = ()
    reuse: str = "all"
    costly: Mapping[str, CostlyPart] = field(default_factory=dict)
    within: tuple[Within, ...] = ()
    pending: str | None = None

    def __post_init__(self) -> None:
        _require_counts(self, "seeds")
        for shots, draws in self.draws.items():
            sound = isinstance(draws, int) and draws >= 1
            require(sound, f"draws with {shots} labels is {draws!r}: at least 1 is needed")
        _require_metric(self.metric)
        require(bool(self.graphs) and bool(self.methods), "name at least one graph and one method")
        require_once([normalised(graph.name) for graph in self.graphs], "graphs")
        require_once(self.methods, "methods")
        for method in (*self.methods, *self.against):
            method_named(method)
        check_levels(self.levels)
        for levels in (self.levels, *(graph.levels for graph in self.graphs)):
            check_releases(levels.get("release", ()), self.task)
        require(self.across is None or self.across in self.levels, f"across is {self.across!r}, which has no levels")
        for presets in (self.presets, *(graph.presets for graph in self.graphs)):
            if presets is not None:
                require(bool(presets), "presets is empty: name at least one")
                require_once(presets, "presets")
                for preset in presets:
                    require(preset in PRESETS, f"unknown preset {preset!r}: choose {', '.join(PRESETS)}")
        require(self.reuse in REUSE, f"reuse is {self.reuse!r}: choose {', '.join(REUSE)}")
        Protocol(self.task)

    def metric_of(self, graph: str) -> str:
        """The metric that tables show of a graph."""
        return next((plan.metric for plan in self.graphs if plan.name == graph and plan.metric), self.metric)

    def factor(self, metric: str) -> float:
        """What a metric is multiplied by where it is shown: 100 for one from 0 to 1 that stands beside accuracies."""
        return 100.0 if METRICS.get(metric) == 3 and any(plan.metric for plan in self.graphs) else 1.0


def list_experiments() -> list[Experiment]:
    """Every experiment that ships, by name."""
    return [parse_experiment(name, file.read_text(encoding="utf-8")) for name, file in _files().items()]


def load_experiment(name: str) -> Experiment:
    """Read one experiment's file."""
    files = _files()
    if name not in files:
        raise SettingError(f"there is no experiment {name!r}: choose one of {', '.join(files)}")
    return parse_experiment(name, files[name].read_text(encoding="utf-8"))


def _files() -> dict[str, Any]:
    files = (resources.files("plgc.experiments") / "specs").iterdir()
    found = {file.name.removesuffix(".toml"): file for file in files if file.name.endswith(".toml")}
    return dict(sorted(found.items()))


def parse_experiment(name: str, text: str) -> Experiment:
    """Check a file's content and make an :class:`Experiment` of it."""
    try:
        values = tomllib.loads(text)
        if "graphs" in values:
            values["graphs"] = [_graph_plan(graph) for graph in values["graphs"]]
        values["levels"] = {key: read_level(key, found) for key, found in values.get("levels", {}).items()}
        values["draws"] = {_shots(key): found for key, found in values.get("draws", {}).items()}
        costly = {
            method: _build(CostlyPart, v, f"costly {method!r}: ") for method, v in values.get("costly", {}).items()
        }
        within = [_build(Within, found, "within: ") for found in values.get("within", ())]
        experiment = _build(Experiment, {**values, "costly": costly, "within": within}, name=name)
        _check_costly(experiment)
        return experiment
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"experiment {name}: not a TOML file ({error})") from error
    except (AttributeError, TypeError, SettingError) as error:
        raise SettingError(f"experiment {name}: {error}") from error


def _graph_plan(values: Mapping[str, Any]) -> GraphPlan:
    levels = {key: read_level(key, values[key]) for key in LEVELS if key in values}
    own = {key: value for key, value in values.items() if key not in LEVELS}
    return _build(GraphPlan, own, f"graph {own.get('name')!r}: ", levels=levels)


def _build(kind: type[T], values: Mapping[str, Any], where: str = "", **given: Any) -> T:
    """A record from a table of the file, whose keys are the record's fields; but for those that are ``given``."""
    known = {item.name: item for item in fields(kind) if item.name not in given}  # pyright: ignore[reportArgumentType]
    for key in values:
        require(key in known, f"{where}unknown key {key!r}: choose {', '.join(known)}")
    for item in known.values():
        needed = item.default is MISSING and item.default_factory is MISSING
        require(item.name in values or not needed, f"{where}the key {item.name!r} is missing")
    lists = {name for name, item in known.items() if str(item.type).startswith("tuple")}
    return kind(**{key: as_tuple(key, v) if key in lists else v for key, v in values.items()}, **given)


def _check_costly(experiment: Experiment) -> None:
    """Raise unless the costly parts name graphs and sizes of the experiment: a misspelt name would match no cell."""
    names = [graph.name for graph in experiment.graphs]
    sizes = [count for graph in experiment.graphs for count in graph.nodes]
    for method, part in experiment.costly.items():
        method_named(method)
        for values, known in ((part.graphs, names), (part.nodes, sizes)):
            for value in values or ():
                listed = ", ".join(map(str, known))
                require(value in known, f"costly {method!r}: {value!r} is not in the experiment: choose {listed}")


def _shots(key: str) -> int:
    require(key.isdigit(), f"draws has the key {key!r}: a number of labels per class is needed")
    return int(key)


def _require_counts(plan: Any, *names: str, where: str = "") -> None:
    for name in names:
        count = getattr(plan, name)
        sound = count is None or (isinstance(count, int) and count >= 1)
        require(sound, f"{where}{name} is {count!r}: at least 1 is needed")


def _require_metric(metric: str, where: str = "") -> None:
    require(metric in METRICS, f"{where}unknown metric {metric!r}: choose {', '.join(METRICS)}")
