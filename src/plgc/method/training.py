"""Which graph stage I trains on: in memory, whole or in mini-batches, or from its files."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from plgc.graphs.bare import BareGraph
from plgc.method.batches import TrainingGraph, batch_size
from plgc.method.disk.budget import batch_on_disk
from plgc.method.disk.embedding import scratch_bytes
from plgc.method.disk.graph import GraphOnDisk
from plgc.method.disk.inputs import why_in_memory
from plgc.method.settings import CondenseSettings
from plgc.runtime.checkpoint import CheckpointFolder
from plgc.runtime.errors import SettingError
from plgc.runtime.files import cache_folder
from plgc.runtime.options import Compute
from plgc.runtime.scratch import in_memory, scratch
from plgc.sparse.features import StoredFeatures, row_norms
from plgc.sparse.inputs import NORMS, check_magnitude, prepare
from plgc.sparse.on_disk import stored_adjacency
from plgc.sparse.rows import FeatureRows
from plgc.sparse.stored_inputs import StoredInputs


def training_graph(
    bare: BareGraph,
    scaling: str,
    count: int,
    settings: CondenseSettings,
    compute: Compute,
    place: ScratchPlace,
    *,
    stands_in: bool = False,
) -> TrainingGraph | GraphOnDisk:
    """A graph as stage I trains on it; in batches, where memory is limited and it is large or on disk.

    Args:
        bare: the graph.
        scaling: of the rows of X.
        count: K.
        settings: of the run.
        compute: device and memory limit.
        place: for scratch files of a graph on disk.
        stands_in: whether rows of a condensed graph are going to be beside it.

    Raises:
        SettingError: the limit does not suffice.
    """
    reason, budget = why_in_memory(bare, count, settings, compute, stands_in), compute.budget
    if reason is None:
        assert budget is not None
        return graph_on_disk(bare, scaling, count, settings, budget, place)
    inputs = prepare(bare, scaling, compute.device, reorder=True, keep_stored=budget is not None)
    core = bare.core_mask
    core = core if core is None or inputs.order is None else core[inputs.order.cpu()]
    try:
        batch = None if budget is None else batch_size(inputs, count, settings, budget)
    except SettingError as error:
        if reason:
            raise SettingError(f"{error}. Without {reason} less would do") from error
        raise
    return TrainingGraph(inputs, None if core is None else core.to(inputs.device), batch)


def graph_on_disk(
    bare: BareGraph, scaling: str, count: int, settings: CondenseSettings, budget: int, place: ScratchPlace
) -> GraphOnDisk:
    """The same for a graph whose features and edges stay in their files."""
    if scaling == "none":
        check_magnitude(bare.x)
    x = StoredFeatures(bare.x, None if scaling == "none" else row_norms(bare.x, NORMS[scaling]))
    adjacency = stored_adjacency(bare.edge_index, bare.num_nodes, bare.edge_weight)
    needed = scratch_bytes(bare.num_nodes, bare.x.shape[1], settings.branches)
    batch = batch_on_disk(x, adjacency, count, settings, budget, needed if in_memory(place.folder) else 0)
    room = place.stack.enter_context(scratch(place.folder, needed, "the last pass over all nodes"))
    return GraphOnDisk(StoredInputs(FeatureRows(x), adjacency, room), bare.core_mask, batch)


@dataclass(frozen=True)
class ScratchPlace:
    """Where scratch files go, and what removes them."""

    folder: Path
    stack: ExitStack


def scratch_folder(checkpoint: str | os.PathLike[str] | None) -> Path:
    """The folder of checkpoints where the user named one, else the one around it; without any, the package's cache."""
    if checkpoint is None:
        return cache_folder()
    named = not isinstance(checkpoint, CheckpointFolder) or checkpoint.asked
    return Path(checkpoint) if named else Path(checkpoint).parent
