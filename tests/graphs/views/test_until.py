"""A growing graph as it was: which nodes stay in every form of graph, what follows them, and what is refused."""

from __future__ import annotations

import csv
from pathlib import Path

import networkx
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch_geometric.data import Data

from plgc.graphs import TableColumns, citation_graph, load_graph, save_npz
from plgc.graphs.formats.stored import save_stored
from plgc.graphs.formats.tables import describe_tables
from plgc.graphs.views.until import until_time
from plgc.runtime.errors import GraphError, SettingError

YEARS = torch.arange(60) % 6 + 2000


@pytest.fixture(scope="module")
def graph() -> Data:
    """60 nodes of six years, with labels, ten splits and ids."""
    found = load_graph(citation_graph(nodes=60, classes=3, features=12), notice=False)
    generator = torch.Generator().manual_seed(0)
    draw = torch.rand(60, 10, generator=generator)
    found.train_mask, found.val_mask, found.test_mask = draw < 0.4, (draw >= 0.4) & (draw < 0.6), draw >= 0.6
    found.year = YEARS
    return found


def slow_until(graph: Data, last: int) -> set[tuple[int, int]]:
    """The edges among the nodes up to a year, by their numbers in the whole graph."""
    assert graph.edge_index is not None
    return {(u, v) for u, v in graph.edge_index.t().tolist() if max(YEARS[u], YEARS[v]) <= last}


def whole_edges(cut: Data) -> set[tuple[int, int]]:
    assert cut.edge_index is not None
    return {(int(cut.node_ids[u]), int(cut.node_ids[v])) for u, v in cut.edge_index.t().tolist()}


@pytest.mark.parametrize("form", ["data", "npz", "folder", "safetensors", "again"])
def test_nodes_up_to_a_time_stay_with_all_that_is_theirs(graph: Data, tmp_path: Path, form: str) -> None:
    timed = load_graph(graph, split=3, time="year", notice=False)
    source: Data | Path = graph
    if form == "npz":
        whole = graph.clone()
        whole.time = YEARS.double()
        source = save_npz(whole, tmp_path / "g.npz")
    elif form == "folder":
        whole = graph.clone()
        whole.time = YEARS.double()
        source = save_stored(whole, tmp_path / "g")
    elif form == "safetensors":
        arrays = {"edge_index": graph.edge_index, "x": graph["x"].to_dense(), "y": graph.y, "year": YEARS}
        arrays |= {key: graph[key].to(torch.uint8) for key in ("train_mask", "val_mask", "test_mask")}
        source = tmp_path / "g.safetensors"
        save_file({key: value.contiguous().numpy() for key, value in arrays.items()}, source)
    elif form == "again":
        source = load_graph(graph, until=2004, split=3, notice=False)
    found = load_graph(source, until=2002, split=0 if form == "again" else 3, notice=False)
    kept = (YEARS <= 2002).nonzero().flatten()
    assert found.node_ids == [str(node) for node in kept.tolist()]
    assert whole_edges(found) == slow_until(graph, 2002)
    torch.testing.assert_close(found["x"].to_dense(), timed["x"].to_dense()[kept])
    for key in ("y", "train_mask", "val_mask", "test_mask", "time"):
        assert torch.equal(found[key], timed[key][kept]), key
    assert f"{kept.numel()} of" in found.notes[-1]


def test_the_view_of_a_loaded_graph_is_what_loading_gives(graph: Data) -> None:
    loaded = load_graph(graph, until=2003, split=2, notice=False)
    view = until_time(load_graph(graph, split=2, time="year", notice=False), 2003)
    for key in ("edge_index", "y", "train_mask", "time"):
        assert torch.equal(loaded[key], view[key]), key


def test_what_came_since_has_a_halo_of_two_hops(graph: Data, tmp_path: Path) -> None:
    found = load_graph(graph, until=2003, since=2002, notice=False)
    chain = networkx.Graph(slow_until(graph, 2003))
    new = {node for node in range(60) if YEARS[node] == 2003}
    near = {other for node in new & set(chain) for other in networkx.ego_graph(chain, node, radius=2)} | new
    core = {int(name) for name, own in zip(found.node_ids, found.core_mask.tolist(), strict=True) if own}
    assert core == new
    assert {int(name) for name in found.node_ids} == near
    again = load_graph(save_npz(found, tmp_path / "new.npz"), notice=False)
    assert torch.equal(again.core_mask, found.core_mask)
    with pytest.raises(GraphError, match="came after 2005: nothing is new"):
        load_graph(graph, since=2005)


