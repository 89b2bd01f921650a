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

import math
from dataclasses import replace

import torch
from torch import Tensor

from plgc.method.contrasts import centred, cluster_spread, contrasts, count_users
from plgc.method.noise import Noise, Published, publish, shared_out, shrunk
from plgc.method.stage_one import PseudoLabels, unit_blocks
from plgc.method.stage_two import reach
from plgc.runtime.errors import SettingError
from plgc.sparse.features import Features, SparseFeatures, StoredFeatures, mean_rows
from plgc.sparse.inputs import Inputs

BUDGET = 0.3  # β: the largest of those tried that hides members on every graph (docs/many_owners.md)
USERS = 20  # of a word that is published, about: the count carries noise, and
FEWEST = 5  # at least
COUNT_NOISE = 3.0  # roots of the count
MEAN_NOISE = 6.0  # standard errors
LABEL_NOISE = 2.0  # likewise, of the contrasts of Z
MOST_NOISE = 40.0  # of a contrast that is worth publishing
LENGTH = 0.75  # of the published differences, relative to those of a default X'
LEAST = 2  # words that are published
COUNT_STEP = 5  # counts of nodes are rounded to multiples of it


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
    if int(listed.sum()) >= LEAST:
        noise[:, listed] = shared_out(values, users[listed], BUDGET * nodes)
    kept = noise.amin(1) <= MOST_NOISE
    noise, bases = noise[kept], bases[:, kept]
    mean = contrasts(inputs.x, weights.mean(1, keepdim=True))
    common = publish(mean, torch.where(listed, MEAN_NOISE, math.inf)[None], draws)
    shown = publish(contrasts(inputs.x, centred(weights, bases)), noise, draws)
    differences = bases.to(shown.sums.dtype) @ (shrunk(shown.z, listed) * shown.sums)
    if not bool((differences != 0).any()):
        raise SettingError(
            f"of {len(listed)} features of {nodes} nodes, {int(listed.sum())} have enough users to be published (about "
            f"{USERS}), and none of them differs between synthetic nodes by more than the noise: too little for a "
            "private release. Give a larger graph, or turn private off (--no-private)"
        )
    length = LENGTH * rounded(float((default := mean_rows(inputs.x, weights)).sub_(default.mean(0)).norm()))
    rows = _published_mean(common, inputs.x) + differences * (length / differences.norm())
    even = torch.full((len(noise), 1), LABEL_NOISE, device=embedding.device)
    seen = publish(contrasts(embedding, centred(labels.weights, bases)), even, draws)
    vectors = bases.to(seen.sums.dtype) @ (shrunk(seen.z) * seen.sums)
    left = replace(
        labels,
        vectors=unit_blocks(vectors, blocks),
        counts=(labels.counts / COUNT_STEP).round().long().clamp(min=1) * COUNT_STEP,
    )
    return rows, left, max(common.share, shown.share, seen.share)


def _published_mean(common: Published, x: Features) -> Tensor:
    """The mean row, with noise; not below 0 where no value of X is."""
    if isinstance(x, SparseFeatures):
        signed = bool((x.matrix.values() < 0).any())
    else:
        blocks = x.blocks() if isinstance(x, StoredFeatures) else [(0, x)]
        signed = any(bool((rows < 0).any()) for _, rows in blocks)
    return common.sums if signed else common.sums.clamp(min=0)


def rounded(length: float) -> float:
    """The nearest power of √2."""
    return 2 ** (round(2 * math.log2(length)) / 2) if length > 0 else 0.0
