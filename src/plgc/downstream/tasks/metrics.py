"""Accuracy and macro-F1 in per cent, AUROC and average precision from 0 to 1; tests compare them with scikit-learn."""

from __future__ import annotations

import torch
from torch import Tensor


def accuracy(predicted: Tensor, truth: Tensor) -> float:
    """Share of right answers, 0–100."""
    return 100.0 * float((predicted == truth).double().mean())


def macro_f1(predicted: Tensor, truth: Tensor) -> float:
    """Mean F1 over the classes that occur in prediction or truth, 0–100."""
    scores = []
    for label in torch.unique(torch.cat([predicted, truth])):
        right = int(((predicted == label) & (truth == label)).sum())
        wrong = int((predicted == label).sum()) + int((truth == label).sum()) - 2 * right
        scores.append(2 * right / (2 * right + wrong))
    return 100.0 * sum(scores) / len(scores)


def auroc(score: Tensor, positive: Tensor) -> float:
    """Probability that a positive outranks a negative, ties counted half; NaN where one side is empty."""
    score, positive = score.double(), positive.bool()
    positives, negatives = int(positive.sum()), int((~positive).sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    _, inverse, count = torch.unique(score, return_inverse=True, return_counts=True)
    ends = torch.cumsum(count, 0).double()
    rank = (ends - (count - 1) / 2)[inverse]
    return float((rank[positive].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def average_precision(score: Tensor, positive: Tensor) -> float:
    """Mean over the positives of the precision at their score, ties sharing one precision; NaN without positives."""
    score, positive = score.double(), positive.bool()
    if not bool(positive.any()):
        return float("nan")
    _, level, count = torch.unique(-score, return_inverse=True, return_counts=True)
    hits = torch.zeros_like(count).index_add_(0, level, positive.long())
    precision = hits.cumsum(0).double() / count.cumsum(0)
    return float((precision * hits).sum() / hits.sum())


def rank_scores(score: Tensor, positive: Tensor) -> dict[str, float]:
    """Both metrics of a ranking, ``auroc`` and ``ap``."""
    return {"auroc": auroc(score, positive), "ap": average_precision(score, positive)}
