"""A condensed graph in the forms of other libraries: PyG, NetworkX, pandas and polars."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from plgc.artifact.condensed import CondensedGraph
from plgc.runtime.errors import ArtifactError, MissingExtraError, SettingError

if TYPE_CHECKING:
    import networkx

FRAMES = ("pandas", "polars")
Artifact = CondensedGraph | str | os.PathLike[str]


def to_pyg(condensed: CondensedGraph) -> Data:
    """Return a condensed graph as a PyG ``Data`` of its own tensors.

    ``x`` are the synthetic features [K, f], ``counts`` [K] how many original nodes each stands for. ``y`` are
    pseudo-labels [K, d], vectors to regress on, or classes [K] or [K, C] where a supervised method left labels;
    ``target`` says which: ``"pseudo_labels"`` or ``"labels"``. ``edge_index`` has no self-loops, and is empty where
    A' = I. ``scaling`` is the row scaling that a graph's own features need before they meet a model trained on ``x``.
    """
    edge_index, weight = _edges(condensed)
    y = condensed.pseudo_labels if condensed.pseudo_labels is not None else condensed.labels
    assert y is not None
    data = Data(x=condensed.features.clone(), edge_index=edge_index, y=y.clone(), num_nodes=condensed.num_nodes)
    data.counts = condensed.counts.clone()
    data.target = "pseudo_labels" if condensed.pseudo_labels is not None else "labels"
    data.scaling = condensed.scaling
    if weight is not None:
        data.edge_weight = weight
    return data


def to_networkx(condensed: CondensedGraph) -> networkx.Graph:
    """Return a condensed graph as an undirected NetworkX graph.

    Every node has ``features`` and ``target`` (lists of numbers, or a class) and ``count``; every edge a ``weight``
    where there are weights.

    Raises:
        MissingExtraError: networkx is not installed.
    """
    try:
        import networkx
    except ImportError as error:
        raise MissingExtraError("this needs networkx: pip install 'plgc[networkx]'") from error
    data = to_pyg(condensed)
    assert data.x is not None
    assert isinstance(data.y, Tensor)
    graph = networkx.Graph(method=condensed.method, scaling=condensed.scaling)
    rows = zip(data.x.tolist(), data.y.tolist(), data.counts.tolist(), strict=True)
    graph.add_nodes_from(
        (node, {"features": features, "target": target, "count": count})
        for node, (features, target, count) in enumerate(rows)
    )
    edge_index, weight = _edges(condensed)
    pairs = edge_index.t().tolist()
    if weight is None:
        graph.add_edges_from(pairs)
    else:
        graph.add_weighted_edges_from((u, v, w) for (u, v), w in zip(pairs, weight.tolist(), strict=True))
    return graph


def to_dataframe(condensed: CondensedGraph, kind: str | None = None, feature_names: Sequence[str] | None = None) -> Any:
    """Return the synthetic nodes as a data frame: ``count``, the features, then pseudo-labels or labels.

    Args:
        condensed: the condensed graph; edges, where it has any, are left out.
        kind: ``pandas`` or ``polars``; by default whichever is installed, pandas first.
        feature_names: names of the feature columns, such as ``graph.feature_names``; by default x0, x1, ….

    Raises:
        MissingExtraError: neither is installed, or not the one asked for.
    """
    if kind is not None and kind not in FRAMES:
        raise SettingError(f"kind is {kind!r}: choose pandas or polars")
    names = [f"x{place}" for place in range(condensed.num_features)] if feature_names is None else list(feature_names)
    if len(names) != condensed.num_features or len(set(names)) < len(names):
        raise SettingError(f"{len(names)} feature names were given, {condensed.num_features} different ones are needed")
    library = _frame_library(kind)
    columns: dict[str, Any] = {"count": condensed.counts.numpy()}
    columns |= {name: condensed.features[:, place].numpy() for place, name in enumerate(names)}
    if condensed.pseudo_labels is not None:
        target, prefix = condensed.pseudo_labels, "pseudo_label"
    else:
        assert condensed.labels is not None
        target, prefix = condensed.labels, "label"
    if target.ndim == 1:
        columns[prefix] = target.numpy()
    else:
        columns |= {f"{prefix}_{place}": target[:, place].numpy() for place in range(target.shape[1])}
    if len(columns) < 1 + len(names) + (1 if target.ndim == 1 else target.shape[1]):
        raise SettingError(f"a feature name is that of another column (count, {prefix}…): rename it")
    return library.DataFrame(columns)


class CondensedDataset(Dataset):
    """Condensed graphs as a PyG dataset, for a training loop of your own. They stay in memory; nothing is written.

    Args:
        condensed: one condensed graph or several, each as an object or as the path of its file.
        transform: applied to every graph when it is taken, as in any PyG dataset.

    Example:
        >>> import plgc
        >>> from plgc.artifact.export import CondensedDataset
        >>> path = plgc.condense(plgc.load_graph("demo"), nodes=40).save("demo.safetensors")
        >>> dataset = CondensedDataset(path)  # or several of them, or the condensed graphs themselves
        >>> dataset[0].x.shape[1], dataset[0].target
        (1000, 'pseudo_labels')
    """

    def __init__(self, condensed: Artifact | Sequence[Artifact], transform: Callable[[Any], Any] | None = None) -> None:
        super().__init__(root=None, transform=transform)
        items = list(condensed) if isinstance(condensed, Sequence) and not isinstance(condensed, str) else [condensed]
        if not items:
            raise ArtifactError("no condensed graph was given")
        opened = [item if isinstance(item, CondensedGraph) else CondensedGraph.load(item) for item in items]
        self.graphs = [to_pyg(item) for item in opened]

    def len(self) -> int:
        """How many condensed graphs there are."""
        return len(self.graphs)

    def get(self, idx: int) -> Data:
        """One of them, a copy."""
        return self.graphs[idx].clone()


def _edges(condensed: CondensedGraph) -> tuple[Tensor, Tensor | None]:
    """A' without its diagonal."""
    if condensed.edge_index is None:
        return torch.zeros((2, 0), dtype=torch.int64), None
    other = condensed.edge_index[0] != condensed.edge_index[1]
    weight = None if condensed.edge_weight is None else condensed.edge_weight[other].clone()
    return condensed.edge_index[:, other].clone(), weight


def _frame_library(kind: str | None) -> Any:
    for name in FRAMES if kind is None else (kind,):
        try:
            return __import__(name)
        except ImportError:
            continue
    raise MissingExtraError(f"a data frame needs {kind or 'pandas or polars'}: pip install 'plgc[tables]'")
