"""A cache of prepared graphs, so that models which are compared on one graph share its scaled features and its Â."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import torch
from torch_geometric.data import Data

from plgc.sparse.inputs import Inputs, prepare

Value = TypeVar("Value")


class PreparedGraphs:
    """Each graph is prepared once per scaling and device.

    Graphs that have one feature matrix in common, such as a graph and some of its edges, share the scaled features.
    """

    def __init__(self) -> None:
        self._inputs: dict[tuple[str, torch.device], list[tuple[Data, Inputs]]] = {}
        self._values: dict[Hashable, Any] = {}

    def inputs(self, graph: Data, scaling: str, device: torch.device | str = "cpu") -> Inputs:
        """What :func:`plgc.sparse.inputs.prepare` gives for this graph."""
        device = torch.empty(0, device=device).device  # with the number of the GPU
        known = self._inputs.setdefault((scaling, device), [])
        for other, inputs in known:
            if other is graph:
                return inputs
        scaled = next((inputs.x for other, inputs in known if other.x is graph.x), None)
        known.append((graph, prepare(graph, scaling, device, scaled=scaled)))
        return known[-1][1]

    def once(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The result of ``make``, which is called for the first request of a key only."""
        if key not in self._values:
            self._values[key] = make()
        return self._values[key]
