"""An experiment as a reviewed text file: graphs, sizes, methods, protocols, seeds, and the paper's own numbers.

The files are in ``plgc/experiments/specs``; :mod:`plgc.experiments.grid` goes through what they ask for.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib import resources
from typing import Any

from plgc.downstream.combine import COMBINATIONS
from plgc.experiments.releases import RELEASES
from plgc.graphs.catalog import normalised
from plgc.graphs.views.protocol import Protocol
from plgc.method.encoder import KINDS
from plgc.method.settings import PRESETS
from plgc.rivals.methods import METHODS, method_named
from plgc.runtime.errors import SettingError

# What a table may run along, besides the graph and its sizes.
LEVELS = ("shots", "noise", "imbalance", "backbone", "partition", "sources", "combine", "release")
# name: digits shown
METRICS = {"accuracy": 1, "macro_f1": 1, "auroc": 3, "ap": 3, "nmi": 3, "ari": 3, "auc": 3, "tpr": 3, "edges_cut": 1}
NAMES = {  # levels whose values are names
    "backbone": tuple(KINDS),
    "partition": ("none", "random", "metis", "skewed-0.1", "skewed-1"),
    "sources": ("own", "all", "others"),
    "combine": COMBINATIONS,
    "release": tuple(RELEASES),
}
# What a level's values may be: kind, least, most, in words.
RANGES: dict[str, tuple[Any, float, float, str]] = {
    "shots": (int, 1, math.inf, "a whole number from 1"),
    "noise": ((int, float), 0, 1, "a share from 0 to 1"),
    "imbalance": ((int, float), 1, math.inf, "a number from 1"),
}


@dataclass(frozen=True)
class GraphPlan:
    """One graph of an experiment.

    Attributes:
        name: as the catalogue spells it.
        nodes: the sizes, K.
        ratios: the sizes as the paper prints them; empty for a graph the paper does not have.
        paper: the paper's numbers: for every method one [mean, standard deviation] per size; an empty pair where the
            paper ran out of memory.
        seeds: fewer than the experiment's, for a costly graph.
        presets: of ours, where not the experiment's.
        labels: clean labels in all (wrong labels, several sources).
        inductive: condensation sees the training nodes alone.
        parts: how many sources the graph is cut into.
        family: graphs that are sources for one another, this one among them.
        levels: values of a level, where not the experiment's.
    """

    name: str
    nodes: tuple[int, ...]
    ratios: tuple[str, ...] = ()
    paper: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    seeds: int | None = None
    presets: tuple[str, ...] | None = None
    labels: int | None = None
    inductive: bool = False
    parts: int | None = None
    family: tuple[str, ...] = ()
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"graph {self.name!r}"
        _require(self.parts is None or self.parts >= 2, f"{where}: parts is {self.parts}, at least 2 are needed")
        own = not self.family or self.name in self.family
        _require(own, f"{where}: its family {list(self.family)} must name the graph itself")
        whole = all(isinstance(count, int) and count >= 2 for count in self.nodes)
        _require(bool(self.nodes) and whole, f"{where}: nodes is {list(self.nodes)}, whole numbers from 2 are needed")
        _require_once(self.nodes, f"{where}: nodes")
        _require(not self.ratios or len(self.ratios) == len(self.nodes), f"{where}: give a ratio for every node count")
        _require(self.seeds is None or self.seeds >= 1, f"{where}: seeds is {self.seeds}, at least 1 is needed")
        _check_levels(self.levels, f"{where}: ")
        for method, values in self.paper.items():
            _require(method in METHODS, f"{where}: the paper's numbers name an unknown method {method!r}")
            wanted = len(self.nodes) if METHODS[method].sized else 1
            _require(len(values) == wanted, f"{where}: {len(values)} of the paper's numbers for {method}, not {wanted}")
            for pair in values:
                sound = len(pair) in (0, 2) and all(math.isfinite(value) for value in pair)
                _require(sound, f"{where}: {method} has {list(pair)}, not a mean and a standard deviation")


@dataclass(frozen=True)
class Part:
    """The part of the grid that a costly method takes, where it is not asked for by name; None: all of it.

    Attributes:
        graphs: by name.
        nodes: of their sizes.
        noise: of the rates.
        seeds: how many, from 0.
    """

    graphs: tuple[str, ...] | None = None
    nodes: tuple[int, ...] | None = None
    noise: tuple[float, ...] | None = None
    seeds: int | None = None

    def __post_init__(self) -> None:
        for name in ("graphs", "nodes", "noise"):
            _require(getattr(self, name) != (), f"{name} is empty: name at least one, or leave it out")
        _require(self.seeds is None or self.seeds >= 1, f"seeds is {self.seeds}, at least 1 is needed")


@dataclass(frozen=True)
class Experiment:
    """A whole experiment, as its file says.

    Attributes:
        name: the file's name.
        title: one line.
        task: ``node``, ``link``, ``cluster`` or ``membership``.
        methods: by name.
        graphs: what to run on.
        about: where the paper is silent, and what we do then.
        metric: the one that tables show; others are recorded.
        also: further metrics, or costs of a record (``condense_seconds``, ``bytes``, …), to show beside it.
        presets: of ours.
        seeds: how many, from 0.
        levels: values of :data:`LEVELS` to go through.
        across: the level that runs along a table's row; none gives one figure a row, beside the paper's.
        reuse: whether a condensed graph may serve several cells; where not, every cell condenses anew.
        costly: what part of all this a method takes that needs minutes or hours a cell.
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
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    across: str | None = None
    reuse: bool = True
    costly: Mapping[str, Part] = field(default_factory=dict)
    pending: str | None = None

    def __post_init__(self) -> None:
        _require(self.seeds >= 1, f"seeds is {self.seeds}: at least 1 is needed")
        _require(self.metric in METRICS, f"unknown metric {self.metric!r}: choose {', '.join(METRICS)}")
        _require(bool(self.graphs) and bool(self.methods), "name at least one graph and one method")
        _require_once([normalised(graph.name) for graph in self.graphs], "graphs")
        _require_once(self.methods, "methods")
        for method in self.methods:
            method_named(method)
        _check_levels(self.levels)
        _require(self.across is None or self.across in self.levels, f"across is {self.across!r}, which has no levels")
        for presets in (self.presets, *(graph.presets for graph in self.graphs)):
            if presets is not None:
                _require(bool(presets), "presets is empty: name at least one")
                _require_once(presets, "presets")
                for preset in presets:
                    _require(preset in PRESETS, f"unknown preset {preset!r}: choose {', '.join(PRESETS)}")
        Protocol(self.task)


