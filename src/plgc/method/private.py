"""A private release: what is published of X and Z are sums over many nodes, with noise.

A default x'_k is a mean of some twenty nodes. Most of what sets it apart from other rows is those nodes' own words:
chance to a learner, and what tells members from other nodes. A private release publishes contrasts over all nodes,

    ĉ_rj = Σ_n w_nr x_nj + n_rj s_rj ξ_rj,    w_r = V u_r less its mean,    s²_rj = Σ_n w²_nr x²_nj,

with ξ normal, and nothing of X beside them but the mean row, with noise too. V are the weights of a default X', and
u_1, u_2, … the eigenvectors of the Gram matrix of the centred pseudo-labels, the main differences between clusters
first. Rows are made of what is published: x'_k is the mean row and Σ_r u_kr g_rj ĉ_rj, where g shrinks a contrast by
how far it and those of the same r are from chance; their length is that of default differences, rounded.

**How much noise.** A number with noise of n standard errors tells about 1 / (1 + n²) of what it would tell without.
These shares add up to β N over all numbers: the more nodes, the less noise. Within that, noise grows as λ_r and the
number of a word's users fall, so that what tells most of the clusters is known best; and it is never so small that one
node moves a number by more than a third of its noise.

**Where noise comes from.** From a checksum of the graph, and of everything else that the file depends on. So the same
graph gives the same bytes, and nobody without the whole graph can take the noise away. Who knows all of it but one node
could: they make the file with that node and without it, and compare. Noise from the system's entropy (``clip`` and
``noise``) is against that. That members are hard to find is measured (docs/many_owners.md), not proven: encoders and
assignment were learned from all nodes without noise, and no ε is stated.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from plgc.method.stage_one import PseudoLabels, unit_blocks
from plgc.method.stage_two import reach
from plgc.runtime.errors import SettingError
from plgc.sparse.features import Features, SparseFeatures, StoredFeatures, mean_rows, squared_sums
from plgc.sparse.inputs import Inputs

BUDGET = 1.0  # β
BY_SPREAD, BY_USERS = (
    0.5,
    0.25,
)  # noise grows with these powers of λ_1 / λ_r, and of users of the commonest word / users
USERS = 20  # of a word that is published, about: the count carries noise, and
FEWEST = 5  # at least
COUNT_NOISE = 3.0  # roots of the count
MEAN_NOISE = 6.0  # standard errors
LABEL_NOISE = 2.0  # likewise, of the contrasts of Z
MOST_NOISE = 40.0  # of a contrast that is worth publishing
MOVED = 1 / 3  # of its noise, by which one node moves a number at most
LENGTH = 0.75  # of the published differences, relative to those of a default X'
COUNT_STEP = 5  # counts of nodes are rounded to multiples of it
TINY = 1e-30  # below every length that is divided by
RANK = 1e-6  # eigenvalues below this, relative to the largest, are none


@dataclass(frozen=True)
class Contrasts:
    """Sums over all nodes, and what one node can change about them.

    Attributes:
        sums: Σ_n w_nr x_nj, [R, c].
        error: s, [R, c].
        largest: the largest |w_nr x_nj| of any node, [R, c].
    """

    sums: Tensor
    error: Tensor
    largest: Tensor

    def publish(self, noise: Tensor, draws: Noise) -> Published:
        """The sums with noise of so many standard errors, [R, c], more where one node would move them too far."""
        spread = torch.maximum(noise.to(self.error) * self.error, self.largest / MOVED)
        known = (spread > 0) & torch.isfinite(spread)
        share = (self.largest / spread)[known]
        spread = torch.where(known, spread, 0.0)
        sums = torch.where(known, self.sums, 0.0) + spread * draws.normal(self.sums)
        z = torch.where(known, sums / (spread.square() + self.error.square()).sqrt().clamp(min=TINY), 0.0)
        return Published(sums, z, float(share.max()) if len(share) else 0.0)


@dataclass(frozen=True)
class Published:
    """Sums with noise.

    Attributes:
        sums: [R, c]; 0 where nothing is published.
        z: the sums in standard deviations of noise and chance together, [R, c].
        share: how far one node moves any of them, at most, in standard deviations of the noise.
    """

    sums: Tensor
    z: Tensor
    share: float


class Noise:
    """Normal draws that depend on a secret and on nothing else: the same on every device and with every library."""

    def __init__(self, secret: str) -> None:
        self.secret, self.drawn = secret, 0

    def normal(self, like: Tensor) -> Tensor:
        """As many draws as ``like`` has values, in its shape."""
        self.drawn += 1
        stream = hashlib.shake_256(f"plgc private release {self.secret} {self.drawn}".encode())
        whole = np.frombuffer(stream.digest(8 * like.numel()), dtype="<u8")
        uniform = ((whole >> 11).astype(np.float64) + 0.5) / 2**53
        return torch.special.ndtri(torch.from_numpy(uniform)).to(like).view_as(like)


@torch.no_grad()
def release_privately(
    inputs: Inputs,
    embedding: Tensor,
    labels: PseudoLabels,
    blocks: tuple[int, ...],
    channels: tuple[str, ...],
    secret: str,
) -> tuple[Tensor, PseudoLabels, float]:
    """X' and Ỹ from contrasts of X and Z with noise.

    Args:
        inputs: the graph, with X.
        embedding: Z, [N, d].
        labels: pseudo-labels as stage I leaves them.
        blocks: widths of the unit vectors that Ỹ is made of.
        channels: of every block.
        secret: what noise is drawn from.

    Returns:
        X' [K, f]; the pseudo-labels, with Ỹ and rounded counts; and how far one node moves a number that is published,
        at most, in standard deviations of its noise.

    Raises:
        SettingError: too little is left to tell rows apart.
    """
    draws = Noise(secret)
    values, bases = cluster_spread(labels.vectors)
    weights = reach(inputs, labels, channels)
    nodes = int((labels.weights.sum(1) > 0).sum())
    users = count_users(inputs.x)
    listed = (users + COUNT_NOISE * users.sqrt() * draws.normal(users) >= USERS) & (users >= FEWEST)
    noise = torch.full((len(values), len(users)), math.inf, dtype=torch.float64, device=users.device)
    if listed.any() and len(values):
        noise[:, listed] = shared_out(values, users[listed], BUDGET * nodes)
    kept = noise.amin(1) <= MOST_NOISE
    noise, bases = noise[kept], bases[:, kept]
    mean = contrasts(inputs.x, weights.mean(1, keepdim=True))
    common = mean.publish(torch.where(listed, MEAN_NOISE, math.inf)[None], draws)
    shown = contrasts(inputs.x, centred(weights, bases)).publish(noise, draws)
    differences = bases.to(shown.sums.dtype) @ (shrunk(shown.z, listed) * shown.sums)
    if listed.sum() < 2 or not bool((differences != 0).any()):
        raise SettingError(
            f"of {len(listed)} features of {nodes} nodes, {int(listed.sum())} have enough users to be published, and "
            f"{int((differences != 0).any(0).sum())} of them differ between {len(differences)} synthetic nodes by more "
            "than the noise: too little for a private release. Turn private off (--no-private)"
        )
    length = LENGTH * rounded(float((default := mean_rows(inputs.x, weights)).sub_(default.mean(0)).norm()))
    rows = _published_mean(common, inputs.x) + differences * (length / differences.norm())
    seen = contrasts(embedding, centred(labels.weights, bases)).publish(
        torch.full((len(noise), embedding.shape[1]), LABEL_NOISE, device=embedding.device), draws
    )
    vectors = bases.to(seen.sums.dtype) @ (shrunk(seen.z) * seen.sums)
    left = replace(
        labels,
        vectors=unit_blocks(vectors, blocks),
        counts=(labels.counts / COUNT_STEP).round().long().clamp(min=1) * COUNT_STEP,
    )
    return rows, left, max(common.share, shown.share, seen.share)


def cluster_spread(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues λ, the largest first, and eigenvectors u of Ỹ_c Ỹ_cᵀ, Ỹ centred; those of 0 left out: [R], [K, R]."""
    apart = (vectors - vectors.mean(0)).double()
    values, bases = torch.linalg.eigh(apart @ apart.t())
    kept = values > RANK * values.max()
    return values[kept].flip(0), bases[:, kept].flip(1)


