"""Pseudo-Labeled Graph Condensation on two screens, to read or to fork: torch, and our ``load_graph`` for the graph.

Stage I learns an encoder and K pseudo-labels without labels, stage II makes K synthetic nodes whose embeddings are the
pseudo-labels. From those K rows a backbone is rebuilt, frozen, and given a plain head on three labels per class.
``src/plgc/method`` has several encoders, a channel without edges, large graphs and more, and by default no ℓ_swap.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

import plgc

WIDTH, EPOCHS, EDGE_DROP, FEATURE_MASK = 256, 60, 0.4, 0.1
TEMPERATURE, EPSILON, DECORRELATION = 0.1, 0.05, 1e-3


def minimise(loss: Callable[[], Tensor], parameters: list[Tensor], rate: float, steps: int, decay: float = 0.0) -> None:
    """Steps of Adam."""
    optimizer = torch.optim.Adam(parameters, lr=rate, weight_decay=decay)
    for _ in range(steps):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()


def normalised(edges: Tensor, nodes: int) -> Tensor:
    """Â = D^-1/2 (A + I) D^-1/2."""
    edges = torch.cat([edges, torch.arange(nodes).repeat(2, 1)], dim=1)
    scale = torch.bincount(edges[0], minlength=nodes).float().rsqrt()
    value = scale[edges[0]] * scale[edges[1]]
    return torch.sparse_coo_tensor(edges, value, (nodes, nodes), check_invariants=False).coalesce()


def gcn(features: int, hidden: int, width: int, draws: torch.Generator) -> list[Tensor]:
    """Weights and biases of two GCN layers, Glorot-uniform."""
    first, second = (torch.empty(features, hidden), torch.empty(hidden, width))
    for weight in (first, second):
        torch.nn.init.xavier_uniform_(weight, generator=draws)
    return [part.requires_grad_() for part in (first, torch.zeros(hidden), second, torch.zeros(width))]


def encode(gnn: list[Tensor], x: Tensor, adjacency: Tensor | None, mask: Tensor | float = 1.0) -> Tensor:
    """Two GCN layers on features of which some columns are masked; without an adjacency, A' = I."""
    first, bias, second, last = gnn
    hidden = x @ (first * mask)
    hidden = torch.relu((hidden if adjacency is None else adjacency @ hidden) + bias) @ second
    return (hidden if adjacency is None else adjacency @ hidden) + last


def standardise(hidden: Tensor) -> Tensor:
    """Columns of mean 0 and variance 1."""
    return (hidden - hidden.mean(0)) / hidden.std(0, correction=0).clamp(min=1e-6)


@torch.no_grad()
def sinkhorn(scores: Tensor) -> Tensor:
    """The balanced assignment Q of eq. 5: rows sum to one, every column gets about N / K."""
    log_plan = scores / EPSILON
    for _ in range(20):
        log_plan = log_plan - log_plan.logsumexp(0)
        log_plan = log_plan - log_plan.logsumexp(1, keepdim=True)
    return log_plan.exp()


def pseudo_label_loss(views: list[Tensor], prototypes: Tensor) -> Tensor:
    """ℒ_pseudo: each view predicts the other's assignment (ℓ_swap, eqs. 3 and 4), and columns are decorrelated."""
    nodes, identity = len(views[0]), torch.eye(views[0].shape[1])
    scores = [F.normalize(view, dim=1) @ F.normalize(prototypes, dim=1).t() for view in views]
    loss = -(views[0] * views[1]).sum() / nodes
    for view, own, other in zip(views, scores, reversed(scores), strict=True):
        loss = loss + DECORRELATION * (identity - view.t() @ view / nodes).square().sum()
        loss = loss - (sinkhorn(own.detach()) * F.log_softmax(other / TEMPERATURE, dim=1)).sum() / nodes
    return loss