def list_experiments() -> list[Experiment]:
    """Every experiment that ships, by name."""
    folder = resources.files("plgc.experiments") / "specs"
    names = sorted(file.name.removesuffix(".toml") for file in folder.iterdir() if file.name.endswith(".toml"))
    return [load_experiment(name) for name in names]


def load_experiment(name: str) -> Experiment:
    """Read one experiment's file."""
    folder = resources.files("plgc.experiments") / "specs"
    file = folder / f"{name}.toml"
    if not file.is_file():
        names = sorted(item.name.removesuffix(".toml") for item in folder.iterdir() if item.name.endswith(".toml"))
        raise SettingError(f"there is no experiment {name!r}: choose one of {', '.join(names)}")
    return parse_experiment(name, file.read_text(encoding="utf-8"))


def parse_experiment(name: str, text: str) -> Experiment:
    """Check a file's content and make an :class:`Experiment` of it."""
    try:
        values = tomllib.loads(text)
        _check_keys(values, Experiment, "", given={"name"})
        graphs = tuple(_graph_plan(graph) for graph in values.pop("graphs"))
        levels = {key: _listed(key, found) for key, found in values.pop("levels", {}).items()}
        lists = {key: _listed(key, values.pop(key)) for key in ("methods", "presets", "also") if key in values}
        costly = {method: _part(method, found) for method, found in values.pop("costly", {}).items()}
        experiment = Experiment(name=name, graphs=graphs, levels=levels, costly=costly, **lists, **values)
        _check_costly(experiment)
        return experiment
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"experiment {name}: not a TOML file ({error})") from error
    except (AttributeError, TypeError, SettingError) as error:
        raise SettingError(f"experiment {name}: {error}") from error


def _graph_plan(values: Mapping[str, Any]) -> GraphPlan:
    lists = ("nodes", "ratios", "presets", "family", *LEVELS)
    found: dict[str, Any] = {key: _listed(key, v) if key in lists else v for key, v in values.items()}
    levels = {key: found.pop(key) for key in LEVELS if key in found}
    _check_keys(found, GraphPlan, f"graph {found.get('name')!r}: ", given={"levels"})
    return GraphPlan(**found, levels=levels)


def _part(method: str, values: Mapping[str, Any]) -> Part:
    _check_keys(values, Part, f"costly {method!r}: ", given=set())
    found: dict[str, Any] = {key: v if key == "seeds" else _listed(key, v) for key, v in values.items()}
    return Part(**found)


def _check_costly(experiment: Experiment) -> None:
    """A part names what the experiment has: a slip of the pen would leave cells out without a word."""
    names = [graph.name for graph in experiment.graphs]
    sizes = [count for graph in experiment.graphs for count in graph.nodes]
    for method, part in experiment.costly.items():
        method_named(method)
        for values, known in ((part.graphs, names), (part.nodes, sizes)):
            for value in values or ():
                listed = ", ".join(map(str, known))
                _require(value in known, f"costly {method!r}: {value!r} is not in the experiment: choose {listed}")


def _listed(key: str, values: Any) -> tuple[Any, ...]:
    _require(isinstance(values, list), f"{key} is {values!r}: a list is needed")
    return tuple(values)


def _check_keys(values: Mapping[str, Any], kind: type, where: str, given: set[str]) -> None:
    """A file's keys are the fields of what it describes, but for those that are given by other means."""
    known = [item for item in fields(kind) if item.name not in given]
    names = [item.name for item in known]
    for key in values:
        _require(key in names, f"{where}unknown key {key!r}: choose {', '.join(names)}")
    for item in known:
        needed = item.default is MISSING and item.default_factory is MISSING
        _require(item.name in values or not needed, f"{where}the key {item.name!r} is missing")


def _check_levels(levels: Mapping[str, tuple[Any, ...]], where: str = "") -> None:
    unknown = set(levels) - set(LEVELS)
    _require(not unknown, f"{where}unknown level {', '.join(sorted(unknown))}: choose {', '.join(LEVELS)}")
    for level, values in levels.items():
        _require(bool(values), f"{where}{level} is empty: name at least one value")
        _require_once(values, f"{where}{level}")
        for value in values:
            if level in NAMES:
                _require(value in NAMES[level], f"{where}unknown {level} {value!r}: choose {', '.join(NAMES[level])}")
            else:
                kind, least, most, words = RANGES[level]
                sound = isinstance(value, kind) and least <= value <= most
                _require(sound, f"{where}{level} is {value!r}: {words} is needed")


def _require_once(values: Iterable[Any], what: str) -> None:
    values = list(values)
    twice = [value for value in dict.fromkeys(values) if values.count(value) > 1]
    _require(not twice, f"{what}: {', '.join(map(str, twice))} is there twice")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingError(message)
