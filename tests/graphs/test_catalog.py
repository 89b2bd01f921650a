from __future__ import annotations

import gzip
import json
import shutil
import urllib.error
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import catalog, download, get_graph, list_graphs, load_graph, save_npz
from plgc.runtime.errors import GraphError, GraphNotFoundError

WANTED = {
    *("cora", "citeseer", "pubmed", "amazon-photo", "amazon-computers", "coauthor-cs", "coauthor-physics"),
    *("ogbn-arxiv", "flickr", "reddit", "actor", "wikics", "roman-empire", "amazon-ratings", "minesweeper"),
    *("tolokers", "questions", "demo"),
}


def triangle(nodes: int = 3, features: int = 2, **fields: object) -> Data:
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    return Data(**{"x": torch.eye(nodes, features), "edge_index": edges, "y": torch.arange(nodes) % 2, **fields})


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty data folder and an empty cache, both in use."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    data.mkdir()
    monkeypatch.setenv("PLGC_DATA", str(data))
    monkeypatch.setenv("PLGC_CACHE", str(cache))
    return data, cache


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever would be downloaded fails as it does without a network."""

    def fail(*_: object, **__: object) -> None:
        raise urllib.error.URLError("network is unreachable")

    monkeypatch.setattr(download, "_pyg_dataset", fail)
    monkeypatch.setattr("torch_geometric.data.download_url", fail)


@pytest.mark.usefixtures("no_network")
def test_names_match_whatever_the_case_and_the_hyphens(places) -> None:
    data, _ = places
    save_npz(triangle(), data / "amazon_photo.npz")
    save_npz(triangle(), data / "Twitch_DE.npz")
    for name in ("amazon-photo", "amazon_photo", "Amazon-Photo"):
        assert get_graph(name) == data / "amazon_photo.npz"
        assert load_graph(name).name == "amazon-photo"
    assert load_graph("twitch-de").name == "Twitch_DE"


@pytest.mark.usefixtures("no_network")
def test_a_name_never_matches_a_part_of_a_file_name(places) -> None:
    data, _ = places
    save_npz(triangle(), data / "ogbn_arxiv_structure.npz")
    with pytest.raises(GraphNotFoundError, match=r"ogbn-arxiv could not be downloaded"):
        load_graph("ogbn-arxiv")
    assert load_graph("ogbn-arxiv-structure").num_nodes == 3


@pytest.mark.usefixtures("no_network")
def test_the_local_folder_comes_before_the_cache(places) -> None:
    data, cache = places
    cache.mkdir()
    save_npz(triangle(4), cache / "cora.npz")
    assert get_graph("cora") == cache / "cora.npz"
    save_npz(triangle(3), data / "cora.npz")
    assert get_graph("cora") == data / "cora.npz"
    assert {e.name: (e.where, e.nodes) for e in list_graphs()}["cora"] == ("PLGC_DATA", 3)


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "mine"))
    assert catalog.cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("PLGC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert catalog.cache_folder() == tmp_path / "xdg" / "plgc"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert catalog.cache_folder() == tmp_path / "home" / ".cache" / "plgc"


def test_every_wanted_name_is_listed_once_with_its_size(places) -> None:
    entries = list_graphs()
    assert sorted(e.name for e in entries) == sorted(WANTED)
    assert {e.where for e in entries} == {"download", "embedded"}
    by_name = {e.name: e for e in entries}
    assert by_name["cora"] == catalog.GraphEntry("cora", "download", 2708, 10556, 1433, 7)
    assert all(None not in (e.nodes, e.features, e.classes) for e in entries)


def test_listing_shows_local_and_cached_files_even_broken_ones(places) -> None:
    data, cache = places
    cache.mkdir()
    save_npz(triangle(), data / "my_graph.npz", {"licence": "none"})
    (data / "broken.npz").write_bytes(b"nonsense")
    (data / "notes.txt").write_text("not a graph")
    np.savez(data / "plain.npz", edge_index=np.array([[0], [1]]))
    save_npz(triangle(), cache / "pubmed.npz")
    by_name = {e.name: e for e in list_graphs()}
    assert by_name["my_graph"] == catalog.GraphEntry("my_graph", "PLGC_DATA", 3, 3, 2, 2)
    assert by_name["broken"] == catalog.GraphEntry("broken", "PLGC_DATA")
    assert by_name["plain"] == catalog.GraphEntry("plain", "PLGC_DATA")
    assert by_name["pubmed"].where == "cache"
    assert "notes" not in by_name


def test_the_demo_graph_needs_no_file_and_is_as_listed(places) -> None:
    _, cache = places
    graph = load_graph("demo")
    assert graph.name == "demo"
    assert not cache.exists()
    facts = next(e for e in list_graphs() if e.name == "demo")
    assert facts.where == "embedded"
    assert (facts.nodes, facts.edges) == (graph.num_nodes, graph.num_edges)
    assert (facts.features, facts.classes) == (graph.x.size(1), int(graph.y.max()) + 1)
    path = get_graph("Demo")
    assert path == cache / "demo.npz"
    assert load_graph(path).split_origin == graph.split_origin
    assert next(e for e in list_graphs() if e.name == "demo").where == "embedded"


def test_a_name_that_could_be_mistaken_has_a_title() -> None:
    assert catalog.title("arxiv_llm_text") == catalog.title("ARXIV-LLM-text") == "LLM-text arxiv"
    assert catalog.title("ogbn-arxiv") == "ogbn-arxiv"
    assert catalog.title("citation_dblpv7") == "citation_dblpv7"


def test_an_unknown_name_gets_near_matches_and_the_list(places) -> None:
    data, _ = places
    save_npz(triangle(), data / "citation_acmv9.npz")
    with pytest.raises(GraphNotFoundError, match=r"no graph is called 'cra'.*Did you mean cora\?.*citeseer, pubmed"):
        load_graph("cra")
    with pytest.raises(GraphNotFoundError, match=r"Did you mean citation_acmv9\?"):
        load_graph("citation-acm-v9")
    with pytest.raises(GraphNotFoundError, match=r"'zzzzzz'.* Known names: citation_acmv9, demo, cora") as caught:
        load_graph("zzzzzz")
    assert "Did you mean" not in str(caught.value)


def test_a_data_folder_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLGC_DATA", str(tmp_path / "typo"))
    with pytest.raises(GraphNotFoundError, match=r"PLGC_DATA is set to .*typo"):
        load_graph("cora")


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("name", ["cora", "ogbn-arxiv"])
def test_without_a_network_the_message_says_what_was_tried(places, name: str) -> None:
    data, cache = places
    with pytest.raises(GraphNotFoundError) as caught:
        load_graph(name)
    for part in (name, "unreachable", str(data), str(cache), f"set PLGC_DATA to a folder that holds {name}.npz"):
        assert part in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_download_is_converted_kept_and_not_repeated(places, monkeypatch: pytest.MonkeyPatch) -> None:
    _, cache = places
    calls = []

    def dataset(folder: Path, kind: str, options: dict) -> Data:
        calls.append((kind, dict(options)))
        (folder / "raw").mkdir()
        masks = {key: torch.ones(11701, 20, dtype=torch.bool) for key in ("train_mask", "val_mask")}
        masks["test_mask"] = torch.zeros(11701, dtype=torch.bool)
        return triangle(11701, 300, stopping_mask=masks["train_mask"], **masks)

    monkeypatch.setattr(download, "_pyg_dataset", dataset)
    loaded = load_graph("WikiCS", split=19)
    assert calls == [("WikiCS", {"is_undirected": True})]
    assert [p.name for p in cache.iterdir()] == ["wikics.npz"]
    assert loaded.split_origin == "split 19 of 20"
    assert loaded.x.layout == torch.sparse_csr  # mostly zeros
    assert torch.equal(loaded.x.to_dense(), torch.eye(11701, 300))
    with np.load(cache / "wikics.npz", allow_pickle=False) as archive:
        assert archive["train_mask"].shape == (20, 11701)
        assert json.loads(str(archive["meta"]))["source"] == "torch_geometric.datasets.WikiCS(is_undirected=True)"
    load_graph("wikics")
    assert len(calls) == 1


def test_dense_downloads_stay_dense(places, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = triangle(11758, 10, x=torch.ones(11758, 10))
    monkeypatch.setattr(download, "_pyg_dataset", lambda *_: graph)
    assert load_graph("tolokers").x.layout == torch.strided


def test_a_download_of_the_wrong_size_is_not_kept(places, monkeypatch: pytest.MonkeyPatch) -> None:
    _, cache = places
    monkeypatch.setattr(download, "_pyg_dataset", lambda *_: triangle(5, 2))
    with pytest.raises(GraphNotFoundError, match="5 nodes and 2 features came, not 2708 and 1433"):
        load_graph("cora")
    assert list(cache.iterdir()) == []


def test_every_pyg_dataset_named_exists_and_takes_its_options() -> None:
    import inspect

    from torch_geometric import datasets

    for name, source in download.DOWNLOADS.items():
        if name == "ogbn-arxiv":
            continue
        kind, _, options = source.origin.removeprefix("torch_geometric.datasets.").partition("(")
        accepted = inspect.signature(getattr(datasets, kind).__init__).parameters
        given = [part.split("=")[0] for part in options.rstrip(")").split(", ") if part]
        assert {"root", *given} <= accepted.keys(), name


def test_arxiv_is_read_from_ogbs_raw_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {
        "raw/edge.csv.gz": "0,1\n2,3\n",
        "raw/node-feat.csv.gz": "0.5,-1\n1.5,2\n0,0\n3,1e-3\n",
        "raw/node-label.csv.gz": "4\n0\n39\n1\n",
        "split/time/train.csv.gz": "0\n3\n",
        "split/time/valid.csv.gz": "1\n",
        "split/time/test.csv.gz": "2\n",
    }
    archive = tmp_path / "arxiv.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in tables.items():
            file.writestr(f"arxiv/{name}", gzip.compress(text.encode()))
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.setattr("torch_geometric.data.download_url", lambda url, to: shutil.copy(archive, to))
    data = download._ogbn_arxiv(folder)
    assert data.edge_index.tolist() == [[0, 2], [1, 3]]
    assert torch.equal(data.x, torch.tensor([[0.5, -1], [1.5, 2], [0, 0], [3, 1e-3]]))
    assert data.y.tolist() == [4, 0, 39, 1]
    assert data.train_mask.tolist() == [True, False, False, True]
    assert data.val_mask.nonzero().item() == 1
    assert data.test_mask.nonzero().item() == 2


def test_a_cache_that_cannot_be_written_is_named(places, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "file" / "cache"))
    for name in ("cora", "demo"):
        with pytest.raises(GraphNotFoundError, match=r"cannot write to the cache folder .*file.*set PLGC_CACHE"):
            get_graph(name)


@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_saved_is_what_loads(tmp_path: Path, sparse: bool) -> None:
    x = torch.tensor([[0.0, 2.5], [0.0, 0.0], [-1.0, 0.0]])
    graph = triangle(
        x=x.to_sparse_csr() if sparse else x,
        y_multi=torch.ones(3, 4, dtype=torch.int8),
        edge_weight=torch.tensor([1.0, 2.0, 3.0]),
        train_mask=torch.tensor([True, False, False]),
    )
    path = save_npz(graph, tmp_path / "graph.npz", {"licence": "CC0"})
    assert [p.name for p in tmp_path.iterdir()] == ["graph.npz"]
    with np.load(path, allow_pickle=False) as archive:
        assert archive["edge_index"].dtype == np.int32
        assert ("x_indptr" in archive) == sparse
        meta = json.loads(str(archive["meta"]))
    assert meta == {"name": "graph", "nodes": 3, "edges": 3, "features": 2, "classes": 2, "licence": "CC0"}
    loaded, direct = load_graph(path), load_graph(graph)
    assert torch.equal(loaded.x.to_dense(), x)
    for key in ("edge_index", "edge_weight", "y", "y_multi", "train_mask", "val_mask", "test_mask"):
        assert torch.equal(loaded[key], direct[key]), key


def test_isolated_nodes_survive_saving_a_bare_graph(tmp_path: Path) -> None:
    bare = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=5)
    assert load_graph(save_npz(bare, tmp_path / "bare.npz")).num_nodes == 5


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_npz(triangle(), tmp_path / "graph.npz")
    before = path.read_bytes()

    def half(file, **_: object) -> None:
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", half)
    with pytest.raises(OSError, match="disk full"):
        save_npz(triangle(4), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(GraphError, match="no edge_index"):
        save_npz(Data(x=torch.eye(2)), tmp_path / "no.npz")
