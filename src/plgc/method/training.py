"""Which graph stage I trains on: in memory, whole or in mini-batches, or from its files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from plgc.graphs.bare import BareGraph
from plgc.method.batches import TrainingGraph, batch_size
from plgc.method.disk.budget import batch_on_disk
from plgc.method.disk.graph import GraphOnDisk
from plgc.method.disk.inputs import stored_inputs, why_in_memory
from plgc.method.settings import CondenseSettings
from plgc.runtime.checkpoint import CheckpointFolder
from plgc.runtime.errors import SettingError
from plgc.runtime.options import Compute
from plgc.sparse.inputs import prepare


def training_graph(
    bare: BareGraph,
    scaling: str,
    count: int,
    settings: CondenseSettings,
    compute: Compute,
    *,
    stands_in: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> TrainingGraph | GraphOnDisk:
    """A graph as stage I trains on it, in batches that stay within the memory limit.

    Args:
        bare: the graph.
        scaling: of the rows of X.
        count: K.
        settings: of the run.
        compute: device and memory limit.
        stands_in: whether rows of a condensed graph are going to be beside it.
        checkpoint: the folder of checkpoints, where scratch files go too; else the system's for temporary files.

    Raises:
        SettingError: the limit does not suffice.
    """
    reason, budget = why_in_memory(bare, settings, compute, stands_in), compute.budget
    if reason is None:
        assert budget is not None
        stored = stored_inputs(bare, scaling)
        batch = batch_on_disk(stored, count, settings, budget)
        return GraphOnDisk(stored, bare.core_mask, batch, scratch_place(checkpoint))
    inputs = prepare(bare, scaling, compute.device, reorder=True, keep_stored=budget is not None)
    core = bare.core_mask
    core = core if core is None or inputs.order is None else core[inputs.order.cpu()]
    try:
        batch = None if budget is None else batch_size(inputs, count, settings, budget)
    except SettingError as error:
        if reason:
            raise SettingError(f"{error}. Without {reason} the edges of this graph could stay on disk") from error
        raise
    return TrainingGraph(inputs, None if core is None else core.to(inputs.device), batch)


def scratch_place(checkpoint: str | os.PathLike[str] | None) -> Path:
    """The folder for scratch files: that of checkpoints where the user named one, else the one around it."""
    if checkpoint is None:
        return Path(tempfile.gettempdir())
    return (
        Path(checkpoint).parent
        if isinstance(checkpoint, CheckpointFolder) and not checkpoint.asked
        else Path(checkpoint)
    )
