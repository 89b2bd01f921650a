"""Parameters and optimiser state as named tensors: training continues as if it had not stopped."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from plgc.runtime.optimizer_state import pack, unpack


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.SGD])
def test_training_continues_from_what_was_packed(kind: type[torch.optim.Optimizer]) -> None:
    inputs = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))

    def start() -> tuple[nn.Module, torch.optim.Optimizer]:
        layer = nn.Linear(3, 2)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.fill_(0.5)
        momentum = {"momentum": 0.9} if kind is torch.optim.SGD else {}
        return layer, kind(layer.parameters(), lr=0.1, **momentum)  # pyright: ignore[reportCallIssue]

    def step(layer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        layer(inputs).square().sum().backward()
        optimizer.step()

    whole, its = start()
    for _ in range(4):
        step(whole, its)
    first, before = start()
    for _ in range(2):
        step(first, before)
    packed = {name: tensor.detach().clone() for name, tensor in pack(before, "first ").items()}
    assert all(name.startswith("first ") for name in packed)
    second, after = start()
    unpack(after, packed, "first ")
    for _ in range(2):
        step(second, after)
    for expected, found in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(expected, found)
