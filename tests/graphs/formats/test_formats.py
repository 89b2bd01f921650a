"""One graph, many forms: whatever it is written as, it loads to the same ``Data``."""

from __future__ import annotations

import csv
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data
from torch_geometric.utils import to_networkx

from plgc.graphs import formats, load_graph
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.formats.npz import npz_bytes, save_npz
from plgc.runtime.errors import GraphError, GraphNotFoundError, SettingError


@dataclass
class Case:
    """A graph as plain values."""

    ids: list[str]
    x: np.ndarray
    labels: list[str | None]
    edges: list[tuple[int, int, float]]

    def rows(self) -> list[list[Any]]:
        """The node table, header first."""
        names = ["id", *(f"f{place}" for place in range(self.x.shape[1])), "label"]
        rows = zip(self.ids, self.x.tolist(), self.labels, strict=True)
        return [names, *([node, *map(repr, x), label or ""] for node, x, label in rows)]

    def links(self) -> list[list[Any]]:
        """The edge list, header first."""
        return [["source", "target", "weight"], *([self.ids[u], self.ids[v], repr(w)] for u, v, w in self.edges)]

    def networkx(self) -> Any:
        """As a directed multigraph, which forgets nothing."""
        graph = networkx.MultiDiGraph()
        for node, x, label in zip(self.ids, self.x.tolist(), self.labels, strict=True):
            fields = {f"f{place}": value for place, value in enumerate(x)}
            graph.add_node(node, **fields, **({} if label is None else {"label": label}))
        graph.add_edges_from((self.ids[u], self.ids[v], {"weight": w}) for u, v, w in self.edges)
        return graph


IDS = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
IDS = IDS.filter(lambda word: word == word.strip() and not word.startswith("#"))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ids = draw(st.lists(IDS, min_size=2, max_size=8, unique=True))
    width = draw(st.integers(1, 3))
    values = st.floats(-1e6, 1e6, width=32)
    x = np.array(draw(st.lists(st.lists(values, min_size=width, max_size=width), min_size=len(ids), max_size=len(ids))))
    labels = draw(st.lists(st.sampled_from(["x", "y", "ü z", None]), min_size=len(ids), max_size=len(ids)))
    end = st.integers(0, len(ids) - 1)
    weight = st.integers(1, 5).map(float)
    edges = draw(st.lists(st.tuples(end, end, weight), min_size=1, max_size=15, unique_by=lambda edge: edge[:2]))
    return Case(ids, x, labels, edges)


def expected(case: Case) -> Data:
    names = sorted({label for label in case.labels if label is not None})
    edges = np.array(case.edges)
    y = torch.tensor([names.index(label) if label is not None else -1 for label in case.labels])
    weight = torch.from_numpy(edges[:, 2])
    ends = torch.from_numpy(edges[:, :2].T.astype(np.int64))
    return load_graph(Data(x=torch.from_numpy(case.x), edge_index=ends, edge_weight=weight, y=y))


def check(data: Data, case: Case) -> None:
    wanted = expected(case)
    assert torch.equal(data.x, wanted.x)
    assert torch.equal(data.edge_index, wanted.edge_index)
    assert torch.equal(data.edge_weight, wanted.edge_weight)
    assert ("y" in data) == ("y" in wanted)
    if "y" in data:
        assert torch.equal(data.y, wanted.y)
        assert torch.equal(data.train_mask, wanted.train_mask)
        assert data.class_names == sorted({label for label in case.labels if label is not None})
    assert data.num_nodes == len(case.ids)


COLUMNS = TableColumns(source="source", target="target", weight="weight", node_id="id", label="label", scale=False)
ATTRIBUTES = TableColumns(weight="weight", label="label", scale=False)


def attributes(case: Case) -> TableColumns:
    """Where no node has a label, there is no such attribute to name."""
    return ATTRIBUTES if any(case.labels) else replace(ATTRIBUTES, label=None)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases(), delimiter=st.sampled_from([",", "\t", ";"]))
def test_delimited_tables(tmp_path: Path, case: Case, delimiter: str) -> None:
    end = ".tsv" if delimiter == "\t" else ".csv"
    for name, rows in (("edges", case.links()), ("nodes", case.rows())):
        with open(tmp_path / f"{name}{end}", "w", newline="", encoding="utf-8") as file:
            csv.writer(file, delimiter=delimiter).writerows(rows)
    data = load_graph(tmp_path / f"edges{end}", nodes_table=tmp_path / f"nodes{end}", columns=COLUMNS)
    check(data, case)
    assert data.node_ids == case.ids


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(case=cases())
def test_networkx_and_graphml(tmp_path: Path, case: Case) -> None:
    graph = case.networkx()
    data = load_graph(graph, columns=attributes(case))
    check(data, case)
    assert data.node_ids == case.ids
    networkx.write_graphml(graph, tmp_path / "g.graphml")
    data = load_graph(tmp_path / "g.graphml", columns=attributes(case))
    check(data, case)
    assert data.node_ids == case.ids


@settings(max_examples=40, deadline=None)
@given(case=cases(), sparse=st.booleans())
def test_scipy_matrix(case: Case, sparse: bool) -> None:
    size, edges = len(case.ids), np.array(case.edges)
    matrix = sp.coo_matrix((edges[:, 2], edges[:, :2].T.astype(int)), shape=(size, size)).tocsr()
    before = matrix.copy()
    data = load_graph((matrix, sp.csr_matrix(case.x) if sparse else case.x, case.labels))
    assert (data.x.layout == torch.sparse_csr) == sparse
    data.x = data.x.to_dense()
    data.edge_weight = data._store.get("edge_weight", torch.ones(data.edge_index.shape[1]))
    check(data, case)
    assert (matrix != before).nnz == 0


