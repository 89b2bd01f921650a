"""Rebuild a backbone GNN_θ from condensed graphs (section 3.2 a): fit (X' → Ỹ) and freeze.

A rebuilt backbone embeds any graph with the same features. Its embedding has two parts, each to be centred and scaled
by the task's head: what the GNN learned from the condensed nodes, and (``skip``) the propagated input Â²X that it
started from. The second part costs no training and keeps what a handful of synthetic nodes cannot carry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.artifact import CondensedGraph
from plgc.encoder import GNN, KINDS
from plgc.errors import ArtifactError, GraphError, SettingError
from plgc.inputs import Inputs, prepare
from plgc.propagate import SparseFeatures, propagate
from plgc.pseudo_labels import unit_blocks


@dataclass(frozen=True)
class BackboneSettings:
    """How a backbone is rebuilt; about 100 gentle steps are enough, and more do not help."""

    kind: str = "gcn"
    hidden: int = 512
    layers: int = 2
    steps: int = 100
    learning_rate: float = 1e-3
    skip: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise SettingError(f"unknown backbone {self.kind!r}: choose one of {', '.join(KINDS)}")
        for name in ("hidden", "layers", "steps", "learning_rate"):
            if getattr(self, name) <= 0:
                raise SettingError(f"{name} is {getattr(self, name)}: it must be above 0")


class Backbone(nn.Module):
    """A frozen GNN whose output is one unit vector per block, with the propagated input beside it.

    Attributes:
        blocks: widths of the independent outputs: one per encoder of every condensed graph it was rebuilt from.
        scaling: row scaling it applies to a graph's features before anything else.
        losses: the reconstruction loss after every step.
    """

    def __init__(
        self, settings: BackboneSettings, num_features: int, blocks: tuple[int, ...], scaling: str, seed: int
    ) -> None:
        super().__init__()
        self.settings, self.num_features, self.blocks = settings, num_features, blocks
        self.scaling, self.seed = scaling, seed
        self.losses: list[float] = []
        self.gnn = GNN(
            settings.kind,
            num_features,
            settings.hidden,
            sum(blocks),
            layers=settings.layers,
            generator=torch.Generator().manual_seed(seed),
        )

    @property
    def parts(self) -> tuple[int, ...]:
        """Widths of the embedding's parts: what was learned and, with ``skip``, the propagated input."""
        return (sum(self.blocks), self.num_features) if self.settings.skip else (sum(self.blocks),)

    def prepare(self, graph: Data) -> Inputs:
        """Scale a graph's features as the condensed graph's were, and build Â; refuses another feature width."""
        device = next(self.parameters()).device
        width = 0 if graph.x is None else graph.x.shape[1]
        if width != self.num_features:
            raise GraphError(
                f"this backbone was rebuilt from {self.num_features} features per node, the graph has {width}: "
                "use the graph that was condensed, or one with the same features"
            )
        return prepare(graph, self.scaling, device)

    @torch.no_grad()
    def embed(self, graph: Data | Inputs) -> Tensor:
        """The embedding of every node, [N, Σ parts]."""
        inputs = graph if isinstance(graph, Inputs) else self.prepare(graph)
        learned = unit_blocks(self.gnn(inputs.x, inputs.adjacency), self.blocks)
        return torch.cat([learned, propagated_features(inputs)], dim=1) if self.settings.skip else learned

    @torch.no_grad()
    def embed_condensed(self, condensed: CondensedGraph) -> Tensor:
        """The embedding of synthetic nodes (A' = I; X' is propagated already), [K, Σ parts]."""
        features = condensed.features.to(next(self.parameters()).device)
        learned = unit_blocks(self.gnn(features, None), self.blocks)
        return torch.cat([learned, features], dim=1) if self.settings.skip else learned


def propagated_features(inputs: Inputs, steps: int = 2) -> Tensor:
    """Â²X as a dense matrix: the input of the skip path, and by itself the control every table carries."""
    x = inputs.x.to_dense() if isinstance(inputs.x, SparseFeatures) else inputs.x
    return propagate(inputs.adjacency, x, steps)


