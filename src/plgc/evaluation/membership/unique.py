"""Unique values: a synthetic node that sums its members' rows has every word of every member, the rare ones too."""

from __future__ import annotations

import torch
from torch import Tensor

from plgc.evaluation.membership.candidates import dense_rows
from plgc.sparse.features import Features, SparseFeatures


def coverage_scores(features: Tensor, x: Features) -> Tensor:
    """How much of a candidate's words one synthetic node has, [N]: the largest share over the synthetic nodes.

    A word counts log(N / n_j), where n_j of the N candidates use it: one that nobody else uses says most. Features
    without zeros say nothing, and all scores are equal.
    """
    used = present(x)
    weight = torch.log(len(used) / used.sum(0).clamp(min=1))
    words = used * weight
    held = (features.to(words.device) != 0).to(words.dtype)
    total = words.sum(1)
    share = (words @ held.t()).amax(1) / torch.where(total > 0, total, 1.0)
    return share.double().cpu()


def present(x: Features) -> Tensor:
    """Which values of the candidates are not 0, as float32 [N, f]."""
    rows = dense_rows(x)
    return (rows != 0).to(torch.float32)


def words_of_one(features: Tensor, x: Features) -> int:
    """How many features of the file exactly one node has: each is read off as that node's own."""
    if isinstance(x, SparseFeatures):
        crow = x.transpose.crow_indices()
        users = (crow[1:] - crow[:-1]).long()
    else:
        users = (dense_rows(x) != 0).sum(0)
    published = (features != 0).any(0).to(users.device)
    return int((published & (users == 1)).sum())
