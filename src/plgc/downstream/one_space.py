"""Bring the pseudo-labels of several sources into one space, as wide as that of one source.

Encoders that were trained apart give unrelated spaces. What matters in a space are angles, so the Gram matrix of all
rows is put together, block by block, and the merged Ỹ are the vectors that have it. One half of it is

- Ỹ of every source, turned towards what a network rebuilt from the largest source gives for its rows
  (:func:`plgc.downstream.combine.procrustes`): this keeps the angles within a source;

the other half is

- the mean over sources of what a network rebuilt from each gives for the rows of all, centred, with Ỹ itself for the
  source's own rows: this is what the heads of a backbone see.

Neither alone was within half a point of heads on validation nodes of both Cora and Citeseer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from plgc.artifact.condensed import CHANNELS, CondensedGraph
from plgc.downstream.backbone import BackboneSettings, reconstruct
from plgc.downstream.combine import procrustes
from plgc.method.stage_one import unit_blocks
from plgc.runtime.progress import Progress

LEARNED = BackboneSettings(skip=False)
ITERATIONS = 6  # of the subspace that eigenvectors are found in
SPARE = 32  # its columns beyond those that are wanted


def one_space(
    sources: Sequence[CondensedGraph], like: CondensedGraph, seed: int, device: str, report: Progress
) -> Tensor:
    """Ỹ of the rows of all sources in one space, one unit vector per block of ``like``, one of them, [M, d]."""
    counts = torch.cat([source.counts for source in sources]).to(device, torch.float64).clamp(min=1)
    features = torch.cat([source.features for source in sources]).to(device)
    sizes = [source.num_nodes for source in sources]
    grams = [torch.zeros(len(features), len(features), device=device) for _ in like.blocks]
    for done, (source, first) in enumerate(zip(sources, itertools.accumulate(sizes, initial=0), strict=False)):
        report(f"embedding all rows by source {done + 1}", done, len(sources))
        seen = reconstruct(source, settings=LEARNED, seed=seed, device=device).learned(features, None)
        assert source.pseudo_labels is not None
        seen[first : first + source.num_nodes] = source.pseudo_labels.to(device)
        if source is like:
            turned = [turn(one, like, rows.cpu()) for one, rows in zip(sources, seen.split(sizes), strict=True)]
            for gram, block in zip(grams, torch.cat(turned).to(device).split(list(like.blocks), dim=1), strict=True):
                _add_gram(gram, block, 0.5)
        blocks = seen.split(list(source.blocks), dim=1)
        for gram, own in zip(grams, _counterparts(like, source), strict=True):
            for block in own:
                mean = (counts @ blocks[block].double() / counts.sum()).float()
                _add_gram(gram, blocks[block] - mean, 0.5 / len(sources) / len(own))
    found = [principal_rows(gram, counts, width, seed) for gram, width in zip(grams, like.blocks, strict=True)]
    return unit_blocks(torch.cat(found, dim=1).cpu(), like.blocks)


def space_bytes(sources: Sequence[CondensedGraph], like: CondensedGraph) -> int:
    """Bytes that :func:`one_space` and what follows it take at most, of M rows: mostly numbers of M × M.

    A float32 Gram matrix for every block, and four float64 matrices while one is taken apart; of every row its features
    and outputs, several times; and a network of the widest source, with its gradients and their moments.
    """
    rows, features = sum(source.num_nodes for source in sources), like.num_features
    outputs = max(sum(source.blocks) for source in sources)
    weights = max(sum(width * (features + width) for width in source.blocks) for source in sources)
    return rows * rows * (4 * len(like.blocks) + 4 * 8) + 4 * rows * (3 * features + 10 * outputs) + 6 * 4 * weights


def turn(source: CondensedGraph, like: CondensedGraph, outputs: Tensor) -> Tensor:
    """Ỹ of a source, turned block by block towards ``outputs`` [K, d], which have the blocks of ``like``."""
    assert source.pseudo_labels is not None
    blocks, found = source.pseudo_labels.split(list(source.blocks), dim=1), []
    for wanted, own in zip(outputs.split(list(like.blocks), dim=1), _counterparts(like, source), strict=True):
        vectors = torch.cat([blocks[place] for place in own], dim=1)
        found.append(vectors @ procrustes(vectors, wanted))
    return torch.cat(found, dim=1)


def principal_rows(gram: Tensor, masses: Tensor, width: int, seed: int) -> Tensor:
    """Rows whose inner products are nearest to a Gram matrix G, each weighted by its mass, [M, width].

    They are D^−½ U Λ^½ for the largest eigenvalues Λ and eigenvectors U of D^½ G D^½, D = diag(masses), turned by a
    random rotation: all columns then have the same scale, as those of an encoder do. Where there are no more rows than
    columns, nothing is lost.
    """
    generator, size, count = torch.Generator().manual_seed(seed), len(gram), min(width, len(gram))
    root = masses.sqrt()
    matrix = root[:, None] * gram.double() * root
    basis = torch.eye(size, dtype=torch.float64, device=gram.device)
    if size > width + SPARE:  # subspace iteration: all eigenvectors of thousands of rows would take minutes
        basis = torch.randn(size, width + SPARE, generator=generator, dtype=torch.float64).to(gram.device)
        for _ in range(ITERATIONS):
            basis = torch.linalg.qr(matrix @ basis)[0]
    values, vectors = torch.linalg.eigh(basis.t() @ matrix @ basis)
    rows = basis @ vectors[:, -count:] * values[-count:].clamp(min=0).sqrt() / root[:, None]
    rotation = torch.linalg.qr(torch.randn(width, width, generator=generator, dtype=torch.float64))[0]
    return (rows @ rotation[:count].to(rows.device)).float()


def _add_gram(gram: Tensor, rows: Tensor, weight: float) -> None:
    """Add weight · R Rᵀ, for rows scaled to unit length."""
    unit = F.normalize(rows, dim=1)
    gram.addmm_(unit, unit.t(), alpha=weight)


def _counterparts(like: CondensedGraph, source: CondensedGraph) -> list[list[int]]:
    """For every block of ``like``, the blocks of a source that stand for it: of the same channel, place by place."""
    found: list[list[int]] = []
    for channel in CHANNELS:
        count = len(like.blocks_of(channel))
        own = [place for place, name in enumerate(source.channels) if name == channel]
        found += [own[place::count] or [own[place % len(own)]] for place in range(count)]
    return found
