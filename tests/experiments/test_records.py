"""Records survive whatever stops a run: half a line costs that line alone, and a success is never lost."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from plgc.experiments.grid import Cell, cells
from plgc.experiments.records import append_record, identity, read_records, records_file
from plgc.experiments.spec import load_experiment
from plgc.experiments.summary import summarise
from plgc.runtime.errors import ArtifactError, SettingError
from plgc.runtime.files import WriteError

CELL = Cell("grid", "cora", "plgc", 70, "default", 0, "node", shots=3)


def make_record(cell: Cell = CELL, **other: Any) -> dict[str, Any]:
    return {"cell": asdict(cell), **(other or {"metrics": {"accuracy": 80.0}})}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def test_what_is_added_is_read_back(path: Path) -> None:
    records = [make_record(replace(CELL, seed=seed, noise=seed / 10), metrics={"ap": 0.1 * seed}) for seed in range(3)]
    for record in records:
        append_record(path, record)
    assert read_records([path]) == records
    assert [identity(record) for record in records] == [
        replace(CELL, seed=seed, noise=seed / 10).identity() for seed in range(3)
    ]


def test_files_with_a_history_were_open_before_there_were_private_ones(path: Path) -> None:
    updated = replace(CELL, history="updated")
    for cell in (CELL, updated, replace(updated, release="private")):
        append_record(path, make_record(cell))
    found = read_records([path])
    assert [record["cell"]["release"] for record in found] == [None, "open", "private"]
    assert [identity(record) for record in found][1] == replace(updated, release="open").identity()


@pytest.mark.parametrize("full", ["at once", "half-way"])
def test_a_full_disk_costs_the_new_record_alone(path: Path, full: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append_record(path, make_record())
    write = os.write

    def fill_up(handle: int, line: bytes) -> int:
        if full == "at once":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(handle, line[: len(line) // 2])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", fill_up)
        with pytest.raises(WriteError, match=r"records.jsonl \(No space left on device\): make room"):
            append_record(path, make_record(replace(CELL, seed=1)))
    append_record(path, make_record(replace(CELL, seed=2)))
    assert [record["cell"]["seed"] for record in read_records([path])] == [0, 2]


@pytest.mark.parametrize("left", [1, 40, -1])
def test_half_a_line_is_skipped_and_the_next_starts_afresh(path: Path, left: int) -> None:
    append_record(path, make_record())
    half = json.dumps(make_record(replace(CELL, seed=1))).encode()[:left]
    path.write_bytes(path.read_bytes() + half)
    assert read_records([path]) == [make_record()]
    append_record(path, make_record(replace(CELL, seed=2)))
    append_record(path, make_record(replace(CELL, seed=3)))
    assert [record["cell"]["seed"] for record in read_records([path])] == [0, 2, 3]
    assert path.read_bytes().count(b"\n") == 4


@pytest.mark.parametrize("line", [b"[1, 2]", b"7", b'{"cell": {}}', b'{"metrics": {}}', b"\xff\xfe", b""])
def test_what_is_no_record_is_skipped(path: Path, line: bytes) -> None:
    path.write_bytes(line + b"\n")
    append_record(path, make_record())
    assert read_records([path]) == [make_record()]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"metrics": {"accuracy": "80"}}, "metrics.accuracy is '80': a number"),
        ({"metrics": {"accuracy": 1e308}}, "metrics.accuracy is 1e"),
        ({"metrics": [80.0]}, "an object is needed"),
        ({"metrics": None}, "metrics is None: an object is needed"),
        ({"cell": {**asdict(CELL), "method": "magic"}}, "there is no method 'magic'"),
        ({"cell": {**asdict(CELL), "draws": 10**9}}, "cell.draws is 1000000000"),
        ({"values": {"accuracy": [1.0, 2.0]}}, r"values are not of 1 label draw\(s\)"),
        ({"error": "none"}, "either metrics or an error"),
        ({"error": 7}, "error is 7"),
        ({"later": 1}, "'later' is unknown"),
        ({"seconds": -1}, "seconds is -1"),
        ({"machine": "\x1b[2J"}, "printable"),
        ({"version": "0.0.7", "seconds": "3"}, r"seconds is '3'.*of plgc '0.0.7'"),
        ({"cell": {**asdict(CELL), "seed": "0"}}, "cell.seed is '0'"),
        ({"cell": {**asdict(CELL), "nodes": 7.5}}, "cell.nodes is 7.5"),
        ({"cell": {**asdict(CELL), "who": 1}}, "cell.'who' is unknown"),
    ],
)
def test_an_edited_record_is_refused_by_its_line(path: Path, change: dict[str, Any], message: str) -> None:
    append_record(path, make_record())
    append_record(path, {**make_record(replace(CELL, seed=1)), **change})
    with pytest.raises(ArtifactError, match=rf"line 2 of .*records.jsonl is no record of ours: .*{message}.*Remove"):
        read_records([path])


def test_success_replaces_an_error_and_no_error_a_success(path: Path) -> None:
    append_record(path, make_record(error="no memory"))
    append_record(path, make_record(error="no memory, again"))
    assert read_records([path]) == [make_record(error="no memory, again")]
    append_record(path, make_record())
    append_record(path, make_record(error="later"))
    assert read_records([path]) == [make_record()]


def test_a_cell_has_one_record_the_last(path: Path) -> None:
    for value in (1.0, 2.0):
        append_record(path, make_record(metrics={"accuracy": value}))
    append_record(path, make_record(replace(CELL, shots=5)))
    assert read_records([path]) == [make_record(metrics={"accuracy": 2.0}), make_record(replace(CELL, shots=5))]
    other = path.with_name("other.jsonl")
    append_record(other, make_record(metrics={"accuracy": 3.0}))
    assert read_records([path, other, path.with_name("none.jsonl")])[0]["metrics"] == {"accuracy": 3.0}


def test_figures_that_are_not_finite_are_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        append_record(path, make_record(metrics={"accuracy": float("nan")}))
    assert not path.exists()


RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in RESULTS.glob("*/records.jsonl")))
def test_published_records_still_open_and_belong_to_their_experiment(folder: str) -> None:
    path = records_file(RESULTS / folder, folder, must_exist=True)
    records, experiment = read_records([path]), load_experiment(folder)
    assert len(records) == len({identity(json.loads(line)) for line in path.read_text().splitlines()})
    planned = {cell.identity() for cell in cells(experiment)}
    assert len(planned & {identity(record) for record in records}) > 0
    assert any(row.values for row in summarise(experiment, records, experiment.metric))


def test_records_have_a_place(tmp_path: Path) -> None:
    path = records_file(tmp_path / "table3", "table3")
    assert path == tmp_path / "table3" / "records.jsonl"
    with pytest.raises(SettingError, match="run 'plgc experiment run table3' first"):
        records_file(tmp_path / "table3", "table3", must_exist=True)
