"""Rebuild a backbone GNN_θ from condensed graphs (section 3.2 a): fit (X' → Ỹ) and freeze.

A rebuilt backbone embeds any graph with the same features. Its embedding has named parts: what a network learned from
the condensed nodes, one network for each channel of the files (with edges, without edges), and (``skip``) the input
itself, plain and propagated: X, ÂX and Â²X need no training and keep what a few synthetic nodes cannot hold. Each head
centres and scales the parts, and settles what they count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from plgc.artifact.condensed import CHANNELS, CondensedGraph
from plgc.downstream.combine import (
    Target,
    check_sources,
    combine_sources,
    reference_source,
    resolve_combination,
    rotate_target,
)
from plgc.downstream.embedder import Embedder
from plgc.downstream.stored_embedding import STEPS as BESIDE
from plgc.downstream.stored_embedding import StoredEmbedding, stored_embedding
from plgc.graphs.preprocessing import Preprocessing
from plgc.method.encoder import EDGE_FREE, GNN, KINDS
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.runtime.options import check_device, check_ranges
from plgc.runtime.text import counted, html_line
from plgc.sparse.adjacency import Adjacency, propagate
from plgc.sparse.features import Features
from plgc.sparse.inputs import Inputs
from plgc.sparse.stored_inputs import StoredInputs

LEARNED = {"edges": "learned", "plain": "learned_plain"}  # the part of each channel


@dataclass(frozen=True)
class BackboneSettings:
    """How a backbone is rebuilt; about 100 gentle steps are enough, and more do not help.

    ``kind`` is that of the network with edges. ``skip`` puts X, ÂX and Â²X beside what is learned.
    """

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


@dataclass(frozen=True)
class Outputs:
    """What the networks of a backbone give: for every channel, the widths of its independent outputs (blocks)."""

    edges: tuple[int, ...] = ()
    plain: tuple[int, ...] = ()

    def of(self, channel: str) -> tuple[int, ...]:
        """The blocks of one channel."""
        return getattr(self, channel)


class Backbone(nn.Module, Embedder):
    """Frozen networks, one for each channel, whose output is one unit vector per block, with the input beside it.

    Attributes:
        outputs: widths of the independent outputs of each channel: one per encoder of every condensed graph that it was
            rebuilt from.
        networks: by channel. That of ``plain`` sees every node by itself.
        scaling: row scaling it applies to a graph's features before anything else.
        losses: the reconstruction loss after every step, summed over the channels.
        preprocessing: how the table that was condensed became features; None for a matrix.
    """

    def __init__(
        self,
        settings: BackboneSettings,
        num_features: int,
        outputs: Outputs,
        scaling: str,
        seed: int,
        beside: Sequence[str] = tuple(BESIDE),
    ) -> None:
        super().__init__()
        self.settings, self.num_features, self.outputs = settings, num_features, outputs
        self.scaling, self.seed, self.losses = scaling, seed, list[float]()
        self.preprocessing: Preprocessing | None = None
        self.networks = nn.ModuleDict()
        for channel in CHANNELS:
            if blocks := outputs.of(channel):
                kind, generator = network_kind(settings, channel), torch.Generator().manual_seed(seed)
                self.networks[channel] = GNN(
                    kind, num_features, settings.hidden, sum(blocks), layers=settings.layers, generator=generator
                )
        self.parts = {LEARNED[channel]: sum(outputs.of(channel)) for channel in self.networks}
        self.parts |= dict.fromkeys(beside if settings.skip else (), num_features)

    def __repr__(self) -> str:
        width, parts = counted(self.num_features, "feature"), " + ".join(self.parts)
        return f"Backbone({self.settings.kind}, {width}, embeds as {parts}, {self.device})"

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return next(self.parameters()).device

    @property
    def blocks(self) -> tuple[int, ...]:
        """Widths of all outputs, those of the channel with edges first."""
        return (*self.outputs.edges, *self.outputs.plain)

    def learned(self, x: Features, adjacency: Adjacency | None) -> Tensor:
        """What the networks give, as Ỹ is: one unit vector per block, and the whole of unit length, [N, Σ blocks].

        Raises:
            ArtifactError: it is not finite, because values of the condensed graph were beyond what can be learned from.
        """
        output = torch.cat([network(x, adjacency) for network in self.networks.values()], 1)
        if not bool(torch.isfinite(output).all()):
            raise ArtifactError(
                "what was rebuilt from the condensed graph gives NaN or infinite values: its features are out of "
                "range. Condense the graph again, or ask its owner for another file"
            )
        return unit_blocks(output, self.blocks)

    @torch.no_grad()
    def embed(self, graph: Data | Inputs) -> Tensor:
        """The embedding of every node, [N, Σ parts]."""
        inputs = graph if isinstance(graph, Inputs) else self.prepare(graph)
        learned = self.learned(inputs.x, inputs.adjacency)
        beside = [name for name in self.parts if name in BESIDE]
        return beside_input(inputs, learned, beside) if beside else learned

    def embed_stored(self, graph: StoredInputs) -> StoredEmbedding:
        """The embedding of every node of a graph on disk, layer by layer (:mod:`plgc.method.disk.layers`).

        It is made once, and kept for as long as the prepared graph is.
        """
        if graph.kept.get(id(self), (None,))[0] is not self:
            made = self._embed_stored(graph)
            graph.kept[id(self)] = self, made.parts, made.means
        _, parts, means = graph.kept[id(self)]
        return StoredEmbedding(graph, parts, means)

    def _embed_stored(self, graph: StoredInputs) -> StoredEmbedding:
        networks = {LEARNED[channel]: network for channel, network in self.networks.items()}
        blocks = {LEARNED[channel]: self.outputs.of(channel) for channel in self.networks}
        return stored_embedding(graph, self.parts, networks, blocks)  # pyright: ignore[reportArgumentType]

    @torch.no_grad()
    def embed_condensed(self, condensed: CondensedGraph) -> Tensor:
        """The embedding of synthetic nodes (A' = I: propagated or not, X' is the same), [K, Σ parts]."""
        features = condensed.features.to(self.device)
        beside = [features for name in BESIDE if name in self.parts]
        return torch.cat([self.learned(features, None), *beside], dim=1)


def beside_input(inputs: Inputs, learned: Tensor | None = None, parts: Sequence[str] = tuple(BESIDE)) -> Tensor:
    """An embedding with the input beside it: X, ÂX and Â²X, or some of them, [N, d + f · parts].

    The matrix is filled part by part: of wide features a second copy of it would be gigabytes.
    """
    first = 0 if learned is None else learned.shape[1]
    width, wanted = inputs.num_features, sorted(parts, key=lambda name: BESIDE[name])
    embedding = torch.empty(inputs.num_nodes, first + width * len(wanted), device=inputs.device)
    if learned is not None:
        embedding[:, :first] = learned
    x, done = propagated_features(inputs, 0), 0
    for place, name in zip(embedding[:, first:].split(width, dim=1), wanted, strict=True):
        x, done = propagate(inputs.adjacency, x, BESIDE[name] - done), BESIDE[name]
        place.copy_(x)
    return embedding


def network_kind(settings: BackboneSettings, channel: str) -> str:
    """The kind of a channel's network: what was asked for, but without edges in the channel ``plain``."""
    return EDGE_FREE if channel == "plain" else settings.kind


