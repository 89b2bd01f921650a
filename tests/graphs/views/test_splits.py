from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from plgc.graphs.views.splits import draw_labels, draw_shots, generated_split
from plgc.runtime.errors import LabelError

SIZES = st.lists(st.integers(1, 90), min_size=1, max_size=6)


def labels(sizes: list[int], unlabelled: int = 0) -> Tensor:
    """Labels with the given class sizes, in a fixed shuffled order."""
    y = torch.cat([torch.full((size,), label) for label, size in enumerate(sizes)] + [torch.full((unlabelled,), -1)])
    return y[torch.randperm(y.numel(), generator=torch.Generator().manual_seed(1))]


@given(SIZES, st.integers(0, 20), st.integers(0, 2**31))
def test_generated_split_has_the_promised_sizes(sizes: list[int], unlabelled: int, seed: int) -> None:
    y = labels(sizes, unlabelled)
    train, val, test = generated_split(y, seed)
    expected = [20 if size >= 40 else max(1, size // 2) for size in sizes]
    assert torch.bincount(y[train], minlength=len(sizes)).tolist() == expected
    rest = sum(sizes) - sum(expected)
    assert int(val.sum()) == min(500, rest // 3)
    assert int(test.sum()) == rest - int(val.sum())
    assert torch.equal(train.int() + val.int() + test.int(), (y >= 0).int())


def test_a_large_graph_has_500_validation_nodes() -> None:
    _, val, test = generated_split(labels([1000, 1000]), seed=0)
    assert (int(val.sum()), int(test.sum())) == (500, 1460)


@pytest.mark.parametrize("draw", [draw_shots, draw_labels])
def test_draws_depend_on_the_seed_alone(draw) -> None:
    y = labels([60, 60, 60])
    pool = torch.ones(180, dtype=torch.bool)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = draw(y, pool, 6, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert torch.equal(draw(y, pool, 6, seed=3), first)
    assert not torch.equal(draw(y, pool, 6, seed=4), first)


def test_generated_split_depends_on_the_seed_alone() -> None:
    y = labels([60, 60, 60])
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first = generated_split(y, 3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert all(torch.equal(a, b) for a, b in zip(first, generated_split(y, 3), strict=True))
    assert not torch.equal(generated_split(y, 4)[0], first[0])


@given(SIZES, st.integers(1, 5), st.integers(0, 1000))
def test_shots_come_from_the_pool_and_are_equal_per_class(sizes: list[int], shots: int, seed: int) -> None:
    y = labels(sizes, unlabelled=7)
    pool = torch.rand(y.numel(), generator=torch.Generator().manual_seed(seed)) < 0.7
    counts = torch.bincount(y[pool & (y >= 0)], minlength=len(sizes)).tolist()
    if min(counts) < shots:
        label = next(i for i, count in enumerate(counts) if count < shots)
        with pytest.raises(LabelError, match=f"{shots} labels per class.*class {label} has {counts[label]}"):
            draw_shots(y, pool, shots, seed)
        return
    drawn = draw_shots(y, pool, shots, seed)
    assert bool(pool[drawn].all())
    assert torch.bincount(y[drawn]).tolist() == [shots] * len(sizes)
    assert drawn.tolist() == sorted(set(drawn.tolist()))


def test_shots_are_nested() -> None:
    y = labels([50, 50])
    pool = torch.ones(100, dtype=torch.bool)
    small, large = (set(draw_shots(y, pool, shots, seed=2).tolist()) for shots in (3, 5))
    assert small < large


@given(SIZES, st.integers(0, 1000), st.data())
def test_label_budgets_are_spent_evenly(sizes: list[int], seed: int, data: st.DataObject) -> None:
    y = labels(sizes, unlabelled=3)
    pool = torch.ones(y.numel(), dtype=torch.bool)
    total = data.draw(st.integers(len(sizes), sum(sizes)))
    drawn = draw_labels(y, pool, total, seed)
    assert drawn.tolist() == sorted(set(drawn.tolist()))
    counts = torch.bincount(y[drawn], minlength=len(sizes)).tolist()
    assert sum(counts) == total
    assert min(counts) >= 1
    # Even: a class that was not emptied is at most one label behind any other.
    open_classes = [count for count, size in zip(counts, sizes, strict=True) if count < size]
    assert all(max(counts) - count <= 1 for count in open_classes)


def test_the_remainder_goes_to_random_classes() -> None:
    y = labels([30] * 5)
    pool = torch.ones(150, dtype=torch.bool)
    extra = [torch.bincount(y[draw_labels(y, pool, 6, seed)]).argmax().item() for seed in range(30)]
    assert set(extra) == set(range(5))


def test_label_errors_name_the_numbers() -> None:
    y = labels([5, 5, 5])
    pool = torch.ones(15, dtype=torch.bool)
    with pytest.raises(LabelError, match=r"2 label\(s\) for 3 classes"):
        draw_labels(y, pool, 2, 0)
    with pytest.raises(LabelError, match="16 labels asked for, the training pool has 15"):
        draw_labels(y, pool, 16, 0)
    with pytest.raises(LabelError, match="class 1 has 0 labelled"):
        draw_labels(y, y != 1, 5, 0)
    with pytest.raises(LabelError, match="shots=0"):
        draw_shots(y, pool, 0, 0)
    with pytest.raises(LabelError, match=r"\[14\].*15 nodes"):
        draw_shots(y, pool[:14], 1, 0)
    with pytest.raises(LabelError, match="int64"):
        draw_shots(y, pool.long(), 1, 0)
    with pytest.raises(LabelError, match="none of the 4 nodes"):
        draw_shots(torch.full((4,), -1), torch.ones(4, dtype=torch.bool), 1, 0)
