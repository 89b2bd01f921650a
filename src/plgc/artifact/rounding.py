"""What a file leaves out of X' and Ỹ to be small: digits, and values of X' that are next to nothing.

It needs no labels. What is returned is what the file gives back: a rounded condensed graph is scored alike before it is
saved and after.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.artifact.storage import of_float8, to_float8

DTYPES = ("float8", "float16", "float32")
KEPT = 0.9999  # share of ‖x'_k‖² that the values that are kept hold together
FITS = 1e-3  # largest change of a row by float16, as a share of its length


def rounded(condensed: CondensedGraph, dtype: str = DTYPES[0], density: float | None = None) -> CondensedGraph:
    """A condensed graph with fewer values of X' and fewer digits.

    Args:
        condensed: a condensed graph with pseudo-labels.
        dtype: ``float8``: five significant bits (:mod:`plgc.artifact.storage`); ``float16``, for X' and Ỹ each where
            its values fit; ``float32``: every digit.
        density: the share of the values of every row of X' that is kept, the largest; the others become 0. None keeps
            as many as hold 99.99 % of ‖x'_k‖², or all of them with float32.
    """
    features, labels = condensed.features, condensed.pseudo_labels
    if density is not None:
        features = largest_values(features, density)
    elif dtype != "float32":
        features = main_values(features, KEPT)
    labels = None if labels is None else _round(labels, dtype)
    return replace(condensed, features=_round(features, dtype), pseudo_labels=labels)


def largest_values(rows: Tensor, density: float) -> Tensor:
    """Keep the ⌈density · f⌉ largest values of every row; the others become 0."""
    kept = rows.abs().topk(math.ceil(density * rows.shape[1]), dim=1).indices
    return torch.zeros_like(rows).scatter(1, kept, rows.gather(1, kept))


def main_values(rows: Tensor, share: float) -> Tensor:
    """Keep the fewest values of every row whose squares add up to this share of its ‖x‖²; the others become 0."""
    sizes, order = rows.double().square().sort(dim=1, descending=True, stable=True)
    before = sizes.cumsum(1) - sizes
    kept = before < share * sizes.sum(1, keepdim=True)
    return rows * torch.zeros_like(rows, dtype=torch.bool).scatter(1, order, kept)


def _round(rows: Tensor, dtype: str) -> Tensor:
    if dtype == "float8":
        return torch.from_numpy(of_float8(*to_float8(rows.numpy())))
    half = rows.half().float()
    fits = bool(((half - rows).norm(dim=1) <= FITS * rows.norm(dim=1)).all())
    return half if dtype == "float16" and fits else rows
