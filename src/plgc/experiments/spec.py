"""An experiment as a reviewed text file: graphs, sizes, methods, protocols, seeds, and the paper's own numbers.

The files are in ``plgc/experiments/specs``. A line of an experiment's grid is a :class:`Cell`: one method on one graph
at one size under one protocol with one seed.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from typing import Any

from plgc.config import PRESETS
from plgc.encoder import KINDS
from plgc.errors import SettingError
from plgc.graphs.catalog import normalised
from plgc.methods import METHODS, method_named
from plgc.protocol import Protocol

LEVELS = ("shots", "noise", "imbalance", "backbone")  # what a table may run along, besides the graph and its sizes
METRICS = {"accuracy": 1, "macro_f1": 1, "auroc": 3, "ap": 3, "nmi": 3, "ari": 3}  # name: digits shown


@dataclass(frozen=True)
class GraphPlan:
    """One graph of an experiment.

    Attributes:
        name: as the catalogue spells it.
        nodes: the sizes, K.
        ratios: the sizes as the paper prints them; empty for a graph the paper does not have.
        paper: the paper's numbers: for every method one [mean, standard deviation] per size.
        seeds: fewer than the experiment's, for a costly graph.
        presets: of ours, where not the experiment's.
        labels: clean labels in all (the noise protocol).
        inductive: condensation sees the training nodes alone.
        levels: values of shots, noise, imbalance or backbone, where not the experiment's.
    """

    name: str
    nodes: tuple[int, ...]
    ratios: tuple[str, ...] = ()
    paper: Mapping[str, Sequence[Sequence[float]]] = field(default_factory=dict)
    seeds: int | None = None
    presets: tuple[str, ...] | None = None
    labels: int | None = None
    inductive: bool = False
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        where = f"graph {self.name!r}"
        _require(bool(self.nodes) and min(self.nodes) >= 2, f"{where}: nodes is {self.nodes}, at least 2 are needed")
        _require(not self.ratios or len(self.ratios) == len(self.nodes), f"{where}: give a ratio for every node count")
        for method, values in self.paper.items():
            method_or_rival = method in METHODS or method in RIVALS
            _require(method_or_rival, f"{where}: the paper's numbers name an unknown method {method!r}")
            sized = method in RIVALS or METHODS[method].sized
            wanted = len(self.nodes) if sized else 1
            _require(len(values) == wanted, f"{where}: {len(values)} of the paper's numbers for {method}, not {wanted}")


# Methods whose published numbers are quoted beside ours before they can be run here.
RIVALS = ("dc-graph", "gcond", "gcond-x", "sfgc", "geom", "ctgc")


@dataclass(frozen=True)
class Experiment:
    """A whole experiment, as its file says.

    Attributes:
        name: the file's name.
        title: one line.
        task: ``node``, ``link`` or ``cluster``.
        methods: by name.
        graphs: what to run on.
        about: where the paper is silent, and what we do then.
        metric: the one that tables show; others are recorded.
        presets: of ours.
        seeds: how many, from 0.
        levels: values of shots, noise, imbalance or backbone to go through.
        across: the level that runs along a table's row; none gives one figure a row, beside the paper's.
        reuse: whether a condensed graph may serve several cells; where not, every cell condenses anew.
        pending: what is still missing before it can run; None once it can.
    """

    name: str
    title: str
    task: str
    methods: tuple[str, ...]
    graphs: tuple[GraphPlan, ...]
    about: str = ""
    metric: str = "accuracy"
    presets: tuple[str, ...] = ("default",)
    seeds: int = 10
    levels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    across: str | None = None
    reuse: bool = True
    pending: str | None = None

    def __post_init__(self) -> None:
        _require(self.seeds >= 1, f"seeds is {self.seeds}: at least 1 is needed")
        _require(self.metric in METRICS, f"unknown metric {self.metric!r}: choose {', '.join(METRICS)}")
        _require(self.across is None or self.across in self.levels, f"across is {self.across!r}, which has no levels")
        for method in self.methods:
            method_named(method)
        for levels in (self.levels, *(graph.levels for graph in self.graphs)):
            unknown = set(levels) - set(LEVELS)
            _require(not unknown, f"unknown level {', '.join(sorted(unknown))}: choose {', '.join(LEVELS)}")
            for kind in levels.get("backbone", ()):
                _require(kind in KINDS, f"unknown backbone {kind!r}: choose {', '.join(KINDS)}")
        for presets in (self.presets, *(graph.presets or () for graph in self.graphs)):
            for preset in presets:
                _require(preset in PRESETS, f"unknown preset {preset!r}: choose {', '.join(PRESETS)}")
        Protocol(self.task)


@dataclass(frozen=True)
class Cell:
    """One run: a method, on a graph, at a size, under a protocol, with a seed."""

    experiment: str
    graph: str
    method: str
    nodes: int | None
    preset: str | None
    seed: int
    task: str
    backbone: str = "gcn"
    shots: int | None = None
    labels: int | None = None
    noise: float | None = None
    imbalance: float | None = None
    inductive: bool = False

    @property
    def protocol(self) -> Protocol:
        """What the cell asks of every method alike."""
        return Protocol(self.task, self.shots, self.labels, self.noise, self.imbalance, self.inductive)

    def identity(self) -> tuple[tuple[str, Any], ...]:
        """What makes two records the same cell."""
        return tuple(asdict(self).items())


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
        graphs = tuple(_graph_plan(graph) for graph in values.pop("graphs"))
        levels = {key: tuple(found) for key, found in values.pop("levels", {}).items()}
        lists = {key: tuple(values.pop(key)) for key in ("methods", "presets") if key in values}
        return Experiment(name=name, graphs=graphs, levels=levels, **lists, **values)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"experiment {name}: not a TOML file ({error})") from error
    except (KeyError, TypeError, SettingError) as error:
        raise SettingError(f"experiment {name}: {error}") from error


def _graph_plan(values: Mapping[str, Any]) -> GraphPlan:
    found: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
    levels = {key: found.pop(key) for key in LEVELS if key in found}
    return GraphPlan(**found, levels=levels)


@dataclass(frozen=True)
class Choice:
    """What part of an experiment to run; None takes what the file says."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    presets: tuple[str, ...] | None = None
    nodes: tuple[int, ...] | None = None
    noise: tuple[float, ...] | None = None
    shots: tuple[int, ...] | None = None
    seeds: int | None = None


