"""Columns of every type, from Parquet and from text, become the features that they become in memory."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from plgc.graphs import TableColumns, save_stored, store_graph
from plgc.graphs.load import open_graph
from plgc.graphs.preprocessing import Preprocessing
from plgc.runtime.errors import GraphError, SettingError

ROWS = 240


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.graphs.store.blocks.ROWS", 50)
    monkeypatch.setattr("plgc.graphs.store.blocks.LEAST_ROWS", 7)
    monkeypatch.setattr("plgc.graphs.store.blocks.BLOCK_BYTES", 1000)
    monkeypatch.setattr("plgc.graphs.store.columns.TOGETHER", 3)
    monkeypatch.setattr("plgc.graphs.formats.delimited.BLOCK_LETTERS", 3000)
    monkeypatch.setattr("plgc.graphs.formats.delimited.BLOCK_ROWS", 20)
    monkeypatch.setattr("plgc.graphs.formats.table_features.BLOCK_CELLS", 300)


def columns() -> dict[str, pa.Array]:
    draw = np.random.default_rng(0)
    gaps = draw.random(ROWS) < 0.2

    def some(values: list) -> list:
        return [None if gap else value for gap, value in zip(gaps, values, strict=True)]

    vectors = draw.normal(size=(ROWS, 5))
    days = [datetime.date(2020, 1, 1) + datetime.timedelta(int(day)) for day in draw.integers(0, 500, ROWS)]
    flags = draw.integers(0, 2, ROWS).astype(bool).tolist()
    return {
        "id": pa.array([f"n{number}" for number in range(ROWS)]),
        "small": pa.array(draw.integers(0, 99, ROWS).astype(np.int8)),
        "whole": pa.array(some(draw.integers(-9, 9, ROWS).tolist()), pa.int64()),
        "half": pa.array(draw.normal(size=ROWS).astype(np.float16)),
        "flags": pa.array(flags),
        "some_flags": pa.array(some(flags)),
        "days": pa.array(days),
        "some_days": pa.array(some(days)),
        "moments": pa.array(days).cast(pa.timestamp("ms")),
        "colour": pa.array(some(draw.choice(["red", "green"], ROWS).tolist())),
        "coded": pa.array(draw.choice(["x", "y", "z"], ROWS)).dictionary_encode(),
        "coded_numbers": pa.array(draw.integers(0, 9, ROWS)).dictionary_encode(),
        "yes": pa.array(draw.choice(["yes", "no"], ROWS)),
        "plain": pa.array([str(number) for number in draw.integers(0, 9, ROWS)]),
        "commas": pa.array([f"{number},50" for number in draw.integers(0, 99, ROWS)]),
        "iso": pa.array([str(day) for day in days]),
        "money": pa.array([decimal.Decimal(number) for number in range(ROWS)]),
        "texts": pa.array([f"{'long ' * (number % 40)}{number}" for number in range(ROWS)]),
        "empty": pa.nulls(ROWS, pa.string()),
        "nothing": pa.nulls(ROWS),
        "vector": pa.array(list(vectors)),
        "single": pa.array(list(vectors.astype(np.float32)), pa.list_(pa.float32(), 5)),
        "uneven": pa.array([[1.0] * (number % 3) for number in range(ROWS)]),
        "label": pa.array(some(draw.integers(0, 3, ROWS).tolist()), pa.int64()),
    }


def split(table: pa.Table, folder: Path) -> Path:
    folder.mkdir()
    for part, start in enumerate((0, 100, 101)):
        rows = table.slice(start, (100, 1, len(table))[part])
        parquet.write_table(rows, folder / f"{part}.parquet", row_group_size=70)
    return folder


def compare(tmp_path: Path, nodes: pa.Table, asked: TableColumns | None = None, dtype: str | None = None) -> Path:
    """Store a table in parts and in memory; both must be the same. Returns the folder."""
    ends = np.random.default_rng(1).integers(0, len(nodes), (2, 500))
    ids = nodes.column("id").to_numpy()
    edges = pa.table({"source": ids[ends[0]], "target": ids[ends[1]]})
    parquet.write_table(edges, tmp_path / "edges.parquet")
    parquet.write_table(nodes, tmp_path / "nodes.parquet")
    time = None if asked is None else asked.time
    whole = open_graph(tmp_path / "edges.parquet", tmp_path / "nodes.parquet", asked, time=time)
    save_stored(whole, tmp_path / "expected" / "graph", dtype=dtype)
    made = store_graph(
        split(edges, tmp_path / "edges"),
        tmp_path / "made" / "graph",
        nodes_table=split(nodes, tmp_path / "nodes"),
        columns=asked,
        dtype=dtype,
        notice=False,
    )
    for path in (tmp_path / "expected" / "graph").iterdir():
        assert path.read_bytes() == (made / path.name).read_bytes(), path.name
    assert len(list(made.iterdir())) == len(list((tmp_path / "expected" / "graph").iterdir()))
    return made


@pytest.mark.filterwarnings("ignore::plgc.graphs.load.ClassLikeWarning")
@pytest.mark.parametrize("scale", [True, False])
def test_all_columns_together(tmp_path: Path, scale: bool) -> None:
    made = compare(tmp_path, pa.table(columns()), TableColumns(scale=scale), "float16")
    assert np.load(made / "x.npy").dtype == np.float16
    assert set(np.load(made / "y.npy").tolist()) == {-1, 0, 1, 2}
    names = {name.split("=")[0].split("[")[0] for name in np.load(made / "feature_names.npy").tolist()}
    assert columns().keys() - names == {"id", "label", "money", "texts", "empty", "nothing", "uneven"}


@pytest.mark.parametrize("label", ["flags", "some_flags", "coded_numbers"])
def test_labels_of_any_type(tmp_path: Path, label: str) -> None:
    values = columns()
    compare(tmp_path, pa.table({name: values[name] for name in ("id", "small", label)}), TableColumns(label=label))


def test_a_time_is_kept(tmp_path: Path) -> None:
    values = columns()
    made = compare(
        tmp_path, pa.table({name: values[name] for name in ("id", "small", "days")}), TableColumns(time="days")
    )
    assert set(np.load(made / "year.npy").tolist()) == {2020, 2021}
    with pytest.raises(SettingError, match=r"until is 2020: the whole graph is stored"):
        store_graph(tmp_path / "edges", tmp_path / "other", columns=TableColumns(time="days", until=2020))


def test_a_table_of_mostly_zeros_is_sparse(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    words = draw.poisson(0.03, (ROWS, 80))
    table = {"id": columns()["id"], **{f"w{place}": pa.array(words[:, place]) for place in range(80)}}
    made = compare(tmp_path, pa.table(table), TableColumns(scale=False))
    assert not (made / "x.npy").exists()
    assert np.load(made / "x_indices.npy").dtype == np.int32


def test_a_table_is_read_by_a_description(tmp_path: Path) -> None:
    values = columns()
    (tmp_path / "first").mkdir()
    table = pa.table({name: values[name] for name in ("id", "whole", "colour", "vector")})
    known = open_graph(compare(tmp_path / "first", table)).seen.preprocessing
    assert isinstance(known, Preprocessing)
    later = pa.table({name: values[name][:90] for name in ("id", "colour", "vector")})
    compare(tmp_path, later, TableColumns(preprocessing=known))


def test_more_words_than_classes_can_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plgc.graphs.store.columns.MOST_WORDS", 60)
    (tmp_path / "edges.csv").write_text("source,target\nn1,n2\n")
    table = pa.table({"id": columns()["id"], "label": [f"word {number}" for number in range(ROWS)]})
    parquet.write_table(table, tmp_path / "nodes.parquet")
    with pytest.raises(GraphError, match="'label' has more than 60 different words: they are no classes"):
        store_graph(tmp_path / "edges.csv", tmp_path / "made", nodes_table=tmp_path / "nodes.parquet", notice=False)
