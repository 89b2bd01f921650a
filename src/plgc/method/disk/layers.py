"""GNNs on graphs that stay on disk: layer by layer, each product with Â a pass over the edges, all else row by row.

Of hidden layers only products are kept: the rest is computed from them whenever rows are needed.
"""

from __future__ import annotations

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
            return _affine(layer, inputs.propagated(steps))
        if into >= out:
            rows = _times(layer.weight, rows)
        for _ in range(steps):
            rows = inputs.product(rows)
        return _affine(layer, rows) if into < out else ComputedRows(out, lambda sums: sums + layer.bias, rows)
    if isinstance(layer, SAGELayer):
        return _sage_rows(layer, rows, inputs)
    if isinstance(layer, GINLayer):
        return _gin_rows(layer, rows, inputs)
    assert isinstance(layer, Linear), layer
    return _affine(layer, rows)


def _sage_rows(layer: SAGELayer, rows: Rows, inputs: StoredInputs) -> Rows:
    """The mean of neighbours before or after the linear map, whichever gathers fewer columns."""
    into, out = layer.neighbors.shape
    mean: Rows = inputs.product(rows if into < out else _times(layer.neighbors, rows), "mean")
    if into < out:
        mean = _times(layer.neighbors, mean)
    return ComputedRows(out, torch.add, _affine(layer.own, rows), mean)


def _gin_rows(layer: GINLayer, rows: Rows, inputs: StoredInputs) -> Rows:
    into, hidden = layer.first.shape
    if into < hidden:
        total = _times(layer.first, inputs.product(rows, "sum"))
    else:
        total = inputs.product(_times(layer.first, rows), "sum")
    return _times(layer.second, ComputedRows(hidden, torch.relu, total))


def _times(weight: Tensor, rows: Rows) -> Rows:
    into, out = weight.shape
    return ComputedRows(out, lambda hidden: hidden @ weight, rows, cost=into * out)


def _affine(layer: Linear, rows: Rows) -> Rows:
    into, out = layer.weight.shape
    return ComputedRows(out, lambda hidden: hidden @ layer.weight + layer.bias, rows, cost=into * out)
