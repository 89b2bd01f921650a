"""A warm start: stage I goes on from a condensed graph, in place of starting from the seed alone.

A condensed graph is enough to rebuild each of its encoders θ', as a backbone is rebuilt from it: the encoder is fitted
to X' → its block of Ỹ. What it still lacks, a few epochs of stage I on the graph itself teach it. The prototypes start
at Ỹ, and where more are wanted, on nodes that are far from all of them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plgc.artifact.condensed import CondensedGraph
from plgc.method.losses import TINY
from plgc.method.settings import CondenseSettings
from plgc.method.stage_one import StageOne, embed, spread_rows, unit_blocks
from plgc.sparse.inputs import Inputs

REBUILD_STEPS = 100  # as many as a backbone takes
EPOCHS = 5  # of stage I after that, where a start from nothing takes rounds · round_epochs


def warm_settings(settings: CondenseSettings) -> CondenseSettings:
    """The same with one short round of stage I."""
    rules = settings.pseudo_labels
    epochs = min(EPOCHS, rules.rounds * rules.round_epochs)
    return replace(settings, pseudo_labels=replace(rules, rounds=1, round_epochs=epochs))


def start_from(stage: StageOne, known: CondensedGraph, inputs: Inputs, seed: int) -> None:
    """Bring a stage that has just been started to what a condensed graph with the same encoders knows."""
    assert known.pseudo_labels is not None
    device = inputs.device
    features, counts = widened(known.features, inputs.num_features).to(device), known.counts.to(device)
    vectors = known.pseudo_labels.to(device)
    for encoder, target in zip(stage.encoders, vectors.split(list(known.blocks), dim=1), strict=True):
        rebuild(encoder, features, target, counts, stage)
    with torch.no_grad():
        drawn = torch.Generator().manual_seed(seed)
        vectors = unit_blocks(vectors, known.blocks)
        more = len(stage.prototypes) - len(vectors)
        if more < 0:
            vectors = spread_rows(vectors, len(stage.prototypes), drawn)
        elif more > 0:
            vectors = torch.cat([vectors, spread_rows(embed(stage, inputs), more, drawn)])
        stage.prototypes.copy_(vectors)


def rebuild(encoder: nn.Module, features: Tensor, target: Tensor, counts: Tensor, stage: StageOne) -> None:
    """Fit one encoder: min_θ' Σ_k s_k ‖ỹ_k − z_k‖² / Σ_k s_k, for its block of Ỹ.

    Embeddings are standardised over the graph before they are normalised; here over X', a row for s_k nodes.
    """
    share = (counts / counts.sum())[:, None]
    target = F.normalize(target, dim=1)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=stage.settings.learning_rate, fused=True)
    for _ in range(REBUILD_STEPS):
        hidden = encoder(features, None)
        if stage.standardized:
            hidden = hidden - (share * hidden).sum(0)
            hidden = hidden * (share * hidden.square()).sum(0).clamp(min=TINY).rsqrt()
        loss = (share * (F.normalize(hidden, dim=1) - target).square()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def widened(features: Tensor, width: int) -> Tensor:
    """X' with columns of zeros at its end for features that the old graph did not have, [K, f]."""
    return F.pad(features, (0, width - features.shape[1]))
