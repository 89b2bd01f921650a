"""Memory of condensing a graph from disk: what the process takes itself, without pages of mapped files."""

from __future__ import annotations

from plgc.method.batches import BLOCK, LARGEST, SMALLEST, step_bytes
from plgc.method.settings import CondenseSettings
from plgc.method.stage_one import SAMPLE
from plgc.runtime import mapped
from plgc.runtime.errors import SettingError
from plgc.runtime.options import UNITS
from plgc.sparse import on_disk, stored_order
from plgc.sparse.features import StoredFeatures
from plgc.sparse.on_disk import StoredAdjacency
from plgc.sparse.stored_inputs import BLOCK_BYTES

PROGRAM = 384 << 20  # bytes: the interpreter and its libraries, and what the allocator does not give back
A_NODE = on_disk.BYTES_A_NODE + stored_order.MEMORY + 48  # starts, order and labels stay; finding the order, a batch
OF_A_STEP = 0.6  # of what a step takes where the losses see all of its nodes: they see half, the others pass messages
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
    rest += on_disk.BYTES_AN_ENTRY * max(on_disk.BLOCK_ENTRIES, int(adjacency.starts.diff().max()))
    reading = 4 * max(5 * count + width, count + 4 * width)  # pseudo-labels of a node: the balance, or the residuals
    step = int(step_bytes(settings.branches, features, count, settings) * OF_A_STEP + AN_ENTRY * entries)
    step = max(step, reading + 4 * width)
    ending = max(min(nodes, SAMPLE) * reading, 2 * BLOCK_BYTES) + 24 * count * (width + features)
    fits = min(LARGEST, (memory - rest) // step // BLOCK * BLOCK)
    if rest + ending > memory or fits < SMALLEST:
        least = (rest + max(ending, SMALLEST * step)) / UNITS["GiB"]
        raise SettingError(
            f"memory is {memory / UNITS['GiB']:.2f} GiB: condensing this graph from disk needs at least "
            f"{least + 0.005:.2f} GiB, in batches of {SMALLEST} nodes: allow that much, ask for fewer nodes, or "
            "condense it in parts"
        )
    return int(fits)
