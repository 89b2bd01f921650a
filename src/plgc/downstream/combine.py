"""How several condensed graphs teach one backbone: which columns of its output each is fitted to, and with what weight.

The paper sums the distance ‖ỹ_k − z_k‖² over all sources into one output space. Encoders trained independently of each
other live in unrelated spaces, so that the sum asks for contradictions. Three ways around that stand beside it:

- ``heads``: a shared trunk and one output head (a range of columns) per source; nothing has to agree but the trunk;
- ``procrustes``: one source is the reference, and the others' pseudo-labels are rotated into its space first;
- ``shared-seed``: the sum, for sources whose encoders started from the same public weights and stayed close to them;
- ``sum``: the paper by the letter, whatever the sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.method.prototypes import unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError

COMBINATIONS = ("heads", "procrustes", "shared-seed", "sum")
INITIAL_WEIGHTS = ("kind", "hidden", "width", "layers")  # what decides a branch's weights, apart from the seed


@dataclass(frozen=True)
class Target:
    """One source as the reconstruction loss sees it.

    Attributes:
        features: X', [K, f].
        vectors: what is to come out for them: Ỹ, or Ỹ rotated, [K, d].
        start: the first of the d columns of the backbone's output that are compared with ``vectors``.
        blocks: widths of the unit vectors these d columns are made of.
        weight: of this source in the loss.
    """

    features: Tensor
    vectors: Tensor
    start: int
    blocks: tuple[int, ...]
    weight: float

    def loss(self, output: Tensor) -> Tensor:
        """weight · mean_k ‖ỹ_k − z_k‖², for the backbone's raw output of this source's nodes."""
        own = output[:, self.start : self.start + sum(self.blocks)]
        return self.weight * (unit_blocks(own, self.blocks) - self.vectors).pow(2).sum(1).mean()


def resolve_combination(sources: Sequence[CondensedGraph], combine: str | None) -> str:
    """The combination's name, checked; by default the paper's sum for files of the ``paper`` preset, else heads."""
    if combine is None:
        return "sum" if all(source.settings.get("preset") == "paper" for source in sources) else "heads"
    if combine not in COMBINATIONS:
        raise SettingError(f"unknown combination {combine!r}: choose one of {', '.join(COMBINATIONS)}")
    return combine


def combine_sources(
    sources: Sequence[CondensedGraph], combine: str, weights: Sequence[float] | None, device: torch.device | str
) -> tuple[list[Target], tuple[int, ...]]:
    """What a backbone is fitted to, and the blocks of its output; with ``procrustes``, still to be rotated.

    With heads, every source has columns of its own. Otherwise there is one output, as wide as the widest source, with
    that source's blocks; a narrower source is fitted on its first columns.

    Raises:
        GraphError: features differ in width or scaling.
        ArtifactError: a source has no pseudo-labels, or edges.
        SettingError: there is no source, the weights do not fit, or ``shared-seed`` sources did not start alike.
    """
    check_compatible(sources)
    if combine == "shared-seed":
        check_shared_seed(sources)
    shares = resolve_weights(weights, len(sources))
    targets, start = [], 0
    for source, share in zip(sources, shares, strict=True):
        vectors = pseudo_labels_of(source).to(device)
        targets.append(Target(source.features.to(device), vectors, start, source.blocks, share))
        start += vectors.shape[1] if combine == "heads" else 0
    if combine == "heads":
        return targets, tuple(width for source in sources for width in source.blocks)
    return targets, max((source.blocks for source in sources), key=sum)


def reference_source(sources: Sequence[CondensedGraph]) -> int:
    """Which source the others are rotated to: the one with most synthetic nodes, the first of several."""
    return max(range(len(sources)), key=lambda index: sources[index].num_nodes)


def rotate_target(target: Target, outputs: Tensor, blocks: tuple[int, ...]) -> Target:
    """Bring a source's pseudo-labels into the space of the reference, where a backbone gives ``outputs`` for its X'.

    Args:
        target: the source.
        outputs: what the reference's backbone makes of the source's X', [K, D].
        blocks: of the reference; the rotated pseudo-labels are scaled to one unit vector per block again.
    """
    rotated = unit_blocks(target.vectors @ procrustes(target.vectors, outputs), blocks)
    return replace(target, vectors=rotated, blocks=blocks)


def procrustes(vectors: Tensor, outputs: Tensor) -> Tensor:
    """R = argmin ‖Ỹ R − Z‖ over matrices with orthonormal rows, or columns where Z is narrower than Ỹ: [d, D].

    With Ỹᵀ Z = U S Vᵀ it is R = U Vᵀ. A wider Z keeps all angles between pseudo-labels; a narrower one cannot.
    """
    left, _, right = torch.linalg.svd(vectors.t().double() @ outputs.double(), full_matrices=False)
    return (left @ right).to(vectors.dtype)


def resolve_weights(weights: Sequence[float] | None, count: int) -> list[float]:
    """Weights in the loss, scaled to a mean of one, so that only their ratios matter."""
    if weights is None:
        return [1.0] * count
    if len(weights) != count:
        raise SettingError(f"{len(weights)} weights for {count} condensed graph(s): give one for each")
    for weight in weights:
        if not 0 < weight < math.inf:
            raise SettingError(f"a weight is {weight}: every weight must be a number above 0")
    return [weight * count / math.fsum(weights) for weight in weights]


def pseudo_labels_of(source: CondensedGraph) -> Tensor:
    """Ỹ of a source that a backbone can be rebuilt from."""
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


def put_together(sources: Sequence[CondensedGraph]) -> CondensedGraph:
    """One condensed graph with labels from several: their nodes side by side, no edges between sources."""
    if len(sources) == 1:
        return sources[0]
    check_compatible(sources)
    first, without = sources[0], [source.method for source in sources if source.labels is None]
    if without:
        having = [source.method for source in sources if source.labels is not None]
        raise ArtifactError(
            f"condensed graphs with labels ({', '.join(dict.fromkeys(having))}) and without "
            f"({', '.join(dict.fromkeys(without))}) cannot be combined: give those of one kind"
        )
    classes = max(source.num_classes or 0 for source in sources)
    soft = any(source.labels is not None and source.labels.ndim == 2 for source in sources)
    labels, edges, weights, before = [], [], [], 0
    for source in sources:
        labels.append(_shares(source, classes) if soft else source.labels)
        if source.edge_index is not None:
            edges.append(source.edge_index + before)
            own = source.edge_weight
            weights.append(torch.ones(source.edge_index.shape[1]) if own is None else own)
        before += source.num_nodes
    return replace(
        first,
        features=torch.cat([source.features for source in sources]),
        labels=torch.cat([part for part in labels if part is not None]),
        counts=torch.cat([source.counts for source in sources]),
        num_classes=classes,
        nodes_requested=sum(source.nodes_requested for source in sources),
        edge_index=torch.cat(edges, dim=1) if edges else None,
        edge_weight=torch.cat(weights) if edges else None,
        fingerprint=None,
    )


def _shares(source: CondensedGraph, classes: int) -> Tensor:
    """Labels as shares of the classes, [K, C]; a node without a label has none of any."""
    assert source.labels is not None
    if source.labels.ndim == 2:
        return torch.nn.functional.pad(source.labels, (0, classes - source.labels.shape[1]))
    known = (source.labels >= 0).float()[:, None]
    return torch.nn.functional.one_hot(source.labels.clamp(min=0), classes).float() * known


def check_compatible(sources: Sequence[CondensedGraph]) -> None:
    """Raise unless there are sources and their features mean the same. K, seeds, encoders and versions may differ."""
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


def check_shared_seed(sources: Sequence[CondensedGraph]) -> None:
    """Raise unless all encoders started from the same weights: one seed, the same branches."""
    first = sources[0]
    advice = "condense all sources with one seed and one rung of encoders, or combine them by heads"
    for other in sources[1:]:
        if other.seed != first.seed:
            raise SettingError(f"shared-seed needs one seed, these have {first.seed} and {other.seed}: {advice}")
        if other.blocks != first.blocks:
            raise SettingError(
                f"shared-seed needs the same encoders, these give blocks {first.blocks} and {other.blocks}: {advice}"
            )
        ours, theirs = _branches(first), _branches(other)
        if ours and theirs and ours != theirs:
            raise SettingError(f"shared-seed needs the same encoders, these are {ours} and {theirs}: {advice}")


def _branches(source: CondensedGraph) -> list[dict[str, object]]:
    """What decides the initial weights of a source's encoders; empty where the file does not say."""
    return [{name: branch.get(name) for name in INITIAL_WEIGHTS} for branch in source.chosen.get("branches", [])]
