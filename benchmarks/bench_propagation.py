"""Propagation beside the copy bandwidth of the machine and beside PyG's GCNConv on the same graph, in one process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.nn import GCNConv

from bench_graphs import bench_graph
from plgc.method.encoder import GCNLayer
from plgc.sparse.adjacency import drop_edges, propagate
from plgc.sparse.inputs import Inputs, prepare
from plgc.sparse.product import multiply

WIDTH = 128
COPIED = 2**26  # floats, beyond any cache


def fastest(work: Callable[[], Any], device: str, repeats: int) -> float:
    """Seconds of the fastest of several runs, after one that does not count."""
    times = []
    for _ in range(repeats + 1):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        times.append(time.perf_counter() - start)
    return min(times[1:])


def _wait(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


def measure_propagation(graph: str, device: str, repeats: int) -> dict[str, Any]:
    """Copy bandwidth, gathering bandwidth of Â @ H, and GCNConv's time over ours.

    On a CPU with nodes in their own order and in a local one, which condensing uses there.
    """
    data = bench_graph(graph)
    assert data.edge_index is not None
    orders = {"own_order": prepare(data, "none", device)}
    if device == "cpu":
        orders["local_order"] = prepare(data, "none", device, reorder=True)
    plain = orders["own_order"]
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(plain.num_nodes, WIDTH, generator=generator).to(device)

    bandwidth = _copy_bandwidth(device, 2 * repeats)
    moved = (plain.adjacency.col.numel() + plain.num_nodes) * WIDTH * hidden.element_size()
    forward = {name: _forward(inputs, hidden, device, repeats) for name, inputs in orders.items()}
    layer = GCNLayer(WIDTH, WIDTH, generator).to(device)
    ours = {
        name: fastest(lambda inputs=inputs: _step(lambda h: layer(h, inputs.adjacency), hidden), device, repeats)
        for name, inputs in orders.items()
    }
    edges = data.edge_index.to(device)
    conv = GCNConv(WIDTH, WIDTH, cached=True).to(device)
    pyg = fastest(lambda: _step(lambda h: conv(h, edges), hidden), device, max(1, repeats // 3))
    draws, last = torch.Generator(device).manual_seed(0), list(orders.values())[-1]
    view = fastest(lambda: drop_edges(last.adjacency, 0.5, draws).matrix, device, repeats)
    half = {}
    if device != "cpu":
        rounded = hidden.bfloat16()
        half["bfloat16_forward_seconds"] = fastest(lambda: multiply(plain.adjacency.matrix, rounded), device, repeats)
    return {
        "nodes": plain.num_nodes,
        "entries": edges.shape[1],
        "width": WIDTH,
        "copy_bandwidth": bandwidth,
        "gather_bandwidth": {name: moved / seconds for name, seconds in forward.items()},
        "share_of_copy": {name: moved / seconds / bandwidth for name, seconds in forward.items()},
        "forward_seconds": forward,
        "layer_seconds": ours,
        "gcnconv_seconds": pyg,
        "view_seconds": view,
        **half,
        "gcnconv_over_ours": {name: pyg / seconds for name, seconds in ours.items()},
    }


def _copy_bandwidth(device: str, repeats: int) -> float:
    """Bytes read and written a second by a copy between two tensors."""
    source = torch.rand(COPIED, generator=torch.Generator().manual_seed(0)).to(device)
    target = torch.empty_like(source)
    seconds = fastest(lambda: target.copy_(source), device, repeats)
    return 2 * source.numel() * source.element_size() / seconds


def _forward(inputs: Inputs, hidden: Tensor, device: str, repeats: int) -> float:
    with torch.no_grad():
        return fastest(lambda: propagate(inputs.adjacency, hidden), device, repeats)


def _step(layer: Callable[[Tensor], Tensor], hidden: Tensor) -> None:
    """Forward and backward, to the weights and to the input."""
    leaf = hidden.detach().requires_grad_()
    layer(leaf).sum().backward()
