"""Link prediction by a GNN that is trained end to end on the whole graph: what pair heads are compared with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.downstream.tasks.link import SLOPE, THRESHOLD, labelled_pairs
from plgc.downstream.tasks.metrics import auroc, rank_scores
from plgc.graphs.views.edges import EdgeSplit, keep_edges, non_edges
from plgc.method.encoder import GNN
from plgc.runtime.errors import SettingError
from plgc.sparse.adjacency import Adjacency, drop_edges
from plgc.sparse.inputs import prepare, resolve_scaling

HIDDEN, WIDTH, DROPOUT, LEARNING_RATE, EDGES_HIDDEN = 256, 128, 0.5, 0.003, 0.5  # chosen on validation edges


def train_whole_link(
    graph: Data, split: EdgeSplit, seed: int, epochs: int = 200, device: str = "cpu", on: str = "test"
) -> dict[str, float]:
    """Train a two-layer GCN end to end on the training edges and score it: the best epoch by validation AUROC.

    Messages pass over training edges only, and while training over a random half of them at every epoch: otherwise the
    model learns to recognise the edges that it was given. A pair's score is that of the heads, the cosine of its
    embeddings and their popularity; unscaled dot products do far worse. Every epoch draws as many new non-edges as
    there are edges.
    """
    if epochs < 1:
        raise SettingError(f"epochs is {epochs}: at least 1 is needed")
    visible = keep_edges(graph, split.train)
    assert visible.x is not None
    inputs = prepare(visible, resolve_scaling(visible.x, "auto"), device)
    generator = torch.Generator().manual_seed(seed)
    model = GNN("gcn", inputs.num_features, HIDDEN, WIDTH, dropout=DROPOUT, generator=generator).to(device)
    gamma = torch.zeros((), device=device, requires_grad=True)
    groups = [{"params": model.parameters()}, {"params": [gamma], "lr": 10 * LEARNING_RATE}]
    optimizer = torch.optim.Adam(groups, lr=LEARNING_RATE, fused=True)
    val, truth = (tensor.to(device) for tensor in labelled_pairs(split, graph, seed, "val"))
    test, answers = (tensor.to(device) for tensor in labelled_pairs(split, graph, seed, on))
    edges = split.train.shape[1]
    target = (torch.arange(2 * edges, device=device) < edges).float()

    def score(adjacency: Adjacency, pairs: Tensor) -> Tensor:
        rows = F.normalize(model(inputs.x, adjacency), dim=1)
        popularity = torch.log(adjacency.degree)  # the degree counts the self-loop
        cosine = (rows[pairs[0]] * rows[pairs[1]]).sum(1)
        return SLOPE * (cosine - THRESHOLD) + gamma * (popularity[pairs[0]] + popularity[pairs[1]])

    best, kept = -1.0, torch.empty(0)
    with torch.random.fork_rng(devices=[inputs.device] if inputs.device.type == "cuda" else []):
        torch.manual_seed(seed)  # dropout draws from torch's own generator
        for _ in range(epochs):
            model.train()
            pairs = torch.cat([split.train, non_edges(graph, edges, generator)], dim=1).to(device)
            logits = score(drop_edges(inputs.adjacency, EDGES_HIDDEN, generator), pairs)
            loss = F.binary_cross_entropy_with_logits(logits, target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                value = auroc(score(inputs.adjacency, val), truth)
                if value > best:
                    best, kept = value, score(inputs.adjacency, test)
    return rank_scores(kept, answers)
