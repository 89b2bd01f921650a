"""A run does what is missing and nothing twice; what fails or cannot be had says why; being stopped costs one cell."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from plgc.experiments import cell as cell_module
from plgc.experiments import run as run_module
from plgc.experiments import store as store_module
from plgc.experiments.grid import Cell, Choice, cells, narrow
from plgc.experiments.records import identity, read_records
from plgc.experiments.run import RunOptions, run_experiment
from plgc.experiments.spec import Experiment, load_experiment, parse_experiment
from plgc.graphs import citation_graph, save_npz
from plgc.runtime.errors import GraphNotFoundError, SettingError
from plgc.runtime.files import WriteError
from plgc.sources.engine import TaskError, TaskResult
from processes import alive, linux, started, wait_until

HEAD = """
title = "Tiny"
task = "node"
seeds = 2
"""
TINY = """
[[graphs]]
name = "tiny"
nodes = [6]
labels = 6
"""


def make_experiment(methods: str, more: str = "", graphs: str = TINY) -> Experiment:
    names = ", ".join(f'"{name}"' for name in methods.split())
    return parse_experiment("tiny", f"{HEAD}methods = [{names}]\n{more}\n{graphs}")


@pytest.fixture
def options(tmp_path: Path, data: Path) -> RunOptions:
    return RunOptions(tmp_path / "runs" / "records.jsonl", tmp_path / "artifacts")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells that were really run, one by one."""
    found: list[Cell] = []
    real = run_module.run_cell

    def run_cell(cell: Cell, options: RunOptions) -> dict[str, Any]:
        found.append(cell)
        return real(cell, options)

    monkeypatch.setattr(run_module, "run_cell", run_cell)
    return found