def condense(x: Tensor, edge_index: Tensor, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Stage I and stage II: X' [K, f] and Ỹ [K, d]."""
    draws = torch.Generator().manual_seed(seed)
    nodes, adjacency = len(x), normalised(edge_index, len(x))
    low, high = edge_index.sort(dim=0).values
    pairs, pair = (low * nodes + high).unique(return_inverse=True)  # both directions of an edge are dropped together
    encoder = gcn(x.shape[1], WIDTH, WIDTH, draws)
    start = standardise(encode(encoder, x, adjacency).detach())
    prototypes = start[torch.randperm(nodes, generator=draws)[:count]].clone().requires_grad_()

    def view() -> Tensor:
        kept = edge_index[:, torch.rand(len(pairs), generator=draws)[pair] >= EDGE_DROP]
        mask = (torch.rand(x.shape[1], 1, generator=draws) >= FEATURE_MASK).float()
        return standardise(encode(encoder, x, normalised(kept, nodes), mask))

    minimise(lambda: pseudo_label_loss([view(), view()], prototypes), [*encoder, prototypes], 1e-3, EPOCHS)
    hidden = encode(encoder, x, adjacency).detach()
    embedding, labels = F.normalize(standardise(hidden), dim=1), F.normalize(prototypes.detach(), dim=1)
    weights = sinkhorn(embedding @ labels.t())
    for _ in range(10):  # Lemma 3: a pseudo-label is the mean of the nodes assigned to it
        labels = F.normalize(weights.t() @ embedding, dim=1)
        weights = sinkhorn(embedding @ labels.t())
    features = (adjacency @ (adjacency @ (weights / weights.sum(0)))).t() @ x  # means of Â²X: on the data's manifold
    features.requires_grad_()
    mean, scale = hidden.mean(0), hidden.std(0) + 1e-6

    def distance() -> Tensor:
        return (F.normalize((encode(encoder, features, None) - mean) / scale, dim=1) - labels).square().sum(1).mean()

    minimise(distance, [features], 1e-2 * float(features.detach().square().mean().sqrt()), 20)
    return features.detach(), labels


def reconstruct(features: Tensor, labels: Tensor, seed: int) -> list[Tensor]:
    """A backbone θ rebuilt from (X' → Ỹ) alone."""
    gnn = gcn(features.shape[1], 2 * WIDTH, labels.shape[1], torch.Generator().manual_seed(seed))
    minimise(lambda: (F.normalize(encode(gnn, features, None), dim=1) - labels).square().sum(1).mean(), gnn, 1e-3, 100)
    return gnn


def embed(graph: Data, count: int, seed: int) -> Tensor:
    """Condense a graph to ``count`` nodes, rebuild a backbone from them, and embed the graph's nodes with it."""
    x = F.normalize(graph.x.to_dense(), p=1, dim=1)
    backbone = reconstruct(*condense(x, graph.edge_index, count, seed), seed)
    return encode(backbone, x, normalised(graph.edge_index, len(x))).detach()


def three_shot_accuracy(embedding: Tensor, graph: Data, seed: int) -> float:
    """Accuracy on the test nodes, in per cent, of a logistic regression that has seen three labels per class."""
    order = torch.randperm(len(graph.y), generator=torch.Generator().manual_seed(seed))
    order = order[graph.train_mask[order]]
    train = torch.cat([order[graph.y[order] == label][:3] for label in range(int(graph.y.max()) + 1)])
    rows = F.normalize(embedding - embedding.mean(0), dim=1)
    weight = torch.zeros(rows.shape[1], int(graph.y.max()) + 1, requires_grad=True)
    minimise(lambda: F.cross_entropy(rows[train] @ weight, graph.y[train]), [weight], 0.1, 200, decay=1e-3)
    right = (rows @ weight).argmax(1) == graph.y
    return 100 * float(right[graph.test_mask].float().mean())


if __name__ == "__main__":
    graph = plgc.load_graph("demo")
    scores = [three_shot_accuracy(embed(graph, 71, seed), graph, seed) for seed in range(3)]
    print(f"71 of {graph.num_nodes} nodes, 3 labels per class: {sum(scores) / 3:.1f} % of the test nodes right")
