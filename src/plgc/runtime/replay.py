"""Repeated GPU work, recorded once and replayed: thousands of small kernels for the price of one launch.

Loops over tiny models spend their time on launching kernels, not on running them. A CUDA graph keeps a sequence of
kernels with the places in memory that they read and write; playing it costs one launch. On a CPU nothing is recorded.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


def recorded(work: Callable[[], None], changed: Sequence[Tensor]) -> Callable[[], None]:
    """``work`` as something to be called again and again; on a GPU a recording of it.

    Args:
        work: reads and writes tensors in place, always the same ones, and never waits for the device.
        changed: every tensor that it writes and that has to be as it was before the recording, which takes a trial.
    """
    if not changed[0].is_cuda:
        return work
    before = [tensor.detach().clone() for tensor in changed]
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        work()  # libraries set themselves up, which cannot be recorded
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with _no_collection(), torch.cuda.graph(graph):
        work()
    with torch.no_grad():
        for tensor, value in zip(changed, before, strict=True):
            tensor.copy_(value)

    def play(_read: Callable[[], None] = work) -> None:  # what it reads stays in memory as long as the recording does
        graph.replay()

    return play


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without Python's garbage collection: where it freed another recording meanwhile, it would break this one."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


class Replayed:
    """A function from tensors to tensors, recorded on a GPU for the last shapes it was called with.

    Args:
        function: takes tensors and, at last, whole numbers; returns a tuple of fresh tensors.
    """

    def __init__(self, function: Callable[..., tuple[Tensor, ...]]):
        self.function = function
        self.key: tuple[object, ...] | None = None
        self.inputs: list[Tensor] = []
        self.outputs: list[Tensor] = []
        self.play: Callable[[], None] | None = None

    def __call__(self, *inputs: Tensor, constants: tuple[int, ...] = ()) -> tuple[Tensor, ...]:
        """The function's result; what it is given must not need a gradient through it."""
        if not inputs[0].is_cuda:
            return self.function(*inputs, *constants)
        key = (inputs[0].device, constants, *(tensor.shape for tensor in inputs))
        if key != self.key or self.play is None:
            self.outputs, self.play = [], None  # the memory of the recording before
            self.key, self.play = key, self.record(inputs, constants)
        for kept, new in zip(self.inputs, inputs, strict=True):
            kept.copy_(new)
        self.play()
        return tuple(output.clone() for output in self.outputs)

    def record(self, given: Sequence[Tensor], constants: tuple[int, ...]) -> Callable[[], None]:
        """Take up the function with copies of these inputs; playing it reads :attr:`inputs`, writes :attr:`outputs`."""
        function, inputs, outputs = self.function, [tensor.detach().clone() for tensor in given], []

        def work() -> None:  # knows nothing of ``self``: a circle would keep the GPU's memory until it is found
            outputs[:] = function(*inputs, *constants)

        self.inputs, self.outputs = inputs, outputs
        return recorded(work, inputs)
