"""Cora, CiteSeer and PubMed as Yang, Cohen and Salakhutdinov (2016) published them: eight files for each graph.

Seven of them are pickles. They are opened by an unpickler that knows six names, of arrays, lists and dictionaries, and
refuses every other one: nothing that a file names is run.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch_geometric.data import Data

from plgc.graphs.check import MASKS
from plgc.graphs.features import csr_features, from_scipy, to_scipy
from plgc.runtime.errors import GraphError

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph", "test.index")
CSR_PARTS = ("indptr", "indices", "data", "_shape")
VALIDATION = 500


def read_planetoid(folder: Path, name: str) -> Data:
    """Read the files ``ind.NAME.PART`` of a folder: the graph with its public split.

    Rows of ``allx`` are the first nodes, and ``test.index`` says which nodes those of ``tx`` are. Nodes that are in
    neither, of CiteSeer, have features of zeros and class 0, as everywhere in the literature.
    """
    allx, tx = (_matrix(folder / f"ind.{name}.{part}") for part in ("allx", "tx"))
    ally, ty, y = (_array(folder / f"ind.{name}.{part}") for part in ("ally", "ty", "y"))
    test = np.loadtxt(folder / f"ind.{name}.test.index", dtype=np.int64)
    node = np.concatenate([np.arange(len(ally)), test])
    count, rows = int(node.max()) + 1, sp.vstack([allx, tx]).tocoo()
    x = sp.csr_matrix((rows.data, (node[rows.row], rows.col)), shape=(count, tx.get_shape()[1]))
    labels = np.zeros(count, dtype=np.int64)
    labels[node] = np.concatenate([ally, ty]).argmax(axis=1)
    parts = (np.arange(len(y)), np.arange(len(y), len(y) + VALIDATION), test)
    masks = {key: torch.from_numpy(np.isin(np.arange(count), part)) for key, part in zip(MASKS, parts, strict=True)}
    edges = _edges(folder / f"ind.{name}.graph")
    return Data(x=from_scipy(x), edge_index=edges, y=torch.from_numpy(labels), num_nodes=count, **masks)


class _Matrix:
    """Stands in for a sparse matrix: it keeps the parts, and does nothing with them."""


class _Unpickler(pickle.Unpickler):
    """Knows the names in Planetoid's files alone."""

    NAMES = {  # noqa: RUF012 (never changed)
        ("scipy.sparse.csr", "csr_matrix"): _Matrix,
        ("numpy.core.multiarray", "_reconstruct"): np.empty(0).__reduce__()[0],
        ("numpy", "ndarray"): np.ndarray,
        ("numpy", "dtype"): np.dtype,
        ("collections", "defaultdict"): defaultdict,
        ("__builtin__", "list"): list,
    }

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in self.NAMES:
            raise GraphError(f"it names {module_name}.{global_name}, which is not part of a graph")
        return self.NAMES[module_name, global_name]


def _load(path: Path) -> Any:
    try:
        with open(path, "rb") as file:
            return _Unpickler(file, encoding="latin1").load()
    except Exception as error:  # a file that is no pickle, or a forged one, fails in many ways
        raise GraphError(f"{path.name} cannot be opened: {error}") from error


def _matrix(path: Path) -> sp.csr_matrix:
    matrix = _load(path)
    if not isinstance(matrix, _Matrix) or not vars(matrix).keys() >= set(CSR_PARTS):
        raise GraphError(f"{path.name} holds {type(matrix).__name__}, expected a sparse matrix")
    features = csr_features(*(vars(matrix)[key] for key in CSR_PARTS))
    if features is None:
        raise GraphError(f"{path.name} holds a matrix without columns")
    return to_scipy(features)


def _array(path: Path) -> np.ndarray:
    array = _load(path)
    if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype.kind not in "fiub":
        raise GraphError(f"{path.name} holds {type(array).__name__}, expected a matrix of numbers")
    return array


def _edges(path: Path) -> torch.Tensor:
    neighbours = _load(path)
    if not isinstance(neighbours, dict):
        raise GraphError(f"{path.name} holds {type(neighbours).__name__}, expected the neighbours of every node")
    pairs = [(int(node), int(other)) for node, others in neighbours.items() for other in others]
    return torch.tensor(pairs).t().contiguous()