def test_derived_features_know_only_the_edges_of_that_time(graph: Data) -> None:
    until = load_graph(graph, until=2002, features="fastrp:8", notice=False)
    alone = load_graph(load_graph(graph, until=2002, notice=False), features="fastrp:8", notice=False)
    assert torch.equal(until["x"], alone["x"])


def write_tables(folder: Path, years: list[object]) -> tuple[Path, Path]:
    """A chain of nodes with one number, one word and a year."""
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    with open(edges, "w", newline="") as file:
        csv.writer(file).writerows([("source", "target"), *((f"n{i}", f"n{i + 1}") for i in range(len(years) - 1))])
    with open(nodes, "w", newline="") as file:
        rows = [(f"n{i}", i * i, ("red", "blue", "green")[min(i // 4, 2)], year) for i, year in enumerate(years)]
        csv.writer(file).writerows([("id", "size", "colour", "year"), *rows])
    return edges, nodes


def test_a_table_is_learned_from_the_rows_of_that_time(tmp_path: Path) -> None:
    edges, nodes = write_tables(tmp_path, [2000 + i // 4 for i in range(12)])
    found = load_graph(edges, nodes_table=nodes, until=2001, notice=False)
    assert found.feature_names == ["size", "colour=blue", "colour=red"]  # green came later
    rule = found.seen.preprocessing.columns[0]
    assert rule.fill[0] == pytest.approx(np.median([i * i for i in range(8)]))
    assert found.node_ids == [f"n{i}" for i in range(8)]
    assert any("'year' is the time" in note for note in found.notes)
    whole = load_graph(edges, nodes_table=nodes, notice=False)
    assert "year" in whole.feature_names  # without a time asked for, it is a column like the others
    described = describe_tables([nodes], TableColumns(time="year", until=2001), [])
    assert described.columns == found.seen.preprocessing.columns


def test_dates_count_by_their_year_and_gaps_are_left_out(tmp_path: Path) -> None:
    dates = ["2010-01-01", "2010-12-31", "2011-01-01", "", "2010-06-30", "2010-07-01"]
    edges, nodes = write_tables(tmp_path, list(dates))
    found = load_graph(edges, nodes_table=nodes, until=2010, notice=False)
    assert found.node_ids == ["n0", "n1", "n4", "n5"]
    assert "1 without a time are left out" in found.notes[-1]


def test_attributes_of_networkx_are_a_time_too() -> None:
    path = networkx.path_graph(6)
    for node in path:
        path.nodes[node].update(when=float(node), value=float(node % 2), other=float(node == 3))
    found = load_graph(path, until=3, time="when", notice=False)
    assert found.node_ids == ["0", "1", "2", "3"]
    assert "when" not in found.feature_names


def test_what_cannot_be_a_time_is_refused(graph: Data, tmp_path: Path) -> None:
    edges, nodes = write_tables(tmp_path, [2000 + i // 4 for i in range(12)])
    plain = load_graph(citation_graph(nodes=30, classes=3, features=8), notice=False)
    with pytest.raises(SettingError, match="no 'year' that says when nodes came"):
        load_graph(plain, until=3)
    with pytest.raises(SettingError, match=r"no 'age'.*name one of .*year"):
        load_graph(graph, until=3, time="age")
    with pytest.raises(SettingError, match=r"no column 'age' for time. It has 'id', 'size', 'colour', 'year'"):
        load_graph(edges, nodes_table=nodes, until=3, time="age")
    with pytest.raises(GraphError, match="'colour' is named as the time and holds words such as 'red'"):
        load_graph(edges, nodes_table=nodes, until=3, time="colour")
    with pytest.raises(SettingError, match="node table, and there is none"):
        load_graph(edges, until=3)
    with pytest.raises(GraphError, match="no node up to 1999: times are from 2000 to 2005"):
        load_graph(graph, until=1999)
    for wrong in ("2001", float("nan"), True):
        with pytest.raises(SettingError, match="a number is needed"):
            load_graph(graph, until=wrong)  # pyright: ignore[reportArgumentType]
