"""What CTGC (:mod:`plgc.rivals.ctgc.condense`) minimises.

The semantic relay model is pretrained by node discrimination. Then each relay model learns centroids by contrast with
its nodes (ℓ_contrast) and with each other (ℓ_repulsion). Whatever is inverted or rebuilt is matched to the centroids.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.method.encoder import GNN, GCNLayer
from plgc.rivals.ctgc.settings import CTGCSettings
from plgc.sparse.adjacency import propagate
from plgc.sparse.features import times
from plgc.sparse.inputs import Inputs


def column_mask(columns: int, rate: float, generator: torch.Generator) -> Tensor:
    """1 for kept feature columns, 0 for exactly ⌊rate · columns⌋ of them."""
    mask = torch.ones(columns)
    mask[torch.randperm(columns, generator=generator)[: int(rate * columns)]] = 0
    return mask


def discrimination_loss(encoder: GNN, head: nn.Linear, inputs: Inputs, mask: Tensor, order: Tensor) -> Tensor:
    """Node discrimination: tell the graph's nodes from those of the same graph with the rows of X shuffled.

    A node's score is the sum of the head's outputs, Σ_j (h W + b)_j, so that the GCN's last layer and the head act as
    one vector, and the second propagation has one column.

    Args:
        encoder: a two-layer GCN.
        head: on top of its embedding.
        inputs: the graph.
        mask: of feature columns, 1 or 0, for both kinds of node.
        order: which row of X every shuffled node gets.
    """
    first, last = encoder.layers
    assert isinstance(first, GCNLayer)
    assert isinstance(last, GCNLayer)
    message = times(inputs.x, first.weight * mask[:, None])
    direction = head.weight.sum(0)
    scores = []
    for rows in (message, message[order]):
        hidden = torch.relu(propagate(inputs.adjacency, rows) + first.bias)
        hidden = F.dropout(hidden, encoder.dropout, encoder.training)
        scores.append(propagate(inputs.adjacency, (hidden @ (last.weight @ direction))[:, None])[:, 0])
    score = torch.cat(scores) + last.bias @ direction + head.bias.sum()
    real = torch.arange(len(score), device=score.device) < inputs.num_nodes
    return F.binary_cross_entropy_with_logits(score, real.to(score))


def relay_loss(
    embedding: Tensor, centroids: Tensor, cluster: Tensor, settings: CTGCSettings, generator: torch.Generator
) -> Tensor:
    """ℓ_contrast + α ℓ_repulsion, with negative pairs drawn anew."""
    rows, centres = F.normalize(embedding, dim=1), F.normalize(centroids, dim=1)
    pairs = torch.randint(len(rows) * len(centres), (settings.negatives * len(rows),), generator=generator)
    contrast = contrast_loss(rows, centres, cluster, pairs.to(rows.device), settings.temperature)
    return contrast + settings.repulsion * repulsion_loss(centres, settings.temperature)


def contrast_loss(rows: Tensor, centres: Tensor, cluster: Tensor, pairs: Tensor, temperature: float) -> Tensor:
    """InfoNCE of nodes and centroids, summed over nodes: Σ_i −log(exp(s_i) / (Σ_j exp(s_j) + Σ_pairs exp(s))).

    All nodes share one denominator: every node's similarity to its own centroid, and those of the negative pairs.

    Args:
        rows: unit embeddings [N, d].
        centres: unit centroids [K, d].
        cluster: the centroid of every node.
        pairs: negatives, node · K + centroid; those of a node and its own centroid are left out.
        temperature: τ.
    """
    similarity = rows @ centres.T / temperature
    positive = similarity.gather(1, cluster[:, None])[:, 0]
    node, centroid = pairs // len(centres), pairs % len(centres)
    negative = similarity.flatten()[pairs].masked_fill(cluster[node] == centroid, -torch.inf)
    return len(rows) * torch.logsumexp(torch.cat([positive, negative]), 0) - positive.sum()


def repulsion_loss(centres: Tensor, temperature: float) -> Tensor:
    """Cross-entropy of telling every centroid from the others by similarity: the less alike, the smaller."""
    return F.cross_entropy(centres @ centres.T / temperature, torch.arange(len(centres), device=centres.device))


def match_loss(found: Tensor, centroids: Tensor, rule: str) -> Tensor:
    """How far embeddings are from their centroids, row by row: ``mse``, or ``contrast``.

    ``contrast`` lets every embedding find its centroid among all, and every centroid its embedding, by cross-entropy
    over their cosines. It is also what downstream models are trained with.
    """
    if rule == "mse":
        return F.mse_loss(found, centroids)
    cosine = F.normalize(found, dim=1) @ F.normalize(centroids, dim=1).T
    own = torch.arange(len(found), device=found.device)
    return 0.5 * (F.cross_entropy(cosine, own) + F.cross_entropy(cosine.T, own))
