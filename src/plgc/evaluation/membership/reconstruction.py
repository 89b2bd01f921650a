"""Reconstruction: how many rows of X come back from the file alone, by overlap of words."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.evaluation.membership.candidates import dense_rows
from plgc.evaluation.membership.words import words_and_usual
from plgc.sparse.features import Features

ALIKE = 0.9  # overlap from which a row counts as recovered
EXACT = 1e-5  # of 1 − cosine
SAMPLE = 2000  # nodes of each kind that are compared


@torch.no_grad()
def recover_rows(features: Tensor, x: Features, members: Tensor, *, seed: int = 0) -> dict[str, float]:
    """Match every node with the synthetic row that has its words.

    The words of a synthetic row are its largest values, as many as fit a node best. The overlap of two sets of words is
    |A ∩ B| / |A ∪ B|.

    Args:
        features: X' in the features of the graph, [K, f].
        x: the rows of all candidates.
        members: which of them the file was made from, bool [N].
        seed: of the nodes that are compared, where there are many.

    Returns:
        ``exact``: how many members' rows are in the file as they are, but for their length; ``recovered``: the share of
        members with an overlap of 0.9 or more; ``overlap``: its mean; ``recovered_others`` and ``overlap_others``: the
        same of nodes that were not in the graph.
    """
    result: dict[str, float] = {"exact": int((exact_rows(features, x) & members).sum())}
    words, usual = words_and_usual(x)
    order = (features - usual).argsort(dim=1, descending=True)
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(1, order.shape[1] + 1).to(order).expand_as(order))
    rank = torch.where(features > usual, rank, 2 * rank.shape[1])
    generator = torch.Generator().manual_seed(seed)
    for suffix, kind in (("", members), ("_others", ~members)):
        nodes = kind.nonzero().flatten()
        nodes = nodes[torch.randperm(len(nodes), generator=generator)[:SAMPLE]]
        overlap = best_overlap(rank, words[nodes.to(words.device)])
        result[f"recovered{suffix}"] = float((overlap >= ALIKE).double().mean())
        result[f"overlap{suffix}"] = float(overlap.mean())
    return result


def best_overlap(rank: Tensor, words: Tensor) -> Tensor:
    """The largest |A ∩ B| / |A ∪ B| of a node's words A with the first t words B of any synthetic row, [N].

    Args:
        rank: of every word in every synthetic row, from 1, [K, f].
        words: of the nodes, bool [N, f].
    """
    found = []
    for own in words:
        ranks = rank[:, own].sort(1).values.double()  # the i-th of them is the t at which i words are in common
        if ranks.shape[1] == 0:
            found.append(torch.zeros((), dtype=torch.float64))
            continue
        common = torch.arange(1, ranks.shape[1] + 1, device=ranks.device)
        found.append((common / (ranks.shape[1] + ranks - common)).max().cpu())
    return torch.stack(found)


def exact_rows(features: Tensor, x: Features) -> Tensor:
    """Which nodes' rows are a row of the file, but for their length, bool [N]."""
    rows = dense_rows(x)
    return (F.normalize(rows) @ F.normalize(features).t()).amax(1).cpu() > 1 - EXACT
