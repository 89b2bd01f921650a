"""Memory of condensing a graph from disk: what the process takes itself, without pages of mapped files."""

from __future__ import annotations

import torch

from plgc.graphs.bare import BareGraph
from plgc.method.batches import BLOCK, LARGEST, SMALLEST, batch_for, step_bytes, too_little
from plgc.method.settings import CondenseSettings
from plgc.method.stage_one import SAMPLE
from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.options import UNITS
from plgc.sparse import on_disk, stored_order
from plgc.sparse.features import StoredFeatures
from plgc.sparse.on_disk import StoredAdjacency
from plgc.sparse.stored_inputs import BLOCK_BYTES

PROGRAM = 416 << 20  # bytes: the interpreter and its libraries, and what the allocator does not give back
A_NODE = on_disk.BYTES_A_NODE + stored_order.MEMORY + 48  # starts, order and labels stay; finding the order, a batch
OF_A_STEP = 0.6  # of what a step takes where the losses see all of its nodes: they see half, the others pass messages
REMAINING = 48  # bytes an entry: what is left of the edges, renumbered, and Â of it
AN_ENTRY = 160  # of a batch's own Â: it is built, and each view has a part of it


def batch_on_disk(
    x: StoredFeatures,
    adjacency: StoredAdjacency,
    count: int,
    settings: CondenseSettings,
    memory: int,
    scratch: int = 0,
) -> int:
    """The largest batch with which condensing from disk stays within ``memory`` bytes.

    Args:
        x: X.
        adjacency: Â.
        count: K.
        settings: of the run.
        memory: bytes.
        scratch: bytes of scratch files, where these lie in memory.

    Raises:
        SettingError: not even the smallest batch fits.
    """
    nodes, features = x.shape
    width = sum(branch.width for branch in settings.branches)
    entries = adjacency.num_entries / nodes
    rest = PROGRAM + scratch + x.memory - mapped.HELD + A_NODE * nodes
    held = (adjacency.edge_index, adjacency.edge_weight)
    rest += sum(part.numel() * part.element_size() for part in held if part is not None and not mapped.is_mapped(part))
    rest += on_disk.BYTES_AN_ENTRY * max(on_disk.BLOCK_ENTRIES, int(adjacency.starts.diff().max()))
    reading = 4 * max(5 * count + width, count + 4 * width)  # pseudo-labels of a node: the balance, or the residuals
    step = int(step_bytes(settings.branches, features, count, settings) * OF_A_STEP + AN_ENTRY * entries)
    step = max(step, reading + 4 * width)
    ending = max(min(nodes, SAMPLE) * reading, 2 * BLOCK_BYTES) + 24 * count * (width + features)
    fits = min(LARGEST, (memory - rest) // step // BLOCK * BLOCK)
    if rest + ending > memory or fits < SMALLEST:
        raise too_little(memory, rest + max(ending, SMALLEST * step))
    return int(fits)


def fits_in_memory(graph: BareGraph, count: int, settings: CondenseSettings, memory: int) -> bool:
    """Whether a graph can be condensed with its features and Â in memory."""
    x, entries = graph.x, graph.edge_index.shape[1] + graph.num_nodes
    if x.layout == torch.sparse_csr:
        features = 16 * x.values().numel()
    else:
        features = StoredFeatures(x).memory if x.dtype == torch.float16 or mapped.is_mapped(x) else 4 * x.numel()
    try:
        batch_for(graph.num_nodes, x.shape[1], features + 24 * entries, count, settings, memory)
    except SettingError:
        return False
    return True


def check_remaining(graph: BareGraph, memory: int | None) -> None:
    """Raise where forgetting nodes of a graph on disk would exceed the limit: what remains of it is made in memory.

    Raises:
        SettingError: it would.
    """
    if memory is None or not mapped.is_mapped(graph.edge_index):
        return
    rows = graph.x.numel() * graph.x.element_size() if graph.x.layout == torch.strided else 0
    needed = PROGRAM + A_NODE * graph.num_nodes + REMAINING * graph.edge_index.shape[1] + rows
    if needed > memory:
        raise SettingError(
            f"memory is {memory / UNITS['GiB']:.2f} GiB: what remains of this graph is made in memory and takes "
            f"about {needed / UNITS['GiB']:.2f} GiB: allow that much, or store the graph without these "
            "nodes (plgc data store) and condense that"
        )
