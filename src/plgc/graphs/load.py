"""Where a graph comes in: a name, a file, a PyG ``Data`` or a graph of another library, always brought to one form.

Labels and masks end here too: :func:`unlabelled` is what condensation gets to see.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor
from torch_geometric.data import Data, Dataset

from plgc.graphs import catalog
from plgc.graphs.check import MASKS, node_count
from plgc.graphs.derive import derive_features, derived_of, parse_features
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.foreign import keep_names, open_foreign
from plgc.graphs.formats.graphml import is_graphml
from plgc.graphs.formats.npz import read_npz
from plgc.graphs.formats.stored import is_stored, read_stored, stored_files
from plgc.graphs.formats.tables import is_table
from plgc.graphs.formats.unpack import unpacked
from plgc.graphs.standard import set_split, standard_form
from plgc.runtime.errors import GraphError, GraphNotFoundError, LabelError, SettingError


def load_graph(
    source: Any,
    *,
    split: int = 0,
    seed: int = 0,
    nodes_table: Any = None,
    columns: TableColumns | None = None,
    features: str | None = None,
    features_seed: int = 0,
    notice: Callable[[str], None] | None = None,
) -> Data:
    """Load a graph and bring it to the form the rest of the package expects.

    Args:
        source: a catalogue name (``"cora"``); the path of an npz file in our format, of a folder of npy files or a
            safetensors file with the same arrays, of an edge list (CSV, TSV, Parquet; gzip is fine) or of a GraphML
            file; a PyG ``Data``, a NetworkX graph, a data frame of edges, a scipy adjacency matrix or a tuple (matrix,
            features) or (matrix, features, labels). It is never changed. A name the catalogue knows wins over a file
            of the same name without a suffix.
        split: which of several fixed splits to use, counted from 0.
        seed: seed of the generated split; used only for a graph that has labels and no masks.
        nodes_table: for an edge list, the table of its nodes: a path or a data frame.
        columns: which column of the tables (or attribute of GraphML and NetworkX) is what; guessed where it is silent.
        features: derive features from the edges, as in ``"fastrp:128"`` (:mod:`plgc.graphs.derive`), for graphs that
            come without; features that the source has are not read.
        features_seed: of the derived features; graphs that are to share a model need the same.
        notice: called with every sentence of ``notes``.

    Returns:
        A new ``Data`` on the CPU with

        - ``x``: float32, dense, or ``torch.sparse_csr`` where the source is sparse; not row-normalised; None for a
          graph without features. Large dense features stay in their file (:mod:`plgc.runtime.mapped`), and float16;
        - ``edge_index``: int64 [2, E], both directions of every edge, no duplicates, no self-loops, sorted; in a large
          file that has them so they stay there, int32 where they are;
        - ``edge_weight`` where the source has it: duplicates are summed, then the larger of the two directions
          counts for both (so a symmetric graph keeps its weights);
        - ``core_mask`` where the source has it: bool [N], False for a halo around the graph's own nodes;
        - ``y``: int64 [N], −1 for unlabelled, where the source has labels; ``y_multi`` where it has that;
        - ``train_mask``, ``val_mask``, ``test_mask``: bool [N], the source's or generated;
        - ``node_ids``, ``class_names`` and ``feature_names`` (lists of text) where the source names its nodes, classes
          or features, and ``notes``, sentences on what was guessed;
        - ``seen`` where features are derived: ``seen["derived"]`` says how, and files made from them repeat it;
        - ``num_nodes``, ``name``, ``split_origin`` (a sentence on where the masks come from) and the ``split_index``
          and ``split_seed`` that were asked for.

    Raises:
        GraphNotFoundError: nothing is found under that name or path.
        GraphError: what was found is not a sound graph; the message names the value.
        SettingError: there is no such split, or no such column.
        MissingExtraError: Parquet without pyarrow.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> graph.num_nodes, graph.num_features, graph.split_origin
        (3000, 1000, 'generated split, seed 0 (20 per class, 500 validation, 1000 test)')
    """
    if isinstance(split, bool) or not isinstance(split, int):
        raise SettingError(f"split={split!r}: expected a whole number, counted from 0")
    raw, data = _opened(source, nodes_table, columns, features, features_seed, notice)
    set_split(data, raw, split, seed)
    chosen = raw._store if raw._store.get("train_mask") is not None else {}  # a choice made before is remembered
    data.split_index, data.split_seed = chosen.get("split_index", split), chosen.get("split_seed", seed)
    return data


def open_graph(
    source: Any,
    *,
    nodes_table: Any = None,
    columns: TableColumns | None = None,
    features: str | None = None,
    features_seed: int = 0,
    notice: Callable[[str], None] | None = None,
) -> Data:
    """A graph before any of its splits is chosen: for :func:`load_graph` again, once for every split or seed.

    Arguments and errors are those of :func:`load_graph`, and ``load_graph(open_graph(source, ...), split=i, seed=j)``
    gives what ``load_graph(source, ..., split=i, seed=j)`` does, without reading the source again.
    """
    raw, data = _opened(source, nodes_table, columns, features, features_seed, notice)
    for key in (*MASKS, "split_origin", "split_index", "split_seed"):
        if raw._store.get(key) is not None:
            data[key] = raw[key]
    return data


def graph_files(source: str | os.PathLike[str]) -> list[Path]:
    """Where a name or path is read from: a file, or a folder and the files in it. Nothing is opened or downloaded.

    A graph that is not here yet has the file that its download would be kept in; the embedded graph has none.
    """
    path = Path(os.path.expanduser(source))
    if not _names_file(source, path):
        found = catalog.graph_file(str(source))
        return [] if found is None else [found]
    return [path, *stored_files(path)]


def node_labels(data: Data) -> Tensor:
    """The labels y, −1 where a node has none.

    Raises:
        LabelError: the graph has no labels.
    """
    y = data._store.get("y")
    if y is None or y.numel() == 0 or int(y.max()) < 0:
        raise LabelError(
            f"{data._store.get('name', 'the graph')} has no labels (y is missing or −1 throughout): give it some; in a "
            "table of nodes, name their column as label"
        )
    return y


def num_classes(data: Data) -> int:
    """The number of classes: the largest label + 1. Raises as :func:`node_labels` does."""
    return int(node_labels(data).max()) + 1


def unlabelled(graph: Data) -> Data:
    """Return a new ``Data`` of features and edges alone, sharing their tensors: no labels, no masks, no names.

    A ``core_mask`` stays: it says which nodes are a part's own, and which are only neighbours in other parts.
    """
    bare = Data(x=graph.x, edge_index=graph.edge_index, num_nodes=node_count(graph))
    if graph._store.get("edge_weight") is not None:
        bare.edge_weight = graph.edge_weight
    if graph._store.get("core_mask") is not None:
        bare.core_mask = graph["core_mask"]
    return bare


def _opened(
    source: Any,
    nodes_table: Any,
    columns: TableColumns | None,
    features: str | None,
    features_seed: int,
    notice: Callable[[str], None] | None,
) -> tuple[Data, Data]:
    """The source as it came, and in our form but for its split."""
    if features is not None:
        parse_features(features)  # refuse a wrong word before anything is read
    _check_there(source)
    if isinstance(source, str | os.PathLike) and is_table(source):
        _check_there(nodes_table)
    raw = open_foreign(source, nodes_table, columns) or _open(source)
    raw.num_nodes = node_count(raw)  # while x still has its rows, should it have no columns
    mark = derived_of(raw)
    if features is not None:
        raw.x, raw.feature_names, mark = None, None, {"features": features, "seed": features_seed}
    data = standard_form(raw)
    keep_names(data, raw)
    if features is not None:
        data.x = derive_features(data, features, features_seed)
        note = f"{data.name}: features are derived from the edges ({features}, seed {features_seed})"
        data.notes = [*data._store.get("notes", ()), note]
    if mark is not None:
        data.seen = {"nodes": "all", "edges": "all", "derived": mark}
    if notice is not None:
        for note in data._store.get("notes", ()):
            notice(note)
    return raw, data


def _check_there(source: Any) -> None:
    """Raise :class:`GraphNotFoundError` for the path of a file that does not exist, and name the nearest that does."""
    if not isinstance(source, str | os.PathLike):
        return
    path = Path(os.path.expanduser(source))
    if not _names_file(source, path) or os.path.exists(path):
        return
    try:
        others = [other.name for other in path.absolute().parent.iterdir() if other.is_file()]
    except OSError:
        raise GraphNotFoundError(f"no such file: {path}, and no such folder") from None
    near = difflib.get_close_matches(path.name, others, n=1)
    hint = f". Did you mean {path.with_name(near[0])}?" if near else ""
    raise GraphNotFoundError(f"no such file: {path}{hint}")


def _open(source: Any) -> Data:
    """The source as a raw ``Data`` with a name and, where it is known already, a split_origin."""
    if isinstance(source, Data):
        raw = Data.from_dict(source.to_dict())
        raw.name = source._store["name"] if isinstance(source._store.get("name"), str) else "graph"
        return raw
    if isinstance(source, os.PathLike):
        return _read_file(Path(source))
    if not isinstance(source, str):
        hint = " (give one of its graphs: dataset[0])" if isinstance(source, Dataset) else ""
        raise GraphError(
            f"cannot load a graph from a {type(source).__name__}{hint}: expected a name, a path, a PyG Data, a "
            "NetworkX graph, a data frame of edges or a scipy matrix with features"
        )
    if _is_path(source):
        return _read_file(Path(os.path.expanduser(source)))
    found = catalog.open_graph(source)
    return found if isinstance(found, Data) else _read_file(found, catalog.display_name(found.stem))


def _read_file(path: Path, name: str | None = None) -> Data:
    """A graph on disk as a raw ``Data``; a large npz file is unpacked into the cache first."""
    if is_stored(path):
        return read_stored(path, name)
    folder, note = unpacked(path)
    raw = read_npz(path, name) if folder is None else read_stored(folder, name or path.stem)
    if note is not None:
        raw.notes = [note]
    return raw


def _names_file(source: str | os.PathLike[str], path: Path) -> bool:
    """Whether a source is a path, not a name of the catalogue; ``path`` is the source without its ``~``."""
    return isinstance(source, os.PathLike) or is_table(path) or is_graphml(path.name) or _is_path(source)


def _is_path(source: str) -> bool:
    separators = {"/", os.sep, os.altsep or os.sep}
    if source.lower().endswith((".npz", ".safetensors")) or any(separator in source for separator in separators):
        return True
    return not catalog.is_known(source) and os.path.exists(source)
