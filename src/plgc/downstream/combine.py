"""How one backbone is fitted to several condensed graphs: the output columns and the weight of each.

The paper sums the distance ‖ỹ_k − z_k‖² over all sources in one output space. Encoders that were trained independently
give unrelated spaces, whose pseudo-labels contradict each other in such a sum. There are five combinations:

- ``merged``: the files become one, with one output for all rows (:mod:`plgc.downstream.merge`), for any number of them;
- ``heads``: a shared trunk and one output head (a range of columns) per source; only the trunk is shared;
- ``procrustes``: one source is the reference, and the others' pseudo-labels are rotated into its space first;
- ``shared-seed``: the sum, for sources whose encoders started from the same weights;
- ``sum``: the sum of the paper, for any sources.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.preprocessing import common_preprocessing
from plgc.graphs.width import SAME_FEATURES, check_width
from plgc.method.stage_one import unit_blocks
from plgc.runtime.errors import ArtifactError, GraphError, SettingError

COMBINATIONS = ("heads", "merged", "procrustes", "shared-seed", "sum")
INITIAL_WEIGHTS = ("kind", "hidden", "width", "layers")  # what decides a branch's weights, apart from the seed


@dataclass(frozen=True)
class Target:
    """One source in the reconstruction loss.

    Attributes:
        features: X', [K, f].
        vectors: the targets for them, [K, d]: Ỹ, or Ỹ rotated.
        start: the first of the d output columns that are compared with ``vectors``.
        blocks: widths of the unit vectors in these d columns.
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


def of_one_graph(sources: Sequence[CondensedGraph]) -> str:
    """The combination of the parts of one graph by default: one output, however many they are."""
    combine = resolve_combination(sources, None)
    return "merged" if combine == "heads" and len(sources) > 1 else combine


def check_sources(sources: Sequence[CondensedGraph], combine: str, weights: Sequence[float] | None) -> None:
    """Raise unless one backbone can be fitted to these sources.

    Raises:
        GraphError: features differ in width or scaling.
        ArtifactError: a source has no pseudo-labels, or edges.
        SettingError: there is no source, the weights do not fit, or ``shared-seed`` sources did not start alike.
    """
    check_compatible(sources)
    if combine == "shared-seed":
        check_shared_seed(sources)
    if combine == "merged" and weights is not None and len(sources) > 1:
        raise SettingError("weights are for other combinations: merged rows count as many nodes as they stand for")
    for source in sources:
        check_rebuildable(source)
    resolve_weights(weights, len(sources))


def combine_sources(
    sources: Sequence[CondensedGraph],
    combine: str,
    weights: Sequence[float] | None,
    device: torch.device | str,
    channel: str = "edges",
) -> tuple[list[Target], tuple[int, ...]]:
    """What the network of one channel is fitted to, and the blocks of its output; with ``procrustes``, before rotation.

    With heads, every source has columns of its own. Otherwise there is one output, as wide as the widest source, with
    that source's blocks; a narrower source is fitted on its first columns. Sources without this channel are left out.
    """
    targets, start, found = [], 0, list[tuple[int, ...]]()
    for source, weight in zip(sources, resolve_weights(weights, len(sources)), strict=True):
        vectors, blocks = source.targets_of(channel), source.blocks_of(channel)
        if vectors is not None:
            targets.append(Target(source.features.to(device), vectors.to(device), start, blocks, weight))
            start += vectors.shape[1] if combine == "heads" else 0
            found.append(blocks)
    return targets, tuple(itertools.chain(*found)) if combine == "heads" else max(found, key=sum)


def reference_source(sources: Sequence[CondensedGraph]) -> int:
    """The source that the others are rotated to: the one with most synthetic nodes, the first of several."""
    return max(range(len(sources)), key=lambda index: sources[index].num_nodes)


