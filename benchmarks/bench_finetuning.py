"""What fine-tuning costs beside the head of version 0.1: one logistic regression on the learned part and Â²X.

That head took 200 steps of Adam, and its predictions were always smoothed over Â; with all labels every tenth epoch was
scored on validation nodes. It is kept here as a yardstick. Both embed the graph first, with the same networks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc
from bench_graphs import bench_graph
from plgc.downstream.backbone import Backbone, propagated_features
from plgc.downstream.head import HeadSettings, smooth
from plgc.graphs.labels import choose_labels
from plgc.graphs.load import node_labels, num_classes

EPOCHS, RATE, PENALTY = 200, 0.05, 0.04
SHOTS = 3


def measure_finetuning(graph: str, device: str, file: str, repeats: int) -> dict[str, Any]:
    """CPU-seconds of a head on three labels per class, and on all, beside those of the yardstick; the least of each."""
    data = bench_graph(graph)
    backbone = plgc.reconstruct(plgc.CondensedGraph.load(file), device=device)
    found: dict[str, Any] = {"graph": graph}
    for name, shots in (("few", SHOTS), ("all", None)):
        ours = _least(lambda shots=shots: plgc.finetune(backbone, data, shots=shots), repeats)
        earlier = _least(lambda shots=shots: _earlier_head(backbone, data, shots), repeats)
        found |= {f"{name}_seconds": ours, f"{name}_earlier_seconds": earlier, f"{name}_ratio": ours / earlier}
    return found


def _least(work: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return min(seconds)


def _earlier_head(backbone: Backbone, graph: Data, shots: int | None) -> Tensor:
    """Train the yardstick: its weights."""
    inputs, (labelled, validate) = backbone.prepare(graph), choose_labels(graph, shots, None, 0)
    y, val = node_labels(graph).to(inputs.device), graph["val_mask"].to(inputs.device)
    labelled = labelled.to(inputs.device)
    with torch.no_grad():
        learned = backbone.networks["edges"](inputs.x, inputs.adjacency)
        pieces = [part - part.mean(0) for part in (learned, propagated_features(inputs))]
        rows = torch.cat([F.normalize(part, dim=1) for part in pieces], 1) / len(pieces) ** 0.5
    weight = torch.zeros(rows.shape[1], num_classes(graph), device=rows.device, requires_grad=True)
    bias = torch.zeros(weight.shape[1], device=rows.device, requires_grad=True)
    optimizer, own = torch.optim.Adam([weight, bias], lr=RATE, fused=True), rows[labelled]
    for epoch in range(1, EPOCHS + 1):
        loss = F.cross_entropy(own @ weight + bias, y[labelled]) + PENALTY / len(labelled) * weight.pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if validate and epoch % 10 == 0:
            with torch.no_grad():
                predicted = smooth(torch.softmax(rows @ weight + bias, 1), inputs.adjacency, HeadSettings()).argmax(1)
                float((predicted[val] == y[val]).float().mean())
    return weight.detach()
