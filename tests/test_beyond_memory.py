"""What the bench of graphs beyond memory stands on: its graph, its steps, and the growth that it fits."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plgc
from beyond_memory import PAPERS, Size, fit
from beyond_steps import Steps
from plgc.graphs import store_graph
from topic_graph import SIZES, TopicGraph, write_topic_graph

SMALL = TopicGraph(20_000, 200_000, 16, 4, labelled=0.5)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_topic_graph(SMALL, tmp_path_factory.mktemp("graph") / "raw")


def test_nodes_are_numbered_by_a_permutation() -> None:
    for spec in (SMALL, *SIZES.values()):
        some = np.random.default_rng(0).integers(spec.nodes, size=10_000)
        assert np.array_equal(spec.drawn_as(spec.known_as(some)), some)
        assert spec.nodes % spec.topics == spec.topics % spec.classes == 0
    assert np.array_equal(np.sort(SMALL.known_as(np.arange(SMALL.nodes))), np.arange(SMALL.nodes))


def test_edges_are_in_topics_and_classes_as_they_were_asked_for(raw: Path) -> None:
    edges, y = np.load(raw / "edge_index.npy"), np.load(raw / "y.npy")
    topic = SMALL.drawn_as(np.arange(SMALL.nodes)) % SMALL.topics
    # Beside those that were drawn so, some of the edges within a class or anywhere end in the same topic by chance.
    by_chance = 0.2 / (SMALL.topics / SMALL.classes) + 0.05 / SMALL.topics
    assert np.mean(topic[edges[0]] == topic[edges[1]]) == pytest.approx(0.75 + by_chance, abs=0.01)
    assert np.mean(topic[edges[0]] % 4 == topic[edges[1]] % 4) == pytest.approx(0.95 + 0.05 / 4, abs=0.01)
    assert np.mean(y >= 0) == pytest.approx(0.5, abs=0.02)
    assert np.array_equal(y[y >= 0], (topic % 4)[y >= 0])
    degrees = np.bincount(edges.ravel(), minlength=SMALL.nodes)
    assert degrees.mean() == pytest.approx(1.1 * 10, rel=0.01)
    assert degrees.max() > 40 * degrees.mean()
    masks = [np.load(raw / f"{name}_mask.npy") for name in ("train", "val", "test")]
    assert np.array_equal(sum(mask.astype(int) for mask in masks), (y >= 0).astype(int))
    assert np.load(raw / "x.npy").dtype == np.float16


def test_features_tell_the_classes(raw: Path) -> None:
    """Centres that are fitted to half of the nodes classify most of the others, since a topic has 2,000."""
    x, topic = np.load(raw / "x.npy").astype(float), SMALL.drawn_as(np.arange(SMALL.nodes)) % SMALL.topics
    fitted = np.random.default_rng(0).random(SMALL.nodes) < 0.5
    centres = np.stack([x[fitted & (topic == one)].mean(0) for one in range(SMALL.topics)])
    nearest = (x[~fitted] @ centres.T - 0.5 * (centres**2).sum(1)).argmax(1)
    assert np.mean(nearest % 4 == topic[~fitted] % 4) > 0.6


def test_it_can_be_stored(raw: Path, tmp_path: Path) -> None:
    graph = plgc.load_graph(store_graph(raw, tmp_path / "stored", progress=False, notice=False), notice=False)
    assert graph.edge_index is not None
    assert (graph.num_nodes, graph.num_features) == (SMALL.nodes, 16)
    assert graph.edge_index.shape[1] == pytest.approx(SMALL.entries, rel=0.1)


def test_steps_are_done_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "held = bytearray(1 << 26); import time; time.sleep(0.5); print('{\"a\": 1}')"]
    first = Steps(tmp_path / "size").run("one", command)
    assert first["told"] == {"a": 1}
    assert 1 << 26 < first["peak_memory_bytes"] < 1 << 28
    assert first["peak_disk_bytes"] >= 0
    assert first["peak_first_process_bytes"] == first["peak_memory_bytes"]
    again = Steps(tmp_path / "size").run("one", ["/nowhere"])
    assert json.dumps(again) == json.dumps(first)
    with pytest.raises(SystemExit, match="exit code 3"):
        Steps(tmp_path / "size").run("two", [sys.executable, "-c", "raise SystemExit(3)"])
    assert list(json.loads((tmp_path / "size" / "steps.json").read_text())) == ["one"]


def test_growth_is_fitted_and_projected() -> None:
    def of(nodes: int) -> dict[str, Any]:
        step = {"cpu_seconds": 2e-6 * (11 * nodes) ** 1.02, "peak_disk_bytes": 40 * nodes}
        step["peak_memory_bytes"] = 300_000_000 + 30 * nodes
        return {"nodes": nodes, "entries": 10 * nodes, "steps": dict.fromkeys(STEPS, step)}

    found = fit([of(10**6), of(4 * 10**6), of(10**7)])["train"]
    assert found["exponents"]["seconds"] == pytest.approx(1.02)
    assert found["exponents"]["disk"] == pytest.approx(1.0)
    assert found["projected"]["seconds"] == pytest.approx(2e-6 * sum(PAPERS) ** 1.02)
    assert found["projected"]["memory"] == pytest.approx(300_000_000 + 30 * PAPERS[0])
    assert fit([of(10**6)]) == {}


STEPS = ("store", "condense", "train", "predict")


def test_sizes_have_names_and_shares() -> None:
    whole, parts = Size.of("products:0.25"), Size.of("papers-tenth")
    assert (whole.parts, parts.parts, Size.of("small-parts").parts) == (False, True, True)
    assert whole.spec == replace(SIZES["products"], wanted=612_500, entries=31_000_000)
    assert parts.spec == SIZES["papers-tenth"]
    assert whole.name == "products_0.25"
