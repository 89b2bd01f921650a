"""What leaves the owner of a graph: no cluster below a minimum size and, on request, no value that one node dominates,
or everything clipped and noisy. :mod:`plgc.artifact.members` says what is known of the result: a default file tells who
was in the graph, and a minimum size of clusters does not change that.

None of it is differential privacy, and no ε is ever stated. The encoders, the assignment and the number of clusters
that are left were all computed from the graph without noise, a node reaches its neighbours' rows over the edges, and no
degree is bounded: noise on the result does not cover those steps. It is called noise, and what an attacker still finds
is measured (:mod:`plgc.evaluation.membership`, ``plgc audit``).
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plgc.artifact.condensed import CondensedGraph
from plgc.artifact.rounding import DTYPES
from plgc.graphs.preprocessing import Preprocessing
from plgc.method.stage_one import PseudoLabels, unit_blocks
from plgc.method.stage_two import reach
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.runtime.options import check_ranges
from plgc.sparse.features import Features, StoredFeatures
from plgc.sparse.inputs import Inputs


@dataclass(frozen=True)
class Release:
    """What may leave the owner of a graph.

    Attributes:
        min_cluster: fewest original nodes a synthetic node may represent; None for what the settings say, 1. Smaller
            clusters are merged, so that the file may hold fewer nodes than requested, and never an empty one. It does
            not hide who was in the graph.
        max_share: largest share of a published feature value that may come from one original node; None for what the
            settings say, 1: no limit. Values above it are published as 0 (:func:`shared_values`).
        private: publish only what differs by more than chance (:mod:`plgc.method.private`); None for what the settings
            say, no. Such files carry no fingerprint, loss curves or number of edges, and rounded counts.
        clip: shorten published rows to this norm; None leaves them as they are.
        noise: standard deviation of Gaussian noise on everything published, in units of ``clip`` (:func:`privatise`).
        fingerprint: whether the file carries a checksum of the graph's features and edges. Private and noisy files
            carry none.
        dtype: digits of X' and Ỹ: ``float8``, ``float16`` or ``float32`` (:func:`plgc.artifact.rounding.rounded`). None
            for float8, or for what the file has that is updated.
        density: share of X' that is kept, in (0, 1]; None keeps what makes up 99.99 % of it, or with float32 all.
    """

    min_cluster: int | None = None
    max_share: float | None = None
    private: bool | None = None
    clip: float | None = None
    noise: float = 0.0
    fingerprint: bool = True
    dtype: str | None = None
    density: float | None = None

    def __post_init__(self) -> None:
        check_noise(self.clip, self.noise)
        check_ranges(self, {"dtype": DTYPES, "density": "(0, 1]"})

    def after(self, settings: Mapping[str, Any]) -> Release:
        """The same for a file that comes from one with these settings: digits and density are its own, unless given."""
        dtype, density = (getattr(self, name) or settings.get(name) for name in ("dtype", "density"))
        return replace(self, dtype=dtype, density=density)

    @property
    def stored(self) -> dict[str, Any]:
        """How values are stored, as a file's settings record it."""
        return {"dtype": self.dtype or DTYPES[0], **({} if self.density is None else {"density": float(self.density)})}


def check_noise(clip: float | None, noise: float) -> None:
    """Raise unless :func:`privatise` would take these, or neither is given."""
    if noise and clip is None:
        raise SettingError(f"noise is {noise}, but clip is not given: it is measured by the norm that rows are cut to")
    if clip is not None and not 0 < clip < math.inf:
        raise SettingError(f"clip is {clip}: it must be a number above 0")
    if not 0 <= noise < math.inf:
        raise SettingError(f"noise is {noise}: it must be a number, at least 0")


def check_words(table: Preprocessing | None, minimum: int) -> None:
    """Raise where the description of a table lists words of fewer than ``minimum`` nodes: a file would publish them."""
    if table is not None and table.rare < minimum and any(rule.kind == "words" for rule in table.columns):
        raise SettingError(
            f"min_cluster is {minimum}, but the table's description lists words of {table.rare} node(s) or more, "
            f"and the file would publish them: load the table with TableColumns(rare={minimum}), or make the "
            f"description with 'plgc data describe --min-cluster {minimum}'"
        )


