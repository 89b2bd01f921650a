"""Forgetting: does a file still tell of nodes that have left, more than of nodes that were never there?

Some nodes are held out of the first graph: they were never there. Others are in it and leave. Both are drawn alike, so
that a file which knows neither cannot tell them apart: an attack on it has an AUC of 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.tasks.metrics import auroc
from plgc.evaluation.membership.candidates import candidates_of
from plgc.evaluation.membership.suite import gather_evidence
from plgc.graphs.check import MASKS, node_count
from plgc.graphs.views.inductive import induced_subgraph
from plgc.runtime.errors import SettingError

NEVER = 0.1  # of the nodes are never in the first graph


@dataclass(frozen=True)
class Forgetting:
    """Who leaves.

    Attributes:
        whole: the graph with everybody.
        first: the graph without those who were never there.
        gone: who leaves it, numbers in ``first``.
        rest: what remains.
        forgotten: who leaves, bool over ``whole``.
        outsiders: who was never there, bool over ``whole``.
    """

    whole: Data
    first: Data
    gone: Tensor
    rest: Data
    forgotten: Tensor
    outsiders: Tensor


def draw_forgetting(graph: Data, share: float, seed: int) -> Forgetting:
    """Draw a share of the nodes that leave, and a tenth that was never there, both outside of the graph's split.

    Training, validation and test nodes stay, so that accuracies before and after are of the same nodes.

    Raises:
        SettingError: there are too few nodes outside of the split.
    """
    nodes = node_count(graph)
    free = (~torch.stack([graph[key] for key in MASKS]).any(0)).nonzero().flatten()
    leave, never = max(1, round(share * nodes)), max(1, round(NEVER * nodes))
    if free.numel() < leave + never:
        raise SettingError(
            f"{leave} nodes are to leave and {never} to be held out, and {free.numel()} of {nodes} are in no split: "
            "choose a smaller share"
        )
    drawn = free[torch.randperm(free.numel(), generator=torch.Generator().manual_seed(seed))]
    forgotten, outsiders = (torch.zeros(nodes, dtype=torch.bool) for _ in range(2))
    outsiders[drawn[:never]] = True
    forgotten[drawn[never : never + leave]] = True
    first = induced_subgraph(graph, ~outsiders)
    gone = forgotten[~outsiders].nonzero().flatten()
    return Forgetting(graph, first, gone, induced_subgraph(graph, ~outsiders & ~forgotten), forgotten, outsiders)


def attack_forgotten(
    condensed: CondensedGraph, drawn: Forgetting, *, seed: int = 0, device: str = "cpu"
) -> dict[str, float]:
    """AUC of telling who left from who was never there, by the file and the graph with everybody.

    ``auc_…`` of every attack that needs no shadows (:func:`plgc.evaluation.membership.suite.gather_evidence`):
    distances, and non-negative least squares of the file's rows on candidate rows. ``auc`` is the largest.
    """
    candidates = candidates_of(condensed, drawn.whole, device=device)
    scores = gather_evidence(condensed, candidates.published, seed=seed).scores
    asked = drawn.forgotten | drawn.outsiders
    each = {f"auc_{name}": auroc(score[asked], drawn.forgotten[asked]) for name, score in scores.items()}
    return {"auc": max(each.values()), **each}