def rotate_target(target: Target, outputs: Tensor, blocks: tuple[int, ...]) -> Target:
    """Rotate a source's pseudo-labels into the space of the reference, with one unit vector per block again.

    ``outputs`` [K, D] are those of the reference's network for the source's X', and ``blocks`` its blocks.
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


def check_rebuildable(source: CondensedGraph) -> None:
    """Raise unless a backbone can be rebuilt from a source: it needs pseudo-labels, and A' = I."""
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


def put_together(sources: Sequence[CondensedGraph]) -> CondensedGraph:
    """One condensed graph with labels from several: their nodes side by side, no edges between sources."""
    if len(sources) == 1:
        return sources[0]
    check_compatible(sources)
    groups = [", ".join(dict.fromkeys(s.method for s in sources if (s.labels is None) == none)) for none in (0, 1)]
    if groups[1]:
        raise ArtifactError(
            f"condensed graphs with labels ({groups[0]}) and without ({groups[1]}) cannot be combined: give those of "
            "one kind"
        )
    classes = max(source.num_classes or 0 for source in sources)
    labels = [source.labels for source in sources if source.labels is not None]
    if any(own.ndim == 2 for own in labels):
        labels = [_soft_labels(own, classes) for own in labels]
    starts = itertools.accumulate((source.num_nodes for source in sources), initial=0)
    edges = [s.edge_index + start for s, start in zip(sources, starts, strict=False) if s.edge_index is not None]
    return replace(
        sources[0],
        features=torch.cat([source.features for source in sources]),
        labels=torch.cat(labels),
        counts=torch.cat([source.counts for source in sources]),
        num_classes=classes,
        nodes_requested=sum(source.nodes_requested for source in sources),
        edge_index=torch.cat(edges, dim=1) if edges else None,
        edge_weight=torch.cat([_edge_weight(s) for s in sources if s.edge_index is not None]) if edges else None,
        fingerprint=None,
    )


def _soft_labels(labels: Tensor, classes: int) -> Tensor:
    """Labels as shares of the classes, [K, C]; zeros for a node without a label."""
    if labels.ndim == 2:
        return F.pad(labels, (0, classes - labels.shape[1]))
    return F.one_hot(labels.clamp(min=0), classes).float() * (labels >= 0).float()[:, None]


def _edge_weight(source: CondensedGraph) -> Tensor:
    assert source.edge_index is not None
    return torch.ones(source.edge_index.shape[1]) if source.edge_weight is None else source.edge_weight


def check_compatible(sources: Sequence[CondensedGraph]) -> None:
    """Raise unless there are sources with the same features. K, seeds, encoders and versions may differ."""
    if not sources:
        raise SettingError("no condensed graph given: a backbone is rebuilt from at least one")
    first = sources[0]
    for other in sources[1:]:
        check_width("a condensed graph", first.num_features, "another", other.num_features, SAME_FEATURES)
        if other.scaling != first.scaling:
            raise GraphError(
                f"the condensed graphs were made with feature scaling {first.scaling!r} and {other.scaling!r}: "
                "condense both with the same scaling"
            )
    common_preprocessing([(f"condensed graph {at}", part.seen.preprocessing) for at, part in enumerate(sources, 1)])


def check_shared_seed(sources: Sequence[CondensedGraph]) -> None:
    """Raise unless all encoders started from the same weights: one seed, the same branches."""
    first = sources[0]
    for other in sources[1:]:
        own, others = _branches(first), _branches(other)
        same = {"seed": (first.seed, other.seed), "blocks": (first.blocks, other.blocks), "encoders": (own, others)}
        for name, (one, another) in same.items():
            if one != another and (name != "encoders" or (own and others)):
                raise SettingError(
                    f"shared-seed needs the same {name}, these have {one} and {another}: condense all sources with one "
                    "seed and one rung of encoders, or combine them by heads"
                )


def _branches(source: CondensedGraph) -> list[dict[str, object]]:
    """What decides the initial weights of a source's encoders; empty where the file does not say."""
    return [{name: branch.get(name) for name in INITIAL_WEIGHTS} for branch in source.chosen.get("branches", [])]
