"""Scores by class, confusion and calibration against scikit-learn and the formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support
from torch_geometric.data import Data

from plgc.downstream.tasks.answers import Answers, calibration, describe_answers, joined


@pytest.fixture
def answers() -> Answers:
    """50 nodes, 4 classes; the last is never predicted and never true."""
    generator = torch.Generator().manual_seed(0)
    probability = torch.softmax(2 * torch.randn(50, 4, generator=generator), 1)
    probability[:, 3] = 0
    truth = torch.randint(0, 3, (50,), generator=generator)
    return Answers(torch.arange(50), truth, probability / probability.sum(1, keepdim=True))


def test_classes_and_confusion(answers: Answers) -> None:
    found = describe_answers([answers, answers], Data(class_names=["a", "b", "c", "d"]))
    expected = confusion_matrix(answers.truth, answers.predicted, labels=range(4))
    np.testing.assert_array_equal(found["confusion"], 2 * expected)
    assert found["nodes"] == 50
    scores = precision_recall_fscore_support(answers.truth, answers.predicted, labels=range(3))
    for place, one in enumerate(found["classes"][:3]):
        for name, values in zip(("precision", "recall", "f1"), scores, strict=False):
            assert one[name] == pytest.approx(100 * values[place]), name
        assert (one["class"], one["nodes"]) == ("abc"[place], int((answers.truth == place).sum()))
    assert found["classes"][3] == {"class": "d", "nodes": 0, "precision": None, "recall": None, "f1": None}


def test_calibration(answers: Answers) -> None:
    confidence, right = answers.probability.max(1).values.numpy(), answers.right.numpy()
    expected = 0.0
    for low in np.arange(10) / 10:
        own = (confidence > low) & (confidence <= low + 0.1)
        if own.any():
            expected += own.mean() * abs(confidence[own].mean() - right[own].mean())
    found = calibration(answers)
    assert found["ece"] == pytest.approx(100 * expected, rel=1e-5)
    assert sum(one["answers"] for one in found["bins"]) == 50


def test_folds_are_put_together(answers: Answers) -> None:
    half = [Answers(*(part[rows] for part in vars(answers).values())) for rows in (slice(0, 20), slice(20, 50))]
    assert joined(half).metrics() == answers.metrics()
