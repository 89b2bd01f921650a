"""``plgc train``, ``evaluate`` and ``predict`` with ``--memory`` on graphs that stay on disk answer as in memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plgc
from plgc.downstream import from_disk
from plgc.graphs import save_stored
from plgc.graphs.check import MASKS
from plgc.runtime import mapped
from plgc.runtime.scratch import Scratch
from plgc.sparse import stored_inputs
from quick import quick


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored graph with dense features, ids and a split, one without a split, and a file condensed from it."""
    place = tmp_path_factory.mktemp("disk")
    rng, nodes = np.random.default_rng(0), 900
    y = rng.integers(0, 3, nodes)
    pairs = rng.integers(0, nodes, (2, 6000))
    pairs = pairs[:, (y[pairs[0]] == y[pairs[1]]) | (rng.random(6000) < 0.15)]
    x = rng.standard_normal((nodes, 24)) + 0.5 * np.eye(3)[y] @ rng.standard_normal((3, 24))
    arrays = {"x": x.astype(np.float32), "edge_index": pairs, "y": y}
    arrays["node_ids"] = np.array([f"paper-{number}" for number in range(nodes)])
    np.savez(place / "plain.npz", **arrays)
    order = rng.permutation(nodes)
    for name, part in zip(("train", "val", "test"), np.split(order, [100, 300]), strict=True):
        arrays[f"{name}_mask"] = np.isin(np.arange(nodes), part)
    np.savez(place / "split.npz", **arrays)
    for name in ("plain", "split"):
        graph = plgc.load_graph(place / f"{name}.npz", notice=False)
        for key in MASKS if name == "plain" else ():
            del graph[key]
        save_stored(graph, place / name)
    made = plgc.condense(plgc.load_graph(place / "split"), nodes=20, settings=quick(32, hidden=32, rounds=2, epochs=8))
    made.save(place / "small.safetensors")
    return place


@pytest.fixture(autouse=True)
def _mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are mapped too, so that these graphs stay on disk."""
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)


@pytest.fixture(autouse=True)
def _disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Scratch files never take more than what is checked before the work."""
    promised, taken, before = list[int](), list[int](), list[int]()
    told, made = from_disk.disk_bytes, Scratch.empty

    def promise(*given: Any) -> int:
        before.append(mapped_bytes())
        promised.append(told(*given))
        return promised[-1]

    def make(*given: Any, **how: Any) -> torch.Tensor:
        tensor = made(*given, **how)
        taken.append(mapped_bytes() - before[-1])
        assert taken[-1] <= promised[-1]
        return tensor

    monkeypatch.setattr(from_disk, "disk_bytes", promise)
    monkeypatch.setattr(Scratch, "empty", make)
    yield
    if taken:
        assert max(taken) > max(promised) / 4, "much more is asked for than is taken"


def mapped_bytes() -> int:
    """Of all files that are mapped."""
    return sum(len(found) for found in mapped._mappings.values())


def answers(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    with open(path) as file:
        head, *rows = csv.reader(file)
    assert head == ["node", "predicted_class", "probability"]
    return [row[0] for row in rows], [row[1] for row in rows], np.array([float(row[2]) for row in rows])


@pytest.mark.parametrize("options", [["--shots", 3], [], ["--backbone", "sage", "--labels", 60]], ids=str)
@pytest.mark.parametrize(("graph", "half"), [("split", False), ("split", True), ("plain", False)])
def test_models_and_answers_are_those_in_memory(
    run: Any,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    graph: str,
    half: bool,
    options: list[Any],
) -> None:
    if half:  # as of a large graph: rounded, and multiplied in slices of columns
        monkeypatch.setattr(from_disk, "HALF_FROM", 0)
        for module in (from_disk, stored_inputs):
            monkeypatch.setattr(module, "columns_together", lambda width, *_: min(width, 16))
    results, found = [], []
    for name, memory in (("whole", []), ("disk", ["--memory", "2GiB"])):
        model = tmp_path / f"{name}.safetensors"
        given = [folder / "small.safetensors", "--graph", folder / graph, *options, "-o", model, *memory, "--json"]
        done = run("train", *given)
        assert done.code == 0, done.err
        results.append(done.result)
        given = [model, "--graph", folder / graph, *memory, "-o", tmp_path / f"{name}.csv", "--json"]
        done = run("predict", *given)
        assert done.code == 0, done.err
        found.append(answers(tmp_path / f"{name}.csv"))
    whole, disk = results
    assert disk["fitted_on"] == whole["fitted_on"]
    for name in ("smoothing", "weight_of_edges"):
        assert disk["head"][name] == pytest.approx(whole["head"][name], abs=1e-3)
    if graph == "split":
        assert disk["val"]["accuracy"] == pytest.approx(whole["val"]["accuracy"], abs=0.51)
    else:
        assert disk["estimate"]["accuracy"]["mean"] == pytest.approx(whole["estimate"]["accuracy"]["mean"], abs=0.3)
    assert found[0][0] == found[1][0] == [f"paper-{number}" for number in range(900)]
    assert np.mean([a == b for a, b in zip(found[0][1], found[1][1], strict=True)]) > 0.995
    np.testing.assert_allclose(found[0][2], found[1][2], atol=5e-3 if half else 2e-3)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "disk.csv",
        "disk.safetensors",
        "whole.csv",
        "whole.safetensors",
    ]