def reconstruct(
    condensed: CondensedGraph | Sequence[CondensedGraph],
    *,
    kind: str = "gcn",
    seed: int = 0,
    device: str = "cpu",
    settings: BackboneSettings | None = None,
) -> Backbone:
    """Rebuild a frozen backbone from one condensed graph, or from several (one per source).

    Several sources share the trunk and have one output head each: independently trained encoders live in unrelated
    spaces, so that one common output would have to satisfy contradictory targets.

    Args:
        condensed: what :func:`plgc.condense` returned or :meth:`CondensedGraph.load` opened.
        kind: the backbone's kind: gcn, sage, gat, gin, sgc or mlp; it need not be the encoder's.
        seed: of the initial weights.
        device: where to compute.
        settings: everything else; overrides ``kind``.
    """
    sources = [condensed] if isinstance(condensed, CondensedGraph) else list(condensed)
    settings = settings or BackboneSettings(kind=kind, skip=all(s.settings.get("preset") != "paper" for s in sources))
    _check_compatible(sources)
    pairs = [(source.features.to(device), _targets(source).to(device), source.blocks) for source in sources]
    blocks = tuple(width for source in sources for width in source.blocks)
    backbone = Backbone(settings, sources[0].num_features, blocks, sources[0].scaling, seed).to(device)
    _fit(backbone, pairs)
    return backbone.requires_grad_(False).eval()


def _targets(source: CondensedGraph) -> Tensor:
    if source.pseudo_labels is None:
        raise ArtifactError(
            f"this condensed graph was made by {source.method} and has class labels, not pseudo-labels: a backbone "
            "cannot be rebuilt from it. 'plgc evaluate' trains a classifier on it instead"
        )
    if source.edge_index is not None:
        raise ArtifactError(
            f"this condensed graph was made by {source.method} and has edges, which a backbone would leave out: give "
            "it alone to 'plgc evaluate', which rebuilds a model its own way"
        )
    return source.pseudo_labels


def _fit(backbone: Backbone, sources: list[tuple[Tensor, Tensor, tuple[int, ...]]]) -> None:
    """min_θ Σ_sources mean_k ‖ỹ_k − z_k‖²: each source's nodes against its own columns of the output."""
    settings = backbone.settings
    optimizer = torch.optim.Adam(backbone.gnn.parameters(), lr=settings.learning_rate, fused=True)
    features = torch.cat([x for x, _, _ in sources])
    sizes, widths = [len(x) for x, _, _ in sources], [y.shape[1] for _, y, _ in sources]
    for _ in range(settings.steps):
        output = backbone.gnn(features, None)
        loss = torch.zeros((), device=output.device)
        for index, rows in enumerate(output.split(sizes)):
            _, target, blocks = sources[index]
            own = rows.split(widths, dim=1)[index]
            loss = loss + (unit_blocks(own, blocks) - target).pow(2).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        backbone.losses.append(float(loss.detach()))


def _check_compatible(sources: list[CondensedGraph]) -> None:
    if not sources:
        raise SettingError("no condensed graph given: a backbone is rebuilt from at least one")
    first = sources[0]
    for other in sources[1:]:
        if other.num_features != first.num_features:
            raise GraphError(
                f"the condensed graphs have {first.num_features} and {other.num_features} features per node: "
                "only graphs with the same features can be combined"
            )
        if other.scaling != first.scaling:
            raise GraphError(
                f"the condensed graphs were made with feature scaling {first.scaling!r} and {other.scaling!r}: "
                "condense both with the same scaling"
            )


def unit_parts(embedding: Tensor, mean: Tensor, parts: tuple[int, ...]) -> Tensor:
    """Centre an embedding and scale every part of it, then the whole, to unit length: what heads are trained on."""
    pieces = (embedding - mean).split(list(parts), dim=1)
    return torch.cat([F.normalize(piece, dim=1) for piece in pieces], dim=1) / len(parts) ** 0.5
