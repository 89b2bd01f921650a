"""One training of a GCN on the whole graph, as in OGB's example for arxiv: 3 layers, 256 wide, 500 epochs.

Batch norm and dropout of a half between the layers, Adam at 0.01, full batch. It runs on this package's own
propagation, so that a condensation is not compared with a slow product. Only some epochs are timed; the time of all is
extrapolated from the median, and marked so.
"""

from __future__ import annotations

import itertools
import statistics
import time
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from bench_graphs import bench_graph
from plgc.method.encoder import GCNLayer
from plgc.sparse.inputs import Inputs, prepare

EPOCHS = 500
WIDTH, LAYERS, DROPOUT = 256, 3, 0.5


class WholeGraphGCN(nn.Module):
    """GCN layers with batch norm, ReLU and dropout between them."""

    def __init__(self, width_in: int, classes: int, generator: torch.Generator):
        super().__init__()
        widths = [width_in, *[WIDTH] * (LAYERS - 1), classes]
        self.layers = nn.ModuleList(GCNLayer(before, after, generator) for before, after in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.BatchNorm1d(WIDTH) for _ in range(LAYERS - 1))

    def forward(self, inputs: Inputs) -> Tensor:
        """Scores of every node."""
        assert isinstance(inputs.x, Tensor)
        hidden = inputs.x
        for layer, norm in zip(self.layers, self.norms, strict=False):
            hidden = F.dropout(torch.relu(norm(layer(hidden, inputs.adjacency))), DROPOUT)
        return self.layers[-1](hidden, inputs.adjacency)


def measure_training(graph: str, device: str, timed: int) -> dict[str, Any]:
    """Time ``timed`` epochs after a first one, and extrapolate to all."""
    data = bench_graph(graph)
    assert isinstance(data.y, Tensor)
    inputs = prepare(data, "none", device)
    y = data.y.to(device)
    train = (data["train_mask"].to(device) & (y >= 0)).nonzero().flatten()
    model = WholeGraphGCN(inputs.num_features, int(y.max()) + 1, torch.Generator().manual_seed(0)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    seconds = []
    for _ in range(timed + 1):
        start = time.perf_counter()
        loss = F.cross_entropy(model(inputs)[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        float(loss.detach())  # waits for a GPU
        seconds.append(time.perf_counter() - start)
    epoch = statistics.median(seconds[1:])
    return {"epoch_seconds": epoch, "timed_epochs": timed, "epochs": EPOCHS, "seconds_extrapolated": EPOCHS * epoch}