@pytest.fixture
def condensed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that were really asked to condense."""
    found: list[str] = []
    real = store_module.condense_with

    def condense_with(name: str, *arguments: Any, **settings: Any) -> Any:
        found.append(name)
        return real(name, *arguments, **settings)

    monkeypatch.setattr(store_module, "condense_with", condense_with)
    return found


def by_cell(options: RunOptions) -> dict[Any, dict[str, Any]]:
    return {identity(record): record for record in read_records([options.records])}


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def test_finished_cells_are_not_repeated(options: RunOptions, ran: list[Cell]) -> None:
    experiment = make_experiment("propagated_features random_encoder")
    seen: list[tuple[int, int]] = []
    part = run_experiment(narrow(experiment, Choice(seeds=1)), options)
    assert (part.cells, part.already, part.run, part.failed) == (2, 0, 2, 0)
    whole = run_experiment(experiment, options, progress=lambda _, done, total: seen.append((done, total)))
    assert (whole.cells, whole.already, whole.run, whole.failed) == (4, 2, 2, 0)
    assert seen == [(2, 4), (3, 4), (4, 4)]
    again = run_experiment(experiment, options)
    assert (again.cells, again.already, again.run) == (4, 4, 0)
    assert ran == list(cells(experiment))
    assert lines(options.records) == 4


def test_a_record_says_what_came_out_and_what_it_took(options: RunOptions) -> None:
    run_experiment(make_experiment("random"), options)
    first, second = read_records([options.records])
    assert first["cell"]["seed"] == 0
    assert 0 < first["metrics"]["accuracy"] <= 100
    assert first["clean_labels"] == 50
    assert (first["graph_nodes"], first["kept_nodes"], first["reused"]) == (120, 6, False)
    assert first["seconds"] >= first["learn_seconds"] > 0
    assert first["bytes"] == len(next(path for path in _artifacts(options) if _sha(path) == first["artifact_sha256"]))
    assert first["artifact_sha256"] != second["artifact_sha256"]
    assert {"machine", "commit", "version", "torch", "python", "threads", "device"} <= set(first)


def _artifacts(options: RunOptions) -> list[bytes]:
    assert options.store is not None
    return [path.read_bytes() for path in options.store.glob("*.safetensors")]


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_errors_are_recorded_and_tried_again(
    options: RunOptions, ran: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = make_experiment("random", "[levels]\nshots = [3, 50]")
    outcome = run_experiment(experiment, options)
    assert (outcome.run, outcome.failed) == (2, 2)
    failed = [record for record in read_records([options.records]) if "error" in record]
    assert [record["cell"]["shots"] for record in failed] == [50, 50]
    assert "50 labels per class were asked for" in failed[0]["error"]
    assert "machine" in failed[0]
    again = run_experiment(experiment, options)
    assert (again.already, again.run, again.failed) == (2, 0, 2)
    assert Counter(cell.shots for cell in ran) == {3: 2, 50: 4}

    def no_memory(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError("out of memory")

    few = make_experiment("random", "[levels]\nshots = [2]")
    with monkeypatch.context() as patch:
        patch.setattr(cell_module, "condense_once", no_memory)
        assert run_experiment(few, options).failed == 2
    assert run_experiment(few, options).run == 2
    assert [r["cell"]["shots"] for r in read_records([options.records]) if "error" in r] == [50, 50]


def test_a_damaged_graph_is_an_error_of_its_cells(options: RunOptions, data: Path) -> None:
    (data / "broken.npz").write_bytes(b"PK not an archive")
    experiment = make_experiment("random_encoder", graphs=TINY + '[[graphs]]\nname = "broken"\nnodes = [5]\n')
    outcome = run_experiment(experiment, options)
    assert (outcome.run, outcome.failed) == (2, 2)
    [message] = {record["error"] for record in read_records([options.records]) if "error" in record}
    assert "not a readable npz archive" in message


def test_graphs_that_cannot_be_had_are_said_to_be_and_never_filled(options: RunOptions) -> None:
    nowhere = '[[graphs]]\nname = "nowhere"\nnodes = [5]\n'
    outcome = run_experiment(make_experiment("random_encoder", graphs=TINY + nowhere), options)
    assert (outcome.cells, outcome.run, outcome.failed) == (2, 2, 0)
    assert list(outcome.unavailable) == ["nowhere"]
    assert "no graph is called 'nowhere'" in outcome.unavailable["nowhere"]
    assert {record["cell"]["graph"] for record in read_records([options.records])} == {"tiny"}
    with pytest.raises(GraphNotFoundError, match=r"none of the experiment's graphs.*'nowhere'"):
        run_experiment(make_experiment("random_encoder", graphs=nowhere), options)


def test_noise_cannot_reach_a_method_without_labels(options: RunOptions, condensed: list[str]) -> None:
    experiment = make_experiment("plgc random", 'reuse = "none"\n[levels]\nnoise = [0.0, 0.9]')
    run_experiment(narrow(experiment, Choice(seeds=1)), options)
    assert Counter(condensed) == {"plgc": 2, "random": 2}  # each condensed anew at every rate
    assert options.store is not None
    assert not options.store.exists()
    records = read_records([options.records])
    assert not any(record["reused"] for record in records)
    for method, files in (("plgc", 1), ("random", 2)):
        found = [record for record in records if record["cell"]["method"] == method]
        assert [record["cell"]["noise"] for record in found] == [0.0, 0.9]
        assert len({record["artifact_sha256"] for record in found}) == files
        if method == "plgc":
            assert found[0]["metrics"] == found[1]["metrics"]
    assert {record["clean_labels"] for record in records} == {6}


def test_supervised_methods_alone_may_reuse_what_they_made(options: RunOptions, condensed: list[str]) -> None:
    for name in ("first", "second"):
        experiment = replace(make_experiment("plgc random", 'reuse = "supervised"\n[levels]\nnoise = [0.0]'), name=name)
        run_experiment(narrow(experiment, Choice(seeds=1)), options)
    assert Counter(condensed) == {"plgc": 2, "random": 1}
    reused = {(record["cell"]["method"], record["reused"]) for record in read_records([options.records])}
    assert reused == {("plgc", False), ("random", False), ("random", True)}


def test_one_condensed_graph_serves_every_level_and_experiment(options: RunOptions, condensed: list[str]) -> None:
    one = Choice(seeds=1)
    run_experiment(narrow(make_experiment("plgc", "[levels]\nshots = [1, 3]"), one), options)
    assert condensed == ["plgc"]
    assert [record["reused"] for record in read_records([options.records])] == [False, True]
    run_experiment(narrow(make_experiment("plgc", '[levels]\nbackbone = ["sage"]'), one), options)
    assert condensed == ["plgc"]


def test_the_seed_chooses_among_fixed_splits(options: RunOptions, data: Path) -> None:
    graph = citation_graph(nodes=120, classes=3, features=40)
    for key in ("train_mask", "val_mask", "test_mask"):
        graph[key] = torch.stack([graph[key].roll(shift) for shift in (0, 7, 19)], dim=1)
    save_npz(graph, data / "tiny.npz")
    experiment = narrow(make_experiment("propagated_features"), Choice(seeds=4))
    assert run_experiment(experiment, options).run == 4
    records = read_records([options.records])
    assert [record["split"] for record in records] == [f"split {split} of 3" for split in (0, 1, 2, 0)]
    assert records[0]["metrics"] == records[3]["metrics"] != records[1]["metrics"]


def test_nothing_starts_that_could_not_be_kept(options: RunOptions, tmp_path: Path, ran: list[Cell]) -> None:
    experiment = make_experiment("random")
    (tmp_path / "file").touch()
    for records, store in (
        (tmp_path / "file" / "r.jsonl", options.store),
        (options.records, tmp_path / "file" / "store"),
    ):
        with pytest.raises(SettingError, match="cannot create the folder"):
            run_experiment(experiment, RunOptions(records, store))
    with pytest.raises(SettingError, match="tiny cannot be run yet: not built"):
        run_experiment(make_experiment("random", 'pending = "not built"'), options)
    assert ran == []


@pytest.mark.parametrize("task", ["link", "cluster"])
def test_other_tasks(options: RunOptions, task: str) -> None:
    metric = {"link": "auroc", "cluster": "nmi"}[task]
    head = HEAD.replace('"node"', f'"{task}"')
    text = f'{head}metric = "{metric}"\nmethods = ["propagated_features", "plgc"]\n{TINY}'
    assert run_experiment(narrow(parse_experiment("tiny", text), Choice(seeds=1)), options).run == 2
    for record in read_records([options.records]):
        assert 0 <= record["metrics"][metric] <= 1
        assert record["clean_labels"] is None


@pytest.mark.slow
def test_processes_side_by_side_find_the_same(options: RunOptions, tmp_path: Path) -> None:
    experiment = narrow(make_experiment("random random_encoder", "[levels]\nshots = [3, 50]"), Choice(seeds=1))
    alone = run_experiment(experiment, options)
    beside = RunOptions(tmp_path / "beside" / "records.jsonl", tmp_path / "beside" / "store")
    both = run_experiment(experiment, beside, jobs=2)
    assert (alone.run, alone.failed) == (both.run, both.failed) == (2, 2)
    one, two = by_cell(options), by_cell(beside)
    assert one.keys() == two.keys()
    for key, record in one.items():
        for field in ("metrics", "error", "artifact_sha256", "settings", "commit", "threads"):
            assert record.get(field) == two[key].get(field), key
    assert run_experiment(experiment, beside, jobs=2).run == 0


def test_what_ends_a_run(options: RunOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = make_experiment("random_encoder")

    def full(*_: Any) -> None:
        raise WriteError("the disk is full")

    def mistaken(*_: Any) -> None:
        raise ZeroDivisionError("by zero")

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "append_record", full)
        with pytest.raises(WriteError, match="the disk is full") as error:
            run_experiment(experiment, options)
    assert str(pickle.loads(pickle.dumps(error.value))) == "the disk is full"  # as a worker would send it
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "run_cell", mistaken)
        with pytest.raises(
            RuntimeError, match=r"tiny, random_encoder, seed 0: ZeroDivisionError: by zero\n(.|\n)*mistaken"
        ):
            run_experiment(experiment, options)
    dead = [TaskResult("a cell", error=TaskError("worker-died", "its process was killed by signal 9"))]
    monkeypatch.setattr(run_module, "run_tasks", lambda *_, finished, **__: finished(dead[0]))
    with pytest.raises(SettingError, match=r"a process died.*finished cells are kept.*fewer --jobs"):
        run_experiment(experiment, options, jobs=2)


# What follows starts the command itself and stops it, as a user, or a machine that runs out of memory, would.


@pytest.fixture
def start(tmp_path: Path, data: Path) -> Callable[[int], AbstractContextManager[subprocess.Popen[str]]]:
    """Start three cells a seed in two processes."""
    (data / "tiny.npz").rename(data / "cora.npz")
    given = ["fig3", "--datasets", "cora", "--methods", "random_encoder", "--shots", "1,2,3", "--out", "out"]
    command = [sys.executable, "-m", "plgc", "experiment", "run", *given, "--jobs", "2", "--seeds"]
    return lambda seeds: started([*command, str(seeds)], tmp_path)


@linux
@pytest.mark.slow
def test_a_killed_run_takes_its_workers_along_and_goes_on_later(tmp_path: Path, start: Any, ran: list[Cell]) -> None:
    path = tmp_path / "out" / "records.jsonl"
    with start(12) as running:
        wait_until(lambda: lines(path) >= 4)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
        wait_until(lambda: not alive(running.pid))
    before = {identity(record) for record in read_records([path])}
    assert len(before) == lines(path)
    chosen = narrow(load_experiment("fig3"), Choice(("cora",), ("random_encoder",), shots=(1, 2, 3), seeds=12))
    planned = {cell.identity() for cell in cells(chosen)}
    assert before <= planned
    summary = run_experiment(chosen, RunOptions(path, tmp_path / "runs"))
    assert (summary.cells, summary.already, summary.run) == (36, len(before), 36 - len(before))
    assert {cell.identity() for cell in ran} == planned - before
    assert {identity(record) for record in read_records([path])} == planned


@linux
@pytest.mark.slow
def test_an_interrupted_run_ends_quietly_and_keeps_what_is_done(tmp_path: Path, start: Any) -> None:
    path = tmp_path / "out" / "records.jsonl"
    with start(1000) as running:
        wait_until(lambda: len(alive(running.pid)) >= 4)  # the command, its resource tracker and two workers
        for worker in alive(running.pid) - {running.pid}:
            os.kill(worker, signal.SIGINT)  # the command handles it, even while they are starting
        wait_until(lambda: lines(path) >= 4)
        os.killpg(running.pid, signal.SIGINT)  # a terminal's Ctrl-C goes to all of them
        out, err = running.communicate()
        wait_until(lambda: not alive(running.pid))
    assert running.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert err.strip().splitlines()[-1] == "error: interrupted; no file was left half-written"
    assert 4 <= len(read_records([path])) == lines(path) < 3000
