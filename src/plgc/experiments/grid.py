"""The cells of an experiment, and how to choose a part of it.

A :class:`Cell` is one method on one graph at one size under one protocol with one seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.levels import PRIVATE, require
from plgc.experiments.spec import CostlyPart, Experiment, GraphPlan
from plgc.graphs.catalog import normalised
from plgc.graphs.views.protocol import Protocol
from plgc.rivals.methods import method_named


@dataclass(frozen=True)
class Cell:
    """One run: a method, on a graph, at a size, under a protocol, with a seed.

    ``draws`` is how many label draws it is scored on; None for one, with the seed itself. ``metric`` is what validation
    nodes choose by, where that is not accuracy.
    """

    experiment: str
    graph: str
    method: str
    nodes: int | None
    preset: str | None
    seed: int
    task: str
    variant: str | None = None
    backbone: str = "gcn"
    shots: int | None = None
    labels: int | None = None
    noise: float | None = None
    imbalance: float | None = None
    inductive: bool = False
    parts: int | None = None
    partition: str | None = None
    family: str | None = None
    sources: str | None = None
    combine: str | None = None
    release: str | None = None
    draws: int | None = None
    metric: str | None = None
    history: str | None = None
    year: int | None = None
    share: float | None = None

    @property
    def protocol(self) -> Protocol:
        """What is the same for every method."""
        return Protocol(self.task, self.shots, self.labels, self.noise, self.imbalance, self.inductive)

    @property
    def private(self) -> bool | None:
        """Whether its files are private, and those that they come from; None for what the preset says."""
        return True if self.release == PRIVATE else None

    @property
    def label_seeds(self) -> tuple[int, ...]:
        """The seeds of its label draws."""
        return label_seeds(self.seed, self.draws)

    def identity(self) -> tuple[tuple[str, Any], ...]:
        """Its fields, for comparing it with the cell of a record."""
        return tuple(asdict(self).items())


def label_seeds(seed: int, draws: int | None) -> tuple[int, ...]:
    """The seeds of the label draws of a seed: its thousand and those that follow; the seed itself for a single draw."""
    return (seed,) if draws is None else tuple(range(1000 * seed, 1000 * seed + draws))


CHOSEN = ("noise", "shots", "year")  # levels whose values can be chosen


@dataclass(frozen=True)
class Choice:
    """The part of an experiment to run or to show; None for what the file says."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    presets: tuple[str, ...] | None = None
    nodes: tuple[int, ...] | None = None
    noise: tuple[float, ...] | None = None
    shots: tuple[int | None, ...] | None = None
    year: tuple[int, ...] | None = None
    seeds: int | None = None
    draws: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            values = getattr(self, item.name)
            if isinstance(values, tuple):
                require(bool(values), f"{item.name} is empty: name at least one, or leave it out")
                object.__setattr__(
                    self, item.name, tuple(dict.fromkeys(values))
                )  # a value that is given twice is run once

    def takes(self, cell: Mapping[str, Any]) -> bool:
        """Whether a recorded cell's method, preset, levels and seed are among the chosen; controls always are."""
        method = self.methods is None or cell["method"] in (*self.methods, *CONTROLS)
        preset = self.presets is None or cell["preset"] in (*self.presets, None)
        levels = all(getattr(self, level) is None or cell.get(level) in getattr(self, level) for level in CHOSEN)
        return method and preset and levels and (self.seeds is None or cell["seed"] < self.seeds)


