"""A warm start: stage I goes on from a condensed graph, in place of starting from the seed alone.

A condensed graph is enough to rebuild each of its encoders θ', as a backbone is rebuilt from it: the encoder is fitted
to X' → its block of Ỹ. What it still lacks, a few epochs of stage I on the graph itself teach it; meanwhile that fit
stays among the losses, so that they change what is known no more than they have to. The prototypes start at Ỹ, and
where more are wanted, on nodes that are far from each other.

Where the old graph is no longer at hand, the condensed graph also stands in for it: its rows are isolated nodes beside
the new ones, each with the mass of the nodes it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.artifact.condensed import CondensedGraph
from plgc.method.batches import TrainingGraph
from plgc.method.disk.graph import GraphOnDisk
from plgc.method.losses import known_loss
from plgc.method.settings import CondenseSettings
from plgc.method.stage_one import KnownRows, StageOne, embed, spread_rows, unit_blocks
from plgc.sparse.inputs import Inputs
from plgc.sparse.isolated import beside
from plgc.sparse.stored_inputs import StoredInputs

# Tried on validation nodes of Cora and Citeseer, one seed: 40 to 100 steps, 5 to 8 epochs; none was best on both.
REBUILD_STEPS, REBUILD_RATE = 80, 2e-3
EPOCHS = 8  # of stage I after that, where a start from nothing takes rounds · round_epochs
FASTER = 3  # times the learning rate in them


@dataclass(frozen=True)
class Known:
    """What is known before stage I begins.

    Attributes:
        condensed: a condensed graph with the encoders of the settings.
        stands_in: whether its rows stand in for the nodes that it was made of, which are not in the graph.
    """

    condensed: CondensedGraph
    stands_in: bool = False


def warm_settings(settings: CondenseSettings) -> CondenseSettings:
    """The same with one short round of stage I, in larger steps."""
    rules = settings.pseudo_labels
    epochs = min(EPOCHS, rules.rounds * rules.round_epochs)
    short = replace(rules, rounds=1, round_epochs=epochs, learning_rate=FASTER * rules.learning_rate)
    return replace(settings, pseudo_labels=short)


def stand_in(graph: TrainingGraph, known: CondensedGraph) -> TrainingGraph:
    """A graph with the rows of a condensed graph beside it, in place of the nodes that are gone."""
    inputs, counts = graph.inputs, known.counts.to(graph.inputs.device, torch.float32)
    core = torch.ones(inputs.num_nodes, dtype=torch.bool, device=inputs.device) if graph.core is None else graph.core
    return replace(
        graph,
        inputs=beside(inputs, widened(known.features, inputs.num_features)),
        core=torch.cat([core, torch.ones_like(counts, dtype=torch.bool)]),
        masses=torch.cat([torch.ones(inputs.num_nodes, device=inputs.device), counts]),
    )


def start_from(stage: StageOne, known: Known, graph: TrainingGraph | GraphOnDisk, seed: int) -> None:
    """Bring a stage that has just been started to what a condensed graph with the same encoders knows."""
    rows, blocks = known_rows(known, graph.inputs), known.condensed.blocks
    for encoder, target in zip(stage.encoders, rows.targets, strict=True):
        rebuild(encoder, target, rows, stage)
    stage.known = rows
    with torch.no_grad():
        drawn = torch.Generator().manual_seed(seed)
        vectors = unit_blocks(torch.cat(rows.targets, dim=1), blocks)
        more = len(stage.prototypes) - len(vectors)
        if more < 0:
            vectors = spread_rows(vectors, len(stage.prototypes), drawn)
        elif more > 0:
            vectors = torch.cat([vectors, spread_rows(embed(stage, graph.reference), more, drawn)])
        stage.prototypes.copy_(vectors)


def known_rows(known: Known, inputs: Inputs | StoredInputs) -> KnownRows:
    """The rows of a condensed graph as the losses take them; they weigh N_old / N, with N nodes in the graph itself."""
    condensed, device = known.condensed, inputs.device
    assert condensed.pseudo_labels is not None
    counts = condensed.counts.to(device, torch.float32)
    parts = condensed.pseudo_labels.to(device).split(list(condensed.blocks), dim=1)
    nodes = inputs.num_nodes - (len(counts) if known.stands_in else 0)
    return KnownRows(
        widened(condensed.features, inputs.num_features).to(device),
        tuple(F.normalize(part, dim=1) for part in parts),
        (counts / counts.sum())[:, None],
        float(counts.sum()) / max(1, nodes),
    )


def rebuild(encoder: nn.Module, target: Tensor, rows: KnownRows, stage: StageOne) -> None:
    """Fit one encoder to X' → its block of Ỹ."""
    optimizer = torch.optim.Adam(encoder.parameters(), lr=REBUILD_RATE, fused=True)
    for _ in range(REBUILD_STEPS):
        loss = known_loss(encoder(rows.features, None), target, rows.share, stage.standardized)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def widened(features: Tensor, width: int) -> Tensor:
    """X' with columns of zeros at its end for features that the old graph did not have, [K, f]."""
    return F.pad(features, (0, width - features.shape[1]))
