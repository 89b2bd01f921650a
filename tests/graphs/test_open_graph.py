"""Opened once, loaded often; features derived while loading; names that go along with a graph and its parts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.artifact.condensed import CondensedGraph
from plgc.graphs import citation_graph, load_graph, save_npz, standard, training_subgraph
from plgc.graphs.attributes import Seen
from plgc.graphs.bare import strip_labels
from plgc.graphs.derive import check_derived, checked_mark, derive_features, derived_of, mark_option
from plgc.graphs.load import choose_split, is_path, open_graph
from plgc.graphs.views.partition import cut_parts, partition_nodes
from plgc.runtime.errors import ArtifactError, GraphError, GraphNotFoundError, SettingError

MASKS = ("train_mask", "val_mask", "test_mask")
MARK = {"features": "fastrp:8", "seed": 3}


def ring(**changes: object) -> Data:
    """Six nodes in a ring, with names."""
    places = torch.arange(6)
    graph = Data(edge_index=torch.stack([places, (places + 1) % 6]), y=places % 2, x=torch.eye(6, 3), num_nodes=6)
    graph.name, graph.node_ids = "ring", [f"n{place}" for place in range(6)]
    graph.class_names, graph.feature_names = ["even", "odd"], ["a", "b", "c"]
    for key, value in changes.items():
        graph[key] = value
    return graph


def alike(one: Data, other: Data) -> None:
    assert one.keys() == other.keys()
    one.x, other.x = (None if graph.x is None else graph.x.to_dense() for graph in (one, other))
    for key in one.keys():  # noqa: SIM118 (not a dict)
        same = torch.equal(one[key], other[key]) if isinstance(one[key], torch.Tensor) else one[key] == other[key]
        assert same, key


@pytest.mark.parametrize("seed", [0, 1])
def test_an_opened_graph_draws_every_split_by_itself(seed: int) -> None:
    graph = citation_graph(nodes=200, classes=3, features=20)
    for key in MASKS:
        del graph[key]
    opened = open_graph(graph)
    assert not any(key in opened for key in MASKS)
    alike(choose_split(opened, seed=seed), load_graph(graph, seed=seed))
    assert not any(key in opened for key in MASKS)  # what was opened is not changed
    alike(load_graph(opened, seed=seed), load_graph(graph, seed=seed))


def test_an_opened_graph_has_all_its_splits(tmp_path: Path) -> None:
    masks = {key: (torch.arange(6) % 3 == place)[:, None].repeat(1, 2) for place, key in enumerate(MASKS)}
    masks["val_mask"][:, 1], masks["test_mask"][:, 1] = masks["test_mask"][:, 0], masks["val_mask"][:, 0]
    graph = ring(**masks)
    for source in (graph, save_npz(graph, tmp_path / "ring.npz")):
        opened = open_graph(source)
        for split in (0, 1):
            alike(choose_split(opened, split), load_graph(source, split=split))
            alike(load_graph(opened, split=split), load_graph(source, split=split))
        assert load_graph(opened, split=1).split_origin == "split 1 of 2"


def test_a_graph_is_checked_and_brought_to_form_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Data] = []
    monkeypatch.setattr(standard, "check_structure", checked.append)
    graph = choose_split(open_graph(citation_graph(nodes=60, classes=3, features=20)))
    assert strip_labels(graph).x is graph.x
    assert len(checked) == 1


def test_a_text_is_a_path_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("cora", "COAUTHOR_cs", "demo", "unknown"):
        assert not is_path(name)
    for name in ("x.npz", "X.CSV", "edges.tsv.gz", "g.graphml", "g.safetensors", "./cora", "a/b"):
        assert is_path(name)
    for name in ("cora", "unknown"):
        (tmp_path / name).touch()
    assert not is_path("cora")  # a name of the catalogue wins
    assert is_path("unknown")


def test_features_are_derived_while_loading() -> None:
    graph = ring(x=torch.full((6, 3), torch.nan))  # not read
    notes: list[str] = []
    loaded = load_graph(graph, features="fastrp:8", features_seed=3, notice=notes.append)
    assert loaded.x is not None
    assert torch.equal(loaded.x, derive_features(loaded, "fastrp:8", 3))
    assert derived_of(loaded) == MARK
    assert "feature_names" not in loaded
    assert loaded["node_ids"] == graph.node_ids
    assert notes == ["ring: features are derived from the edges (fastrp:8, seed 3)"]
    assert derived_of(load_graph(ring())) is None
    assert derived_of(load_graph(loaded)) == derived_of(load_graph(open_graph(loaded))) == MARK
    assert derived_of(load_graph(loaded, features="fastrp:4")) == {"features": "fastrp:4", "seed": 0}
    assert load_graph(Data(edge_index=graph.edge_index), features="fastrp:8").x is not None


def test_wrong_words_and_seeds_are_refused_first() -> None:
    with pytest.raises(SettingError, match="fastrp:128"):
        load_graph("no-such-graph", features="pagerank")
    with pytest.raises(SettingError, match="features_seed is -1"):
        load_graph(ring(), features="fastrp:8", features_seed=-1)


def test_the_mark_reaches_the_file_and_is_checked(tmp_path: Path) -> None:
    graph = load_graph(citation_graph(nodes=120, classes=3, features=9), features="fastrp:8", features_seed=3)
    condensed = plgc.condense(graph, nodes=5)
    path = condensed.save(tmp_path / "c.safetensors")
    assert CondensedGraph.load(path).seen == Seen(derived=MARK)
    for wrong in ({"features": "fastrp:8"}, {**MARK, "seed": True}, {**MARK, "features": ["fastrp:8"]}, "fastrp:8"):
        damaged = replace(condensed, seen=Seen(derived=wrong))  # pyright: ignore[reportArgumentType]
        with pytest.raises(ArtifactError, match="damaged: features"):
            CondensedGraph.load(damaged.save(path))


def test_parts_carry_names_and_the_mark() -> None:
    graph = load_graph(ring(), features="fastrp:8", features_seed=3)
    assert graph.x is not None
    part = partition_nodes(graph, 2, "random", seed=0)
    for number, cut in enumerate(cut_parts(graph, part)):
        nodes = (part == number).nonzero().flatten()
        assert cut["node_ids"] == [f"n{node}" for node in nodes.tolist()]
        assert cut["class_names"] == ["even", "odd"]
        assert derived_of(cut) == MARK
        assert torch.equal(cut.x, graph.x[nodes])


def test_an_inductive_cut_carries_names_and_refuses_derived_features() -> None:
    graph = load_graph(ring(**{key: torch.arange(6) % 3 == place for place, key in enumerate(MASKS)}))
    cut = training_subgraph(graph)
    assert (cut["node_ids"], cut["feature_names"]) == (["n0", "n3"], ["a", "b", "c"])
    with pytest.raises(SettingError, match="derived from all edges"):
        training_subgraph(load_graph(graph, features="fastrp:8"))


def test_names_and_mark_survive_the_file(tmp_path: Path) -> None:
    again = load_graph(save_npz(ring(), tmp_path / "ring.npz"))
    for key in ("node_ids", "class_names", "feature_names"):
        assert again[key] == ring()[key]
    derived = load_graph(save_npz(load_graph(ring(), features="fastrp:8", features_seed=3), tmp_path / "d.npz"))
    assert derived_of(derived) == MARK
    with pytest.raises(GraphError, match="1001 characters, the limit is 1000"):
        save_npz(ring(class_names=["even", "o" * 1001]), tmp_path / "long.npz")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"class_names": np.array([1, 2])}, "class_names holds int64"),
        ({"node_ids": np.array([["a"] * 6])}, r"node_ids holds .* \[1, 6\]"),
        ({"node_ids": np.array(["a"] * 5)}, "node_ids has 5 entries, expected 6"),
        ({"feature_names": np.array(["a"])}, "feature_names has 1 entries, expected 3"),
        ({"meta": np.array('{"derived": "fastrp:8"}')}, "its meta speaks of features derived as 'fastrp:8'"),
    ],
)
def test_names_that_make_no_sense_are_refused(changes: dict[str, np.ndarray], words: str, tmp_path: Path) -> None:
    with np.load(save_npz(ring(), tmp_path / "good.npz")) as archive:
        np.savez(tmp_path / "bad.npz", **{**archive, **changes})
    with pytest.raises(GraphError, match=words):
        load_graph(tmp_path / "bad.npz")


def test_marks() -> None:
    assert checked_mark(MARK) == MARK
    assert mark_option(MARK) == "--features fastrp:8 --features-seed 3"
    assert mark_option({**MARK, "seed": 0}) == "--features fastrp:8"
    own, derived = load_graph(ring()), load_graph(ring(), features="fastrp:8", features_seed=3)
    check_derived(None, own, "it")
    check_derived(MARK, derived, "it")
    with pytest.raises(GraphError, match=r"it was made from features of a graph's own.*leave --features fastrp:8"):
        check_derived(None, derived, "it")
    with pytest.raises(GraphError, match="graph has its own: give it --features fastrp:8 --features-seed 3 "):
        check_derived(MARK, own, "it")
    with pytest.raises(GraphError, match=r"has others \(--features fastrp:8 --features-seed 3\): give it --features f"):
        check_derived({**MARK, "seed": 4}, derived, "it")
    with pytest.raises(GraphError, match="graph has none: give it"):
        check_derived(MARK, load_graph(ring(x=None, feature_names=None)), "it")


def test_the_nearest_file_is_named(tmp_path: Path) -> None:
    save_npz(ring(), tmp_path / "ring.npz")
    (tmp_path / "edges.csv").write_text("a,b\nx,y\n")
    for wrong, near in (("rings.npz", "ring.npz"), ("edge.csv", "edges.csv")):
        for source in (tmp_path / wrong, str(tmp_path / wrong)):
            with pytest.raises(GraphNotFoundError, match=f"no such file: .*{wrong}. Did you mean .*{near}") as caught:
                load_graph(source)
            assert str(tmp_path / near) in str(caught.value)
    with pytest.raises(GraphNotFoundError, match=r"no such file: .*zebra\.npz$"):
        load_graph(tmp_path / "zebra.npz")
    with pytest.raises(GraphNotFoundError, match="no such folder"):
        load_graph(tmp_path / "nowhere" / "ring.npz")
    with pytest.raises(GraphNotFoundError, match=r"nodez\.csv"):
        load_graph(tmp_path / "edges.csv", nodes_table=tmp_path / "nodez.csv")
