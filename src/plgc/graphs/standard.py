"""Every graph in one form: features, edges in both directions once and sorted, labels, and one chosen split."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.check import MASKS, as_features, check_structure, node_count
from plgc.graphs.order import in_order
from plgc.graphs.views.splits import PER_CLASS, generated_split
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.mapped import is_mapped


def standard_form(raw: Data) -> Data:
    """Features, edges and labels in the form of :func:`load_graph`."""
    nodes = node_count(raw)
    try:
        raw.x = as_features(raw.x)
        check_structure(raw)
    except GraphError as error:
        raise GraphError(f"{raw.name}: {error}") from error
    edge_index, weight = raw["edge_index"], raw._store.get("edge_weight")
    edge_index = edge_index.detach().cpu()
    weight = None if weight is None else weight.detach().cpu().flatten().to(torch.float32)
    if not in_order(edge_index, nodes, weight):
        edge_index, weight = symmetric_edges(edge_index, nodes, weight)
    elif not is_mapped(edge_index):
        edge_index = edge_index.to(torch.int64, copy=True).contiguous()
        weight = None if weight is None else weight.clone()
    data = Data(x=raw.x, edge_index=edge_index, num_nodes=nodes, name=raw.name)
    if weight is not None:
        data.edge_weight = weight
    if raw._store.get("core_mask") is not None:
        data.core_mask = _core_mask(raw["core_mask"], nodes, raw.name)
    if raw._store.get("y") is not None:
        y = _labels(raw.y, nodes, raw.name)
        if bool((y >= 0).any()):
            data.y = y
    if raw._store.get("y_multi") is not None:
        if raw.y_multi.dim() != 2 or raw.y_multi.size(0) != nodes:
            raise GraphError(f"{raw.name}: y_multi has shape {list(raw.y_multi.shape)}, expected [{nodes}, C]")
        data.y_multi = raw.y_multi.detach().cpu().clone()
    return data


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


def _core_mask(mask: Any, nodes: int, name: str) -> Tensor:
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.shape != (nodes,):
        seen = f"{mask.dtype} {list(mask.shape)}" if isinstance(mask, Tensor) else type(mask).__name__
        raise GraphError(f"{name}: core_mask is {seen}, expected one boolean for each of the {nodes} nodes")
    if int(mask.sum()) < 2:
        raise GraphError(
            f"{name}: core_mask marks {int(mask.sum())} node(s) as the graph's own: it must mark at least 2"
        )
    return mask.detach().cpu().clone()


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
    return labels


def set_split(data: Data, raw: Data, split: int, seed: int) -> None:
    """Give ``data`` its masks: the chosen one of the source's splits, or a generated one."""
    name, nodes = data.name, node_count(data)
    given = {key: _mask(raw[key], key, nodes, name) for key in MASKS if raw._store.get(key) is not None}
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
        own = raw._store.get("split_origin")
        data.split_origin = (
            f"split {split} of {total}" if total > 1 else own if isinstance(own, str) else "the graph's own split"
        )
        both = (data.train_mask & data.test_mask).nonzero().flatten()
        if both.numel():
            raise GraphError(
                f"{name}: {both.numel()} node(s) are in train_mask and test_mask at once, the first is node "
                f"{int(both[0])}: a node can be in one only"
            )
    elif data._store.get("y") is not None:
        data.train_mask, data.val_mask, data.test_mask = generated_split(data["y"], seed)
        data.split_origin = (
            f"generated split, seed {seed} ({PER_CLASS} per class, {int(data.val_mask.sum())} validation, rest test)"
        )
    else:
        data.split_origin = "no split (the graph has no labels)"


def _mask(mask: Any, key: str, nodes: int, name: str) -> Tensor:
    """A mask as bool [N, S]."""
    if not isinstance(mask, Tensor) or mask.is_floating_point() or mask.is_complex():
        seen = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise GraphError(f"{name}: {key} holds {seen} values, expected booleans")
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
