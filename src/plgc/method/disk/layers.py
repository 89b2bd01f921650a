"""GNNs on graphs that stay on disk: layer by layer, each product with Â a pass over the edges, all else row by row.

Only products are kept: hidden layers and outputs are computed from them whenever rows are needed.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from plgc.method.encoder import GNN, GCNLayer, GINLayer, Linear, SAGELayer, SGCLayer
from plgc.runtime.errors import SettingError
from plgc.sparse.rows import ComputedRows, Rows
from plgc.sparse.stored_inputs import StoredInputs

WORKING = ("gcn", "sage", "gin", "sgc", "mlp")


def check_kind(kind: str) -> None:
    """Raise :class:`SettingError` for a kind of GNN that cannot be computed from disk."""
    if kind not in WORKING:
        raise SettingError(
            f"a {kind} network attends to every edge by itself, which is not done from disk: choose one of "
            f"{', '.join(WORKING)}, or leave the memory limit out"
        )


def network_rows(gnn: GNN, inputs: StoredInputs) -> Rows:
    """The output of a network, in evaluation mode, for every node."""
    check_kind(gnn.kind)
    rows: Rows = inputs.x
    for number, layer in enumerate(gnn.layers):
        if number:
            rows = ComputedRows(rows.width, torch.relu, rows)
        rows = _layer_rows(layer, rows, inputs)
    return rows


def _layer_rows(layer: nn.Module, rows: Rows, inputs: StoredInputs) -> Rows:
    if isinstance(layer, SGCLayer | GCNLayer):
        steps = layer.steps if isinstance(layer, SGCLayer) else 1
        into, out = layer.weight.shape
        if rows is inputs.x:  # products of X are parts of most embeddings, and made once
            return ComputedRows(out, partial(_affine, layer.weight, layer.bias), inputs.propagated(steps))
        if into >= out:
            rows = ComputedRows(out, partial(_times, layer.weight), rows)
        for _ in range(steps):
            rows = inputs.product(rows)
        function = partial(_affine, layer.weight, layer.bias) if into < out else partial(_add, layer.bias)
        return ComputedRows(out, function, rows)
    if isinstance(layer, SAGELayer):
        return _sage_rows(layer, rows, inputs)
    if isinstance(layer, GINLayer):
        return _gin_rows(layer, rows, inputs)
    assert isinstance(layer, Linear), layer
    return ComputedRows(layer.weight.shape[1], partial(_affine, layer.weight, layer.bias), rows)


def _sage_rows(layer: SAGELayer, rows: Rows, inputs: StoredInputs) -> Rows:
    """The mean of neighbours before or after the linear map, whichever gathers fewer columns."""
    into, out = layer.neighbors.shape
    own, bias = layer.own.weight, layer.own.bias
    message = rows if into < out else ComputedRows(out, partial(_times, layer.neighbors), rows)
    mean = inputs.product(message, "mean")
    if into < out:
        return ComputedRows(out, lambda h, m: (h @ own + bias) + m @ layer.neighbors, rows, mean)
    return ComputedRows(out, lambda h, m: (h @ own + bias) + m, rows, mean)


def _gin_rows(layer: GINLayer, rows: Rows, inputs: StoredInputs) -> Rows:
    into, hidden = layer.first.shape
    message = rows if into < hidden else ComputedRows(hidden, partial(_times, layer.first), rows)
    total: Rows = inputs.product(message, "sum")
    if into < hidden:
        total = ComputedRows(hidden, partial(_times, layer.first), total)
    return ComputedRows(layer.second.shape[1], lambda sums: torch.relu(sums) @ layer.second, total)


def _times(weight: Tensor, rows: Tensor) -> Tensor:
    return rows @ weight


def _affine(weight: Tensor, bias: Tensor, rows: Tensor) -> Tensor:
    return rows @ weight + bias


def _add(bias: Tensor, rows: Tensor) -> Tensor:
    return rows + bias
