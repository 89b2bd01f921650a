"""The structural side of CTGC: the graph's spectrum, the model that reads it, and the inversion back to (A', X').

CTGC (Gao et al., "Contrastive graph condensation", KDD 2025) describes structure by eigenpairs (Λ, U) of the Laplacian
L = I − Â: K of them, most from the low end, some from the high end. Once a relay model has learned centroids from them,
U' [K, K] is fitted so that its image under the frozen model is the centroids, and A' = I − U'ΛU'ᵀ; so is X' afterwards.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
import torch
import torch.nn.functional as F
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from plgc.graphs.bare import BareGraph
from plgc.rivals.ctgc.losses import match_loss
from plgc.sparse.inputs import scale_rows

CANDIDATES = 1000  # nodes of the largest component that a smaller one may be joined to
DENSE_BELOW = 600  # nodes: smaller graphs are decomposed whole
FREQUENCY = 100.0  # factor on the eigenvalues before they become phases


# The spectrum


def spectrum(bare: BareGraph, count: int, low_share: float, seed: int) -> tuple[Tensor, Tensor]:
    """K eigenpairs of L = I − Â of the joined graph: λ [K] float64, ascending, and U [N, K] float32.

    Args:
        bare: features and edges.
        count: K; ⌈low_share · K⌉ pairs are the smallest, the others the largest.
        low_share: share of the low end.
        seed: of the start vector, and of the nodes that components are joined to.
    """
    rng = np.random.default_rng(seed)
    matrix = _normalised(_joined(bare, rng), bare.num_nodes)
    nodes, low = bare.num_nodes, math.ceil(low_share * count)
    if nodes < DENSE_BELOW or 4 * count > nodes:
        values, vectors = np.linalg.eigh(matrix.toarray())
        chosen = np.r_[0 : count - low, nodes - low : nodes]  # the low end of L is the high end of Â
        values, vectors = values[chosen], vectors[:, chosen]
    else:
        start = rng.standard_normal(nodes)
        ends = [("LA", low), ("SA", count - low)]
        found = [eigsh(matrix, k=pairs, which=end, v0=start) for end, pairs in ends if pairs > 0]
        values, vectors = np.concatenate([v for v, _ in found]), np.concatenate([u for _, u in found], axis=1)
    order = np.argsort(-values, kind="stable")
    values, vectors = 1.0 - values[order], vectors[:, order]
    # An eigenvector's sign is free, but the model depends on it: the largest entry is made positive.
    vectors = vectors * np.sign(vectors[np.abs(vectors).argmax(0), np.arange(count)])
    return torch.from_numpy(values.copy()), torch.from_numpy(vectors.astype(np.float32))


def _joined(bare: BareGraph, rng: np.random.Generator) -> sp.csr_matrix:
    """A, with one edge from every smaller component to the node of the largest that its first node is most like."""
    nodes, (row, col) = bare.num_nodes, bare.edge_index.numpy()
    weight = np.ones(len(row)) if bare.edge_weight is None else bare.edge_weight.double().numpy()
    adjacency = sp.csr_matrix((weight, (row, col)), shape=(nodes, nodes))
    components, member = connected_components(adjacency, directed=False)
    if components == 1:
        return adjacency
    largest = np.bincount(member).argmax()
    first = np.unique(member, return_index=True)[1]
    source = np.delete(first, largest)
    inside = np.flatnonzero(member == largest)
    target = rng.choice(inside, min(CANDIDATES, len(inside)), replace=False)
    x = scale_rows(bare.x.float(), "l2")
    if x.layout == torch.sparse_csr:
        parts = x.values().numpy(), x.col_indices().numpy(), x.crow_indices().numpy()
        rows = sp.csr_matrix(parts, shape=tuple(x.shape))
        similarity = (rows[source] @ rows[target].T).toarray()
    else:
        similarity = (x[source] @ x[target].T).numpy()
    target = target[similarity.argmax(1)]
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    return adjacency + sp.csr_matrix((np.ones(len(ends[0])), ends), shape=(nodes, nodes))


def _normalised(adjacency: sp.csr_matrix, nodes: int) -> sp.csr_matrix:
    """Â = D^-1/2 (A + I) D^-1/2."""
    closed = adjacency + sp.eye_array(nodes, format="csr")
    scale = sp.diags_array(1.0 / np.sqrt(np.asarray(closed.sum(axis=1)).ravel()))
    return sp.csr_matrix(scale @ closed @ scale)


# The structural relay model


def waves(values: Tensor, periods: int) -> Tensor:
    """[sin, cos](2^p · 100 λ) for p < periods, float32 [K, 2·periods]; phases reach 10⁷, hence in double."""
    phase = FREQUENCY * values.double()[:, None] * 2.0 ** torch.arange(periods, dtype=torch.float64)
    return torch.cat([phase.sin(), phase.cos()], dim=1).float()


class SpectralMLP(nn.Module):
    """The structural relay model: two layers on U · waves(Λ); a row of U is a node's position in the spectrum."""

    def __init__(self, periods: int, width: int, generator: torch.Generator):
        super().__init__()
        self.first = uniform_linear(2 * periods, width, generator)
        self.second = uniform_linear(width, width, generator)

    def forward(self, vectors: Tensor, basis: Tensor) -> Tensor:
        """Embed every row of U."""
        return self.second(torch.relu(self.first(vectors @ basis)))


def uniform_linear(width_in: int, width_out: int, generator: torch.Generator) -> nn.Linear:
    """A linear layer, weights and biases uniform in ±1/√width_in (torch's own rule), from an explicit generator."""
    layer = nn.Linear(width_in, width_out, device="meta").to_empty(device="cpu")  # draws nothing by itself
    bound = 1 / math.sqrt(width_in)
    with torch.no_grad():
        for parameter in (layer.weight, layer.bias):
            parameter.uniform_(-bound, bound, generator=generator)
    return layer


# The inversion


def start_normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """Glorot-normal entries, where U' and X' start."""
    return torch.randn(rows, columns, generator=generator) * math.sqrt(2 / (rows + columns))


def structure_loss(relay: SpectralMLP, basis: Tensor, vectors: Tensor, centroids: Tensor, rule: str) -> Tensor:
    """Of U': its distance to the centroids under the relay model, and that of U'ᵀU' to I (mean squares)."""
    gram, identity = vectors.T @ vectors, torch.eye(vectors.shape[1], device=vectors.device)
    return match_loss(relay(vectors, basis), centroids, rule) + F.mse_loss(gram, identity)


@torch.no_grad()
def synthetic_edges(values: Tensor, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """A' = I − U'ΛU'ᵀ without its negative entries: edges [2, E] both ways and weights [E], without self-loops.

    The public code keeps the diagonal of A' as weights of self-loops; ours are 1 wherever a graph is used. So A' is
    scaled to a unit diagonal, A'_ij / √(A'_ii A'_jj): the normalised matrix is then the same where the diagonal is
    constant, and nearly so where it is not. A diagonal entry that is not positive counts as 1.
    """
    values, vectors = values.cpu().double(), vectors.cpu().double()
    dense = torch.eye(len(vectors), dtype=torch.float64) - (vectors * values) @ vectors.T
    dense = ((dense + dense.T) / 2).clamp(min=0)
    own = dense.diagonal()
    scale = torch.where(own > 0, own, 1.0).rsqrt()
    dense = dense * scale[:, None] * scale
    dense.fill_diagonal_(0)
    edge_index = dense.nonzero().T.contiguous()
    return edge_index, dense[edge_index[0], edge_index[1]].float()