def narrow(experiment: Experiment, choice: Choice) -> Experiment:
    """The experiment with the chosen graphs, methods, sizes, levels and seeds; unknown ones are refused.

    Methods and levels may be others than the file's. The paper's numbers follow the sizes and methods. Costly methods
    that are chosen run all cells, not the part that the file has for them.
    """
    name, graphs = experiment.name, experiment.graphs
    if choice.datasets is not None:
        known = {normalised(graph.name): graph for graph in graphs}
        for given in choice.datasets:
            names = ", ".join(graph.name for graph in graphs)
            require(normalised(given) in known, f"{name} has no graph {given!r}: choose {names}")
        graphs = tuple(known[key] for key in dict.fromkeys(map(normalised, choice.datasets)))
    sizes = dict.fromkeys(count for graph in graphs for count in graph.nodes)
    for count in choice.nodes or ():
        listed = ", ".join(map(str, sizes))
        require(count in sizes, f"no chosen graph of {name} has {count} nodes: choose {listed}")
    for method in choice.methods or ():
        method_named(method)
    levels = {level: values for level in CHOSEN if (values := getattr(choice, level)) is not None}
    for level in levels:
        require(level in experiment.levels, f"{name} has no {level} to choose")
    drawn = choice.draws is None or bool(experiment.draws)
    require(drawn, f"{name} draws labels once a seed: it has no draws to choose")
    return replace(
        experiment,
        graphs=tuple(
            _narrow_graph(graph, choice, levels)
            for graph in graphs
            if choice.nodes is None or set(graph.nodes) & set(choice.nodes)
        ),
        methods=choice.methods or experiment.methods,
        levels={**experiment.levels, **levels},
        costly={} if choice.methods else experiment.costly,
        draws=experiment.draws if choice.draws is None else dict.fromkeys(experiment.draws, choice.draws),
    )


def _narrow_graph(graph: GraphPlan, choice: Choice, levels: Mapping[str, Any]) -> GraphPlan:
    kept = [place for place, count in enumerate(graph.nodes) if choice.nodes is None or count in choice.nodes]
    return replace(
        graph,
        nodes=tuple(graph.nodes[place] for place in kept),
        ratios=tuple(graph.ratios[place] for place in kept) if graph.ratios else (),
        paper={  # a number for every size, or one for a method without sizes
            method: [values[place] for place in kept] if len(values) == len(graph.nodes) else values
            for method, values in graph.paper.items()
            if choice.methods is None or method in choice.methods
        },
        seeds=graph.seeds if choice.seeds is None else choice.seeds,
        draws=graph.draws if choice.draws is None else None,
        presets=choice.presets or graph.presets,
        levels={level: values for level, values in graph.levels.items() if level not in levels},
    )


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
        part = experiment.costly.get(method, CostlyPart())
        own = _own_settings(method, experiment.task, settings)
        for preset, nodes, setting in itertools.product(presets, sizes, own):
            if not _in_part(part, graph.name, nodes, setting.get("noise"), seed):
                continue
            yield Cell(
                experiment=experiment.name,
                graph=graph.name,
                method=method,
                nodes=nodes,
                preset=preset,
                seed=seed,
                task=experiment.task,
                labels=graph.labels if "noise" in levels or graph.parts or graph.family else None,
                inductive=graph.inductive,
                parts=graph.parts,
                family="+".join(graph.family) or None,
                draws=_draws(experiment, graph, part, setting.get("shots")),
                metric=graph.metric,
                **setting,
            )


def _draws(experiment: Experiment, graph: GraphPlan, part: CostlyPart, shots: int | None) -> int | None:
    """How many label draws; None where labels are not drawn more than once."""
    draws = None if shots is None else experiment.draws.get(shots)
    return draws if draws is None else min(limit for limit in (draws, graph.draws, part.draws) if limit is not None)


def _own_settings(method: str, task: str, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings without the levels that do not affect a method: it is run once for all their values."""
    found: list[dict[str, Any]] = []
    for setting in settings:
        unused = _unused_levels(method, task, setting)
        own = {level: value for level, value in setting.items() if level not in unused}
        if own not in found:
            found.append(own)
    return found


def _unused_levels(method: str, task: str, setting: Mapping[str, Any]) -> set[str]:
    entry, unused = method_named(method), set[str]()
    label_free = not entry.supervised and not entry.condenses  # ours condenses anew at every rate: a finding
    if label_free or (task == "link" and not (entry.supervised and entry.condenses)):
        unused.add("noise")  # no label is read before the clean ones
    if not entry.condenses:
        unused |= {"partition", "sources", "combine", "release", "history"}
    if setting.get("partition") == "none":
        unused.add("combine")
    return unused


def _in_part(part: CostlyPart, graph: str, nodes: int | None, noise: float | None, seed: int) -> bool:
    limits = ((part.graphs, graph), (part.nodes, nodes), (part.noise, noise))
    within = all(values is None or value is None or value in values for values, value in limits)
    return within and seed < (part.seeds or seed + 1)
