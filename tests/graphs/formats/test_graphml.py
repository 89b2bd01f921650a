from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from plgc.graphs import load_graph
from plgc.graphs.formats import graphml, limits
from plgc.graphs.formats.columns import TableColumns
from plgc.runtime.errors import GraphError, GraphNotFoundError

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
KEYS = """<key id="d0" for="node" attr.name="size" attr.type="double"><default>7.5</default></key>
<key id="d1" for="node" attr.name="code" attr.type="string"/>
<key id="d2" for="node" attr.name="flag" attr.type="boolean"/>
<key id="d3" for="node" attr.name="class" attr.type="string"/>
<key id="w" for="edge" attr.name="weight" attr.type="int"/>
<key id="g" for="graph" attr.name="title" attr.type="string"/>
"""
BODY = """<graph edgedefault="undirected"><data key="g">a title</data>
<node id="n0"><data key="d0">1</data><data key="d1">1</data><data key="d2">true</data><data key="d3">x</data></node>
<node id="n1"><data key="d1">2</data><data key="d2">false</data><data key="d3">y</data></node>
<node id="n2"><data key="d0">3</data><data key="d1">1</data><data key="d2">true</data></node>
<node id="n3"><data key="d0">3</data><data key="d1">2</data><data key="d2">false</data>
  <desc>&lt;not read&gt;</desc><port name="p"/></node>
<edge source="n0" target="n1"><data key="w">2</data></edge><edge source="n1" target="n2"/>
<edge source="n2" target="n3"/>
</graph></graphml>"""


@pytest.fixture
def write(tmp_path: Path):
    def save(text: str | bytes, name: str = "g.graphml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


def test_attributes_types_and_defaults(write) -> None:
    data = load_graph(write(HEAD + KEYS + BODY), columns=TableColumns(scale=False))
    assert data.node_ids == ["n0", "n1", "n2", "n3"]
    assert data.feature_names == ["size", "code=1", "code=2", "flag"]  # a declared string stays words
    assert data.x.tolist() == [[1, 1, 0, 1], [7.5, 0, 1, 0], [3, 1, 0, 1], [3, 0, 1, 0]]
    assert data.class_names == ["x", "y"]
    assert data.y.tolist() == [0, 1, -1, -1]
    assert data.edge_index.tolist() == [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]]
    assert data.edge_weight.tolist() == [2, 2, 1, 1, 1, 1]
    assert data.name == "g"


def test_columns_gzip_and_other_encodings(write) -> None:
    columns = TableColumns(label="code", features=["size"], scale=False)
    data = load_graph(write(gzip.compress((HEAD + KEYS + BODY).encode()), "g.graphml.gz"), columns=columns)
    assert data.x.tolist() == [[1], [7.5], [3], [3]]
    assert data.class_names == ["1", "2"]
    latin = (HEAD.replace("UTF-8", "ISO-8859-1") + KEYS + BODY.replace(">x<", ">ü<")).encode("latin-1")
    assert load_graph(write(latin)).class_names == ["y", "ü"]


LAUGHS = """<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph><node id="&b;"/></graph></graphml>"""
OUTSIDE = """<?xml version="1.0"?><!DOCTYPE graphml [<!ENTITY a SYSTEM "file:///etc/hostname">]>
<graphml><graph><node id="n"><data key="d">&a;</data></node></graph></graphml>"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "document type or entities"),
        (OUTSIDE, "document type or entities"),
        ('<!DOCTYPE graphml SYSTEM "http://localhost/x.dtd"><graphml/>', "document type or entities"),
        (HEAD, "not well-formed"),
        (HEAD + KEYS + BODY[:300], "not well-formed"),
        (HEAD + "&undefined;</graphml>", "not well-formed"),
        ('<?xml version="1.0" encoding="ebcdic-xx"?><graphml/>', "not well-formed|cannot be read"),
        ("<html/>", "its root is <html>"),
        ("plain text", "not well-formed"),
        ("", "is empty"),
        (HEAD + "<graph/></graphml>", "no nodes"),
        (HEAD + "</graphml>", "no nodes"),
        (HEAD + "<graph><node/></graph></graphml>", "a <node> has no id"),
        (HEAD + '<graph><node id="a"/><edge source="a"/></graph></graphml>', "a <edge> has no target"),
        (HEAD + '<graph><node id="a"/><node id="a"/></graph></graphml>', "occur more than once"),
        (HEAD + '<graph><node id="a"/><edge source="a" target="b"/></graph></graphml>', "does not have .'b'."),
        (HEAD + '<graph><node id="a"><data key="k">1</data></node></graph></graphml>', "'k', which is not declared"),
        (HEAD + '<key id="k"/><key id="k"/></graphml>', "declared twice"),
        (HEAD + '<graph><node id="a"><graph/></node></graph></graphml>', "several or nested graphs"),
        (HEAD + "<graph><hyperedge/></graph></graphml>", "hyperedges"),
        (HEAD + "<a>" * 100, "nested deeper"),
        (HEAD + '<key id="k"><default>' + "1" * 200_000, "longer than"),
        (HEAD + f'<graph><node id="{"a" * 200_000}"/>', "longer than"),
    ],
)
def test_what_is_wrong_or_hostile_is_refused(write, text: str, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load_graph(write(text))


def test_bombs(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE_TABLE_BYTES", 2**10)
    monkeypatch.setattr(limits, "MAX_TABLE_RATIO", 2)
    keys = "".join(f'<key id="k{i}" for="node"><default>1</default></key>' for i in range(200))
    nodes = "".join(f'<node id="{i}"/>' for i in range(200))
    with pytest.raises(GraphError, match="200 attributes of 200 nodes are more than"):
        load_graph(write(f"{HEAD}{keys}<graph>{nodes}</graph></graphml>"))
    monkeypatch.setattr(limits, "FREE_BYTES", 2**16)
    with pytest.raises(GraphError, match="decompression bomb"):
        load_graph(write(gzip.compress(HEAD.encode() + b" " * 2**24), "g.graphml.gz"))
    monkeypatch.setattr(graphml, "MAX_COLUMNS", 10)
    with pytest.raises(GraphError, match="more than 10 keys"):
        load_graph(write(f"{HEAD}{keys}</graphml>"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(GraphNotFoundError, match="no such file"):
        load_graph(str(tmp_path / "none.graphml"))
