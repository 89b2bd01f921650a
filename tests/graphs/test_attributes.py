"""Optional attributes of a graph, and the record of what was seen of it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import load_graph, training_edges, training_subgraph
from plgc.graphs.attributes import ALL, Seen, attribute, seen_of


def test_an_attribute_that_is_missing_or_none_has_a_default() -> None:
    graph = Data(x=torch.ones(2, 1), edge_weight=None)
    graph.name = "mine"
    assert attribute(graph, "name") == "mine"
    assert attribute(graph, "edge_weight", 3) == 3
    assert attribute(graph, "y") is None


def test_what_was_seen_survives_its_dictionary(demo_graph: Data) -> None:
    graph = load_graph(demo_graph)
    views = [graph, training_edges(graph, 4), training_subgraph(graph)]
    found = [seen_of(view) for view in views]
    assert [(one.nodes, one.edges) for one in found] == [("all", "all"), ("all", "train"), ("train", "all")]
    assert found[0] == ALL
    for one in found:
        assert Seen.from_dict(one.to_dict()) == one
        assert None not in one.to_dict().values()
    assert found[1]["edge_seed"] == 4
    with pytest.raises(KeyError):
        found[0]["edge_seed"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": "all", "edges": "some"}, "it says 'some' of the edges"),
        ({"nodes": "all"}, "it says None of the edges"),
        ({"nodes": "all", "edges": "train"}, "edge_seed of what it has seen is None"),
        (
            {"nodes": "train", "edges": "all", "training_nodes": "ab", "split": True, "split_seed": 0},
            "split .* is True",
        ),
        ({"nodes": "all", "edges": "all", "labels": [1]}, "'labels', which is unknown"),
    ],
)
def test_other_records_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Seen.from_dict(values)