# NetworkX


def test_networkx_as_pyg_makes_it() -> None:
    source = Data(
        x=torch.arange(8.0).view(4, 2),
        y=torch.tensor([0, 1, 0, 1]),
        edge_index=torch.tensor([[0, 1, 2], [1, 2, 3]]),
        train_mask=torch.tensor([True, True, False, False]),
        test_mask=torch.tensor([False, False, True, True]),
    )
    graph = to_networkx(source, node_attrs=["x", "y", "train_mask", "test_mask"])
    data, wanted = load_graph(graph), load_graph(source)
    for key in ("x", "y", "edge_index", "train_mask", "test_mask"):
        assert torch.equal(data[key], wanted[key]), key
    assert data.feature_names == ["x[0]", "x[1]"]
    assert data.node_ids == ["0", "1", "2", "3"]


def test_networkx_follows_the_rules_for_tables() -> None:
    graph = networkx.Graph(name="friends")
    for place, node in enumerate(["ann", "bob", "cyd", "dan"]):
        fields = {"age": 30 + place, "flag": place > 1, "kind": "ab"[place % 2], "thing": object(), "bad": [1] * place}
        graph.add_node(node, **fields)
    graph.nodes["bob"].pop("age")
    graph.add_edge("ann", "bob", since=2001)
    data = load_graph(graph, columns=TableColumns(scale=False))
    assert data.name == "friends"
    assert data.feature_names == ["age", "flag", "kind=a", "kind=b"]
    assert data.x[1, 0] == pytest.approx((30 + 32 + 33) / 3, rel=1e-5)
    assert "edge_weight" not in data
    assert graph.nodes["ann"]["age"] == 30
    said = "\n".join(data.notes)
    assert "'thing' was left out" in said
    assert "'bad' was left out" in said


def test_networkx_that_cannot_be_read() -> None:
    graph = networkx.Graph()
    graph.add_edge(1, "1")
    with pytest.raises(GraphError, match=r"same text as name \('1'\)"):
        load_graph(graph)
    with pytest.raises(SettingError, match="node_id cannot be chosen"):
        load_graph(networkx.path_graph(3), columns=TableColumns(node_id="id"))
    with pytest.raises(GraphError, match="no nodes"):
        load_graph(networkx.Graph())


# Matrices, and what goes with what


def test_a_matrix_of_ones_has_no_weights() -> None:
    matrix = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    data = load_graph((matrix, np.eye(3), np.array(["b", "a", "b"])))
    assert "edge_weight" not in data
    assert data.y.tolist() == [1, 0, 1]
    assert data.class_names == ["a", "b"]
    bare = load_graph(matrix)
    assert bare.x is None
    assert torch.equal(bare.edge_index, data.edge_index)
    assert load_graph((sp.csr_array(matrix), None)).num_nodes == 3


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((sp.eye(3), np.eye(4)), "4 rows, the matrix 3"),
        (sp.csr_matrix((2, 3)), r"shape \[2, 3\], expected \[N, N\]"),
        ((sp.eye(2), None, None, None), "a tuple of 4"),
        ((sp.eye(2, dtype=complex), np.eye(2)), "complex128 values"),
        ((sp.eye(3), np.eye(3), [0, 1]), "3 nodes"),
        ((sp.coo_matrix(([-1.0], ([0], [1])), shape=(2, 2)), np.eye(2)), "not negative"),
        ((1, 2), "cannot load a graph from a tuple"),
        (object(), "expected a name, a path, a PyG Data"),
    ],
)
def test_what_is_no_matrix_is_named(source: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load_graph(source)


@pytest.mark.parametrize("weighted", [False, True])
def test_bytes_of_a_graph_are_those_of_its_file(tmp_path: Path, demo_graph: Data, weighted: bool) -> None:
    graph = demo_graph.clone()
    assert graph.edge_index is not None
    if weighted:
        graph.edge_weight = torch.rand(graph.edge_index.shape[1])
    found = npz_bytes(graph)
    parts = {"x": graph.x, "edge_index": graph.edge_index, "num_nodes": graph.num_nodes}
    parts |= {"edge_weight": graph.edge_weight} if weighted else {}
    whole = save_npz(Data(**parts), tmp_path / "graph.npz").stat().st_size
    assert whole - 1500 < found < whole  # but for the description


def test_tables_and_columns_go_with_tables_only(demo_graph: Data) -> None:
    with pytest.raises(SettingError, match="a node table goes with an edge list"):
        load_graph("demo", nodes_table="nodes.csv")
    with pytest.raises(SettingError, match="columns are for tables"):
        load_graph(demo_graph, columns=TableColumns())


# A format of one's own


def test_a_format_is_a_module_and_a_line_in_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing else has to be changed, and the module is imported when it is used."""
    module = ModuleType("plgc.graphs.formats.pairs")

    def read(path: Path) -> Data:
        ends = torch.tensor([[int(word) for word in line.split("-")] for line in path.read_text().split()])
        return Data(edge_index=ends.T, name=path.stem)

    module.read = read  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, formats.Format("pairs", (".pairs",))))
    (tmp_path / "small.pairs").write_text("0-1\n1-2\n")
    with pytest.raises(ModuleNotFoundError):
        load_graph(tmp_path / "small.pairs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    data = load_graph(str(tmp_path / "small.pairs"))
    assert data.name == "small"
    assert data.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    with pytest.raises(SettingError, match="columns are for tables"):
        load_graph(tmp_path / "small.pairs", columns=TableColumns())
    with pytest.raises(GraphNotFoundError, match=r"Did you mean .*small\.pairs"):
        load_graph(str(tmp_path / "smal.pairs"))
