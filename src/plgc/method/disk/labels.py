"""Pseudo-labels and X' of a graph on disk: the balance is found on a sample, then all nodes are assigned in blocks.

Of the assignment Q only sums are kept: Σ_n q_nk z_n for Ỹ, Σ_n q_nk x_n and Σ_n q_nk (Â²X)_n for X', and how many
nodes every pseudo-label has. (Â²Q)ᵀX, which X' is in memory, is the same as Qᵀ(Â²X).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from plgc.method.disk.embedding import Embedding, embed_on_disk
from plgc.method.release import merge_clusters
from plgc.method.sinkhorn import sinkhorn
from plgc.method.stage_one import EMPTY, SAMPLE, StageOne, read_pseudo_labels, unit_blocks
from plgc.method.stage_two import PROPAGATION_STEPS
from plgc.runtime.heap import trim
from plgc.sparse.rows import Rows
from plgc.sparse.stored_inputs import StoredInputs

CHUNK = 2048  # rows of the sample that are embedded at a time


@dataclass(frozen=True)
class StreamedLabels:
    """Pseudo-labels Ỹ with sums over the nodes in place of their weights.

    Attributes:
        vectors: as in :class:`plgc.method.stage_one.PseudoLabels`, and
        counts: likewise,
        explained: likewise,
        mass: likewise.
        sums: Σ_n q_nk z_n, [K, d].
        features: the start of X', assignment means, [K, f].
        moments: mean and scale of every embedding column over the whole graph.
    """

    vectors: Tensor
    counts: Tensor
    explained: float
    mass: Tensor
    sums: Tensor
    features: Tensor
    moments: list[tuple[Tensor, Tensor]]

    def merged(self, blocks: tuple[int, ...], minimum: int) -> tuple[StreamedLabels, Tensor]:
        """The same as :func:`plgc.method.release.merge_small_clusters`."""
        if int(self.counts.min()) >= minimum:
            return self, torch.arange(len(self.counts))
        found = merge_clusters(self.vectors, self.counts, self.mass, self.sums, blocks, minimum)
        whole = self.mass[:, None] * self.features  # Σ_n q_nk x_n adds up where clusters merge
        features = torch.zeros_like(whole).index_add_(0, found.owner, whole)[found.kept]
        sums = torch.zeros_like(self.sums).index_add_(0, found.owner, self.sums)[found.kept]
        merged = replace(
            self,
            vectors=found.vectors,
            counts=found.counts,
            mass=found.mass,
            sums=sums,
            features=features / found.mass.clamp(min=EMPTY)[:, None],
        )
        return merged, found.kept


@torch.no_grad()
def label_on_disk(stage: StageOne, inputs: StoredInputs, core: Tensor | None) -> StreamedLabels:
    """Embed all nodes, and assign those of ``core``, bool [N]; None for all."""
    trim()
    embedding = embed_on_disk(stage, inputs)
    far = inputs.propagated(PROPAGATION_STEPS) if "edges" in stage.channels else None
    trim()
    sample = _sample(embedding, inputs.num_nodes, core)
    found = read_pseudo_labels(sample, stage.prototypes, stage.blocks, stage.settings)
    rules = stage.settings.sinkhorn_rules()
    potential = sinkhorn(sample @ found.vectors.t(), **rules).potential
    del sample
    trim()
    return _assign(stage, inputs, core, embedding, far, (found.vectors, potential))


def _sample(embedding: Embedding, nodes: int, core: Tensor | None) -> Tensor:
    """Z of nodes that are drawn at random, as :class:`plgc.method.batches.TrainingGraph` draws them."""
    own = None if core is None else core.nonzero().flatten()
    count = nodes if own is None else len(own)
    drawn = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:SAMPLE].sort().values
    drawn = drawn if own is None else own[drawn]
    sample = torch.empty(len(drawn), sum(embedding.blocks))
    for start in range(0, len(drawn), CHUNK):
        part = slice(start, start + CHUNK)
        sample[part] = embedding.take(drawn[part])
    return sample


def _assign(
    stage: StageOne,
    inputs: StoredInputs,
    core: Tensor | None,
    embedding: Embedding,
    far: Rows | None,
    found: tuple[Tensor, Tensor],
) -> StreamedLabels:
    """Softmax of all nodes' scores with the potential of the sample, and the sums over them.

    ``far`` is Â²X, for X'; None without a channel of edges.
    """
    (vectors, potential), epsilon = found, stage.settings.epsilon
    (count, width), features = vectors.shape, inputs.num_features
    kept = torch.zeros(count, width + features, dtype=torch.float64)
    mass, counts = torch.zeros(count, dtype=torch.float64), torch.zeros(count, dtype=torch.int64)
    total, residual, centre = 0, 0.0, torch.zeros(width, dtype=torch.float64)
    for first, last in inputs.ranges(embedding.wide + 3 * count + 3 * features):
        rows, x = embedding.block(first, last), _means_of(inputs.x, far, stage.channels, first, last)
        if core is not None:
            rows, x = rows[core[first:last]], x[core[first:last]]
        plan = torch.softmax(rows @ vectors.t() / epsilon + potential, dim=1)
        hard = plan.argmax(dim=1)
        counts += torch.bincount(hard, minlength=count)
        residual += float((rows - vectors[hard]).square_().sum(dtype=torch.float64))
        mass += plan.sum(0, dtype=torch.float64)
        centre += rows.sum(0, dtype=torch.float64)
        kept[:, :width] += plan.t() @ rows
        kept[:, width:] += plan.t() @ x
        total += len(rows)
        inputs.progress("assigning all nodes", last, inputs.num_nodes)
    means = (kept / mass.clamp(min=EMPTY)[:, None]).float()
    own = unit_blocks(means[:, :width], stage.blocks)
    centred = total - float(centre.square().sum()) / total  # rows have unit length
    return StreamedLabels(
        vectors=torch.where(mass[:, None] > EMPTY, own, vectors),
        counts=counts,
        explained=1 - residual / centred if centred > 0 else 0.0,
        mass=mass.float(),
        sums=kept[:, :width].float(),
        features=means[:, width:].contiguous(),
        moments=_moments(embedding),
    )


def _means_of(x: Rows, far: Rows | None, channels: tuple[str, ...], first: int, last: int) -> Tensor:
    """What X' is the means of: Â²X with edges, X without, and half of each where there are both channels."""
    if far is None:
        return x.block(first, last)
    return (x.block(first, last) + far.block(first, last)) / 2 if "plain" in channels else far.block(first, last)


def _moments(embedding: Embedding) -> list[tuple[Tensor, Tensor]]:
    """As :func:`plgc.method.stage_two.descend` takes them: (0, 1) where embeddings stay as they are."""
    if embedding.moments is None:
        return [(torch.zeros(width), torch.ones(width)) for width in embedding.blocks]
    return [(own.mean.float(), (own.deviation / (own.count - 1)).sqrt().float() + 1e-6) for own in embedding.moments]
