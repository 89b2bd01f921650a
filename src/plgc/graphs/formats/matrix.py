"""A scipy adjacency matrix, alone or in a tuple (matrix, features) or (matrix, features, labels)."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from plgc.graphs.features import as_features
from plgc.graphs.formats.node_columns import labels_of
from plgc.runtime.errors import GraphError


def read(source: Any) -> Data:
    """Read a matrix as a raw ``Data``. Entries that are all 1 are edges without weights; zeros are no edges."""
    parts: list[Any] = list(source) if isinstance(source, tuple) else [source]
    if len(parts) > 3:
        raise GraphError(
            f"a tuple of {len(parts)} was given, expected (matrix, features) or (matrix, features, labels)"
        )
    matrix, features, labels = parts[0], *[*parts[1:], None, None][:2]
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"the matrix has shape {list(matrix.shape)}, expected [N, N], an adjacency")
    if matrix.dtype.kind not in "fiub":
        raise GraphError(f"the matrix holds {matrix.dtype} values, expected numbers")
    entries = matrix.tocoo(copy=True)
    entries.sum_duplicates()
    kept = entries.data != 0
    pairs = np.stack([entries.row[kept], entries.col[kept]]).astype(np.int64)
    data = Data(edge_index=torch.from_numpy(pairs), num_nodes=matrix.shape[0])
    data.name, notes = "graph", []
    weight = entries.data[kept].astype(np.float64)
    if not (weight == 1).all():
        data.edge_weight = torch.from_numpy(weight)
        notes.append("graph: the matrix's entries are taken as weights of the edges")
    if (x := as_features(features)) is not None:
        if x.shape[0] != matrix.shape[0]:
            raise GraphError(f"the features have {x.shape[0]} rows, the matrix {matrix.shape[0]}: give one per node")
        data.x = x
    if labels is not None:
        values = labels.cpu().numpy() if isinstance(labels, torch.Tensor) else labels
        y, data.class_names = labels_of(values, "labels", notes)
        data.y = torch.from_numpy(y)
    data.notes = notes
    return data