def check_min_cluster(count: int, num_nodes: int, minimum: int) -> None:
    """Raise unless K = ``count`` clusters of at least ``minimum`` nodes fit into the graph: K ≤ N / minimum."""
    if count * minimum > num_nodes:
        raise SettingError(
            f"{count} synthetic nodes of at least {minimum} nodes each need {count * minimum} nodes, the graph has "
            f"{num_nodes}: ask for at most {num_nodes // minimum}, or lower min_cluster"
        )


@torch.no_grad()
def merge_small_clusters(
    labels: PseudoLabels, embedding: Tensor, blocks: tuple[int, ...], minimum: int
) -> tuple[PseudoLabels, Tensor]:
    """Merge clusters with fewer than ``minimum`` nodes into their nearest neighbours, the smallest first.

    The nearest is the one whose pseudo-label has the largest cosine. Both clusters' assignments are added, and the
    merged pseudo-label is the assignment-weighted mean Σ_n q_nk z_n, scaled to unit blocks, as those of stage I are.
    Repeated until no cluster is too small, or one is left.

    Args:
        labels: pseudo-labels as stage I leaves them.
        embedding: Z, [N, d].
        blocks: widths of the unit vectors that the pseudo-labels are made of.
        minimum: the least count; 1 merges the empty clusters.

    Returns:
        The pseudo-labels that are left, and which of the K they are, in order.
    """
    if int(labels.counts.min()) >= minimum:
        return labels, torch.arange(len(labels.counts))
    sums = labels.weights.t() @ embedding * labels.mass[:, None]  # Σ_n q_nk z_n
    found = merge_clusters(labels.vectors, labels.counts, labels.mass, sums, blocks, minimum)
    # Column k of ``share`` says how a merged cluster's weights are put together: in proportion to the masses.
    share = torch.zeros(len(labels.counts), len(labels.counts), device=found.mass.device, dtype=found.mass.dtype)
    share[torch.arange(len(found.owner)), found.owner] = labels.mass
    share = share[:, found.kept] / found.mass
    merged = PseudoLabels(found.vectors, labels.weights @ share, found.counts, labels.explained, found.mass)
    return merged, found.kept


@dataclass(frozen=True)
class Merged:
    """Clusters that have been merged: those that are left, and into which of the K every one went.

    Attributes:
        vectors: pseudo-labels that are left, [K', d].
        counts: their nodes, and
        mass: their nodes before rounding.
        owner: which cluster each has become part of, itself included, [K].
        kept: which are left, ascending, [K'].
    """

    vectors: Tensor
    counts: Tensor
    mass: Tensor
    owner: Tensor
    kept: Tensor


def merge_clusters(
    vectors: Tensor, counts: Tensor, mass: Tensor, sums: Tensor, blocks: tuple[int, ...], minimum: int
) -> Merged:
    """What :func:`merge_small_clusters` does, with Σ_n q_nk z_n in ``sums``, [K, d]."""
    sizes, mass, vectors, sums = counts.cpu().tolist(), mass.clone(), vectors.clone(), sums.clone()
    owner, alive = list(range(len(sizes))), set(range(len(sizes)))
    while len(alive) > 1:
        smallest = min(alive, key=lambda index: (sizes[index], index))
        if sizes[smallest] >= minimum:
            break
        alive.remove(smallest)
        others = sorted(alive)
        nearest = others[int((vectors[others] @ vectors[smallest]).argmax())]
        sizes[nearest] += sizes[smallest]
        mass[nearest] += mass[smallest]
        sums[nearest] += sums[smallest]
        vectors[nearest] = unit_blocks(sums[nearest][None], blocks)[0]
        owner = [nearest if own == smallest else own for own in owner]
    kept = torch.tensor(sorted(alive))
    left = torch.tensor([sizes[index] for index in kept.tolist()], device=counts.device)
    return Merged(vectors[kept], left, mass[kept], torch.tensor(owner), kept)


@torch.no_grad()
def shared_values(
    inputs: Inputs, labels: PseudoLabels, channels: tuple[str, ...], max_share: float, masses: Tensor | None = None
) -> Tensor:
    """Which values of X' may be published: those that no node contributes more than ``max_share`` of, bool [K, f].

    This is the dominance rule of statistical offices, on x'_kj = Σ_n v_nk x_nj, v from :func:`reach`: a word that only
    one member uses is that member's own, however many nodes its cluster has. Such rare words give members away.
    Rows that stand for several nodes (``masses`` [N] above 1) obeyed the rule when they were made, and so does their
    part of the sum.
    """
    cells, contributed = [], reach(inputs, labels, channels).abs()
    for column in contributed.t():  # one synthetic node at a time: all at once would be K times the features' memory
        largest, total = _contributions(inputs.x, column)
        if masses is not None:
            largest, _ = _contributions(inputs.x, column * (masses <= 1))
        cells.append((total > 0) & (largest <= max_share * total))
    return torch.stack(cells)


