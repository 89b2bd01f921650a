"""The candidates: the nodes of which some are members, as an attacker sees them beside a file.

The attacker knows how the file was made: candidate rows are scaled as the file says, and brought into the space of its
features where that is another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.bare import BareGraph, bare_graph
from plgc.runtime.errors import ArtifactError
from plgc.sparse.adjacency import propagate
from plgc.sparse.features import Features, SparseFeatures, mean_rows, sparse_features, times
from plgc.sparse.inputs import Inputs, prepare

View = Callable[[Tensor], Tensor]  # rows of X, [N, f], as the release publishes rows, [N, f']
BLOCK = 1024  # features that are mapped at a time


@dataclass(frozen=True)
class Candidates:
    """Features and Â of the candidates.

    Attributes:
        own: scaled features, as the graph has them.
        published: the same in the space of the file.
        view: what maps rows of one to the other; None where the two are the same.
    """

    own: Inputs
    published: Inputs
    view: View | None = None

    def words(self, rows: Tensor) -> Tensor:
        """How much rows in the space of the file, [K, f'], point to each feature of the graph, [K, f]."""
        if self.view is None:
            return rows
        identity = torch.eye(self.own.num_features, device=rows.device)
        return torch.cat([rows @ self.view(part).t() for part in identity.split(BLOCK)], dim=1)

    def with_rows(self, x: Tensor) -> Inputs:
        """The same candidates with other features [N, f], in the space of the file."""
        rows = x if self.view is None else self.view(x)
        sparse = self.view is None and isinstance(self.own.x, SparseFeatures)
        return replace(self.published, x=sparse_features(rows.to_sparse_csr()) if sparse else rows)


@dataclass(frozen=True)
class Combinations:
    """Sums of candidate rows with weights, WᵀC, for C = [X; Â²X] or one of the two, which is never made dense.

    Attributes:
        inputs: X in the space of the file, and Â.
        steps: how often X is propagated in each part of C.
    """

    inputs: Inputs
    steps: tuple[int, ...] = (0,)

    @property
    def num_rows(self) -> int:
        """Rows of C."""
        return self.inputs.num_nodes * len(self.steps)

    def combine(self, weights: Tensor) -> Tensor:
        """WᵀC for W of shape [rows, K]: [K, f]."""
        parts = weights.split(self.inputs.num_nodes)
        spread = [propagate(self.inputs.adjacency, part, n) for part, n in zip(parts, self.steps, strict=True)]
        return mean_rows(self.inputs.x, torch.stack(spread).sum(0))

    def correlate(self, rows: Tensor) -> Tensor:
        """C Rᵀ for R of shape [K, f]: [rows, K]."""
        product = times(self.inputs.x, rows.t().contiguous())
        return torch.cat([propagate(self.inputs.adjacency, product, n) for n in self.steps])

    def by_node(self, scores: Tensor) -> Tensor:
        """The largest score of every node over the parts: [rows] to [N]."""
        return scores.view(len(self.steps), -1).amax(0)


def candidates_of(
    condensed: CondensedGraph, graph: Data | BareGraph, *, device: str = "cpu", view: View | None = None
) -> Candidates:
    """The candidates as the attacker of one file uses them.

    Args:
        condensed: the file.
        graph: the candidates' graph.
        device: where to compute.
        view: how the release changes rows; None for what the file says.
    """
    own = prepare(bare_graph(graph), condensed.scaling, device)
    view = view or in_file_space(condensed)
    published = own if view is None else replace(own, x=view(dense_rows(own.x)))
    if published.num_features != condensed.num_features:
        raise ArtifactError(
            f"the file's nodes have {condensed.num_features} features, the candidates {published.num_features}: an "
            "attack needs both in one space"
        )
    return Candidates(own, published, view)


def in_file_space(condensed: CondensedGraph) -> View | None:
    """How rows of X are mapped into the space of a file; None where they are left as they are."""
    return None


def dense_rows(x: Features) -> Tensor:
    """X as a dense matrix."""
    return x if isinstance(x, Tensor) else x.to_dense()
