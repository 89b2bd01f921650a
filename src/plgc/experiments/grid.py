"""The grid of an experiment: a part of it, if only a part is wanted, and its cells.

A :class:`Cell` is one method on one graph at one size under one protocol with one seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from plgc.evaluation.over_seeds import CONTROLS
from plgc.experiments.spec import Experiment, GraphPlan, Part
from plgc.graphs.catalog import normalised
from plgc.graphs.views.protocol import Protocol
from plgc.rivals.methods import method_named
from plgc.runtime.errors import SettingError


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
    parts: int | None = None
    partition: str | None = None
    family: str | None = None
    sources: str | None = None
    combine: str | None = None
    release: str | None = None

    @property
    def protocol(self) -> Protocol:
        """What the cell asks of every method alike."""
        return Protocol(self.task, self.shots, self.labels, self.noise, self.imbalance, self.inductive)

    def identity(self) -> tuple[tuple[str, Any], ...]:
        """What makes two records the same cell."""
        return tuple(asdict(self).items())


@dataclass(frozen=True)
class Choice:
    """What part of an experiment to run or to show; None takes what the file says."""

    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    presets: tuple[str, ...] | None = None
    nodes: tuple[int, ...] | None = None
    noise: tuple[float, ...] | None = None
    shots: tuple[int, ...] | None = None
    seeds: int | None = None

    def __post_init__(self) -> None:
        for item in fields(self):
            values = getattr(self, item.name)
            if isinstance(values, tuple):
                _require(bool(values), f"{item.name} is empty: name at least one, or leave it out")
                object.__setattr__(self, item.name, tuple(dict.fromkeys(values)))  # what is named twice is run once

    def takes(self, cell: Mapping[str, Any]) -> bool:
        """Whether a recorded cell's method, preset, levels and seed are among the chosen; controls always are."""
        method = self.methods is None or cell["method"] in (*self.methods, *CONTROLS)
        preset = self.presets is None or cell["preset"] in (*self.presets, None)
        levels = all(
            chosen is None or cell[level] in chosen for level, chosen in (("noise", self.noise), ("shots", self.shots))
        )
        return method and preset and levels and (self.seeds is None or cell["seed"] < self.seeds)


def narrow(experiment: Experiment, choice: Choice) -> Experiment:
    """The experiment with the chosen graphs, methods, sizes, levels and seeds; unknown ones are refused.

    Methods and levels may be others than the file's. The paper's numbers follow the sizes and methods. Costly methods
    that are named run all that is asked for, not the part that the file has for them.
    """
    graphs = experiment.graphs
    if choice.datasets is not None:
        known = {normalised(graph.name): graph for graph in graphs}
        for name in choice.datasets:
            names = ", ".join(graph.name for graph in experiment.graphs)
            _require(normalised(name) in known, f"{experiment.name} has no graph {name!r}: choose {names}")
        graphs = tuple(known[key] for key in dict.fromkeys(map(normalised, choice.datasets)))
    if choice.nodes is not None:
        sizes = dict.fromkeys(count for graph in graphs for count in graph.nodes)
        for count in choice.nodes:
            listed = ", ".join(map(str, sizes))
            _require(count in sizes, f"no chosen graph of {experiment.name} has {count} nodes: choose {listed}")
        graphs = tuple(_only_nodes(graph, choice.nodes) for graph in graphs if set(graph.nodes) & set(choice.nodes))
    if choice.methods is not None:
        for name in choice.methods:
            method_named(name)
        graphs = tuple(
            replace(graph, paper={m: found for m, found in graph.paper.items() if m in choice.methods})
            for graph in graphs
        )
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
    costly = {} if choice.methods else experiment.costly
    return replace(experiment, graphs=graphs, methods=methods, levels=levels, costly=costly)


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
        part = experiment.costly.get(method, Part())
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
                backbone=setting.get("backbone", "gcn"),
                shots=setting.get("shots"),
                labels=graph.labels if "noise" in levels or graph.parts or graph.family else None,
                noise=setting.get("noise"),
                imbalance=setting.get("imbalance"),
                inductive=graph.inductive,
                parts=graph.parts,
                partition=setting.get("partition"),
                family="+".join(graph.family) or None,
                sources=setting.get("sources"),
                combine=setting.get("combine"),
                release=setting.get("release"),
            )


def _own_settings(method: str, task: str, settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The settings without the levels that play no part for a method: one run stands for all their values then."""
    found: list[dict[str, Any]] = []
    for setting in settings:
        idle = _idle_levels(method, task, setting)
        own = {level: value for level, value in setting.items() if level not in idle}
        if own not in found:
            found.append(own)
    return found


def _idle_levels(method: str, task: str, setting: Mapping[str, Any]) -> set[str]:
    entry, idle = method_named(method), set[str]()
    if task == "link" and not (entry.supervised and entry.condenses):
        idle.add("noise")  # no label is read
    if not entry.condenses:
        idle |= {"partition", "sources", "combine"}
    if setting.get("partition") == "none":
        idle.add("combine")
    return idle


def _in_part(part: Part, graph: str, nodes: int | None, noise: float | None, seed: int) -> bool:
    wanted = ((part.graphs, graph), (part.nodes, nodes), (part.noise, noise))
    taken = all(values is None or value is None or value in values for values, value in wanted)
    return taken and seed < (part.seeds or seed + 1)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise SettingError(message)