def narrow(experiment: Experiment, choice: Choice) -> Experiment:
    """The experiment with the chosen graphs, methods, sizes, levels and seeds; unknown ones are refused."""
    graphs = experiment.graphs
    if choice.datasets is not None:
        known = {normalised(graph.name): graph for graph in graphs}
        for name in choice.datasets:
            _require(normalised(name) in known, f"{experiment.name} has no graph {name!r}: {', '.join(known)}")
        graphs = tuple(known[normalised(name)] for name in choice.datasets)
    if choice.nodes is not None:
        graphs = tuple(_only_nodes(graph, choice.nodes) for graph in graphs if set(graph.nodes) & set(choice.nodes))
        _require(bool(graphs), f"no graph of {experiment.name} is condensed to {choice.nodes} nodes")
    for name in choice.methods or ():
        method_named(name)
    levels = dict(experiment.levels)
    for level, values in (("noise", choice.noise), ("shots", choice.shots)):
        if values is None:
            continue
        _require(level in experiment.levels, f"{experiment.name} has no {level} to choose")
        levels[level] = values
        graphs = tuple(replace(graph, levels={k: v for k, v in graph.levels.items() if k != level}) for graph in graphs)
    if choice.seeds is not None:
        graphs = tuple(replace(graph, seeds=choice.seeds) for graph in graphs)
    if choice.presets is not None:
        graphs = tuple(replace(graph, presets=choice.presets) for graph in graphs)
    methods = choice.methods or experiment.methods
    return replace(experiment, graphs=graphs, methods=methods, levels=levels)


def _only_nodes(graph: GraphPlan, nodes: tuple[int, ...]) -> GraphPlan:
    places = [place for place, count in enumerate(graph.nodes) if count in nodes]
    paper = {m: [v[p] for p in places] if len(v) > 1 or len(graph.nodes) == 1 else v for m, v in graph.paper.items()}
    ratios = tuple(graph.ratios[place] for place in places) if graph.ratios else ()
    return replace(graph, nodes=tuple(graph.nodes[place] for place in places), ratios=ratios, paper=paper)


def cells(experiment: Experiment) -> Iterator[Cell]:
    """Every cell of an experiment: seed by seed, so that a first seed of everything is there early."""
    most = max(graph.seeds or experiment.seeds for graph in experiment.graphs)
    for seed in range(most):
        for graph in experiment.graphs:
            if seed < (graph.seeds or experiment.seeds):
                yield from _cells_of(experiment, graph, seed)


def _cells_of(experiment: Experiment, graph: GraphPlan, seed: int) -> Iterator[Cell]:
    levels = {**experiment.levels, **graph.levels}
    settings = [dict(zip(levels, values, strict=True)) for values in itertools.product(*levels.values())]
    for method in experiment.methods:
        entry = method_named(method)
        presets = (graph.presets or experiment.presets) if entry.presets else (None,)
        sizes = graph.nodes if entry.sized else (None,)
        for preset, nodes, setting in itertools.product(presets, sizes, settings):
            yield Cell(
                experiment=experiment.name,
                graph=graph.name,
                method=method,
                nodes=nodes,
                preset=preset,
                seed=seed,
                task=experiment.task,
                backbone=setting.get("backbone", "gcn"),
                shots=setting.get("shots"),
                labels=graph.labels if "noise" in levels else None,
                noise=setting.get("noise"),
                imbalance=setting.get("imbalance"),
                inductive=graph.inductive,
            )


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingError(message)