def _contributions(x: Features, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Largest and total of |weight_n x_nj| over the nodes n, for every feature j: [f] and [f]."""
    if isinstance(x, StoredFeatures):
        largest, total = weight.new_zeros(x.shape[1]), weight.new_zeros(x.shape[1])
        for start, rows in x.blocks():
            parts = rows.abs() * weight[start : start + len(rows), None]
            largest, total = torch.maximum(largest, parts.amax(0)), total + parts.sum(0)
        return largest, total
    if isinstance(x, Tensor):
        parts = x.abs() * weight[:, None]
        return parts.amax(0), parts.sum(0)
    matrix, empty = x.transpose, weight.new_zeros(x.shape[1])
    crow = matrix.crow_indices().long()
    parts = matrix.values().abs() * weight[matrix.col_indices().long()]
    feature = torch.repeat_interleave(torch.arange(len(empty), device=parts.device), crow[1:] - crow[:-1])
    return empty.scatter_reduce(0, feature, parts, "amax"), empty.index_add(0, feature, parts)


def privatise(
    condensed: CondensedGraph, *, clip: float | None = None, noise: float = 0.0, seed: int | None = None
) -> CondensedGraph:
    """Clip what a condensed graph publishes and add Gaussian noise to all of it. No ε comes with it, see above.

    Rows of X' are clipped to the ℓ2 norm C = ``clip``, then get noise N(0, (σC)²) with σ = ``noise``; unit vectors of Ỹ
    get N(0, σ²) and are scaled to unit length again; counts get N(0, σ²), are rounded, and are at least the file's
    ``min_cluster``. Loss curves, the edge count and the fingerprint are left out; the node count
    becomes the sum of the noisy counts.

    Args:
        condensed: a condensed graph with pseudo-labels.
        clip: C, above 0. It should not be read off the rows themselves: with features scaled to ℓ1 or ℓ2, no row of
            X' is much longer than 1, and most are far shorter.
        noise: σ; 0 clips only.
        seed: for tests. By default the noise comes from the operating system's entropy, so that it cannot be
            subtracted by someone who knows the file's seed; noisy files can therefore not be made again byte for byte.
    """
    check_noise(clip, noise)
    if clip is None:
        raise SettingError("clip is not given: noise is measured by the norm that rows are clipped to, so give clip")
    if condensed.pseudo_labels is None:
        raise ArtifactError(
            f"this condensed graph was made by {condensed.method} and has class labels: noise is for pseudo-labels"
        )
    # 128 bits: torch's generator on the CPU takes no more than 32 of its seed, few enough to try them all.
    generator = np.random.default_rng(secrets.randbits(128) if seed is None else seed)

    def gaussian(like: Tensor) -> Tensor:
        return torch.from_numpy(generator.standard_normal(tuple(like.shape)))

    features, vectors = condensed.features.double(), condensed.pseudo_labels.double()
    features = clip_rows(features, clip) + noise * clip * gaussian(features)
    vectors = vectors * math.sqrt(len(condensed.blocks)) + noise * gaussian(vectors)
    least = int(condensed.settings.get("min_cluster", 1))
    counts = (condensed.counts + noise * gaussian(condensed.counts)).round().long().clamp(min=least)
    noisy = replace(
        condensed,
        features=features.float(),
        pseudo_labels=unit_blocks(vectors, condensed.blocks).float(),
        counts=counts,
        settings={**condensed.settings, "clip": clip, "noise": noise},
    )
    return without_details(noisy)


def without_details(condensed: CondensedGraph) -> CondensedGraph:
    """Leave out exact facts of the original: loss curves, edges, fingerprint; nodes become the sum of the counts."""
    return replace(
        condensed,
        chosen={name: value for name, value in condensed.chosen.items() if name == "branches"},
        curves={},
        source={"nodes": int(condensed.counts.sum()), "features": condensed.num_features},
        fingerprint=None,
    )


def clip_rows(rows: Tensor, norm: float) -> Tensor:
    """Shorten every row that is longer than ``norm`` to that length: x · min(1, C / ‖x‖)."""
    return rows * (norm / rows.norm(dim=1, keepdim=True).clamp(min=norm))
