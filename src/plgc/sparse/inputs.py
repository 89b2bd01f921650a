"""A graph as encoders compute with it: scaled features X and the normalised adjacency Â."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import torch
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute
from plgc.graphs.bare import BareGraph
from plgc.graphs.features import take_rows
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError
from plgc.runtime.options import check_device
from plgc.sparse.adjacency import Adjacency, build_adjacency
from plgc.sparse.features import Features, StoredFeatures, divisors, row_norms, sparse_features
from plgc.sparse.locality import local_order
from plgc.sparse.product import index_dtype

SCALINGS = ("auto", "l1", "l2", "none")
NORMS = {"l1": 1.0, "l2": 2.0}
SMALLEST, LARGEST = 1e-8, 1e18  # of features that are not scaled: squares of larger ones do not add up within float32
REORDERED_FROM = 50_000  # nodes; rows of 128 floats then take 25 MB, more than most caches hold


@dataclass(frozen=True)
class Inputs:
    """A graph ready for a GNN: features (dense, sparse or stored) on one device, and Â.

    ``order`` says which node of the graph each row is, [N]; None where rows are in the graph's own order. ``loss_rows``
    says which rows of a mini-batch the losses see, ascending; None for a whole graph.
    """

    x: Features
    adjacency: Adjacency
    order: Tensor | None = None
    loss_rows: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.adjacency.num_nodes

    @property
    def num_features(self) -> int:
        """f."""
        return self.x.shape[1]

    @property
    def device(self) -> torch.device:
        """Where the tensors live."""
        return self.adjacency.crow.device


def resolve_scaling(x: Tensor, scaling: str) -> str:
    """Turn ``auto`` into a concrete row scaling: ``l1`` for counts and bags of words, ``none`` where signs matter.

    A single column is not scaled either: every row of it would become 1.
    """
    if scaling != "auto":
        return scaling
    if x.shape[1] == 1:
        return "none"
    values = x.values() if x.layout == torch.sparse_csr else x
    return "l1" if all(bool((block >= 0).all()) for _, block in mapped.blocks(values)) else "none"


def scale_rows(x: Tensor, scaling: str) -> Tensor:
    """Divide every row of X by its ℓ1 or ℓ2 norm (rows of zeros stay); ``none`` returns X as it is."""
    if scaling == "none":
        return x
    order = NORMS[scaling]
    if x.layout != torch.sparse_csr:
        return x / divisors(torch.linalg.vector_norm(x, ord=order, dim=1))[:, None]
    crow, values = x.crow_indices(), x.values()
    row = torch.repeat_interleave(torch.arange(x.shape[0], device=x.device), crow[1:] - crow[:-1])
    norm = torch.zeros(x.shape[0], device=x.device).index_add_(0, row, values.abs() ** order) ** (1.0 / order)
    return torch.sparse_csr_tensor(crow, x.col_indices(), values / divisors(norm)[row], x.shape, check_invariants=False)


def check_magnitude(x: Tensor) -> None:
    """Raise :class:`GraphError` where features that are not scaled are too large or too small to compute with."""
    values = x.values() if x.layout == torch.sparse_csr else x
    largest, place = 0.0, 0
    for start, block in mapped.blocks(values):
        if block.numel() and (most := float(block.abs().max())) > largest:
            largest, place = most, start + int(block.abs().reshape(len(block), -1).amax(1).argmax())
    if largest == 0 or SMALLEST <= largest <= LARGEST:
        return
    row = place if values is x else int(torch.searchsorted(x.crow_indices(), place, right=True)) - 1
    raise GraphError(
        f"the largest value of x is {largest:g} (row {row}): features that are not scaled by rows, such as those with "
        f"signs, can be computed with from {SMALLEST:g} to {LARGEST:g}; divide them by a constant or standardise them"
    )


def prepare(
    graph: Data | BareGraph,
    scaling: str,
    device: torch.device | str = "cpu",
    *,
    reorder: bool = False,
    keep_stored: bool = False,
    scaled: Features | None = None,
) -> Inputs:
    """Scale the features, build Â and move both to ``device``. Reads x, edge_index and edge_weight, nothing else.

    Args:
        graph: the graph.
        scaling: of the rows of X, see :func:`scale_rows`.
        device: where to compute.
        reorder: allow another order of the nodes, for work whose results do not name nodes. On a CPU a graph too large
            for the cache is put into an order with neighbours close together (:mod:`plgc.sparse.locality`), and
            ``order`` says which node each row is; on a GPU finding that order would take longer than it saves.
        keep_stored: leave features that lie in a file, or are float16, where they are
            (:class:`plgc.sparse.features.StoredFeatures`), instead of making a float32 copy. On a CPU only.
        scaled: the scaled features, where another graph with the same X has been prepared.
    """
    check_device(device)
    x = graph.x
    if x is None:
        raise GraphError("this graph has no node features (x): give it some before condensing or training on it")
    assert graph.edge_index is not None
    assert graph.num_nodes is not None
    edge_index, order = graph.edge_index, None
    if reorder and graph.num_nodes >= REORDERED_FROM and torch.device(device).type == "cpu":
        order = local_order(edge_index, graph.num_nodes)
        place = torch.empty(graph.num_nodes, dtype=index_dtype(graph.num_nodes))
        place[order] = torch.arange(graph.num_nodes, dtype=place.dtype)
        edge_index = torch.stack([place.index_select(0, part) for part in edge_index.cpu()])
    weight = edge_weight(graph)
    weight = None if weight is None else weight.to(device)
    adjacency = build_adjacency(edge_index.to(device), graph.num_nodes, weight)
    mapped.release(graph.edge_index)
    if scaling == "none" and scaled is None:
        check_magnitude(x)
    features = _features(x, scaling, torch.device(device), order, keep_stored) if scaled is None else scaled
    return Inputs(features, adjacency, None if order is None else order.to(device))


def edge_weight(graph: Data | BareGraph) -> Tensor | None:
    """The weights of a graph's edges, [E]; None where it has none."""
    return graph.edge_weight if isinstance(graph, BareGraph) else attribute(graph, "edge_weight")


