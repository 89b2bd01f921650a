"""Condensed graphs and a backbone of the small graph, made once; shared by all tests, so none may change them."""

from __future__ import annotations

import pytest
from torch_geometric.data import Data

import plgc
from quick import quick


@pytest.fixture(scope="session")
def sources(demo_graph: Data) -> list[plgc.CondensedGraph]:
    """A wide one, a narrow one with more nodes, a wide one of the first one's seed."""
    made = ((quick(24, 16), 8, 0), (quick(20), 12, 1), (quick(24, 16), 10, 0))
    return [plgc.condense(demo_graph, nodes=nodes, seed=seed, settings=how) for how, nodes, seed in made]


@pytest.fixture(scope="session")
def backbone(demo_graph: Data) -> plgc.Backbone:
    return plgc.reconstruct(plgc.condense(demo_graph, nodes=24, settings=quick(64, hidden=64, rounds=3, epochs=10)))
