"""The report as a whole: its numbers are those of the file and of the evaluation; it is safe, small and repeatable."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report_pages import read_page
from torch_geometric.data import Data

import plgc
from plgc.evaluation.over_seeds import evaluate
from plgc.evaluation.scoring import train_whole_graph
from plgc.evaluation.theory import diagnose
from plgc.graphs import citation_graph, save_npz
from plgc.graphs.formats.npz import npz_bytes
from plgc.report import build_report, write_report
from plgc.report.formatting import number, percent, size, whole
from plgc.runtime.errors import ArtifactError, GraphError, GraphNotFoundError, SettingError

NASTY = '<script>alert("x")</script> & </title><!--'


def map_data(page: str) -> dict[str, Any]:
    [text] = re.findall(r'<script type="application/json" id="map-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def unpack(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


def plain(text: str) -> str:
    return text.replace("\u202f", " ")


def test_sizes_and_origin(page: str, ours: Path, condensed: plgc.CondensedGraph, small: Data) -> None:
    text = read_page(page).text
    assert f"300 nodes became {condensed.num_nodes} synthetic nodes: {plain(size(ours.stat().st_size))}" in text
    assert plain(percent(condensed.num_nodes / 300)) in text
    stored = npz_bytes(plgc.load_graph(small))
    assert f"take {plain(size(stored))} as an npz file" in text
    assert f"on disk, {plain(percent(ours.stat().st_size / stored))} of the graph as an npz file" in text
    assert hashlib.sha256(ours.read_bytes()).hexdigest() in text
    assert "The graph given is the one that was condensed" in text


def test_accuracies_are_those_of_the_evaluation(page: str, condensed: plgc.CondensedGraph, graph: Path) -> None:
    text = read_page(page).text
    result = evaluate([condensed], graph, seeds=2, first_seed=1)
    whole_graph = [train_whole_graph(plgc.load_graph(graph), seed=seed)["accuracy"] for seed in (1, 2)]
    rows = {
        "plgc": result["accuracy"],
        "whole graph": {"mean": np.mean(whole_graph), "std": np.std(whole_graph, ddof=1)},
    }
    rows |= {name.replace("_", " "): scores["accuracy"] for name, scores in result["controls"].items()}
    for name, scores in rows.items():
        assert f"{name} {scores['mean']:.2f} ± {scores['std']:.2f}" in text, name


def test_bounds_are_those_of_the_theory(page: str, condensed: plgc.CondensedGraph, small: Data) -> None:
    text = read_page(page).text
    theory = diagnose(condensed, small, seed=1)
    assert f"Separation Δ of the two closest means {number(theory.gap)}" in text
    assert f"Noise σ within clusters (from below) {number(theory.sigma)}" in text
    share = plain(percent(theory.normalized.recovered / theory.points, 3))
    assert f"{share} of {whole(theory.points)}" in text
    for name, values in ((name, values) for name, values in condensed.curves.items() if values):
        assert f"{name.replace('_', ' ')}: {number(values[0])} to {number(values[-1])}" in text


def test_the_map_is_the_graph(page: str, condensed: plgc.CondensedGraph, small: Data) -> None:
    data = map_data(page)
    assert condensed.pseudo_labels is not None
    settings = plgc.downstream.backbone.BackboneSettings(skip=False)
    embedding = plgc.reconstruct(condensed, seed=1, settings=settings).embed(small).double()
    own = torch.cdist(embedding, condensed.pseudo_labels.double()).argmin(1)
    assert unpack(data["cluster"], "<u2").tolist() == own.tolist()
    assert unpack(data["labels"], "<i2").tolist() == small["y"].tolist()
    assert data["ids"] is None
    assert [fact["size"] for fact in data["facts"]] == condensed.counts.tolist()
    for index, fact in enumerate(data["facts"]):
        members = small["y"][own == index]
        assert fact["near"] == fact["known"] == len(members)
        assert sorted(map(tuple, fact["mix"])) == sorted(
            (c, int((members == c).sum())) for c in members.unique().tolist()
        )
    places = unpack(data["nodes"], "<i2").reshape(-1, 2)
    assert len(places) == 300
    assert 25_000 < np.abs(places).max() <= 32_000


def test_same_inputs_same_bytes_and_no_traces(page: str, ours: Path, graph: Path, tmp_path: Path) -> None:
    written = write_report([ours], tmp_path / "out" / "again.html", graph=str(graph), seeds=0, seed=1)
    assert written.read_text(encoding="utf-8") == build_report([ours], graph=graph, seeds=0, seed=1)
    assert [path.name for path in written.parent.iterdir()] == ["again.html"]
    for trace in (str(graph.parent), str(tmp_path), "/tmp", "/home", "/root"):
        assert trace not in page
        assert trace not in written.read_text(encoding="utf-8")
    assert "plgc condense small.npz --nodes 12 --seed 3 --threads" in page


def test_text_from_files_is_escaped(ours: Path, small: Data, tmp_path: Path) -> None:
    loaded = plgc.CondensedGraph.load(ours)
    settings = {**loaded.settings, "remark": NASTY}
    made = replace(loaded, settings=settings, curves={**loaded.curves, NASTY: [1.0, 2.0]})
    file = made.save(tmp_path / "a<b>&'c\".safetensors")
    bare = plgc.graphs.unlabelled(small)
    bare.name = NASTY
    page = build_report([file], graph=bare)
    found = read_page(page)
    assert "alert" in found.text
    assert len(found.find("script")) == 2  # the map's data and the page's own
    assert page.count("</script>") == 2
    assert "<!--" not in page


def test_without_a_graph(ours: Path, noisy: Path) -> None:
    found = read_page(build_report([ours]))
    assert "Give the report --graph" in found.text
    assert found.find("canvas") == []
    assert "plgc condense GRAPH --nodes 12" in found.text
    assert "The file tells who was in the graph" in found.text
    assert "(--min-cluster) changes nothing" in found.text
    found = read_page(build_report([noisy]))
    assert "How much noise hides depends on the graph" in found.text
    assert "The file has no training curves" in found.text
    assert "another run gives other bytes" in found.text
    assert "--clip 1 --noise 0.05" in found.text
    assert re.search(r"About \d+ nodes became", found.text)


def test_unlabelled_graph(ours: Path, small: Data) -> None:
    page = build_report([ours], graph=plgc.graphs.unlabelled(small))
    assert "The graph has no labels" in read_page(page).text
    assert map_data(page)["labels"] is None
    assert all("mix" not in fact for fact in map_data(page)["facts"])


def test_without_accuracy_and_with_equal_names(ours: Path, graph: Path, tmp_path: Path) -> None:
    copy = tmp_path / ours.name
    copy.write_bytes(ours.read_bytes())
    page = build_report([ours, copy], graph=graph, seeds=0)
    text = read_page(page).text
    assert "Accuracy was not measured" in text
    assert map_data(page)["sources"] == ["ours", "ours (2)"]
    assert "One graph of 300 nodes, condensed 2 times to 12 synthetic nodes" in text  # they do not add up


def test_names_are_shown(ours: Path, small: Data) -> None:
    graph = small.clone()
    graph.node_ids = [f"paper <{index}>" for index in range(300)]
    graph.class_names = ["bio & co", "chemistry", "physics of " + 40 * "x"]
    graph.feature_names = [f"word{index}" for index in range(100)]
    page = build_report([ours], graph=graph, seeds=0)
    data, text = map_data(page), read_page(page).text
    assert data["names"][7] == "paper <7>"
    assert data["classes"][0] == "bio & co"
    assert len(data["classes"][2]) == 32
    assert all(name.startswith("word") for fact in data["facts"] for name in fact["f"])
    assert "bio & co: " in text


def test_an_edge_list_with_a_node_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    group = np.arange(90) % 3
    rows = [f"n{i},{rng.normal(group[i]):.3f},{rng.normal(-group[i]):.3f},kind{group[i]}" for i in range(90)]
    (tmp_path / "nodes.csv").write_text("id,a,b,label\n" + "\n".join(rows) + "\n")
    edges = [f"n{i},n{j}" for i in range(90) for j in rng.choice(90, 3) if group[i] == group[j]]
    (tmp_path / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    graph = plgc.load_graph(tmp_path / "edges.csv", nodes_table=tmp_path / "nodes.csv")
    file = plgc.condense(graph, nodes=6).save(tmp_path / "mine.safetensors")
    page = build_report([file], graph=tmp_path / "edges.csv", nodes_table=tmp_path / "nodes.csv", seeds=0)
    assert "plgc condense edges.csv --nodes-table nodes.csv --nodes 6 --seed 0" in read_page(page).text
    assert map_data(page)["names"][0] == "n0"
    assert map_data(page)["classes"] == ["kind0", "kind1", "kind2"]
    assert str(tmp_path) not in page


def test_rivals_have_classes(rival: Path, graph: Path) -> None:
    loaded = plgc.CondensedGraph.load(rival)
    assert loaded.labels is not None
    page = build_report([rival], graph=graph, seeds=0)
    found = read_page(page)
    assert "small, condensed by gecc" in found.text
    assert "Class balance" in found.text
    assert "Cluster balance" not in found.text
    assert "reads the graph's training labels" in found.text
    assert [fact["class"] for fact in map_data(page)["facts"]] == loaded.labels.tolist()


def test_sources_side_by_side(parts: Path, graph: Path) -> None:
    page = build_report([parts], graph=graph, seeds=1)
    found = read_page(page)
    sources = plgc.load_sources(parts)
    together = evaluate(sources, graph, seeds=1, combine="heads")
    assert f"all 2, by heads {together['accuracy']['mean']:.2f}" in found.text
    alone = evaluate(sources[:1], graph, seeds=1)
    assert f"small-part1 {alone['accuracy']['mean']:.2f}" in found.text
    for index, source in enumerate(sources, 1):
        assert f"small-part{index} plgc {source.num_nodes} " in found.text
    command = (
        "plgc condense small.npz --parts 2 --partition random --nodes 12 --seed 1 --min-cluster 2 --cpus 1 -o parts"
    )
    assert command in found.text
    data = map_data(page)
    assert data["by"] == "source"
    assert data["sources"] == ["small-part1", "small-part2"]
    assert [fact["source"] for fact in data["facts"]] == [0] * sources[0].num_nodes + [1] * sources[1].num_nodes


def test_files_that_cannot_be_combined(ours: Path, rival: Path, graph: Path) -> None:
    found = read_page(build_report([ours, rival], graph=graph, seeds=1))
    assert "they are not combined" in found.text
    assert "ours plgc 12" in found.text
    assert "rival gecc 12" in found.text
    result = evaluate([plgc.CondensedGraph.load(rival)], graph, seeds=1)
    assert f"rival {result['accuracy']['mean']:.2f}" in found.text


def test_refusals(ours: Path, graph: Path, tmp_path: Path) -> None:
    other = save_npz(citation_graph(nodes=300, classes=3, features=90), tmp_path / "other.npz")
    (tmp_path / "text.safetensors").write_text("no such thing")
    (tmp_path / "empty").mkdir()
    for files, given, error, words in (
        ([tmp_path / "missing.safetensors"], None, ArtifactError, "there is no file"),
        ([tmp_path / "text.safetensors"], None, ArtifactError, "cannot be opened"),
        ([tmp_path / "empty"], None, ArtifactError, "neither manifest.json"),
        ([ours], other, GraphError, "100 features per node, the graph other has 90"),
        ([ours], "no-such-graph", GraphNotFoundError, "no-such-graph"),
        ([], None, SettingError, "nothing to report on"),
    ):
        with pytest.raises(error, match=words):
            build_report(files, graph=given)
    with pytest.raises(SettingError, match="is a folder"):
        write_report([ours], tmp_path)
    with pytest.raises(SettingError, match="no records"):
        build_report([ours], runs=[tmp_path / "empty"])
