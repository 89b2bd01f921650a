"""Every engine gives the same; what fails is tried again where that helps, and never stops the others."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.graphs import citation_graph
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings, Rung
from plgc.runtime.errors import GraphError, MissingExtraError, SettingError
from plgc.sources.engine import Task, TaskResult, run_tasks
from processes import alive, wait_until

QUICK = CondenseSettings(
    ladder=(Rung((Branch(hidden=16, width=16),)),), pseudo_labels=PseudoLabelSettings(max_rounds=1, round_epochs=2)
)
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")


# What tasks do. Each leaves a line in a file of its own, so that attempts can be counted.


def note(folder: Path, name: str) -> int:
    """Count one more attempt, and say how many there were before."""
    with (folder / name).open("a") as file:
        file.write(f"{os.getpid()}\n")
    return attempts(folder, name) - 1


def attempts(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def act(folder: Path, name: str, what: str) -> Any:
    before = note(folder, name)
    if what == "fine":
        return str(folder / name)
    if what == "die" or (what == "die once" and before == 0):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "bad graph":
        raise GraphError("edge 3 joins nodes 4 and 5: out of range")
    if what == "raise" or (what == "raise once" and before == 0):
        raise RuntimeError("something is wrong")
    if what == "exit":
        sys.exit(3)
    if what == "no pickle":
        return threading.Lock()
    return what


def condense_to(path: Path, seed: int) -> str:
    graph = citation_graph(nodes=120, classes=3, features=40)
    return str(plgc.condense(graph, nodes=6, seed=seed, settings=QUICK).save(path))


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def named(results: list[TaskResult]) -> dict[str, TaskResult]:
    return {result.name: result for result in results}


# The same from every engine


def test_processes_give_the_serial_files_byte_for_byte(tmp_path: Path) -> None:
    found, seen, environment = {}, [], dict(os.environ)
    ended: list[str] = []
    for engine in ("serial", "processes"):
        tasks = [Task(f"seed {seed}", (tmp_path / f"{engine}-{seed}", seed)) for seed in range(3)]
        results = run_tasks(
            condense_to,
            tasks,
            engine=engine,
            workers=2,
            cpus=2,
            progress=lambda _, *count: seen.append(count),
            finished=lambda result: ended.append(result.name),
        )
        assert [result.name for result in results] == ["seed 0", "seed 1", "seed 2"]
        assert [result.value for result in results] == [str(tmp_path / f"{engine}-{seed}") for seed in range(3)]
        found[engine] = [Path(result.value).read_bytes() for result in results]
    assert found["serial"] == found["processes"]
    assert len(set(found["serial"])) == 3
    assert plgc.CondensedGraph.load(tmp_path / "processes-0").threads == 2
    assert seen == [(1, 3), (2, 3), (3, 3)] * 2
    assert ended[:3] == sorted(ended[3:]) == ["seed 0", "seed 1", "seed 2"]
    assert dict(os.environ) == environment


def test_threads_are_those_asked_for_and_put_back() -> None:
    before = torch.get_num_threads()
    [result] = run_tasks(torch.get_num_threads, [Task("only")], cpus=before + 2)
    assert result.value == before + 2
    assert torch.get_num_threads() == before


def test_without_tasks_there_is_nothing_to_do() -> None:
    assert run_tasks(sleep, [], engine="processes") == []


# Faults

Faulty = tuple[Path, dict[str, TaskResult], list[str]]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    """Two processes, in which much goes wrong: where attempts were counted, what came out, what was reported."""
    folder = tmp_path_factory.mktemp("faulty")
    whats = ["die once", "fine", "die", "bad graph", "raise", "raise once", "exit", "no pickle", "fine as well"]
    tasks = [Task(what, (folder, what, what)) for what in whats]
    tasks.append(Task("no argument", (folder, "no argument", threading.Lock())))
    seen: list[str] = []

    def report(text: str, *_: int) -> None:
        seen.append(text)

    results = run_tasks(act, tasks, engine="processes", workers=2, retries=1, progress=report)
    assert [result.name for result in results] == [task.name for task in tasks]
    return folder, named(results), seen


def test_a_killed_worker_is_replaced_and_its_task_done_again(faulty: Faulty) -> None:
    folder, results, seen = faulty
    assert results["die once"] == TaskResult("die once", "die once", None, 2)
    assert attempts(folder, "die once") == 2
    assert any(text.startswith("die once: its process was killed by signal 9") for text in seen)


def test_a_task_that_always_dies_is_named_and_costs_the_others_nothing(faulty: Faulty) -> None:
    folder, results, _ = faulty
    result = results["die"]
    assert (result.value, result.attempts, attempts(folder, "die")) == (None, 2, 2)
    assert result.error is not None
    assert result.error.kind == "worker-died"
    assert result.error.message == "its process was killed by signal 9, perhaps for lack of memory"
    for name in ("fine", "fine as well"):
        assert results[name].error is None
        assert attempts(folder, name) == 1


def test_a_users_mistake_is_not_tried_again(faulty: Faulty) -> None:
    folder, results, _ = faulty
    result = results["bad graph"]
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("bad-graph", "edge 3 joins nodes 4 and 5: out of range")
    assert result.attempts == attempts(folder, "bad graph") == 1


def test_other_exceptions_are_tried_once_more(faulty: Faulty) -> None:
    folder, results, _ = faulty
    for name, message in (("raise", "RuntimeError: something is wrong"), ("exit", "SystemExit: 3")):
        result = results[name]
        assert result.error is not None
        assert (result.error.kind, result.error.message) == ("unexpected", message)
        assert "in act" in result.error.traceback
        assert result.attempts == attempts(folder, name) == 2
    assert results["raise once"] == TaskResult("raise once", "raise once", None, 2)


@pytest.mark.parametrize("name", ["no pickle", "no argument"])
def test_what_cannot_be_sent_is_an_error_of_its_task(faulty: Faulty, name: str) -> None:
    error = faulty[1][name].error
    assert error is not None
    assert "pickle" in error.message


def test_serial_reports_the_same(tmp_path: Path, faulty: Faulty) -> None:
    whats = ["fine", "bad graph", "raise", "raise once", "exit"]
    results = named(run_tasks(act, [Task(what, (tmp_path, what, what)) for what in whats]))
    for what in whats[1:]:
        beside = faulty[1][what]
        assert (results[what].value, results[what].attempts) == (beside.value, beside.attempts)
        assert getattr(results[what].error, "message", None) == getattr(beside.error, "message", None)


def test_without_retries_nothing_is_tried_again(tmp_path: Path) -> None:
    results = run_tasks(act, [Task("raise once", (tmp_path, "raise once", "raise once"))], retries=0)
    assert results[0].error is not None
    assert attempts(tmp_path, "raise once") == 1


# Refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"engine": "dask"}, "no engine 'dask': choose serial, processes or ray"),
        ({"workers": 0}, "workers is 0"),
        ({"cpus": 0}, "cpus is 0"),
        ({"cpus": 0.5}, "cpus is 0.5"),
        ({"gpus": -1}, "gpus is -1"),
        ({"gpus": 1.5}, "gpus is 1.5"),
        ({"retries": -1}, "retries is -1"),
        ({"address": "auto"}, "the engine is serial: use ray"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        run_tasks(sleep, [Task("only", (0.0,))], **settings)


def test_a_missing_ray_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'plgc\[ray\]'"):
        run_tasks(sleep, [Task("only", (0.0,))], engine="ray")


# What follows runs a script of its own and stops it, as a user, or a machine that runs out of memory, would.

SCRIPT = """
import pathlib, sys, time
from plgc.sources.engine import Task, run_tasks

