"""Runs that are killed, interrupted, out of disk space, or two at once: nothing is lost and nothing is damaged."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import plgc
from plgc.artifact.condensed import CondensedGraph
from plgc.cli import main
from plgc.graphs import citation_graph, save_npz
from plgc.method import alternate
from plgc.rivals.gradient import condense as gradient
from plgc.rivals.gradient.settings import GradientSettings
from plgc.runtime import checkpoint

KILLS = int(os.environ.get("PLGC_KILLS", "3"))  # of each method; at least 50 in `make soak`
RIVAL = GradientSettings(epochs=45, outer_steps=2, inner_steps=2, hidden=8, evaluate=(3,))
KILLED_RUNS = Path(__file__).parents[1] / "soak" / "killed_runs.py"
posix = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_npz(citation_graph(nodes=120, classes=3, features=100), tmp_path_factory.mktemp("graph") / "small.npz")


def environment() -> dict[str, str]:
    """With one thread, and with this plgc where it is not installed."""
    return os.environ | {"PYTHONPATH": str(Path(plgc.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


COMMAND = "import sys\nfrom plgc.cli import main\nsys.exit(main(sys.argv[1:]))"
INTERRUPTED = """
import os, signal
from plgc.runtime import checkpoint
write = checkpoint.write_atomically
def write_and_interrupt(*arguments):
    write(*arguments)
    os.kill(os.getpid(), signal.SIGINT)
checkpoint.write_atomically = write_and_interrupt
"""


def start(*arguments: object, first: str = "") -> subprocess.Popen[str]:
    """The command line as a process that does something else first."""
    command = [sys.executable, "-c", first + COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# Killed


@posix
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["default", "paper", "memory", "gcond-x"] if KILLS > 10 else ["default", "memory", "gcond-x"]
)
def test_killed_at_any_moment_a_run_ends_with_the_same_bytes(name: str) -> None:
    command = [sys.executable, str(KILLED_RUNS), name, str(KILLS)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(f"kills: {done.stdout.strip()}")
    assert found["kills"] >= KILLS
    assert found["identical"] == found["runs"] >= 1
    assert found["resumed"] >= 1


# Interrupted


@posix
@pytest.mark.slow
def test_ctrl_c_names_the_checkpoint_and_the_same_command_goes_on_from_there(graph: Path, tmp_path: Path) -> None:
    output, kept = tmp_path / "c.safetensors", tmp_path / "kept"
    command = ("condense", graph, "--nodes", 12, "--seed", 3, "--threads", 1, "-o", output, "--checkpoint", kept)
    running = start(*command, first=INTERRUPTED)  # by itself, once there is a checkpoint: no race
    out, err = running.communicate(timeout=300)
    assert (running.returncode, out) == (130, "")
    assert f"what is done so far is kept in {kept}: the same command resumes from there" in err
    assert "error: interrupted" in err
    assert "Traceback" not in err
    assert not output.exists()
    assert len(list(kept.iterdir())) == 1
    assert main([str(part) for part in command]) == 0
    whole = plgc.condense(plgc.load_graph(str(graph)), nodes=12, seed=3, threads=1)
    assert output.read_bytes() == whole.to_bytes()
    assert list(kept.iterdir()) == []


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every run had lasted for over a minute."""
    real = checkpoint.checkpoint_folder

    def folder(*arguments: Any) -> checkpoint.CheckpointFolder:
        place = real(*arguments)
        return checkpoint.CheckpointFolder(place.folder, place.asked, patience=0.0, pause=0.0)

    monkeypatch.setattr(checkpoint, "checkpoint_folder", folder)
    monkeypatch.setattr(checkpoint, "SHARE", 0)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("method", ["plgc", "gcond-x"])
def test_long_runs_keep_checkpoints_beside_the_output_without_being_asked(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], method: str
) -> None:
    output = tmp_path / "c.safetensors"
    place = tmp_path / "c.safetensors.checkpoint"
    real, writes = checkpoint.write_atomically, []

    def write(path: Path, content: bytes) -> Path:
        writes.append(path.parent)
        if len(writes) == 2:
            raise KeyboardInterrupt
        return real(path, content)

    def command(name: str) -> list[str]:
        return ["condense", str(graph), "--nodes", "12", "-o", str(tmp_path / name), "--method", method]

    monkeypatch.setattr(checkpoint, "write_atomically", write)
    monkeypatch.setattr(gradient, "ON_CONDENSED", replace(gradient.ON_CONDENSED, epochs=5))
    monkeypatch.setattr("plgc.rivals.gradient.settings.published_settings", lambda *_: RIVAL)
    assert main(command(output.name)) == 130
    assert f"kept in {place}: the same command resumes from there" in capsys.readouterr().err
    assert len(list(place.iterdir())) == 1
    assert main(command(output.name)) == 0
    assert set(writes) == {place}
    assert list(tmp_path.iterdir()) == [output]
    assert main(command("whole.safetensors")) == 0
    assert (tmp_path / "whole.safetensors").read_bytes() == output.read_bytes()


def test_a_short_run_leaves_no_trace_of_checkpoints(graph: Path, tmp_path: Path) -> None:
    assert main(["condense", str(graph), "--nodes", "9", "-o", str(tmp_path / "c.safetensors")]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["c.safetensors"]


# No room


@pytest.mark.usefixtures("impatient")
def test_a_disk_that_is_full_at_the_end_costs_neither_the_old_file_nor_the_work(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "c.safetensors"
    output.write_bytes(b"old")
    command = ["condense", str(graph), "--nodes", "9", "-o", str(output), "--force"]
    with monkeypatch.context() as patch:
        real = os.replace

        def full(source: Path, target: Path) -> None:
            if Path(target) == output:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(source, target)

        patch.setattr(os, "replace", full)
        assert main(command) == 1
    err = capsys.readouterr().err
    assert f"error: cannot write {output}" in err
    assert "No space left on device; the file that was there is unchanged" in err
    assert output.read_bytes() == b"old"
    epochs: list[int] = []
    train = alternate.train_epoch
    monkeypatch.setattr(alternate, "train_epoch", lambda *a: epochs.append(1) or train(*a))
    assert main(command) == 0  # with room again, from the last checkpoint
    assert epochs == []
    assert CondensedGraph.load(output).num_nodes == 9
    assert list(tmp_path.iterdir()) == [output]


def test_a_disk_without_room_is_reported_before_the_work(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3_000))
    monkeypatch.setattr("plgc.method.condense.condense", lambda *_, **__: pytest.fail("the work has begun"))
    assert main(["condense", str(graph), "--nodes", "9", "-o", str(tmp_path / "c.safetensors")]) == 1
    assert "c.safetensors needs at least 3,600 bytes" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# Two at once


@pytest.mark.slow
def test_two_runs_with_one_output_leave_one_whole_file(graph: Path, tmp_path: Path) -> None:
    output = tmp_path / "c.safetensors"
    running = [start("condense", graph, "--nodes", nodes, "-o", output, "--threads", 1) for nodes in (8, 9)]
    for process in running:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    found = CondensedGraph.load(output)
    whole = plgc.condense(plgc.load_graph(str(graph)), nodes=found.num_nodes, threads=1)
    assert output.read_bytes() == whole.to_bytes()
    assert list(tmp_path.iterdir()) == [output]
