"""Words: the features that a node has and others do not."""

from __future__ import annotations

from torch import Tensor

from plgc.evaluation.membership.candidates import dense_rows
from plgc.sparse.features import Features


def words_and_usual(x: Features) -> tuple[Tensor, Tensor]:
    """Which values are above the median of their column, bool [N, f], and these medians, [f].

    Of bags of words, whose medians are 0, that are the words of every node.
    """
    rows = dense_rows(x)
    usual = rows.median(0).values
    return rows > usual, usual
