"""Recorded work gives what the work gives; on a CPU it is the work itself."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch import Tensor

from plgc.runtime.replay import Replayed, recorded

DEVICES = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")),
]


def doubled_sums(x: Tensor, y: Tensor, times: int) -> tuple[Tensor, Tensor]:
    for _ in range(times):
        x = x + x
    return x, x @ y


@pytest.mark.parametrize("device", DEVICES)
def test_a_function_is_played_with_new_values_shapes_and_constants(device: str) -> None:
    played = Replayed(doubled_sums)
    for rows, times in ((3, 2), (3, 2), (5, 2), (5, 1)):
        x, y = torch.rand(rows, 4, device=device), torch.rand(4, 2, device=device)
        first = played(x, y, constants=(times,))
        kept = [part.clone() for part in first]
        played(x + 1, y, constants=(times,))
        for result, earlier, wanted in zip(first, kept, doubled_sums(x, y, times), strict=True):
            assert torch.equal(result, earlier)  # a later call does not write over it
            torch.testing.assert_close(result, wanted)


@pytest.mark.parametrize("device", DEVICES)
def test_recording_leaves_no_trace(device: str) -> None:
    total, step = torch.zeros((), device=device), torch.ones((), device=device)

    def work() -> None:
        total.add_(step)

    play = recorded(work, [total])
    assert total.item() == 0
    for _ in range(3):
        play()
    step.fill_(10)
    play()
    assert total.item() == 13


def test_a_recording_goes_with_its_owner() -> None:
    """At once, since it holds a GPU's memory: not when a collection finds a circle."""
    played = Replayed(doubled_sums)
    played.play = played.record((torch.rand(3, 4), torch.rand(4, 2)), (1,))
    played.play()
    assert len(played.outputs) == 2
    gone = weakref.ref(played)
    gc.disable()
    try:
        del played
        assert gone() is None
    finally:
        gc.enable()
