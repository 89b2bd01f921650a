"""Memory of condensing a graph from disk: what the process takes itself, without pages of mapped files."""

from __future__ import annotations

from plgc.method.batches import BLOCK, LARGEST, SMALLEST, step_bytes
from plgc.method.disk import blocks
from plgc.method.disk.inputs import StoredInputs
from plgc.method.settings import CondenseSettings
from plgc.method.stage_one import SAMPLE
from plgc.runtime.errors import SettingError
from plgc.runtime.options import UNITS
from plgc.sparse import on_disk, stored_order

PROGRAM = 448 << 20  # bytes: the interpreter and its libraries, and what the allocator does not give back
A_NODE = on_disk.BYTES_A_NODE + stored_order.MEMORY + 48  # starts, order and labels stay; finding the order, a batch
AN_ENTRY = 160  # of a batch's own Â: it is built, and each view has a part of it


def batch_on_disk(inputs: StoredInputs, count: int, settings: CondenseSettings, memory: int) -> int:
    """The largest batch with which condensing from disk stays within ``memory`` bytes.

    Raises:
        SettingError: not even the smallest batch fits.
    """
    nodes, features = inputs.num_nodes, inputs.num_features
    width, hidden = sum(b.width for b in settings.branches), max(b.hidden for b in settings.branches)
    entries = inputs.num_entries / nodes
    rest = PROGRAM + A_NODE * nodes + on_disk.BYTES_AN_ENTRY * int(inputs.adjacency.starts.diff().max())
    step = step_bytes(settings.branches, features, count, settings) + int(AN_ENTRY * entries)
    step += 4 * (5 * count + width + 2 * hidden)  # reading pseudo-labels: this memory is not freed at once
    sample = 4 * min(nodes, SAMPLE) * max(5 * count + width, count + 5 * width)
    ending = sample + 2 * blocks.BLOCK + 24 * count * (width + features)
    fits = min(LARGEST, (memory - rest) // step // BLOCK * BLOCK)
    if rest + ending > memory or fits < SMALLEST:
        least = (rest + max(ending, SMALLEST * step)) / UNITS["GiB"]
        raise SettingError(
            f"memory is {memory / UNITS['GiB']:.2f} GiB: condensing this graph from disk needs at least "
            f"{least + 0.005:.2f} GiB, in batches of {SMALLEST} nodes: allow that much, ask for fewer nodes, or "
            "condense it in parts"
        )
    return int(fits)
