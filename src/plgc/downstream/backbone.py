"""Rebuild a backbone GNN_θ from condensed graphs (section 3.2 a): fit (X' → Ỹ) and freeze.

A rebuilt backbone embeds any graph with the same features. Its embedding has two parts: what the GNN learned from the
condensed nodes, and (``skip``) the propagated input Â²X, which needs no training and keeps what a few synthetic nodes
cannot hold. Each head centres and scales the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.combine import Target, combine_sources, reference_source, resolve_combination, rotate_target
from plgc.downstream.embedder import Embedder
from plgc.method.encoder import GNN, KINDS
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import SettingError
from plgc.runtime.options import check_ranges
from plgc.sparse.adjacency import propagate
from plgc.sparse.inputs import Inputs


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
        check_ranges(self, {"hidden layers steps learning_rate": "(0, inf)"})


class Backbone(nn.Module, Embedder):
    """A frozen GNN whose output is one unit vector per block, with the propagated input beside it.

    Its ``parts`` are what was learned and, with ``skip``, the propagated input.

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
        self.parts = {"learned": sum(blocks), **({"propagated_2": num_features} if settings.skip else {})}
        self.losses: list[float] = []
        generator = torch.Generator().manual_seed(seed)
        self.gnn = GNN(
            settings.kind, num_features, settings.hidden, sum(blocks), layers=settings.layers, generator=generator
        )

    @torch.no_grad()
    def embed(self, graph: Data | Inputs) -> Tensor:
        """The embedding of every node, [N, Σ parts]."""
        inputs = graph if isinstance(graph, Inputs) else self.prepare(graph)
        learned = unit_blocks(self.gnn(inputs.x, inputs.adjacency), self.blocks)
        return torch.cat([learned, propagated_features(inputs)], dim=1) if self.settings.skip else learned

    @torch.no_grad()
    def embed_condensed(self, condensed: CondensedGraph) -> Tensor:
        """The embedding of synthetic nodes (A' = I; X' is propagated already), [K, Σ parts]."""
        features = condensed.features.to(self.device)
        learned = unit_blocks(self.gnn(features, None), self.blocks)
        return torch.cat([learned, features], dim=1) if self.settings.skip else learned


def propagated_features(inputs: Inputs, steps: int = 2) -> Tensor:
    """Â²X as a dense matrix: the input of the skip path, and the control ``propagated_features``."""
    x = inputs.x if isinstance(inputs.x, Tensor) else inputs.x.to_dense()
    return propagate(inputs.adjacency, x, steps)


def reconstruct(
    condensed: CondensedGraph | Sequence[CondensedGraph],
    *,
    kind: str = "gcn",
    seed: int = 0,
    device: str = "cpu",
    settings: BackboneSettings | None = None,
    combine: str | None = None,
    weights: Sequence[float] | None = None,
) -> Backbone:
    """Rebuild a frozen backbone from one condensed graph, or from several (one per source).

    Args:
        condensed: what :func:`plgc.condense` returned or :meth:`CondensedGraph.load` opened. Several may differ in
            size, seed, encoders and package version, but not in their features.
        kind: the backbone's kind: gcn, sage, gat, gin, sgc or mlp; it need not be the encoder's.
        seed: of the initial weights.
        device: where to compute.
        settings: everything else; overrides ``kind``.
        combine: how several sources share the output: ``heads``, ``procrustes``, ``shared-seed`` or ``sum``
            (:mod:`plgc.downstream.combine`). By default heads; the sum where every source has the ``paper`` preset.
        weights: one positive number per source, its weight in the loss; only ratios matter. By default equal.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> backbone = plgc.reconstruct(plgc.condense(graph, nodes=40))
        >>> backbone.parts["propagated_2"], len(backbone.embed(graph))  # the skip path is as wide as the features
        (1000, 3000)
    """
    sources = [condensed] if isinstance(condensed, CondensedGraph) else list(condensed)
    combine = resolve_combination(sources, combine)
    targets, blocks = combine_sources(sources, combine, weights, device)
    settings = settings or BackboneSettings(kind=kind, skip=all(s.settings.get("preset") != "paper" for s in sources))

    def rebuild(targets: list[Target], blocks: tuple[int, ...]) -> Backbone:
        backbone = Backbone(settings, sources[0].num_features, blocks, sources[0].scaling, seed).to(device)
        _fit(backbone, targets)
        return backbone.requires_grad_(False).eval()

    if combine == "procrustes" and len(sources) > 1:
        chosen = reference_source(sources)
        blocks = sources[chosen].blocks
        reference = rebuild([targets[chosen]], blocks)
        outputs = [reference.embed_condensed(source)[:, : sum(blocks)] for source in sources]
        targets = [
            target if index == chosen else rotate_target(target, outputs[index], blocks)
            for index, target in enumerate(targets)
        ]
    return rebuild(targets, blocks)


def _fit(backbone: Backbone, targets: list[Target]) -> None:
    """min_θ Σ_sources weight · mean_k ‖ỹ_k − z_k‖²: each source's nodes against its columns of the output."""
    settings = backbone.settings
    optimizer = torch.optim.Adam(backbone.gnn.parameters(), lr=settings.learning_rate, fused=True)
    features = torch.cat([target.features for target in targets])
    sizes = [len(target.features) for target in targets]
    for _ in range(settings.steps):
        output = backbone.gnn(features, None)
        loss = torch.zeros((), device=output.device)
        for target, rows in zip(targets, output.split(sizes), strict=True):
            loss = loss + target.loss(rows)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        backbone.losses.append(float(loss.detach()))