def _features(x: Tensor, scaling: str, device: torch.device, order: Tensor | None, keep_stored: bool) -> Features:
    """Scaled features in the given order of nodes, on a device; at most one float32 copy of a dense X is made."""
    if x.layout == torch.strided and (x.dtype == torch.float16 or mapped.is_mapped(x)):
        stored = StoredFeatures(x, None if scaling == "none" else row_norms(x, NORMS[scaling]), order)
        return stored if keep_stored and device.type == "cpu" else stored.to_dense(device)
    x = x if order is None else take_rows(x, order)
    if x.layout == torch.sparse_csr and _density(x) > 0.25:
        x = x.to_dense()  # a sparse product would cost more than it saves
    if x.layout == torch.sparse_csr:  # few values, scaled here so that they are the same on every device
        return sparse_features(scale_rows(x.to(torch.float32), scaling).to(device))
    return scale_rows(x.to(device=device, dtype=torch.float32), scaling)


def _density(x: Tensor) -> float:
    return x.values().numel() / max(1, x.shape[0] * x.shape[1])


def fingerprint(graph: Data | BareGraph) -> str:
    """SHA-256 over features and edges, to tell whether two runs saw the same graph; it reveals no content.

    How numbers are stored does not count: float16 is taken as float32, and int32 as int64.
    """
    digest = hashlib.sha256()
    assert graph.x is not None
    assert graph.edge_index is not None
    x = graph.x
    parts = [x.crow_indices(), x.col_indices(), x.values()] if x.layout == torch.sparse_csr else [x]
    digest.update(f"{tuple(x.shape)};".encode())
    weight = edge_weight(graph)
    for tensor in [*parts, graph.edge_index, *([] if weight is None else [weight])]:
        dtype = {torch.float16: torch.float32, torch.int32: torch.int64}.get(tensor.dtype, tensor.dtype)
        digest.update(f"{tuple(tensor.shape)} {dtype};".encode())
        for _, block in mapped.blocks(tensor.detach().cpu().contiguous().flatten()):
            digest.update(block.to(dtype).numpy().data)
    return digest.hexdigest()
