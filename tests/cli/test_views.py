"""Parts of a graph, rivals, links and clusters on the command line: what is written, reported and refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plgc
from plgc.cli import options
from plgc.cli.evaluate import _evaluate_text
from plgc.graphs import citation_graph, save_npz, split_edges, training_edges, training_labels, training_subgraph
from plgc.graphs.attributes import Seen
from plgc.graphs.views.inductive import training_digest
from plgc.graphs.views.protocol import TASKS
from plgc.rivals.methods import CONDENSERS, METHODS, condense_with

KEPT = 12
CONTRACT = {
    *("artifact", "graph", "nodes", "seed", "seconds", "peak_memory_bytes", "bytes", "nodes_requested"),
    *("method", "seen", "ratio", "preset", "threads"),
}
LINKS = ("--edges", "train", "--edge-seed", 4, "--seed", 1)
INDUCTIVE = ("--inductive",)
Condense = Callable[..., Any]


@pytest.fixture(scope="module")
def small(folder: Path) -> Path:
    """150 nodes, 3 classes, 40 features: small enough to condense often."""
    return save_npz(citation_graph(nodes=150, classes=3, features=40), folder / "views.npz")


@pytest.fixture(scope="module")
def condense(run: Any, folder: Path, small: Path) -> Condense:
    """Condense the small graph once per set of options."""
    done: dict[tuple[object, ...], Any] = {}

    def condense(*given: object) -> Any:
        if given not in done:
            path = folder / f"view-{len(done)}.safetensors"
            done[given] = run("condense", small, "--nodes", KEPT, *given, "-o", path, "--json")
        return done[given]

    return condense


def file(done: Any) -> Path:
    return Path(done.result["artifact"])


def refused(run: Any, kind: str, words: str, *arguments: object) -> None:
    """The command fails with exit code 1 and one message of that kind, on stderr or as JSON."""
    done = run(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert words in done.err
    as_json = run(*arguments, "--json")
    assert as_json.code == 1
    error = json.loads(as_json.out)["error"]
    assert error["kind"] == kind
    assert words in error["message"]


# Condensing


def test_training_edges(condense: Condense, small: Path) -> None:
    done = condense(*LINKS)
    graph = plgc.load_graph(small, seed=1)
    expected = plgc.condense(training_edges(graph, 4), nodes=KEPT, seed=1)
    assert file(done).read_bytes() == expected.to_bytes()
    assert set(done.result) >= CONTRACT
    assert done.result["seen"] == {"nodes": "all", "edges": "train", "edge_seed": 4}
    assert (done.result["method"], done.result["preset"]) == ("plgc", "default")
    assert expected.source["edges"] == 2 * split_edges(graph, 4).train.shape[1]
    assert done.err == ""


def test_training_nodes(condense: Condense, small: Path) -> None:
    done = condense(*INDUCTIVE)
    graph = plgc.load_graph(small)
    expected = plgc.condense(training_subgraph(graph), nodes=KEPT)
    assert file(done).read_bytes() == expected.to_bytes()
    assert done.result["seen"]["nodes"] == "train"
    assert done.result["seen"]["training_nodes"] == training_digest(graph)
    assert done.result["ratio"] == pytest.approx(KEPT / int(graph.train_mask.sum()))


def test_the_ratio_is_of_what_is_seen(run: Any, small: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.safetensors"
    done = run("condense", small, "--ratio", 0.25, "--inductive", "--method", "random", "-o", path)
    assert done.code == 0
    assert "training nodes only" in done.out
    train = int(plgc.load_graph(small).train_mask.sum())
    assert plgc.CondensedGraph.load(path).nodes_requested == round(0.25 * train)
    assert f": {train} nodes" in done.out


@pytest.mark.parametrize("method", [name for name in CONDENSERS if METHODS[name].supervised and not METHODS[name].long])
def test_rivals(method: str, condense: Condense, small: Path) -> None:
    done = condense("--method", method, "--seed", 2)
    graph = plgc.load_graph(small, seed=2)
    expected = condense_with(method, graph, nodes=KEPT, seed=2, labels=training_labels(graph))
    assert file(done).read_bytes() == expected.to_bytes()
    assert set(done.result) >= CONTRACT
    assert (done.result["method"], done.result["preset"]) == (method, None)
    assert done.result["explained_variance"] is None
    assert f"{method} reads the graph's {int(graph.train_mask.sum())} training labels" in done.err


def test_a_rival_s_edges_are_counted(run: Any, small: Path, tmp_path: Path) -> None:
    done = run("condense", small, "--nodes", 30, "--method", "coarsening", "-o", tmp_path / "c.safetensors")
    edges = plgc.CondensedGraph.load(tmp_path / "c.safetensors").edge_index
    assert edges is not None
    assert f"30 nodes (20 %), {edges.shape[1] // 2} edges" in done.out


def test_condensing_without_labels_reads_none(run: Any, small: Path, condense: Condense, tmp_path: Path) -> None:
    with np.load(small) as archive:
        arrays = {key: archive[key] for key in archive.files}
    generator = np.random.default_rng(0)
    arrays["y"] = generator.permutation(arrays["y"])
    for key in ("train_mask", "val_mask", "test_mask"):
        del arrays[key]
    np.savez(tmp_path / "other.npz", **arrays)
    out = tmp_path / "c.safetensors"
    given = ["--nodes", KEPT, *LINKS]
    assert run("condense", tmp_path / "other.npz", *given, "-o", out).code == 0
    expected = file(condense(*LINKS))
    assert out.read_bytes() == expected.read_bytes()


def test_choices_are_those_of_the_package() -> None:
    assert tuple(options.Condenser) == CONDENSERS
    assert tuple(options.TaskName) == TASKS[:3]  # the others are of experiments alone


# Evaluating


def assert_contract(result: dict[str, Any], task: str, metrics: tuple[str, ...], seeds: int) -> None:
    assert {"task", "graph", "nodes", "controls", "seconds", "bytes", *metrics} <= set(result)
    assert (result["task"], result["graph"]) == (task, "views")
    assert set(result["controls"]) == {"random_encoder", "propagated_features", "raw_features", "plain_parts"}
    for scores in (result[metrics[0]], *result["controls"].values()):
        assert {"mean", "std", "values"} <= set(scores)
        assert len(scores["values"]) == seeds


def test_links(run: Any, small: Path, condense: Condense) -> None:
    artifact = file(condense(*LINKS))
    result = run("evaluate", artifact, "--graph", small, "--task", "link", "--seeds", 2, "--json").result
    assert_contract(result, "link", ("auroc", "ap"), 2)
    assert 0.5 < result["auroc"]["mean"] <= 1
    assert "accuracy" not in result
    for words in ("AUROC", "average precision", "links, test edges", "propagated features"):
        assert words in _evaluate_text(result)


def test_inductive_links_and_nodes(run: Any, small: Path, condense: Condense) -> None:
    artifact = file(condense(*INDUCTIVE))
    result = run("evaluate", artifact, "--graph", small, "--task", "link", "--json").result
    assert result["inductive"]
    assert_contract(result, "link", ("auroc", "ap"), 1)
    done = run("evaluate", artifact, "--graph", small, "--shots", 3)
    assert done.code == 0
    assert ", inductive" in done.out


def test_clusters(run: Any, small: Path, condense: Condense) -> None:
    artifact = file(condense(*INDUCTIVE))
    result = run("evaluate", artifact, "--graph", small, "--task", "cluster", "--json").result
    assert_contract(result, "cluster", ("nmi", "ari"), 1)
    assert 0 <= result["nmi"]["mean"] <= 1
    for words in ("NMI", "ARI", "clusters of all nodes"):
        assert words in _evaluate_text(result)


def test_a_rival(run: Any, small: Path, condense: Condense) -> None:
    artifact = file(condense("--method", "kcenter-labelfree", "--seed", 2))
    result = run("evaluate", artifact, "--graph", small, "--json").result
    assert_contract(result, "node", ("accuracy", "macro_f1", "smoothed_accuracy"), 1)
    assert result["method"] == "kcenter-labelfree"
    text = _evaluate_text(result)
    row = next(line for line in text.splitlines() if line.startswith("random encoder"))
    assert row.split()[-1] == "-"  # no smoothed accuracy beside a head that smooths already
    assert "kcenter-labelfree" in text


# Refusals


def test_links_that_were_seen_are_refused(run: Any, graph: Path, artifact: Path) -> None:
    refused(run, "bad-setting", "--edges train", "evaluate", artifact, "--graph", graph, "--task", "link")


def test_another_graph_is_refused(run: Any, graph: Path, small: Path, condense: Condense, tmp_path: Path) -> None:
    links, inductive = file(condense(*LINKS)), file(condense(*INDUCTIVE))
    other = save_npz(citation_graph(nodes=150, classes=3, features=40, seed=1), tmp_path / "other.npz")
    refused(run, "bad-graph", "not this graph's", "evaluate", links, "--graph", other, "--task", "link")
    for task in ("node", "link", "cluster"):
        refused(run, "bad-graph", "another graph or split", "evaluate", inductive, "--graph", other, "--task", task)
    refused(run, "bad-setting", "different things", "evaluate", links, inductive, "--graph", small)


def test_a_split_that_is_not_the_file_s_is_refused(run: Any, small: Path, tmp_path: Path) -> None:
    with np.load(small) as archive:
        arrays = {key: archive[key] for key in archive.files}
    for key in ("train_mask", "val_mask", "test_mask"):
        arrays[key] = np.stack([arrays[key], np.roll(arrays[key], 1), np.roll(arrays[key], 2)])
    several, out = tmp_path / "several.npz", tmp_path / "c.safetensors"
    np.savez(several, **arrays)
    given = ["--nodes", KEPT, "--split", 1, "--method", "random", "-o", out]
    seen = run("condense", several, *given, "--json").result["seen"]
    assert (seen["nodes"], seen["split"]) == ("all", 1)
    assert run("evaluate", out, "--graph", several, "--json").result["split"] == "split 1 of 3"
    refused(run, "bad-setting", "split 1", "evaluate", out, "--graph", several, "--split", 2)


def test_labels_of_rivals_are_fixed_and_no_backbone_comes_of_them(
    run: Any, small: Path, condense: Condense, tmp_path: Path
) -> None:
    artifact = file(condense("--method", "random", "--seed", 2))
    refused(run, "bad-setting", "random has none", "evaluate", artifact, "--graph", small, "--shots", 2)
    refused(
        run, "bad-artifact", "not pseudo-labels", "train", artifact, "--graph", small, "-o", tmp_path / "m.safetensors"
    )
    assert run("evaluate", artifact, artifact, "--graph", small, "--json").result["combine"] is None  # side by side
    mixed = [artifact, file(condense(*INDUCTIVE))]
    refused(run, "bad-setting", "seen different things", "evaluate", *mixed, "--graph", small)
    refused(run, "bad-setting", "are put together", "evaluate", artifact, "--graph", small, "--combine", "sum")


def test_graphs_without_labels_or_training_nodes(run: Any, unlabelled: Path, tmp_path: Path) -> None:
    out = tmp_path / "c.safetensors"
    given = ["condense", unlabelled, "--nodes", KEPT, "-o", out]
    refused(run, "missing-labels", "no labels", *given, "--method", "random")
    refused(run, "bad-graph", "no training nodes", *given, "--inductive")
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["condense", "GRAPH", "-o", "x", "--nodes", "9", "--inductive", "--edges", "train"], "not both"),
        (["condense", "GRAPH", "-o", "x", "--nodes", "9", "--method", "whole"], "herding-labelfree"),
        (["condense", "GRAPH", "-o", "x", "--nodes", "9", "--edges", "some"], "train"),
        (["condense", "GRAPH", "-o", "x", "--nodes", "9", "--edges", "train", "--edge-seed", "-1"], "edge-seed"),
        (["evaluate", "x", "--graph", "GRAPH", "--task", "graph"], "cluster"),
        (["evaluate", "x", "--graph", "GRAPH", "--task", "link", "--shots", "3"], "--task node, not link"),
        (["evaluate", "x", "--graph", "GRAPH", "--task", "cluster", "--labels", "9"], "--task node, not cluster"),
        (["evaluate", "x", "--graph", "GRAPH", "--task", "cluster", "--on", "val"], "leave --on out"),
    ],
)
def test_wrong_usage(
    run: Any, arguments: list[str], words: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(small) if argument == "GRAPH" else argument for argument in arguments]
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    error = json.loads(run(*arguments, "--json").out)["error"]
    assert error["kind"] == "usage"
    assert words in error["message"]
    assert list(tmp_path.iterdir()) == []


def test_what_was_seen_is_in_the_file(run: Any, condense: Condense) -> None:
    loaded = plgc.CondensedGraph.load(file(condense(*LINKS)))
    assert loaded.seen == Seen(edges="train", edge_seed=4)
    rival = plgc.CondensedGraph.load(file(condense("--method", "random", "--seed", 2)))
    assert rival.labels is not None
    assert torch.bincount(rival.labels).numel() == 3
