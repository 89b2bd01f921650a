"""A condensed graph as an object of another library: PyG, NetworkX, pandas or polars."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from plgc.artifact.condensed import CondensedGraph
from plgc.runtime.errors import ArtifactError, MissingExtraError, SettingError
from plgc.runtime.files import write_atomically

if TYPE_CHECKING:
    import networkx

FRAMES = ("pandas", "polars")
Artifact = CondensedGraph | str | os.PathLike[str]


def to_pyg(condensed: CondensedGraph) -> Data:
    """Return a condensed graph as a PyG ``Data`` with copies of its tensors.

    ``x`` are the synthetic features [K, f], ``counts`` [K] how many original nodes each represents. ``y`` are
    pseudo-labels [K, d], vectors to regress on, or classes [K] or [K, C] from a supervised method; ``target`` says
    which: ``"pseudo_labels"`` or ``"labels"``. ``edge_index`` has no self-loops, and is empty where A' = I. A model
    trained on ``x`` expects a graph's own features with the row scaling ``scaling``. Of pseudo-labels, ``blocks`` are
    the widths of their unit vectors, and ``channels`` says of each whether a model reaches it with edges (``edges``) or
    from a node's own features alone (``plain``).
    """
    y = condensed.pseudo_labels if condensed.pseudo_labels is not None else condensed.labels
    assert y is not None
    edges = torch.zeros((2, 0), dtype=torch.int64) if condensed.edge_index is None else condensed.edge_index
    other = edges[0] != edges[1]
    x, nodes = condensed.features.clone(), condensed.num_nodes
    data = Data(x=x, edge_index=edges[:, other], y=y.clone(), num_nodes=nodes)
    data.counts, data.scaling = condensed.counts.clone(), condensed.scaling
    data.target = "labels" if condensed.pseudo_labels is None else "pseudo_labels"
    if condensed.pseudo_labels is not None:
        data.blocks, data.channels = list(condensed.blocks), list(condensed.channels)
    if condensed.edge_weight is not None:
        data.edge_weight = condensed.edge_weight[other]
    return data


def save_pyg(condensed: CondensedGraph, path: str | os.PathLike[str]) -> Path:
    """Write :func:`to_pyg` as a dictionary of plain values: ``Data.from_dict(torch.load(path))`` opens it without plgc.

    A ``Data`` object itself would be a pickle that ``torch.load`` refuses from a stranger.
    """
    content = io.BytesIO()
    torch.save(to_pyg(condensed).to_dict(), content)
    return write_atomically(path, content.getvalue())


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
    assert data.edge_index is not None
    graph = networkx.Graph(method=condensed.method, scaling=condensed.scaling)
    rows = zip(data.x.tolist(), data.y.tolist(), data.counts.tolist(), strict=True)
    for node, (features, target, count) in enumerate(rows):
        graph.add_node(node, features=features, target=target, count=count)
    pairs = data.edge_index.t().tolist()
    if "edge_weight" in data:
        graph.add_weighted_edges_from((u, v, w) for (u, v), w in zip(pairs, data["edge_weight"].tolist(), strict=True))
    else:
        graph.add_edges_from(pairs)
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
    data, prefix = to_pyg(condensed), "label" if condensed.pseudo_labels is None else "pseudo_label"
    assert isinstance(data.y, Tensor)
    columns = [("count", condensed.counts), *zip(names, condensed.features.t(), strict=True)]
    columns += [(prefix, data.y)] if data.y.ndim == 1 else [(f"{prefix}_{k}", own) for k, own in enumerate(data.y.t())]
    content = {name: column.numpy() for name, column in columns}
    if len(content) < len(columns):
        raise SettingError(f"a feature name is that of another column (count, {prefix}…): rename it")
    for library in FRAMES if kind is None else (kind,):
        try:
            return __import__(library).DataFrame(content)
        except ImportError:
            continue
    raise MissingExtraError(f"a data frame needs {kind or 'pandas or polars'}: pip install 'plgc[tables]'")


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
        self.graphs = [
            to_pyg(item if isinstance(item, CondensedGraph) else CondensedGraph.load(item)) for item in items
        ]

    def len(self) -> int:
        """How many condensed graphs there are."""
        return len(self.graphs)

    def get(self, idx: int) -> Data:
        """One of them, a copy."""
        return self.graphs[idx].clone()
