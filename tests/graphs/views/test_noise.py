from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from plgc.graphs.views.noise import flip_labels
from plgc.runtime.errors import LabelError, SettingError

CLASSES = 5
SEEDS = st.integers(0, 2**31)
LABELS = st.lists(st.integers(-1, CLASSES - 1), min_size=1, max_size=60).map(torch.tensor)


@settings(deadline=None)
@given(LABELS, st.floats(0, 1), SEEDS)
def test_the_exact_share_is_wrong_and_the_rest_is_as_it_was(y: Tensor, rate: float, seed: int) -> None:
    before = y.clone()
    noisy = flip_labels(y, rate, CLASSES, seed)
    assert torch.equal(y, before)
    assert noisy.dtype == y.dtype
    assert torch.equal(noisy[y < 0], y[y < 0])  # no label, nothing to get wrong
    labelled = y >= 0
    assert int((noisy != y).sum()) == round(rate * int(labelled.sum()))
    assert bool(((noisy[labelled] >= 0) & (noisy[labelled] < CLASSES)).all())


@settings(deadline=None)
@given(LABELS, st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted), SEEDS)
def test_draws_are_nested(y: Tensor, rates: list[float], seed: int) -> None:
    less, more = (flip_labels(y, rate, CLASSES, seed) for rate in rates)
    wrong = less != y
    assert torch.equal(more[wrong], less[wrong])


def test_the_paper_s_rates() -> None:
    y = torch.arange(140) % 7
    wrong = [int((flip_labels(y, rate, 7, 0) != y).sum()) for rate in (0.0, 0.3, 0.5, 0.7, 0.9, 1.0)]
    assert wrong == [0, 42, 70, 98, 126, 140]


@pytest.mark.parametrize("label", [0, 2, 4])
def test_every_other_class_is_equally_likely(label: int) -> None:
    noisy = flip_labels(torch.full((8000,), label), 1.0, CLASSES, 3)
    counts = torch.bincount(noisy, minlength=CLASSES).double()
    assert counts[label] == 0
    others = counts[torch.arange(CLASSES) != label]
    assert float(((others - 2000) ** 2 / 2000).sum()) < 21  # χ², 3 degrees of freedom: once in 10,000


def test_every_label_is_equally_likely_to_be_wrong() -> None:
    y = torch.arange(40) % CLASSES
    wrong = sum((flip_labels(y, 0.25, CLASSES, seed) != y).double() for seed in range(800))
    # Without replacement the counts vary less than independent ones would: χ²/(1 − .25), 39 degrees of freedom
    assert float(((wrong - 200) ** 2 / 200).sum()) / 0.75 < 82


def test_the_seed_alone_decides() -> None:
    y = torch.arange(100) % CLASSES
    before = torch.get_rng_state()
    first = flip_labels(y, 0.5, CLASSES, 1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert torch.equal(flip_labels(y, 0.5, CLASSES, 1), first)
    torch.set_rng_state(before)
    assert not torch.equal(flip_labels(y, 0.5, CLASSES, 2), first)


def test_two_classes_swap() -> None:
    y = torch.tensor([0, 1, -1, 1, 0])
    assert flip_labels(y, 1.0, 2, 0).tolist() == [1, 0, -1, 0, 1]


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), float("inf")])
def test_what_is_no_rate_is_refused(rate: float) -> None:
    with pytest.raises(SettingError, match="between 0 and 1"):
        flip_labels(torch.zeros(4, dtype=torch.int64), rate, 2, 0)


def test_a_single_class_cannot_be_flipped() -> None:
    y = torch.zeros(4, dtype=torch.int64)
    with pytest.raises(LabelError, match=r"1 class\(es\)"):
        flip_labels(y, 0.5, 1, 0)
    assert torch.equal(flip_labels(y, 0.0, 1, 0), y)
    assert flip_labels(y[:0], 0.5, 3, 0).numel() == 0
