"""Pseudo-Labeled Graph Condensation on two screens, to read or to fork: torch, and our ``load_graph`` for the graph.

Stage I learns an encoder and K pseudo-labels without labels, stage II makes K synthetic nodes whose embeddings are the
pseudo-labels. From those K rows a backbone is rebuilt, frozen, and given a plain head on three labels per class.
``src/plgc/method`` is the same in full, with a choice of encoders, large graphs, checkpoints and more.
"""

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc

WIDTH, EDGE_DROP, FEATURE_MASK = 256, 0.4, 0.1
TEMPERATURE, EPSILON, DECORRELATION = 0.1, 0.05, 1e-3


def normalised(edges: Tensor, nodes: int) -> Tensor:
    """Â = D^-1/2 (A + I) D^-1/2."""
    edges = torch.cat([edges, torch.arange(nodes).repeat(2, 1)], dim=1)
    scale = torch.bincount(edges[0], minlength=nodes).float().rsqrt()
    return torch.sparse_coo_tensor(
        edges, scale[edges[0]] * scale[edges[1]], (nodes, nodes), check_invariants=False
    ).coalesce()


def gcn(widths: list[int], generator: torch.Generator) -> list[Tensor]:
    """Weights and biases of a GCN, Glorot-uniform."""
    parameters = []
    for rows, columns in pairwise(widths):
        bound = (6 / (rows + columns)) ** 0.5
        parameters += [(torch.rand(rows, columns, generator=generator) * 2 - 1) * bound, torch.zeros(columns)]
    return [parameter.requires_grad_() for parameter in parameters]


def encode(parameters: list[Tensor], x: Tensor, adjacency: Tensor | None, mask: Tensor | float = 1.0) -> Tensor:
    """Two GCN layers on features of which some columns are masked; without an adjacency, A' = I."""
    first, bias, second, last = parameters
    hidden = x @ (first * mask)
    hidden = torch.relu((hidden if adjacency is None else adjacency @ hidden) + bias) @ second
    return (hidden if adjacency is None else adjacency @ hidden) + last


