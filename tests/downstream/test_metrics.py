from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score

from plgc.downstream.tasks.metrics import accuracy, auroc, average_precision, macro_f1

ANSWERS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)
# Few distinct scores, so that most draws have ties within and across the two sides.
SCORES = st.lists(
    st.tuples(st.one_of(st.sampled_from([-1.0, 0.0, 0.5]), st.floats(-1e6, 1e6, width=32)), st.booleans()),
    min_size=2,
    max_size=40,
)


@settings(deadline=None, max_examples=40)
@given(ANSWERS)
def test_accuracy_is_that_of_scikit_learn(answers: list[tuple[int, int]]) -> None:
    predicted, truth = torch.tensor(answers).T
    assert accuracy(predicted, truth) == pytest.approx(100 * accuracy_score(truth, predicted))


@settings(deadline=None, max_examples=40)
@given(ANSWERS)
def test_macro_f1_is_that_of_scikit_learn(answers: list[tuple[int, int]]) -> None:
    predicted, truth = torch.tensor(answers).T
    assert macro_f1(predicted, truth) == pytest.approx(100 * f1_score(truth, predicted, average="macro"))


def test_macro_f1_counts_classes_that_only_the_prediction_has() -> None:
    truth, predicted = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 1, 7])
    assert macro_f1(predicted, truth) == pytest.approx(100 * (1 + 2 / 3 + 0) / 3)


@settings(deadline=None, max_examples=40)
@given(SCORES)
def test_auroc_is_that_of_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    score, positive = (np.array(side) for side in zip(*pairs, strict=True))
    assume(positive.any() and not positive.all())
    expected = roc_auc_score(positive, score)
    for dtype in (torch.float32, torch.float64):
        found = auroc(torch.from_numpy(score).to(dtype), torch.from_numpy(positive))
        assert found == pytest.approx(expected, abs=1e-12)
    assert auroc(torch.from_numpy(score), torch.from_numpy(positive).long()) == pytest.approx(expected, abs=1e-12)


def test_auroc_counts_ties_half() -> None:
    assert auroc(torch.tensor([1.0, 1.0, 1.0]), torch.tensor([True, False, False])) == 0.5
    # Two positives against two negatives: won, tied, won, won.
    assert auroc(torch.tensor([2.0, 3.0, 1.0, 2.0]), torch.tensor([True, True, False, False])) == 3.5 / 4


def test_auroc_on_many_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    positive = torch.rand(20_000, generator=generator) < 0.1
    score = (torch.randn(20_000, generator=generator) + positive).mul(50).round()
    assert score.unique().numel() < 1000
    assert auroc(score, positive) == pytest.approx(roc_auc_score(positive, score), abs=1e-12)


@pytest.mark.parametrize("value", [True, False])
def test_auroc_with_one_side_empty_is_nan(value: bool) -> None:
    assert math.isnan(auroc(torch.tensor([0.1, 0.9]), torch.tensor([value, value])))


def test_metrics_reach_both_ends_of_their_scale() -> None:
    truth = torch.tensor([0, 1, 1, 2])
    wrong = torch.tensor([1, 2, 2, 0])
    assert (accuracy(truth, truth), macro_f1(truth, truth)) == (100.0, 100.0)
    assert (accuracy(wrong, truth), macro_f1(wrong, truth)) == (0.0, 0.0)
    positive = torch.tensor([False, True])
    assert auroc(torch.tensor([0.0, 1.0]), positive) == 1.0
    assert auroc(torch.tensor([1.0, 0.0]), positive) == 0.0


@settings(deadline=None, max_examples=40)
@given(SCORES)
def test_average_precision_is_that_of_scikit_learn(pairs: list[tuple[float, bool]]) -> None:
    score, positive = (np.array(side) for side in zip(*pairs, strict=True))
    assume(positive.any())
    found = average_precision(torch.from_numpy(score), torch.from_numpy(positive))
    assert found == pytest.approx(average_precision_score(positive, score), abs=1e-12)


def test_average_precision_by_hand() -> None:
    positive = torch.tensor([True, False, True])
    assert average_precision(torch.tensor([3.0, 2.0, 1.0]), positive) == pytest.approx((1 + 2 / 3) / 2)
    assert average_precision(torch.tensor([1.0, 1.0, 1.0]), positive) == pytest.approx(2 / 3)
    assert math.isnan(average_precision(torch.tensor([1.0]), torch.tensor([False])))
