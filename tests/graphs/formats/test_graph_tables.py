from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from plgc.graphs import check_condensable, load_graph
from plgc.graphs.formats import limits
from plgc.graphs.formats.columns import TableColumns
from plgc.graphs.load import ClassLikeWarning
from plgc.runtime.errors import GraphError, GraphNotFoundError, MissingExtraError, SettingError

EDGES = "source,target\na,b\nb,c\nc,d\nd,a\n"
NODES = "id,height,colour,label\na,1.5,red,dog\nb,2,blue,cat\nc,0,red,dog\nd,4,blue,\n"


@pytest.fixture
def write(tmp_path: Path):
    def save(edges: str | bytes = EDGES, nodes: str | bytes | None = NODES, end: str = ".csv") -> tuple[Path, Path]:
        paths = tmp_path / f"edges{end}", tmp_path / f"nodes{end}"
        for path, text in zip(paths, (edges, nodes), strict=True):
            if text is not None:
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return paths

    return save


def load(paths: tuple[Path, Path], **columns: object):
    chosen = TableColumns(**columns) if columns else None  # pyright: ignore[reportArgumentType]
    return load_graph(paths[0], nodes_table=paths[1] if paths[1].exists() else None, columns=chosen)


# What comes out


def test_an_edge_list_with_a_node_table(write) -> None:
    heard: list[str] = []
    edges, nodes = write()
    data = load_graph(str(edges), nodes_table=str(nodes), columns=TableColumns(scale=False), notice=heard.append)
    assert data.node_ids == ["a", "b", "c", "d"]
    assert data.class_names == ["cat", "dog"]
    assert data.y.tolist() == [1, 0, 1, -1]
    assert data.feature_names == ["height", "colour=blue", "colour=red"]
    assert data.x.tolist() == [[1.5, 0, 1], [2, 1, 0], [0, 0, 1], [4, 1, 0]]
    assert set(map(tuple, data.edge_index.t().tolist())) == {
        (0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (0, 3), (3, 0)
    }  # fmt: skip
    assert data.name == "edges"
    assert data.split_origin.startswith("generated")
    assert heard == data.notes
    said = "\n".join(heard)
    assert "node_id is 'id', label is 'label'" in said
    assert "source is 'source', target is 'target' (guessed from the names)" in said
    assert "'colour' became 2 feature columns" in said


def test_columns_that_are_named_are_used_and_not_announced(write) -> None:
    edges = "when,x,y,strength\n1,a,b,2\n2,b,c,0.5\n"
    nodes = "height,who,kind,id\n1,a,u,7\n2,b,v,8\n3,c,u,9\n"
    names = {"source": "x", "target": "y", "weight": "strength", "node_id": "who", "label": "kind"}
    data = load(write(edges, nodes), **names, features=["height"], scale=False)
    assert data.notes == []
    assert data.x.tolist() == [[1], [2], [3]]
    assert data.edge_weight.tolist() == [2.0, 2.0, 0.5, 0.5]
    assert data.class_names == ["u", "v"]
    assert data.y.tolist() == [0, 1, 0]


def test_names_and_notes_survive_loading_again(write) -> None:
    once = load(write())
    twice = load_graph(once)
    for key in ("node_ids", "class_names", "feature_names", "notes"):
        assert twice[key] == once[key]
    once.node_ids = once.node_ids[:2]
    with pytest.raises(GraphError, match="node_ids has 2 entries, expected 4"):
        load_graph(once)


def test_without_a_node_table_nodes_come_from_the_edges_in_order(write) -> None:
    data = load(write("10,9\n9,2\n", None))
    assert data.node_ids == ["2", "9", "10"]
    assert data.x is None
    assert any("without a node table" in note for note in data.notes)
    with pytest.raises(GraphError, match=r"no node features.*derive"):
        check_condensable(data)
    assert load(write("b,a\na,c\n", None)).num_nodes == 3  # a occurs again: it is a node
    assert load(write("b,a\nd,c\n", None)).num_nodes == 2  # a header, as far as anyone can tell
    assert load(write("from,to\nb,a\na,c\n", None)).node_ids == ["a", "b", "c"]


def test_booleans_gaps_dates_and_texts(write) -> None:
    rows = [f"n{i},{'true' if i % 2 else 'False'},{'' if i == 3 else i},word{i},same,{i % 3}" for i in range(12)]
    data = load(write("u,v\nn0,n1\n", "\n".join(["node,flag,size,name,constant,level", *rows])), scale=False)
    assert data.feature_names == ["flag", "size", "level"]
    assert data.x[:, 0].tolist() == [0, 1] * 6
    assert data.x[3, 1] == pytest.approx(np.mean([i for i in range(12) if i != 3]))
    said = "\n".join(data.notes)
    assert "1 missing value(s) in 'size' were filled with the mean" in said
    assert "'name' was left out: it holds words, 12 different" in said
    assert "'constant' was left out" in said


def test_a_column_with_very_many_words_is_left_out_and_takes_no_room(write) -> None:
    rows = "\n".join(f"{i},text {i},{i}" for i in range(300))
    data = load(write("0,1\n", f"id,text,size\n{rows}\n"))
    assert data.feature_names == ["size"]
    assert any("'text' was left out: it has more than 50 different values" in note for note in data.notes)
    with pytest.raises(GraphError, match="'text' cannot be a feature"):
        load(write("0,1\n", f"id,text,size\n{rows}\n"), features=["text"])


def test_a_word_that_turns_up_late_makes_the_column_words(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.graphs.formats.delimited.BLOCK_CELLS", 8)
    monkeypatch.setattr("plgc.graphs.formats.delimited.BLOCK_ROWS", 2)
    rows = "\n".join(f"{i},{'x' if i == 17 else i % 3}" for i in range(20))
    with pytest.warns(ClassLikeWarning, match="'code' looks like classes"):
        data = load(write("0,1\n", f"id,code\n{rows}\n"))
    assert data.feature_names == ["code=0", "code=1", "code=2", "code=x"]
    assert data.x.sum(0).tolist() == [7, 7, 5, 1]


def test_numbers_are_put_on_one_scale_that_outliers_do_not_decide(write) -> None:
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    draw = np.random.default_rng(0)
    years, money = draw.integers(1950, 2020, 41), np.exp(draw.normal(10, 1, 41))
    money[7] = 1e12
    rows = [f"{i},{years[i]},{float(money[i])!r},{i % 2},{i if i > 30 else 0}" for i in range(41)]
    paths = write("0,1\n", "\n".join(["id,year,money,flag,visits", *rows]))
    data = load(paths)
    wanted = preprocessing.RobustScaler(unit_variance=True).fit_transform(np.stack([years, money], 1)).clip(-3, 3)
    np.testing.assert_allclose(data.x[:, :2], wanted, atol=2e-3)
    assert data.x[:, 2].tolist() == [i % 2 for i in range(41)]
    assert data.x[:31, 3].tolist() == [0] * 31  # what is zero for most stays zero
    assert data.x[31:, 3].median() == pytest.approx(1, rel=0.1)
    assert any("3 numeric column(s) were scaled" in note for note in data.notes)
    assert torch.equal(load(paths, scale=False).x[:, 0], torch.from_numpy(years).float())


def test_a_wide_table_of_zeros_becomes_sparse(write) -> None:
    x = np.zeros((30, 80), dtype=int)
    x[np.arange(30), np.arange(30)] = 2
    rows = "\n".join(f"n{i}," + ",".join(map(str, row)) for i, row in enumerate(x))
    header = "id," + ",".join(f"w{place}" for place in range(80))
    data = load(write("n0,n1\n", f"{header}\n{rows}\n"), scale=False)
    assert data.x.layout == torch.sparse_csr
    assert data.x.to_dense().tolist() == x.tolist()
    assert len(data.feature_names) == 80


def test_a_second_table_can_be_brought_to_the_columns_of_a_first(write) -> None:
    first = load(write())
    other = "id,label,colour,height\na,cat,green,1\nb,cat,red,2\nc,,green,3\nd,cat,,4\n"
    alone = load(write(nodes=other))
    assert alone.feature_names == ["colour=green", "colour=red", "height"]
    data = load(write(nodes=other), features=first.feature_names, classes=first.class_names, scale=False)
    assert data.feature_names == first.feature_names == ["height", "colour=blue", "colour=red"]
    assert data.x.tolist() == [[1, 0, 0], [2, 0, 1], [3, 0, 0], [4, 0, 0]]
    assert data.y.tolist() == [0, 0, -1, 0]
    numbers = "id,colour,height\na,1,1\nb,2,2\nc,1,3\nd,,4\n"
    assert load(write(nodes=numbers), features=["colour=1"]).x.flatten().tolist() == [1, 0, 1, 0]
    with pytest.raises(SettingError, match="no column 'size=1' for features"):
        load(write(nodes=numbers), features=["size=1"])


# Labels and splits


@pytest.mark.parametrize(
    ("words", "expected", "names"),
    [
        ("0,1,2,-1", [0, 1, 2, -1], None),
        ("0.0,1.0,,1.0", [0, 1, -1, 1], None),
        ("3,7,3,NA", [0, 1, 0, -1], ["3", "7"]),
        ("b,a,b,null", [1, 0, 1, -1], ["a", "b"]),
        ("1,x,1,", [0, 1, 0, -1], ["1", "x"]),
    ],
)
def test_labels(write, words: str, expected: list[int], names: list[str] | None) -> None:
    rows = [f"{node},{i},{word}" for i, (node, word) in enumerate(zip("abcd", words.split(","), strict=True))]
    data = load(write(nodes="\n".join(["id,size,class", *rows])))
    assert data.y.tolist() == expected
    assert data._store.get("class_names") == names


def test_classes_can_be_fixed_for_several_tables(write) -> None:
    data = load(write(), label="label", classes=["bird", "cat", "dog"])
    assert data.y.tolist() == [2, 1, 2, -1]
    assert data.class_names == ["bird", "cat", "dog"]
    with pytest.raises(GraphError, match="holds 'cat', not among the classes"):
        load(write(), label="label", classes=["bird", "dog"])


def test_a_number_to_predict_is_neither_class_nor_feature(write) -> None:
    nodes = "id,size,target\na,1,0.5\nb,2,1.25\nc,3,7\nd,4,9\n"
    data = load(write(nodes=nodes))
    assert "y" not in data
    assert data.feature_names == ["size"]
    assert any("holds numbers such as '0.5', '1.25' and 2 more, not classes: left out" in note for note in data.notes)
    with pytest.raises(GraphError, match="name another column as label"):
        load(write(nodes=nodes), label="target")


def test_nothing_that_may_be_a_label_becomes_a_feature_unasked(write) -> None:
    nodes = "id,size,label,y,label_id,Class Name\na,1,u,0,0,U\nb,2,v,1,1,V\nc,3,u,0,0,U\nd,4,v,1,1,V\n"
    data = load(write(nodes=nodes))
    assert data.feature_names == ["size"]
    assert data.class_names == ["u", "v"]
    assert any("'y', 'label_id', 'Class Name' left out" in note for note in data.notes)
    assert load(write(nodes=nodes), features=["size", "y"]).x.shape == (4, 2)


def test_features_do_not_depend_on_labels(write) -> None:
    data = load(write())
    for other in ("x,y,z,", "1,1,1,1", "0.5,1.5,2,3", ",,,"):
        rows = [line.rsplit(",", 1)[0] for line in NODES.splitlines()]
        labels = ["label", *other.split(",")]
        changed = load(write(nodes="\n".join(f"{row},{label}" for row, label in zip(rows, labels, strict=False))))
        assert torch.equal(changed.x, data.x)
        assert changed.feature_names == data.feature_names


def test_a_split_column_and_mask_columns_are_honoured(write) -> None:
    nodes = "id,size,y,split\na,1,0,train\nb,2,1,Validation\nc,3,0,test\nd,4,1,\n"
    data = load(write(nodes=nodes))
    assert data.train_mask.tolist() == [True, False, False, False]
    assert data.val_mask.tolist() == [False, True, False, False]
    assert data.test_mask.tolist() == [False, False, True, False]
    assert data.split_origin == "the table's own split (column split)"
    assert data.feature_names == ["size"]
    masks = "id,size,y,train_mask,test_mask\na,1,0,True,False\nb,2,1,1,0\nc,3,0,0,1\nd,4,1,False,True\n"
    with pytest.raises(GraphError, match="'train_mask' holds other values"):
        load(write(nodes=masks))
    data = load(write(nodes=masks.replace("True", "1").replace("False", "0")))
    assert data.train_mask.tolist() == [True, True, False, False]
    with pytest.raises(GraphError, match="says train, val or test"):
        load(write(nodes=nodes.replace("Validation", "odd")), split="split")
    assert "split=odd" not in load(write(nodes=nodes.replace("Validation", "odd"))).feature_names


# Files as people have them


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|", " "])
def test_every_usual_delimiter(write, delimiter: str) -> None:
    data = load(write(EDGES.replace(",", delimiter), NODES.replace(",", delimiter).replace(f"{delimiter}\n", " NA\n")
                      if delimiter == " " else NODES.replace(",", delimiter), ".txt"))  # fmt: skip
    assert data.feature_names == ["height", "colour=blue", "colour=red"]
    assert data.y.tolist() == [1, 0, 1, -1]


def test_tsv_with_commas_in_its_cells(write) -> None:
    nodes = "id\tname\tsize\n" + "".join(f"{node}\tlast, first\t{i}\n" for i, node in enumerate("abcd"))
    assert load(write(EDGES.replace(",", "\t"), nodes, ".tsv")).feature_names == ["size"]


def test_bom_quotes_newlines_comments_blank_lines_and_windows_ends(write) -> None:
    nodes = '\ufeffid,"a, size",label\r\n"a",1,"x\r\ny"\r\n\r\n"b",2,z\r\n"c ""q""",3,z\r\n'
    edges = '# made by hand\n\nsource, target\na, b\n"b", "c ""q"""\n\n'
    data = load(write(edges, nodes))
    assert data.node_ids == ["a", "b", 'c "q"']
    assert data.feature_names == ["a, size"]
    assert data.class_names == ["x\r\ny", "z"]


def test_gzip_by_content(write) -> None:
    paths = write(gzip.compress(EDGES.encode()), gzip.compress(NODES.encode()), ".csv.gz")
    assert load(paths).num_nodes == 4
    assert load(write(gzip.compress(EDGES.encode()), NODES)).num_nodes == 4


def test_no_header(write) -> None:
    nodes = "7,0,1,theory\n8,1,0,practice\n9,0,0,theory\n"  # as Cora was published
    data = load(write("7 8\n9 8\n", nodes))
    assert data.x.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert data.class_names == ["practice", "theory"]
    assert any("no header line" in note for note in data.notes)
    assert any("'column 4', the last one, is taken for the label" in note for note in data.notes)
    data = load(write("a,b\nb,c\n", "id,size\na,1\nb,2\nc,3\n"))  # a and b are nodes, not names of columns
    assert data.edge_index.shape[1] == 4
    assert load(write("u v 2\nv y 1\n", "u,1\nv,2\ny,3\n", ".txt"), weight="column 3").num_nodes == 3
    assert load(write("7,8\n", nodes), label="column 4", features=["column 2"]).x.shape == (3, 1)


def test_the_index_column_that_pandas_writes_is_passed_over(write) -> None:
    assert load(write(",a1,b1\n0,a,b\n1,b,c\n", NODES)).edge_index.shape[1] == 4
    assert load(write(EDGES, NODES.replace("id,", "", 1).replace("height", ",height", 1))).node_ids[0] == "a"


def test_an_id_may_be_called_na(write) -> None:
    data = load(write("source,target\nNA,DE\nnull,NA\n", "id,size\nNA,1\nDE,2\nnull,3\n"))
    assert data.node_ids == ["NA", "DE", "null"]


def test_weights_may_be_missing_but_not_words(write) -> None:
    edges = "source,target,weight\na,b,2\nb,c,\n"
    data = load(write(edges))
    assert data.edge_weight.tolist() == [2.0, 2.0, 1.0, 1.0]
    assert any("1 edge(s) without a weight count as 1" in note for note in data.notes)
    with pytest.raises(GraphError, match="weights are not numbers"):
        load(write(edges.replace("2", "strong")))
    with pytest.raises(GraphError, match="finite and not negative"):
        load(write(edges.replace("2", "-2")))


# What is refused


@pytest.mark.parametrize(
    ("edges", "nodes", "message"),
    [
        ("source,target\na,b\na,zz\nyy,b\nyy,a\n", NODES, r"3 edge\(s\) name 2 node\(s\) that nodes.csv does not have"),
        (EDGES, NODES + "a,9,red,dog\n", r"1 id\(s\) in 'id' occur more than once \('a'\)"),
        (EDGES, NODES + ",9,red,dog\n", "row 5 has no id in 'id'"),
        ("source,target\na,\n", NODES, "row 1 names no node at one end"),
        (EDGES, NODES + "e,1,red\n", r"line 6 has 3 cell\(s\), the first line has 4"),
        (EDGES, "", "is empty"),
        ("", NODES, "is empty"),
        (EDGES, "\n\n# nothing\n", "holds no rows"),
        (EDGES, "id,size\n", "holds no nodes"),
        ("source\na\nb\n", NODES, "has one column only"),
        (EDGES, "id,size,size\na,1,2\n", "column name"),
        (EDGES, 'id,size\na,"1\nb,2\n', "cannot be read"),
        (EDGES, NODES.encode("utf-16"), "UTF-16"),
        (EDGES, NODES.replace("red", "röt").encode("latin-1"), "not text in UTF-8 .byte 0xf6 after"),
        (EDGES, b"PK\x03\x04" + bytes(50), "zip archive"),
        (EDGES, gzip.compress(NODES.encode(), mtime=0)[:-12], "cut short"),
        (EDGES, gzip.compress(NODES.encode(), mtime=0)[:20] + bytes(8), "cannot be read"),
        (EDGES, "id,size\na,inf\nb,1\nc,1\nd,1\n", "infinite"),
    ],
)
def test_what_is_wrong_is_named(write, edges: str, nodes: str | bytes, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        load(write(edges, nodes))


def test_unknown_columns_and_files(write) -> None:
    paths = write()
    with pytest.raises(SettingError, match=r"no column 'sauce' for source. Did you mean 'source'\?"):
        load(paths, source="sauce")
    with pytest.raises(SettingError, match="no column 'width' for features"):
        load(paths, features=["width"])
    with pytest.raises(SettingError, match="two roles"):
        load(paths, node_id="id", label="id")
    with pytest.raises(SettingError, match="give a list of names"):
        TableColumns(features="height")
    with pytest.raises(GraphNotFoundError, match="no such file"):
        load_graph("nothing-here.csv")
    with pytest.raises(GraphNotFoundError, match="no such file"):
        load_graph(paths[0], nodes_table="nothing-here.csv")
    with pytest.raises(GraphError, match="folder"):
        load_graph(paths[0], nodes_table=paths[0].parent)


def test_bombs_and_monsters_are_refused(write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "FREE_BYTES", 2**16)
    monkeypatch.setattr(limits, "MAX_LINE", 2**20)
    with pytest.raises(GraphError, match="decompression bomb"):
        load(write(gzip.compress(b"a,b\n" * 2**20)))
    with pytest.raises(GraphError, match="decompression bomb"):  # in pieces, whose last one says it is small
        load(write(gzip.compress(b"a,b\n" * 2**20) + gzip.compress(b"a,b\n")))
    with pytest.raises(GraphError, match="longer than"):
        load(write("source,target\n" + "a" * 2**21))
    with pytest.raises(GraphError, match="columns, the limit is"):
        load(write(EDGES, "x," * 30_000 + "x\n"))
    with pytest.raises(GraphError, match="field larger than"):
        load(write(EDGES, "id,size\na," + "1" * 200_000 + "\n"))
    with pytest.raises(GraphError, match="cannot be read"):
        load(write(EDGES, 'id,size\na,"' + "1\n" * 200_000))


# Parquet and data frames


def as_frames(kind: str):
    library = pytest.importorskip(kind)
    edges = library.DataFrame({"source": ["a", "b", "c", "d"], "target": ["b", "c", "d", "a"]})
    nodes = library.DataFrame(
        {
            "id": ["a", "b", "c", "d"],
            "height": [1.5, 2.0, 0.0, 4.0],
            "colour": ["red", "blue", "red", "blue"],
            "label": ["dog", "cat", "dog", None],
        }
    )
    return edges, nodes


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_data_frames_and_parquet_give_the_same_graph_as_csv(write, tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow")
    expected = load(write())
    edges, nodes = as_frames(kind)
    paths = tmp_path / "edges.parquet", tmp_path / "nodes.parquet"
    for frame, path in zip((edges, nodes), paths, strict=True):
        (frame.to_parquet if kind == "pandas" else frame.write_parquet)(path)
    for data in (load_graph(edges, nodes_table=nodes), load_graph(paths[0], nodes_table=paths[1])):
        assert torch.equal(data.x, expected.x)
        assert torch.equal(data.edge_index, expected.edge_index)
        assert torch.equal(data.y, expected.y)
        for key in ("node_ids", "class_names", "feature_names"):
            assert data[key] == expected[key]


def test_parquet_of_numbers_vectors_and_gaps(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    nodes = pandas.DataFrame(
        {
            "id": [3, 1, 2],
            "when": pandas.to_datetime(["2020-01-01"] * 3),
            "flag": [True, False, True],
            "size": [1, None, 3],
            "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
            "y": [1, None, 0],
        }
    )
    pandas.DataFrame({"a": [1, 2], "b": [2, 3]}).to_parquet(tmp_path / "edges.parquet")
    nodes.to_parquet(tmp_path / "nodes.parquet")
    columns = TableColumns(scale=False)
    data = load_graph(tmp_path / "edges.parquet", nodes_table=tmp_path / "nodes.parquet", columns=columns)
    assert data.node_ids == ["3", "1", "2"]
    assert data.feature_names == ["when", "flag", "size", "vector[0]", "vector[1]"]
    assert data.x.tolist() == [[18262, 1, 1, 1, 2], [18262, 0, 2, 3, 4], [18262, 1, 3, 5, 6]]  # days since 1970
    assert data.y.tolist() == [1, -1, 0]
    scaled = load_graph(tmp_path / "edges.parquet", nodes_table=tmp_path / "nodes.parquet")
    assert any("'when' was left out: it is 18262 in every row" in note for note in scaled.notes)


def test_broken_and_boundless_parquet(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    edges, _ = write()
    path = tmp_path / "nodes.parquet"
    path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    with pytest.raises(GraphError, match="not a readable Parquet file"):
        load_graph(edges, nodes_table=path)
    pandas.DataFrame({"id": np.zeros(100_000), "size": np.zeros(100_000)}).to_parquet(path)
    monkeypatch.setattr(limits, "FREE_TABLE_BYTES", 2**10)
    monkeypatch.setattr(limits, "MAX_TABLE_RATIO", 10)
    with pytest.raises(GraphError, match="decompression bomb"):
        load_graph(edges, nodes_table=path)
    with pytest.raises(GraphNotFoundError):
        load_graph(tmp_path / "none.parquet")


def test_parquet_without_pyarrow(write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "nodes.parquet").write_bytes(b"PAR1")
    with pytest.raises(MissingExtraError, match=r"plgc\[tables\]"):
        load_graph(write()[0], nodes_table=tmp_path / "nodes.parquet")


# Guesses are announced


def test_guesses_are_printed_once_and_not_on_request(write, capsys: pytest.CaptureFixture[str]) -> None:
    edges, nodes = write()
    data = load_graph(edges, nodes_table=nodes)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [f"note: {note}" for note in data.notes]
    assert any("guessed from the names" in note for note in data.notes)
    load_graph(data)  # the graph again, of which everything has been said
    load_graph(edges, nodes_table=nodes, notice=False)
    assert capsys.readouterr().err == ""


def test_a_printed_guess_cannot_steer_a_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a\x1b[2J.csv"
    path.write_text(EDGES)
    data = load_graph(path)
    assert any("\x1b" in note for note in data.notes)
    printed = capsys.readouterr().err
    assert r"note: a\x1b[2J.csv" in printed
    assert "\x1b" not in printed
