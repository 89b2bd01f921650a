"""Which labels a head may learn from."""

from __future__ import annotations

from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.load import node_labels
from plgc.graphs.views.splits import draw_labels, draw_shots
from plgc.runtime.errors import LabelError, SettingError


def choose_labels(graph: Data, shots: int | None, labels: int | None, seed: int) -> tuple[Tensor, bool]:
    """Which nodes' labels to train on, and whether validation labels may be used (full labels only)."""
    if shots is not None and labels is not None:
        raise SettingError(f"give shots or labels, not both (got shots={shots}, labels={labels})")
    y = node_labels(graph)
    if "train_mask" not in graph:
        raise LabelError("the graph has no training mask: load it with plgc.load_graph, which makes one")
    if shots is not None:
        return draw_shots(y, graph["train_mask"], shots, seed), False
    if labels is not None:
        return draw_labels(y, graph["train_mask"], labels, seed), False
    labelled = ((y >= 0) & graph["train_mask"]).nonzero().flatten()
    if len(labelled) == 0:
        raise LabelError("none of the graph's training nodes has a label")
    return labelled, bool((graph["val_mask"] & (y >= 0)).any())