def work(number):
    pathlib.Path(f"{number}.begun").touch()
    time.sleep(60)

if __name__ == "__main__":
    run_tasks(work, [Task(str(n), (n,)) for n in range(2)], engine="processes", workers=1)
"""
Start = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a script in a process group of its own; nothing of it outlives the test."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str) -> subprocess.Popen[str]:
        (tmp_path / "script.py").write_text(text)
        pipe = subprocess.PIPE
        command = [sys.executable, "script.py"]
        running = subprocess.Popen(command, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        started.append(running)
        return running

    yield start
    for running in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()


@linux
@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_workers_leave_interrupts_to_the_parent_and_end_with_it(tmp_path: Path, start: Start, how: str) -> None:
    running = start(SCRIPT)
    wait_until(lambda: len(list(tmp_path.glob("*.begun"))) == 1)
    for worker in alive(running.pid) - {running.pid}:
        os.kill(worker, signal.SIGINT)
    time.sleep(0.3)
    assert len(alive(running.pid)) >= 2
    if how == "killed":
        os.kill(running.pid, signal.SIGKILL)
    else:
        os.killpg(running.pid, signal.SIGINT)  # a terminal's Ctrl-C goes to all of them
    _, err = running.communicate(timeout=30)
    wait_until(lambda: not alive(running.pid), 20)
    assert len(list(tmp_path.glob("*.begun"))) == 1
    assert err.count("KeyboardInterrupt") == (how == "interrupted")


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told(start: Start) -> None:
    running = start(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    _, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "no worker process can be started: the last ended with exit code 1" in err.splitlines()[-1]
