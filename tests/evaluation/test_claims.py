"""Claims against scipy and statsmodels' formulas written out, and what few nodes or one seed may not show."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from plgc.downstream.tasks.answers import Answers
from plgc.evaluation.claims import Z, claim, node_differences, student_half, wilson


def answers(nodes: list[int], right: list[int]) -> Answers:
    """Two classes, truth 0: an answer is right where ``right`` is 1."""
    share = torch.tensor(right).double()
    return Answers(torch.tensor(nodes), torch.zeros(len(nodes), dtype=torch.long), torch.stack([share, 1 - share], 1))


def test_seeds_by_students_t() -> None:
    values = [1.0, 2.5, 0.5, 3.0]
    low, high = stats.t.interval(0.95, 3, loc=np.mean(values), scale=stats.sem(values))
    half = student_half(values)
    assert half == pytest.approx((high - low) / 2)
    assert student_half([1.0]) is None
    found = claim([71.0, 72.5, 70.5, 73.0], [70.0] * 4)
    assert found.mean == pytest.approx(1.75)
    assert found.interval == pytest.approx((low, high))
    assert found.verdict == "cannot be told"


def test_wilson_is_scipys() -> None:
    for right, count in ((0, 6), (6, 6), (11, 12), (600, 1000)):
        expected = stats.binomtest(right, count).proportion_ci(method="wilson")
        assert wilson(right / count, count) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_nodes_by_the_adjusted_interval_for_paired_answers() -> None:
    gained, lost, same = 30, 10, 60
    nodes = list(range(100))
    ours = answers(nodes, [1] * gained + [0] * lost + [1] * same)
    theirs = answers(nodes, [0] * gained + [1] * lost + [1] * same)
    found = claim([90.0, 90.0], [70.0, 70.0], node_differences([ours, ours], [theirs, theirs]))
    up, down = (gained + 1) / 102, (lost + 1) / 102  # Bonett and Price (2012)
    half = Z * math.sqrt((up + down - (up - down) ** 2) / 102)
    assert found.interval == pytest.approx((100 * (up - down - half), 100 * (up - down + half)))
    assert (found.verdict, found.nodes, found.seeds) == ("above", 100, 2)


def test_a_handful_of_nodes_shows_little() -> None:
    ours, theirs = answers(list(range(6)), [1] * 6), answers(list(range(6)), [1, 1, 1, 1, 0, 0])
    found = claim([100.0] * 3, [66.7] * 3, node_differences([ours] * 3, [theirs] * 3))
    assert found.verdict == "cannot be told"
    assert found.rests_on == "3 seeds, 6 test nodes"
    pair = answers([0, 1], [1, 1]), answers([0, 1], [0, 0])
    assert claim([100.0] * 3, [0.0] * 3, node_differences([pair[0]] * 3, [pair[1]] * 3)).verdict == "cannot be told"


def test_one_seed_shows_nothing() -> None:
    ours, theirs = answers(list(range(900)), [1] * 900), answers(list(range(900)), [0] * 900)
    found = claim([100.0], [0.0], node_differences([ours], [theirs]))
    assert (found.interval, found.verdict) == (None, "cannot be told")
    assert "one seed" in found.text(1)
    assert claim([60.0, 60.1, 59.9], [70.0, 70.1, 70.2]).verdict == "below"


def test_nodes_of_several_splits_count_once() -> None:
    first, second = (answers([0, 1, 2], [1, 1, 0]), answers([2, 3], [1, 1]))
    wrong = answers([0, 1, 2], [0, 1, 0]), answers([2, 3], [0, 1])
    assert node_differences([first, second], list(wrong)).tolist() == [100.0, 0.0, 50.0, 0.0]
