from __future__ import annotations

import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs.width import SAME_FEATURES, check_width, feature_width
from plgc.runtime.errors import GraphError


def test_the_width_of_a_graph() -> None:
    assert feature_width(Data(x=torch.zeros(3, 7))) == 7
    assert feature_width(Data(edge_index=torch.zeros(2, 1, dtype=torch.int64))) == 0


def test_another_width_is_refused_with_both_names_and_numbers() -> None:
    check_width("this file", 7, "the graph", 7)
    with pytest.raises(GraphError, match="this file has 7 features per node, the graph has 0: use the graph that was"):
        check_width("this file", 7, "the graph", 0)
    with pytest.raises(GraphError, match="a has 7 features per node, b has 8: only graphs with the same features"):
        check_width("a", 7, "b", 8, SAME_FEATURES)
