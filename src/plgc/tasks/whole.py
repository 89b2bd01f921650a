"""Whole-graph training ("full fine-tune"): a plain GCN trained end to end, the yardstick of condensation."""

from __future__ import annotations

import time

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.encoder import GNN
from plgc.graphs.load import node_labels, num_classes
from plgc.inputs import prepare, resolve_scaling
from plgc.tasks.node import choose_labels, score_nodes

HIDDEN, DROPOUT, LEARNING_RATE, WEIGHT_DECAY = 256, 0.5, 0.01, 5e-4


def train_whole_graph(
    graph: Data,
    *,
    shots: int | None = None,
    labels: int | None = None,
    seed: int = 0,
    epochs: int = 200,
    on: str = "test",
    device: str = "cpu",
) -> dict[str, float]:
    """Train a two-layer GCN on the whole graph and score it; the best epoch on validation with full labels only."""
    start = time.perf_counter()
    labelled, validate = choose_labels(graph, shots, labels, seed)
    assert graph.x is not None
    inputs = prepare(graph, resolve_scaling(graph.x, "auto"), device)
    y, classes = node_labels(graph).to(device), num_classes(graph)
    generator = torch.Generator().manual_seed(seed)
    model = GNN("gcn", inputs.num_features, HIDDEN, classes, dropout=DROPOUT, generator=generator).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True)
    labels_cpu = node_labels(graph)
    val = graph["val_mask"] & (labels_cpu >= 0)
    best: tuple[float, Tensor | None] = (-1.0, None)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for epoch in range(1, epochs + 1):
            model.train()
            loss = F.cross_entropy(model(inputs.x, inputs.adjacency)[labelled], y[labelled])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if validate or epoch == epochs:
                model.eval()
                with torch.no_grad():
                    probability = torch.softmax(model(inputs.x, inputs.adjacency), dim=1).cpu()
                value = float((probability.argmax(1)[val] == labels_cpu[val]).double().mean()) if validate else 0.0
                if value > best[0]:
                    best = (value, probability)
    assert best[1] is not None
    return {**score_nodes(best[1], graph, on), "seconds": time.perf_counter() - start}