def shared_out(spread: Tensor, users: Tensor, budget: float) -> Tensor:
    """Noise n_rj of every contrast in standard errors, with Σ 1 / (1 + n²) = ``budget``, [R, c]; 0 if that is too much.

    Args:
        spread: λ, [R].
        users: of every word, [c].
        budget: β N.
    """
    relative = (spread[0] / spread)[:, None] ** BY_SPREAD * (users.max() / users.double())[None] ** BY_USERS
    low, high = 1e-6, 1e6
    for _ in range(100):
        middle = math.sqrt(low * high)
        told = float((1 / (1 + (middle * relative) ** 2)).sum())
        low, high = (middle, high) if told > budget else (low, middle)
    return high * relative if high > 1e-5 else torch.zeros_like(relative)


def centred(weights: Tensor, bases: Tensor) -> Tensor:
    """w_r = V u_r less its mean, [N, R].

    Else what all nodes have in common would pass as a difference, and with it a word that one node uses.
    """
    mixed = weights @ bases.to(weights.dtype)
    return mixed - mixed.mean(0)


def contrasts(x: Features, weights: Tensor) -> Contrasts:
    """Sums of X's rows, or Z's, with weights [N, R], and what one node can change about them."""
    error = squared_sums(x, weights.square()).sqrt()
    return Contrasts(mean_rows(x, weights), error, _largest_parts(x, weights.abs()))


