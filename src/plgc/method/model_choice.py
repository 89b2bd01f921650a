"""The label-free choice of encoders: how far two encoders that differ only in their random start agree."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from plgc.method.batches import TrainingGraph
from plgc.method.resume import Run
from plgc.method.settings import Branch, CondenseSettings
from plgc.method.stage_one import embed, start_stage_one, train_epoch

TINY = 1e-12


def choose_encoders(graph: TrainingGraph, settings: CondenseSettings, seed: int, run: Run) -> tuple[Branch, ...]:
    """Train two equal encoders from different random weights; their agreement selects a rung of the ladder.

    Where such twins disagree they learn noise, and narrower encoders with stronger augmentation learn more. With one
    rung there is no choice, and no twins are trained.
    """
    if len(settings.ladder) == 1:
        return settings.ladder[0].branches
    if run.agreement is None:
        # Without ℓ_swap the twins do not depend on K: one graph always gets one choice for one seed.
        rules, graph = settings.pseudo_labels, graph.for_model_choice
        rules = replace(rules, swap=0.0) if rules.decorrelation > 0 else rules
        twins = start_stage_one(graph.reference, 2, (settings.probe, settings.probe), rules, seed)
        run.resume("twins", twins)
        while run.twin_epochs < settings.probe_epochs:
            train_epoch(twins, graph.next_batch(twins.generator))
            run.twin_epochs += 1
            run.save(twins)
            run.report(f"twin encoders, epoch {run.twin_epochs} of {settings.probe_epochs}")
        run.agreement = twin_agreement(embed(twins, graph.reference), twins.blocks)
    agreement = run.agreement
    rung = next(rung for rung in settings.ladder if agreement >= rung.agreement)
    run.report(f"twin encoders agree {agreement:.1%}: using {len(rung.branches)} encoder(s)")
    return rung.branches


@torch.no_grad()
def twin_agreement(embedding: Tensor, blocks: tuple[int, ...]) -> float:
    """How similar the embeddings of the first two branches are: linear centred kernel alignment (CKA), 0 to 1."""
    first, second, *_ = embedding.split(list(blocks), dim=1)
    first, second = first - first.mean(0), second - second.mean(0)
    cross = (first.t() @ second).pow(2).sum()
    own = [torch.linalg.matrix_norm(part.t() @ part) for part in (first, second)]
    return float(cross / (own[0] * own[1]).clamp(min=TINY))
