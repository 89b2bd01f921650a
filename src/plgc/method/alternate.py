"""The alternation of the paper's Figure 2: rounds of stage I, each or the last of them followed by stage II."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from plgc.method.batches import TrainingGraph
from plgc.method.disk.graph import GraphOnDisk, synthesise_on_disk
from plgc.method.disk.labels import StreamedLabels
from plgc.method.private import release_privately
from plgc.method.release import merge_small_clusters, shared_values
from plgc.method.resume import Run
from plgc.method.settings import CondenseSettings
from plgc.method.stage_one import PseudoLabels, StageOne, embed, start_stage_one, train_epoch
from plgc.method.stage_two import synthesise
from plgc.method.warm import Known, start_from


@dataclass(frozen=True)
class Condensation:
    """The result of the alternation: encoders θ', pseudo-labels Ỹ and, unless stage II is left out, features X'.

    ``share`` is the largest part of a published mean or difference that one node gives; None where nothing bounds it.
    """

    stage: StageOne
    labels: PseudoLabels | StreamedLabels
    features: Tensor | None
    share: float | None = None


def alternate(
    graph: TrainingGraph | GraphOnDisk,
    count: int,
    settings: CondenseSettings,
    seed: int,
    run: Run,
    *,
    stage_two: bool = True,
    known: Known | None = None,
) -> Condensation:
    """Learn K pseudo-labels and synthesise the nodes whose embeddings they are.

    X' is made after the last round or, on request, moved after every round and carried over to the next.

    Args:
        graph: what to train on.
        count: K.
        settings: of both stages.
        seed: of every random draw.
        run: the curves, where to resume, and where to report and save.
        stage_two: False trains the encoders alone, as a reference to compare with.
        known: what stage I starts from; None to start from the seed alone.
    """
    rules, curves = settings.pseudo_labels, run.curves
    every_round = settings.synthesis.every_round
    stage = start_stage_one(graph.reference, count, settings.branches, rules, seed)
    if known is not None:
        start_from(stage, known, graph, seed)
    stage.in_batches = graph.batch_nodes is not None
    run.resume(stage)
    while True:
        # Stage I: train θ' and the prototypes, then read the pseudo-labels from the balanced assignment.
        while len(curves.pseudo_label_loss) < (len(curves.explained) + 1) * rules.round_epochs:
            curves.pseudo_label_loss.append(train_epoch(stage, graph.next_batch(stage.generator)))
            run.save(stage)
            run.report_epoch()
        last = len(curves.explained) + 1 == rules.rounds
        labels = graph.all_labels(stage) if known is not None and graph.sampled else graph.round_labels(stage)
        curves.explained.append(labels.explained)
        if known is None and graph.sampled and (last or every_round):
            labels = graph.all_labels(stage)
        # Stage II: synthetic features X' whose embeddings are the pseudo-labels.
        if stage_two and last and int(labels.counts.min()) < settings.min_cluster:
            labels, left = _merged(graph, labels, stage, settings.min_cluster)
            run.features = None if run.features is None else run.features[left]
        if stage_two and last and settings.private:
            assert isinstance(graph, TrainingGraph)
            assert isinstance(labels, PseudoLabels)
            run.report("stage II: what differs by more than chance")
            embedding = embed(stage, graph.inputs)
            features, labels, share = release_privately(graph.inputs, embedding, labels, stage.blocks, stage.channels)
            return Condensation(stage, labels, features, share)
        if stage_two and (last or every_round):
            run.report(f"stage II: {len(labels.vectors)} synthetic nodes, pseudo-labels explain {labels.explained:.1%}")
            run.features, losses = _synthesised(run.features, graph, labels, stage, settings)
            curves.synthesis_loss.extend(losses)
        if last:
            return Condensation(stage, labels, run.features)


def _merged(
    graph: TrainingGraph | GraphOnDisk, labels: PseudoLabels | StreamedLabels, stage: StageOne, minimum: int
) -> tuple[PseudoLabels | StreamedLabels, Tensor]:
    """The pseudo-labels without clusters that are too small, and which of the K are left."""
    if isinstance(labels, StreamedLabels):
        return labels.merged(stage.blocks, minimum)
    assert isinstance(graph, TrainingGraph)
    return merge_small_clusters(labels, embed(stage, graph.inputs), stage.blocks, minimum)


def _synthesised(
    features: Tensor | None,
    graph: TrainingGraph | GraphOnDisk,
    labels: PseudoLabels | StreamedLabels,
    stage: StageOne,
    settings: CondenseSettings,
) -> tuple[Tensor, list[float]]:
    """X' for these pseudo-labels, and the distances ‖ỹ_k − z_k‖² on the way."""
    if isinstance(graph, GraphOnDisk):
        assert isinstance(labels, StreamedLabels)
        return synthesise_on_disk(features, stage, graph, labels, settings.synthesis)
    assert isinstance(labels, PseudoLabels)
    allowed = None
    if settings.max_share < 1:
        allowed = shared_values(graph.inputs, labels, stage.channels, settings.max_share, graph.masses)
    return synthesise(features, stage, graph.inputs, labels, settings.synthesis, allowed)