def standardise(hidden: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1."""
    return (hidden - hidden.mean(0)) / hidden.std(0, correction=0).clamp(min=1e-6)


@torch.no_grad()
def sinkhorn(scores: Tensor, iterations: int = 20) -> Tensor:
    """The balanced assignment Q of eq. 5: rows sum to one, every column gets about N / K."""
    log_plan = scores / EPSILON
    for _ in range(iterations):
        log_plan = log_plan - log_plan.logsumexp(0)
        log_plan = log_plan - log_plan.logsumexp(1, keepdim=True)
    return log_plan.exp()


def loss_of(views: list[Tensor], prototypes: Tensor) -> Tensor:
    """ℒ_pseudo: each view predicts the other's assignment (ℓ_swap, eqs. 3 and 4), and columns are decorrelated."""
    nodes, identity = len(views[0]), torch.eye(views[0].shape[1])
    scores = [F.normalize(view, dim=1) @ F.normalize(prototypes, dim=1).t() for view in views]
    targets = [sinkhorn(score.detach()) for score in scores]
    loss = -(views[0] * views[1]).sum() / nodes
    for view, target, other in zip(views, targets, reversed(scores), strict=True):
        loss = loss + DECORRELATION * (identity - view.t() @ view / nodes).square().sum()
        loss = loss - (target * F.log_softmax(other / TEMPERATURE, dim=1)).sum() / nodes
    return loss


def condense(x: Tensor, edge_index: Tensor, count: int, seed: int, epochs: int = 60) -> tuple[Tensor, Tensor]:
    """Stage I and stage II: X' [K, f] and Ỹ [K, d]."""
    generator = torch.Generator().manual_seed(seed)
    nodes, adjacency = len(x), normalised(edge_index, len(x))
    low, high = edge_index.sort(dim=0).values
    pairs, pair = (low * nodes + high).unique(return_inverse=True)  # an undirected edge for each of its directions
    encoder = gcn([x.shape[1], WIDTH, WIDTH], generator)
    start = standardise(encode(encoder, x, adjacency).detach())
    prototypes = start[torch.randperm(nodes, generator=generator)[:count]].clone().requires_grad_()
    optimizer = torch.optim.Adam([*encoder, prototypes], lr=1e-3)
    for _ in range(epochs):
        views = []
        for _ in range(2):
            kept = edge_index[:, torch.rand(len(pairs), generator=generator)[pair] >= EDGE_DROP]
            mask = (torch.rand(x.shape[1], 1, generator=generator) >= FEATURE_MASK).float()
            views.append(standardise(encode(encoder, x, normalised(kept, nodes), mask)))
        optimizer.zero_grad()
        loss_of(views, prototypes).backward()
        optimizer.step()
    hidden = encode(encoder, x, adjacency).detach()
    embedding, labels = F.normalize(standardise(hidden), dim=1), F.normalize(prototypes.detach(), dim=1)
    for _ in range(10):  # Lemma 3: a pseudo-label is the mean of the nodes assigned to it
        weights = sinkhorn(embedding @ labels.t())
        labels = F.normalize(weights.t() @ embedding, dim=1)
    weights = weights / weights.sum(0)
    features = ((adjacency @ (adjacency @ weights)).t() @ x).requires_grad_()  # means of Â²X: on the data's manifold
    optimizer = torch.optim.Adam([features], lr=1e-2 * float(features.detach().square().mean().sqrt()))
    mean, scale = hidden.mean(0), hidden.std(0) + 1e-6
    for _ in range(20):
        optimizer.zero_grad()
        (F.normalize((encode(encoder, features, None) - mean) / scale, dim=1) - labels).square().sum(
            1
        ).mean().backward()
        optimizer.step()
    return features.detach(), labels


def reconstruct(features: Tensor, labels: Tensor, seed: int) -> list[Tensor]:
    """A backbone θ rebuilt from (X' → Ỹ) alone."""
    backbone = gcn([features.shape[1], 2 * WIDTH, labels.shape[1]], torch.Generator().manual_seed(seed))
    optimizer = torch.optim.Adam(backbone, lr=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        (F.normalize(encode(backbone, features, None), dim=1) - labels).square().sum(1).mean().backward()
        optimizer.step()
    return backbone


def plain_head(embedding: Tensor, y: Tensor, train: Tensor) -> Tensor:
    """Classes predicted by a logistic regression on centred unit vectors."""
    rows = F.normalize(embedding - embedding.mean(0), dim=1)
    weight = torch.zeros(rows.shape[1], int(y.max()) + 1, requires_grad=True)
    optimizer = torch.optim.Adam([weight], lr=0.1, weight_decay=1e-3)
    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(rows[train] @ weight, y[train]).backward()
        optimizer.step()
    return (rows @ weight).argmax(1)


def embedding_from(graph: Data, count: int, seed: int) -> Tensor:
    """Condense a graph to ``count`` nodes, rebuild a backbone from them, and embed the graph's nodes with it."""
    x = F.normalize(graph.x.to_dense(), p=1, dim=1)
    backbone = reconstruct(*condense(x, graph.edge_index, count, seed), seed)
    return encode(backbone, x, normalised(graph.edge_index, len(x))).detach()


def three_shot_accuracy(embedding: Tensor, graph: Data, seed: int) -> float:
    """Accuracy on the test nodes, in per cent, of a plain head that has seen three labels per class."""
    order = torch.randperm(len(graph.y), generator=torch.Generator().manual_seed(seed))
    order = order[graph.train_mask[order]]
    train = torch.cat([order[graph.y[order] == label][:3] for label in range(int(graph.y.max()) + 1)])
    return 100 * float((plain_head(embedding, graph.y, train) == graph.y)[graph.test_mask].float().mean())


if __name__ == "__main__":
    graph = plgc.load_graph("demo")
    scores = [three_shot_accuracy(embedding_from(graph, 71, seed), graph, seed) for seed in range(3)]
    print(f"71 of {graph.num_nodes} nodes, 3 labels per class: {sum(scores) / 3:.1f} % of the test nodes right")
