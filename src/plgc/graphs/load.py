"""Load a graph: from a name, a file, a PyG ``Data`` or a graph of another library, always brought to one form.

:func:`unlabelled` removes labels and masks again: condensation is given features and edges alone.
"""

from __future__ import annotations

import copy
import difflib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, Dataset

from plgc.graphs import catalog
from plgc.graphs.attributes import ALL, Seen, attribute, seen_of
from plgc.graphs.check import MASKS, node_count
from plgc.graphs.derive import derive_features, parse_features
from plgc.graphs.features import unlike_scales
from plgc.graphs.formats import NPZ, format_by_suffix, format_of
from plgc.graphs.formats.arrays import YEAR, as_time
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.stored import stored_files
from plgc.graphs.standard import set_split, standard_form
from plgc.graphs.views.until import check_time, since_time, until_time
from plgc.runtime.errors import GraphError, GraphNotFoundError, LabelError, SettingError
from plgc.runtime.text import visible_lines


class ClassLikeWarning(UserWarning):
    """A column of a table that is used as a feature looks like what the user wants to predict."""


def load_graph(
    source: Any,
    *,
    split: int = 0,
    seed: int = 0,
    nodes_table: Any = None,
    columns: TableColumns | None = None,
    features: str | None = None,
    features_seed: int = 0,
    until: float | None = None,
    since: float | None = None,
    time: str | None = None,
    notice: Callable[[str], None] | bool | None = True,
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
        columns: which column of the tables (or attribute of GraphML and NetworkX) is what; guessed where not given.
        features: derive features from the edges, as in ``"fastrp:128"`` (:mod:`plgc.graphs.derive`), for graphs that
            come without; features that the source has are not read.
        features_seed: of the derived features; graphs that are to share a model need the same.
        until: keep the nodes that came up to this time, and the edges among them (:mod:`plgc.graphs.views.until`).
        since: keep those that came after this time and, marked by ``core_mask`` as a halo, two hops of older ones.
        time: what says when nodes came: an array of the file, a column of the node table, an attribute of a ``Data``;
            by default ``year``. A column of a table that is the time is no feature.
        notice: True prints ``notes`` on stderr, those of a ``Data`` that has them already only once; False prints
            nothing; a function is called with every sentence of ``doubts`` and ``notes``.

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
        - ``time``: float64 [N], when every node came, where it was asked for;
        - ``node_ids``, ``class_names`` and ``feature_names`` (lists of text) where the source names its nodes, classes
          or features, ``notes``, sentences on what was guessed, and ``doubts``, on columns that look like classes;
        - ``seen`` where features are derived from edges, or made from a table: ``seen.derived`` and
          ``seen.preprocessing`` say how, and files made from them repeat it;
        - ``num_nodes``, ``name``, ``split_origin`` (a sentence on where the masks come from), ``split_index``,
          ``split_seed`` and, where the masks are generated, ``split_generated``.

    Raises:
        GraphNotFoundError: nothing is found under that name or path.
        GraphError: what was found is not a sound graph; the message names the value.
        SettingError: there is no such split, or no such column.
        MissingExtraError: Parquet without pyarrow.

    Warns:
        ClassLikeWarning: a feature column of a table looks like classes.

    Example:
        >>> import plgc
        >>> graph = plgc.load_graph("demo")
        >>> graph.num_nodes, graph.num_features, graph.split_origin
        (3000, 1000, 'generated split, seed 0 (20 per class, 500 validation, 1000 test)')
    """
    if isinstance(split, bool) or not isinstance(split, int):
        raise SettingError(f"split={split!r}: expected a whole number, counted from 0")
    data = open_graph(source, nodes_table, columns, features, features_seed, until=until, since=since, time=time)
    doubts, notes = (attribute(data, name, ()) for name in ("doubts", "notes"))
    for doubt in () if isinstance(source, Data) else doubts:
        warnings.warn(doubt, ClassLikeWarning, stacklevel=2)
    known = attribute(source, "notes", ()) if isinstance(source, Data) else ()
    tell(doubts, notes if callable(notice) else [note for note in notes if note not in known], notice)
    return choose_split(data, split, seed)


def tell(doubts: Sequence[str], notes: Sequence[str], notice: Callable[[str], None] | bool | None) -> None:
    """Tell the user what was guessed, as ``notice`` of :func:`load_graph` says."""
    if callable(notice):
        for sentence in (*doubts, *notes):
            notice(sentence)
    elif notice:
        for note in notes:
            print(f"note: {visible_lines(note)}", file=sys.stderr)


def open_graph(
    source: Any,
    nodes_table: Any = None,
    columns: TableColumns | None = None,
    features: str | None = None,
    features_seed: int = 0,
    *,
    until: float | None = None,
    since: float | None = None,
    time: str | None = None,
) -> Data:
    """A graph in our form before one of its splits is chosen, with the masks of all of them.

    Arguments and errors are those of :func:`load_graph`. ``choose_split(open_graph(source), i, j)`` gives what
    ``load_graph(source, split=i, seed=j)`` does; the graph is read, checked and brought to our form only once.
    """
    if features is not None:
        parse_features(features)  # a wrong value is refused before anything is read
    for name, value in (("until", until), ("since", since)):
        if value is not None:
            check_time(value, name)
            time = time or YEAR
    raw = _read(source, nodes_table, columns, time, until)
    raw.num_nodes = node_count(raw)  # while x still has its rows, should it have no columns
    own = seen_of(raw)
    seen = Seen(derived=own.derived, preprocessing=own.preprocessing)
    if features is not None:
        raw.x, raw.feature_names, raw.doubts = None, None, None
        seen = Seen(derived={"features": features, "seed": features_seed})
    data = standard_form(raw)
    for key in MASKS:
        data[key] = attribute(raw, key)
    if until is not None:
        data = until_time(data, until)
    if since is not None:
        data = since_time(data, since)
    if features is not None:
        data.x = derive_features(data, features, features_seed)
        note = f"{data.name}: features are derived from the edges ({features}, seed {features_seed})"
        data.notes = [*attribute(data, "notes", ()), note]
    if seen != ALL:
        data.seen = seen
    elif (unlike := unlike_scales(data)) is not None and unlike not in attribute(data, "notes", ()):
        data.notes = [*attribute(data, "notes", ()), unlike]
    for key in ("split_origin", "split_index", "split_seed", "split_generated"):
        data[key] = attribute(raw, key)
    return data


def choose_split(graph: Data, split: int = 0, seed: int = 0) -> Data:
    """The graph that :func:`open_graph` returned with one of its splits, sharing all other tensors."""
    data = copy.copy(graph)
    chosen_before = "train_mask" in graph
    set_split(data, split, seed)
    data.split_index = attribute(graph, "split_index", split) if chosen_before else split
    data.split_seed = attribute(graph, "split_seed", seed) if chosen_before else seed
    return data


def is_path(source: str) -> bool:
    """Whether :func:`load_graph` takes a text for a path, not for a name of the catalogue."""
    if format_by_suffix(source) is not None or "/" in source or os.sep in source:
        return True
    return not catalog.is_known(source) and os.path.exists(source)


def graph_files(source: str | os.PathLike[str]) -> list[Path]:
    """The files that a name or path is read from: a file, or a folder and the files in it. Nothing is opened.

    A graph that is not here yet has the file that its download would be kept in; the embedded graph has none.
    """
    if isinstance(source, str) and not is_path(source):
        found = catalog.graph_file(source)
        return [] if found is None else [found]
    path = Path(os.path.expanduser(source))
    return [path, *stored_files(path)]


def node_labels(data: Data) -> Tensor:
    """The labels y, −1 where a node has none.

    Raises:
        LabelError: the graph has no labels.
    """
    y = attribute(data, "y")
    if y is None or y.numel() == 0 or int(y.max()) < 0:
        raise LabelError(
            f"{attribute(data, 'name', 'the graph')} has no labels (y is missing or −1 throughout): give it some; in a "
            "table of nodes, name their column as label"
        )
    return y


def num_classes(data: Data) -> int:
    """The number of classes: the largest label + 1. Raises as :func:`node_labels` does."""
    return int(node_labels(data).max()) + 1


def without_labels(graph: Data) -> Data:
    """The graph without its labels and masks, sharing all other tensors."""
    data = copy.copy(graph)
    for key in ("y", "y_multi", *MASKS):
        data[key] = None
    return data


def unlabelled(graph: Data) -> Data:
    """Return a new ``Data`` of features and edges alone, sharing their tensors: no labels, no masks, no names.

    A ``core_mask`` stays: it marks the nodes of a part, against neighbours that belong to other parts.
    """
    bare = Data(x=graph.x, edge_index=graph.edge_index, num_nodes=node_count(graph))
    bare.edge_weight, bare.core_mask = attribute(graph, "edge_weight"), attribute(graph, "core_mask")
    return bare


def _read(
    source: Any, nodes_table: Any, columns: TableColumns | None, time: str | None = None, until: float | None = None
) -> Data:
    """The source as a raw ``Data`` with a name, and with its ``time`` where one is named."""
    in_file = isinstance(source, os.PathLike) or (isinstance(source, str) and is_path(source))
    place = existing(source) if in_file else source
    input_format = None if isinstance(place, str | Data) else format_of(place)
    options = () if input_format is None else input_format.options
    if nodes_table is not None and "nodes_table" not in options:
        raise SettingError(f"a node table goes with an edge list (CSV, TSV, Parquet), not with {source!r:.80}")
    if columns is not None and "columns" not in options and not columns.only_known:
        raise SettingError(f"columns are for tables, GraphML and NetworkX, not for {source!r:.80}")
    if input_format is not None:
        nodes = existing(nodes_table) if isinstance(nodes_table, str | os.PathLike) else nodes_table
        if time is not None and not {"columns", "time"} & set(options):
            raise SettingError(f"a {type(source).__name__} says of no node when it came: give another form of graph")
        if time is not None and "columns" in options:
            columns = replace(columns or TableColumns(), time=time, until=until)
        given = {"nodes_table": nodes, "columns": columns, "time": time}
        return input_format.read(place, **{name: given[name] for name in options})
    if isinstance(source, Data):
        raw = Data.from_dict(source.to_dict())
        raw.name = raw.name if isinstance(attribute(raw, "name"), str) else "graph"
        return _with_time(raw, time)
    if isinstance(source, str):
        return _read_named(source, time)
    hint = " (give one of its graphs: dataset[0])" if isinstance(source, Dataset) else ""
    raise GraphError(
        f"cannot load a graph from a {type(source).__name__}{hint}: expected a name, a path, a PyG Data, a "
        "NetworkX graph, a data frame of edges or a scipy matrix with features"
    )


def _with_time(raw: Data, name: str | None) -> Data:
    """A ``Data`` with the attribute of this name as its ``time``; one that was loaded with a time keeps that."""
    nodes = node_count(raw)
    rows = [key for key in raw.keys() if isinstance(raw[key], Tensor) and raw[key].shape == (nodes,)]  # noqa: SIM118
    own = raw["time"] if "time" in rows and raw["time"].dtype == torch.float64 else None
    if name is not None:
        own = (
            own if name == YEAR and name not in rows and own is not None else as_time(name, attribute(raw, name), rows)
        )
    raw.time = own
    return raw


def _read_named(name: str, time: str | None) -> Data:
    """A graph of the catalogue."""
    found = catalog.find_graph(name)
    if isinstance(found, Data):
        return _with_time(found, time)
    raw = NPZ.read(found, time=time)
    raw.name = catalog.display_name(found.stem)
    return raw


def existing(source: str | os.PathLike[str]) -> Path:
    """A path, with the home folder in the place of ``~``.

    Raises:
        GraphNotFoundError: there is no such file; the message names one with a similar name.
        GraphError: it is a pipe or a device, on which reading might wait for ever.
    """
    path = Path(os.path.expanduser(source))
    if os.path.isfile(path) or os.path.isdir(path):
        return path
    if os.path.exists(path):
        raise GraphError(f"{path} is a pipe or a device, expected a plain file: write what it gives into one first")
    try:
        others = [other.name for other in path.absolute().parent.iterdir() if other.is_file()]
    except OSError:
        raise GraphNotFoundError(f"no such file: {path}, and no such folder") from None
    near = difflib.get_close_matches(path.name, others, n=1)
    hint = f". Did you mean {path.with_name(near[0])}?" if near else ""
    raise GraphNotFoundError(f"no such file: {path}{hint}")