def shrunk(z: Tensor, listed: Tensor | None = None) -> Tensor:
    """How much of published contrasts is no chance, [R, 1] or, with ``listed``, [R, c].

    1 − 1 / z̄² with the mean z² of a row, over the columns that are ``listed``; then 1 − 1 / z² of every value too, of
    which few are large. At least 0.
    """
    square = z.square()
    together = (1 - 1 / (square if listed is None else square[:, listed]).mean(1, keepdim=True).clamp(min=1)).clamp(
        min=0
    )
    return together if listed is None else together * (1 - 1 / square.clamp(min=1))


def rounded(length: float) -> float:
    """The nearest power of √2."""
    return 2 ** (round(2 * math.log2(length)) / 2) if length > 0 else 0.0


def count_users(x: Features) -> Tensor:
    """How many nodes have something else than 0 in each column, [c], as float64."""
    if isinstance(x, SparseFeatures):
        return x.transpose.crow_indices().diff().double()
    blocks = x.blocks() if isinstance(x, StoredFeatures) else [(0, x)]
    return torch.stack([(rows != 0).sum(0) for _, rows in blocks]).sum(0).double()


def _published_mean(common: Published, x: Features) -> Tensor:
    """The mean row, with noise; not below 0 where no value of X is."""
    if isinstance(x, SparseFeatures):
        signed = bool((x.matrix.values() < 0).any())
    else:
        blocks = x.blocks() if isinstance(x, StoredFeatures) else [(0, x)]
        signed = any(bool((rows < 0).any()) for _, rows in blocks)
    return common.sums if signed else common.sums.clamp(min=0)


def _largest_parts(x: Features, weights: Tensor) -> Tensor:
    """max_n w_nr |x_nj|, [R, c], for weights of no sign."""
    if isinstance(x, SparseFeatures):
        rows, sizes = x.transpose.col_indices(), x.transpose.values().abs()
        column = torch.arange(x.shape[1], device=rows.device).repeat_interleave(x.transpose.crow_indices().diff())
        found = weights.new_zeros(weights.shape[1], x.shape[1])
        for own, result in zip(weights.t(), found, strict=True):
            result.scatter_reduce_(0, column, own[rows] * sizes, "amax")
        return found
    found = weights.new_zeros(weights.shape[1], x.shape[1])
    for start, block in x.blocks() if isinstance(x, StoredFeatures) else [(0, x)]:
        sizes = block.abs()
        for own, result in zip(weights[start : start + len(block)].t(), found, strict=True):
            torch.maximum(result, (own[:, None] * sizes).amax(0), out=result)
    return found