def test_scores_and_controls_are_those_in_memory(run: Any, folder: Path, tmp_path: Path) -> None:
    given = [
        "evaluate",
        folder / "small.safetensors",
        "--graph",
        folder / "split",
        "--shots",
        3,
        "--seeds",
        2,
        "--json",
    ]
    whole = run(*given)
    disk = run(*given, "--memory", "2GiB", "--scratch", tmp_path)
    assert whole.code == disk.code == 0, disk.err
    for name, control in whole.result["controls"].items():
        assert disk.result["controls"][name]["values"] == pytest.approx(control["values"], abs=0.35)
    for name in ("accuracy", "macro_f1"):
        assert disk.result[name]["values"] == pytest.approx(whole.result[name]["values"], abs=0.35)
        assert disk.result["learned"][name]["values"] == pytest.approx(
            whole.result["learned"][name]["values"], abs=0.35
        )
    assert list(tmp_path.iterdir()) == []


def test_parquet_has_what_csv_has(run: Any, folder: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    model, small = tmp_path / "model.safetensors", folder / "small.safetensors"
    assert run("train", small, "--graph", folder / "split", "--shots", 2, "-o", model).code == 0
    for name in ("answers.csv", "answers.parquet"):
        for memory in ([], ["--memory", "2GiB"]):
            done = run("predict", model, "--graph", folder / "split", *memory, "-o", tmp_path / name, "--json")
            assert done.code == 0, done.err  # the second time over the first
    table = pq.read_table(tmp_path / "answers.parquet")
    nodes, classes, probability = answers(tmp_path / "answers.csv")
    assert table.column_names == ["node", "predicted_class", "probability"]
    assert table["node"].to_pylist() == nodes
    assert [str(name) for name in table["predicted_class"].to_pylist()] == classes
    np.testing.assert_allclose(table["probability"].to_numpy(), probability, atol=1e-6)
    other = tmp_path / "mine.parquet"
    pq.write_table(table.select(["node"]), other)
    assert "it is not predictions" in run("predict", model, "--graph", folder / "split", "-o", other).err


def test_refusals_name_the_way_out(run: Any, folder: Path, tmp_path: Path) -> None:
    small, graph, out = folder / "small.safetensors", ["--graph", folder / "split"], ["-o", tmp_path / "m.safetensors"]
    few = run("train", small, *graph, *out, "--memory", "100MiB")
    assert few.code == 1
    least = int(few.err.split("--memory ")[1].split("MiB")[0])
    assert run("train", small, *graph, *out, "--memory", f"{least - 1}MiB").code == 1
    assert run("train", small, *graph, *out, "--memory", f"{least}MiB").code == 0
    assert "sage, gin, sgc, mlp" in run("train", small, *graph, *out, "--memory", "2GiB", "--backbone", "gat").err
    assert "memory is 'much'" in run("train", small, *graph, *out, "--memory", "much").err
    links = run("train", small, *graph, *out, "--memory", "2GiB", "--task", "link")
    assert (links.code, "--task link has the graph in memory" in links.err) == (2, True)
    clusters = run("evaluate", small, *graph, "--memory", "2GiB", "--task", "cluster")
    assert (clusters.code, "--task cluster has the graph in memory" in clusters.err) == (2, True)
    assert run("train", small, *graph, *out, "--scratch", tmp_path).code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m.safetensors"]
