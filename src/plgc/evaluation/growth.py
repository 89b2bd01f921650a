"""A growing graph: a head learns from what had come by a year, and is scored on what comes in the next.

The file and the head see the graph of that year; the next year's nodes are classified in the next year's graph, whose
old nodes may have new neighbours.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.tasks.answers import answers_on
from plgc.downstream.tasks.node import fit_head_on
from plgc.evaluation.kept import Ways
from plgc.graphs.views.protocol import Case
from plgc.graphs.views.splits import members_by_class
from plgc.graphs.views.until import until_time
from plgc.sparse.prepared import PreparedGraphs

PER_CLASS = 20


@dataclass(frozen=True)
class Growth:
    """A graph at the end of a year and a year later.

    Attributes:
        case: the graph of that year, and the nodes whose labels the head is given.
        after: the graph a year later; its ``test_mask`` marks the nodes that came.
        old: the same with ``test_mask`` on the nodes of the first year that the head was not given.
    """

    case: Case
    after: Data
    old: Data


def draw_growth(graph: Data, year: int, first: int, seed: int) -> Growth:
    """Draw at most 20 labels a class among the nodes up to a year.

    Args:
        graph: the whole graph, with a ``time``.
        year: what the head has seen.
        first: the year of the first file; nodes up to then are the old ones.
        seed: of the labels.
    """
    before, after = until_time(graph, year), until_time(graph, year + 1)
    generator = torch.Generator().manual_seed(seed)
    drawn = [
        members[torch.randperm(members.numel(), generator=generator)[:PER_CLASS]]
        for members in members_by_class(before.y)  # pyright: ignore[reportArgumentType]
    ]
    clean = torch.cat(drawn).sort().values
    case = Case(before, before, before, None, clean, validate=False, finetune=False, split=None)
    known = (after["time"] <= year).nonzero().flatten()[clean]
    old = after["time"] <= first
    old[known] = False
    return Growth(case, _scored_on(after, after["time"] > year), _scored_on(after, old))


def _scored_on(graph: Data, mask: Tensor) -> Data:
    view = copy.copy(graph)
    view.test_mask = mask
    return view


def score_growth(ways: Ways, growth: Growth, prepared: PreparedGraphs | None = None) -> dict[str, float]:
    """Accuracy and macro-F1 on the nodes that came, and as ``old_…`` on those of the first year, in every way."""
    prepared, case = prepared or PreparedGraphs(), growth.case
    assert case.clean is not None
    heads = {}
    for prefix, model in ways.items():
        inputs = model.prepare(case.graph, prepared)
        seen = model.embed(inputs), model.parts, inputs, case.graph
        heads[prefix] = fit_head_on(*seen, case.clean, case.validate, uses_edges=model.uses_edges)
    metrics: dict[str, float] = {}
    for prefix, model in ways.items():
        inputs = model.prepare(growth.after, prepared)
        adjacency = inputs.adjacency if model.uses_edges else None
        probability = heads[prefix].probabilities(model.embed(inputs), adjacency).cpu()
        for name, graph in (("", growth.after), ("old_", growth.old)):
            found = answers_on(probability, graph, "test").metrics()
            metrics |= {f"{prefix}{name}{metric}": value for metric, value in found.items()}
    return metrics