def propagated_features(inputs: Inputs, steps: int = 2) -> Tensor:
    """Â²X as a dense matrix, or X propagated another number of steps."""
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
        kind: of the network with edges: gcn, sage, gat, gin, sgc or mlp; it need not be the encoder's.
        seed: of the initial weights.
        device: where to compute.
        settings: everything else; overrides ``kind``.
        combine: how several sources share the output: ``heads``, ``merged``, ``procrustes``, ``shared-seed`` or ``sum``
            (:mod:`plgc.downstream.combine`). By default heads; the sum where every source has the ``paper`` preset. For
            the parts of one graph ``merged`` is best, and with many of them the only one that fits into memory.
        weights: one positive number per source, its weight in the loss; only ratios matter. By default equal.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> backbone = plgc.reconstruct(plgc.condense(graph, nodes=40))
        >>> list(backbone.parts), len(backbone.embed(graph))
        (['learned', 'learned_plain', 'x', 'propagated_1', 'propagated_2'], 3000)
    """
    check_device(device)
    sources = [condensed] if isinstance(condensed, CondensedGraph) else list(condensed)
    combine = resolve_combination(sources, combine)
    check_sources(sources, combine, weights)
    if combine == "merged" and len(sources) > 1:
        from plgc.downstream.merge import merge  # it rebuilds a backbone from each source

        sources, weights = [merge(sources, seed=seed, device=device, progress=False)], None
    settings = settings or BackboneSettings(kind=kind, skip=all(s.settings.get("preset") != "paper" for s in sources))
    first, found = sources[0], dict[str, tuple[list[Target], tuple[int, ...]]]()

    def rebuild(found: Mapping[str, tuple[list[Target], tuple[int, ...]]]) -> Backbone:
        outputs = Outputs(**{channel: blocks for channel, (_, blocks) in found.items()})
        backbone = Backbone(settings, first.num_features, outputs, first.scaling, seed).to(device)
        backbone.preprocessing = first.seen.preprocessing
        _fit(backbone, {channel: targets for channel, (targets, _) in found.items()})
        return backbone.requires_grad_(False).eval()

    for channel in CHANNELS:
        own = [source for source in sources if channel in source.channels]
        if not own:
            continue
        targets, blocks = combine_sources(sources, combine, weights, device, channel)
        if combine == "procrustes" and len(own) > 1:
            chosen = targets[reference_source(own)]
            blocks = chosen.blocks
            reference = rebuild({channel: ([chosen], blocks)})
            targets = [
                one if one is chosen else rotate_target(one, reference.learned(one.features, None), blocks)
                for one in targets
            ]
        found[channel] = targets, blocks
    return rebuild(found)


def _fit(backbone: Backbone, targets: Mapping[str, list[Target]]) -> None:
    """min_θ Σ_sources weight · mean_k ‖ỹ_k − z_k‖², channel by channel: each source's nodes against its columns."""
    settings = backbone.settings
    curves = []
    for channel, own in targets.items():
        network = backbone.networks[channel]
        optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, fused=True)
        features = torch.cat([target.features for target in own])
        sizes, curve = [len(target.features) for target in own], []
        for _ in range(settings.steps):
            output = network(features, None)
            loss = torch.zeros((), device=output.device)
            for target, rows in zip(own, output.split(sizes), strict=True):
                loss = loss + target.loss(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            curve.append(float(loss.detach()))
        curves.append(curve)
    backbone.losses = [math.fsum(values) for values in zip(*curves, strict=True)]
