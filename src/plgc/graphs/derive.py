"""Features for graphs that have none: derived from the edges alone, never from labels; one seed gives one result.

``fastrp:128`` is FastRP (Chen et al., 2019): every node gets a sparse random row, rows are averaged over 1, 2, … hops
of random walks, and the averages are added up, scaled to unit length each, with larger weights on farther ones.

How they were derived is recorded in ``seen.derived`` of the graph and of what is condensed from it: a file made from
them fits no graph with other features, even where both have as many columns.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from plgc.graphs.attributes import attribute, seen_of
from plgc.graphs.check import node_count
from plgc.runtime.errors import GraphError, SettingError

KINDS = ("fastrp",)
WEIGHTS = (0.0, 0.0, 1.0, 1.0)  # of the averages over one hop, two hops, …
SPARSITY = 3  # one entry in so many of a random row is not zero
DEGREE_POWER = -0.5  # of a node's share of all degrees: its random row counts less the more neighbours it has


def parse_features(spec: str) -> tuple[str, int]:
    """The kind and the width that a text such as ``fastrp:128`` gives."""
    kind, _, width = spec.partition(":")
    if kind not in KINDS or not width.isdecimal() or not 2 <= int(width) <= 65536:
        raise SettingError(f"features is {spec!r}: give {KINDS[0]} and a width from 2, as in {KINDS[0]}:128")
    return kind, int(width)


def derived_of(graph: Data) -> dict[str, Any] | None:
    """How a graph's features were derived, as ``{"features": "fastrp:128", "seed": 0}``; None: they are its own."""
    return seen_of(graph).derived


def checked_mark(value: Any) -> dict[str, Any]:
    """Check what a file says on how features were derived.

    Raises:
        ValueError: it is not as :func:`derived_of` gives it.
    """
    if not isinstance(value, dict) or value.keys() != {"features", "seed"} or type(value["seed"]) is not int:
        raise ValueError(f"features derived as {value!r:.100}, not as in {{'features': 'fastrp:128', 'seed': 0}}")
    try:
        parse_features(value["features"] if isinstance(value["features"], str) else "")
    except SettingError as error:
        raise ValueError(str(error)) from error
    return dict(value)


def mark_option(mark: Mapping[str, Any]) -> str:
    """The options of the command line that derive such features."""
    seed = f" --features-seed {mark['seed']}" if mark["seed"] else ""
    return f"--features {shlex.quote(mark['features'])}{seed}"


def check_derived(made: Mapping[str, Any] | None, graph: Data, what: str) -> None:
    """Raise :class:`GraphError` unless a graph's features are derived as those of a file or model, or neither's are.

    Args:
        made: how those of the file or model were derived; None where they were a graph's own.
        graph: the graph that it is to be used on.
        what: the file's or model's name in messages.
    """
    own = derived_of(graph)
    if made == own:
        return
    if made is None:
        raise GraphError(
            f"{what} was made from features of a graph's own, those of this graph are derived from its edges: leave "
            f"{mark_option(own or {})} out"
        )
    here = "has its own" if own is None else f"has others ({mark_option(own)})"
    here = "has none" if graph.x is None else here
    raise GraphError(
        f"{what} was made from features derived from edges, and this graph {here}: give it {mark_option(made)} "
        f"(in Python: load_graph(..., features={made['features']!r}, features_seed={made['seed']}))"
    )


def derive_features(graph: Data, spec: str, seed: int = 0) -> Tensor:
    """Features [N, d] of a graph's nodes from its edges.

    Args:
        graph: edges in both directions, as :func:`plgc.load_graph` returns them; features it has are not read.
        spec: ``fastrp:d``.
        seed: of the random rows. Graphs that are to share a space need one seed, and share it only as far as their
            nodes do: derived features of unrelated graphs mean unrelated things.
    """
    _, width = parse_features(spec)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise SettingError(f"features_seed is {seed!r}: give a whole number, 0 or more")
    assert graph.edge_index is not None
    return fastrp(graph.edge_index, node_count(graph), width, seed, attribute(graph, "edge_weight"))


def fastrp(edge_index: Tensor, nodes: int, width: int, seed: int = 0, edge_weight: Tensor | None = None) -> Tensor:
    """FastRP embeddings [N, width]; a node without edges keeps zeros."""
    row = edge_index[0]
    value = torch.ones(row.numel()) if edge_weight is None else edge_weight.to(torch.float32)
    degree = torch.zeros(nodes).index_add_(0, row, value)
    walk = torch.sparse_coo_tensor(edge_index, value / degree[row], (nodes, nodes), check_invariants=False)
    walk = walk.coalesce().to_sparse_csr()
    scale = (degree / degree.sum().clamp(min=1)).clamp(min=1e-12).pow(DEGREE_POWER)
    current = scale[:, None] * _sparse_rows(nodes, width, seed)
    total = torch.zeros(nodes, width)
    for weight in WEIGHTS:
        current = walk @ current
        if weight:
            total += weight * F.normalize(current, dim=1)
    return total / sum(WEIGHTS)


def _sparse_rows(nodes: int, width: int, seed: int) -> Tensor:
    """Random signs, most of them zero: distances are kept as by dense rows, for a third of the work."""
    generator = torch.Generator().manual_seed(seed)
    draw = torch.randint(2 * SPARSITY, (nodes, width), generator=generator)
    return ((draw == 0).float() - (draw == 1).float()) * math.sqrt(SPARSITY)
