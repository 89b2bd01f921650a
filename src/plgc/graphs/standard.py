"""Every graph in one form: features, edges in both directions once and sorted, labels, names, and one chosen split."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.check import BLOCK_EDGES, MASKS, check_structure, node_count
from plgc.graphs.features import as_features
from plgc.graphs.formats.mixing import splitmix
from plgc.graphs.formats.stored_text import StoredText
from plgc.graphs.views.splits import generated_split, training_text
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.mapped import is_mapped, release

# A head has a row of weights for every class up to the largest number: so many, or so many times those that occur.
FREE_CLASSES, CLASSES_A_CLASS, MAX_CLASSES = 1000, 10, 10_000
NAMES = ("node_ids", "class_names", "feature_names", "notes", "doubts")


def standard_form(raw: Data) -> Data:
    """Features, edges, labels and names in the form of :func:`plgc.load_graph`, checked; without a split."""
    nodes = node_count(raw)
    try:
        raw.x = as_features(raw.x)
        check_structure(raw)
    except GraphError as error:
        raise GraphError(f"{raw.name}: {error}") from error
    edge_index, weight = raw["edge_index"].detach().cpu(), attribute(raw, "edge_weight")
    weight = None if weight is None else weight.detach().cpu().flatten().to(torch.float32)
    if not in_order(edge_index, nodes, weight):
        edge_index, weight = symmetric_edges(edge_index, nodes, weight)
    elif not is_mapped(edge_index):
        edge_index = edge_index.to(torch.int64, copy=True).contiguous()
        weight = None if weight is None else weight.clone()
    data = Data(x=raw.x, edge_index=edge_index, edge_weight=weight, num_nodes=nodes, name=raw.name)
    if "core_mask" in raw:
        data.core_mask = _core_mask(raw["core_mask"], nodes, raw.name)
    if "y" in raw:
        y = _labels(raw.y, nodes, raw.name)
        data.y = y if bool((y >= 0).any()) else None
    if "y_multi" in raw:
        if raw.y_multi.dim() != 2 or raw.y_multi.size(0) != nodes:
            raise GraphError(f"{raw.name}: y_multi has shape {list(raw.y_multi.shape)}, expected [{nodes}, C]")
        data.y_multi = raw.y_multi.detach().cpu().clone()
    if "time" in raw:
        data.time = _times(raw["time"], nodes, raw.name)
    _copy_names(data, raw)
    return data


def in_order(edge_index: Tensor, nodes: int, weight: Tensor | None = None) -> bool:
    """Whether edges already are symmetric, strictly sorted by (row, column) and no self-loops; weights likewise.

    One pass in little memory. Every edge is hashed to 64 bits; the sums of both directions are equal where each edge
    has its mirror image. That they are equal by chance has a probability of about 2⁻⁶⁴, and building Â compares the
    two directions one by one once more.

    Args:
        edge_index: integers [2, E], all from 0 to ``nodes`` − 1.
        nodes: N, below 2³¹.
        weight: float32 [E]; those of an edge's two directions must be the same.
    """
    last, count, total = -1, 0, 0  # edges to larger nodes count plus, those to smaller nodes minus
    for start in range(0, edge_index.shape[1], BLOCK_EDGES):
        row, column = edge_index[:, start : start + BLOCK_EDGES].numpy().astype(np.int64)
        key = row * nodes + column
        if key[0] <= last or (key[1:] <= key[:-1]).any() or (row == column).any():
            return False
        last = int(key[-1])
        up = row < column
        mixed = splitmix(np.where(up, key, column * nodes + row).view(np.uint64))
        if weight is not None:
            mixed = splitmix(mixed ^ weight[start : start + BLOCK_EDGES].numpy().view(np.uint32))
        total += int(mixed[up].sum(dtype=np.uint64)) - int(mixed[~up].sum(dtype=np.uint64))
        count += 2 * int(up.sum()) - len(up)
        release(edge_index)
    return count == 0 and total % 2**64 == 0


def symmetric_edges(edge_index: Tensor, nodes: int, weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Return every edge in both directions, once, sorted by (row, column), without self-loops; and the weights.

    Weights of duplicates are summed first; then each pair of directions takes the larger weight of the two.
    """
    row, column = edge_index[:, edge_index[0] != edge_index[1]].to(torch.int64)
    if weight is None:
        key = torch.cat([row * nodes + column, column * nodes + row]).unique()
        return torch.stack([key // nodes, key % nodes]), None
    weight = weight[edge_index[0] != edge_index[1]]
    key, place = (row * nodes + column).unique(return_inverse=True)
    weight = torch.zeros(key.numel(), dtype=weight.dtype).index_add_(0, place, weight)
    key, place = torch.cat([key, key % nodes * nodes + key // nodes]).unique(return_inverse=True)
    weight = torch.zeros(key.numel(), dtype=weight.dtype).scatter_reduce_(0, place, weight.repeat(2), "amax")
    return torch.stack([key // nodes, key % nodes]), weight


def set_split(data: Data, split: int, seed: int) -> None:
    """Replace a graph's masks, if it has any, by those of one split; else generate a split from its labels."""
    name, nodes = data.name, node_count(data)
    given = {key: node_mask(data[key], key, nodes, name) for key in MASKS if key in data}
    if given and "train_mask" not in given:
        raise GraphError(f"{name} has {', '.join(given)} but no train_mask: give it too, or none of them")
    counts = {mask.size(1) for mask in given.values() if mask.size(1) > 1}
    if len(counts) > 1:
        shapes = ", ".join(f"{key} {mask.size(1)}" for key, mask in given.items())
        raise GraphError(f"{name}: the masks disagree on the number of splits ({shapes})")
    total = counts.pop() if counts else 1
    if not 0 <= split < total:
        many = f"{total} splits (0 to {total - 1})" if total > 1 else "one split (0)" if given else "no fixed splits"
        other = "; a generated split is drawn by seed" if not given else ""
        raise SettingError(f"split={split}, but {name} has {many}{other}")
    if given:
        for key in MASKS:
            mask = given.get(key, torch.zeros(nodes, 1, dtype=torch.bool))
            data[key] = mask[:, split if mask.size(1) > 1 else 0].clone()
        own = attribute(data, "split_origin")
        own = own if isinstance(own, str) else "the graph's own split"
        data.split_origin = f"split {split} of {total}" if total > 1 else own
        _check_apart(data)
    elif "y" in data:
        data.train_mask, data.val_mask, data.test_mask = generated_split(data["y"], seed)
        data.split_generated = True
        each = training_text(data["y"], data.train_mask)
        data.split_origin = f"generated split, seed {seed} ({each}, {int(data.val_mask.sum())} validation, rest test)"
    else:
        data.split_origin = "no split (the graph has no labels)"


def _check_apart(data: Data) -> None:
    """Raise where a node is in two of the masks."""
    for one, other in itertools.combinations(MASKS, 2):
        both = (data[one] & data[other]).nonzero().flatten()
        if both.numel():
            raise GraphError(
                f"{data.name}: {both.numel()} node(s) are in {one} and {other} at once, the first is node "
                f"{int(both[0])}: a node can be in one only"
            )


def _core_mask(mask: Any, nodes: int, name: str) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (nodes,):
        got = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise GraphError(f"{name}: core_mask is {got}, expected one boolean for each of the {nodes} nodes")
    if int(mask.sum()) < 2:
        raise GraphError(
            f"{name}: core_mask marks {int(mask.sum())} node(s) as the graph's own: it must mark at least 2"
        )
    return mask.detach().cpu().clone()


def _times(time: Any, nodes: int, name: str) -> Tensor:
    if not isinstance(time, Tensor) or time.is_complex() or time.shape != (nodes,):
        got = list(time.shape) if isinstance(time, Tensor) else type(time).__name__
        raise GraphError(f"{name}: the time is {got}, expected one number for each of the {nodes} nodes")
    return time.detach().cpu().to(torch.float64, copy=True)


def _labels(y: Any, nodes: int, name: str) -> Tensor:
    if not isinstance(y, Tensor) or y.is_complex():
        raise GraphError(f"{name}: y is {type(y).__name__}, expected integer labels")
    if y.dim() == 2 and y.size(1) == 1:
        y = y.flatten()
    if y.dim() != 1 or y.numel() != nodes:
        raise GraphError(
            f"{name}: y has shape {list(y.shape)}, but the graph has {nodes} nodes: expected one label per node "
            "(keep several labels per node as y_multi)"
        )
    y = y.detach().cpu()
    labels = y.to(torch.int64, copy=True)
    bad = ((labels < -1) | (labels != y)).nonzero().flatten()
    if bad.numel():
        value = y[bad[0]].item()
        raise GraphError(f"{name}: y[{int(bad[0])}] is {value}, expected a class number from 0, or −1 for unlabelled")
    distinct = len(torch.cat([some.unique() for some in labels.split(BLOCK_EDGES)]).unique())
    most = min(MAX_CLASSES, max(FREE_CLASSES, CLASSES_A_CLASS * distinct))
    if labels.numel() and int(labels.max()) >= most:
        node = int(labels.argmax())
        raise GraphError(
            f"{name}: y[{node}] is {int(labels[node])}: classes are numbered from 0, and with {distinct:,} different "
            f"labels numbers below {most:,} are read; number the classes 0, 1, … without gaps"
        )
    return labels


def node_mask(mask: Any, key: str, nodes: int, name: str) -> Tensor:
    """A mask as bool [N, S]."""
    if not isinstance(mask, Tensor) or mask.is_floating_point() or mask.is_complex():
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise GraphError(f"{name}: {key} holds {got} values, expected booleans")
    mask = mask.detach().cpu()
    if mask.dtype != torch.bool and bool(((mask != 0) & (mask != 1)).any()):
        raise GraphError(f"{name}: {key} holds values other than 0 and 1 (up to {int(mask.max())}), expected booleans")
    if mask.dim() == 1:
        mask = mask.unsqueeze(1)
    elif mask.dim() == 2 and mask.size(0) != nodes:
        mask = mask.t()
    if mask.dim() != 2 or mask.size(0) != nodes or mask.size(1) == 0:
        raise GraphError(
            f"{name}: {key} has shape {list(mask.shape)}, but the graph has {nodes} nodes: expected [N] or [S, N]"
        )
    return mask.to(torch.bool)


def _repeated(names: list[str] | StoredText) -> list[str]:
    """The names that occur more than once."""
    if isinstance(names, StoredText):
        return names.repeated()
    if len(set(names)) == len(names):
        return []
    return [name for name, count in Counter(names).items() if count > 1]


def _copy_names(data: Data, raw: Data) -> None:
    """Copy the names of nodes, classes and features, and the notes; there must be as many as things to be named."""
    for key in NAMES:
        if key in raw:
            data[key] = raw[key] if isinstance(raw[key], StoredText) else list(raw[key])
    for key, count in (("node_ids", node_count(data)), ("feature_names", 0 if data.x is None else data.x.size(1))):
        if key in data and len(data[key]) != count:
            raise GraphError(f"{data.name}: {key} has {len(data[key])} entries, expected {count}")
    for key in ("node_ids", "class_names"):
        if key in data and (twice := _repeated(data[key])):
            shown = ", ".join(repr(name) for name in twice[:5])
            raise GraphError(
                f"{data.name}: {len(twice):,} of the {key} occur more than once ({shown}): give each its own"
            )
    if "class_names" in data and "y" in data and len(data["class_names"]) <= int(data["y"].max()):
        raise GraphError(f"{data.name}: {len(data['class_names'])} class names, but a label is {int(data['y'].max())}")
