"""What fine-tuning and condensing cost beside version 0.1.

Condensing had one channel, losses over all nodes, and 20 gradient steps in stage II. The head was one logistic
regression on the learned part and Â²X. It took 200 steps of Adam, and its predictions were always smoothed over Â; with
all labels every tenth epoch was scored on validation nodes. Both are kept here as yardsticks. Both heads embed the
graph first, with the same networks.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc
from bench_graphs import bench_graph
from plgc.downstream.backbone import Backbone, propagated_features
from plgc.downstream.head import HeadSettings
from plgc.downstream.smoothing import smooth
from plgc.graphs.labels import choose_labels
from plgc.graphs.load import node_labels, num_classes
from plgc.method.settings import CondenseSettings, SynthesisSettings

EPOCHS, RATE, PENALTY = 200, 0.05, 0.04
SHOTS, NODES = 3, 70


def measure_finetuning(graph: str, device: str, file: str, repeats: int) -> dict[str, Any]:
    """CPU-seconds of condensing, of a head on three labels per class and on all, beside those of the yardsticks."""
    data = bench_graph(graph)
    backbone = plgc.reconstruct(plgc.CondensedGraph.load(file), device=device)
    found: dict[str, Any] = {"graph": graph} | _condensing(data, device)
    for name, shots in (("few", SHOTS), ("all", None)):
        ours = _least(lambda shots=shots: plgc.finetune(backbone, data, shots=shots), repeats)
        earlier = _least(lambda shots=shots: _earlier_head(backbone, data, shots), repeats)
        found |= {f"{name}_seconds": ours, f"{name}_earlier_seconds": earlier, f"{name}_ratio": ours / earlier}
    return found


def _condensing(data: Data, device: str) -> dict[str, float]:
    """CPU-seconds of condensing to a small graph, by the default and by the settings of version 0.1."""
    now = CondenseSettings()
    rules = replace(now.pseudo_labels, loss_stride=1)
    earlier = replace(now, plain=None, pseudo_labels=rules, synthesis=SynthesisSettings(steps=20))
    ours, theirs = (
        _least(lambda settings=settings: plgc.condense(data, nodes=NODES, settings=settings, device=device), 1)
        for settings in (now, earlier)
    )
    return {"condensing_seconds": ours, "condensing_earlier_seconds": theirs, "condensing_ratio": ours / theirs}


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
