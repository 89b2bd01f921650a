"""Every engine gives the same; what fails is tried again where that helps, and never stops the others."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from plgc.runtime.errors import GraphError, MissingExtraError, SettingError
from plgc.sources.engine import Placement, Task, TaskError, TaskResult, run_tasks
from processes import alive, linux, started, wait_until

# What tasks do. Each leaves a line in a file of its own, so that attempts can be counted.


def attempts(folder: Path, name: str) -> int:
    path = folder / name
    return len(path.read_text().splitlines()) if path.exists() else 0


def act(folder: Path, what: Any) -> Any:
    before = attempts(folder, what)
    with (folder / what).open("a") as file:
        file.write(f"{os.getpid()}\n")
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
    return (what, torch.get_num_threads())


def sleep(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


# Value, kind and message of the error, attempts.
FAULTS: dict[str, tuple[Any, str | None, str, int]] = {
    "fine": (("fine", 2), None, "", 1),
    "bad graph": (None, "bad-graph", "edge 3 joins nodes 4 and 5: out of range", 1),  # would come again
    "raise": (None, "unexpected", "RuntimeError: something is wrong", 2),
    "raise once": (("raise once", 2), None, "", 2),
    "exit": (None, "unexpected", "SystemExit: 3", 2),
    "fine as well": (("fine as well", 2), None, "", 1),
}
DIES_ONCE = {"die once": (("die once", 2), None, "", 2)}


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_what_fails_is_tried_again_where_that_helps_and_stops_no_other(tmp_path: Path, engine: str) -> None:
    expected = FAULTS if engine == "serial" else {**DIES_ONCE, **FAULTS}
    tasks = [Task(what, (tmp_path, what)) for what in expected]
    if engine == "processes":
        tasks += [Task("no pickle", (tmp_path, "no pickle")), Task("no argument", (tmp_path, threading.Lock()))]
    environment, threads = dict(os.environ), torch.get_num_threads()
    reported: list[tuple[str, int, int]] = []
    finished: list[TaskResult] = []
    results = run_tasks(
        act,
        tasks,
        engine=engine,
        workers=2,
        cpus=2,
        retries=1,
        progress=lambda *report: reported.append(report),
        finished=finished.append,
    )
    assert (dict(os.environ), torch.get_num_threads()) == (environment, threads)
    assert [result.name for result in results] == [task.name for task in tasks]
    assert sorted(result.name for result in finished) == sorted(task.name for task in tasks)
    found = {result.name: result for result in results}
    for name, (value, kind, message, tries) in expected.items():
        error = found[name].error or TaskError("", "")
        assert (found[name].value, error.kind or None, error.message) == (value, kind, message)
        assert found[name].attempts == attempts(tmp_path, name) == tries
        assert ("in act" in error.traceback) == (kind == "unexpected")
    assert [done for message, done, _ in reported if "trying again" not in message] == list(range(1, len(tasks) + 1))
    assert {total for _, _, total in reported} == {len(tasks)}
    again = [message for message, _, _ in reported if message.endswith("; trying again")]
    assert len(again) == sum(result.attempts - 1 for result in results)
    if engine == "processes":
        for name in ("no pickle", "no argument"):
            error = found[name].error
            assert error is not None
            assert "pickle" in error.message
        assert any(message.startswith("die once: its process was killed by signal 9") for message in again)


@pytest.mark.slow
def test_a_task_that_always_dies_is_named_and_costs_the_others_nothing(tmp_path: Path) -> None:
    tasks = [Task(name, (tmp_path, name)) for name in ("die", "fine")]
    dead, fine = run_tasks(act, tasks, engine="processes", workers=2, retries=1)
    error = TaskError("worker-died", "its process was killed by signal 9, perhaps for lack of memory")
    assert dead == TaskResult("die", None, error, attempts=2)
    assert (attempts(tmp_path, "die"), attempts(tmp_path, "fine"), fine.error) == (2, 1, None)


def test_without_tasks_there_is_nothing_to_do() -> None:
    assert run_tasks(sleep, [], engine="processes") == []


def test_without_retries_nothing_is_tried_again(tmp_path: Path) -> None:
    results = run_tasks(act, [Task("raise once", (tmp_path, "raise once"))], placement=Placement(retries=0))
    assert results[0].error is not None
    assert attempts(tmp_path, "raise once") == 1


def test_whoever_is_told_of_a_result_can_end_the_run(tmp_path: Path) -> None:
    def enough(result: TaskResult) -> None:
        raise SettingError(f"{result.name} is enough")

    with pytest.raises(SettingError, match="one is enough"):
        run_tasks(act, [Task(name, (tmp_path, name)) for name in ("one", "two")], finished=enough)
    assert attempts(tmp_path, "two") == 0


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
import os, pathlib, time
from plgc.sources.engine import Task, run_tasks

def work(number):
    pathlib.Path(f"{number}.begun").write_text(str(os.getpid()))
    while number == 1 or not pathlib.Path("go on").exists():
        time.sleep(0.01)

if __name__ == "__main__":
    run_tasks(work, [Task(str(n), (n,)) for n in range(3)], engine="processes", workers=1)
"""


def begun(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


@linux
@pytest.mark.slow
@pytest.mark.parametrize("how", ["interrupted", "killed"])
def test_workers_leave_interrupts_to_the_parent_and_end_with_it(tmp_path: Path, how: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    first, second, third = (tmp_path / f"{number}.begun" for number in range(3))
    with started([sys.executable, "script.py"], tmp_path) as running:
        wait_until(lambda: begun(first))
        for worker in alive(running.pid) - {running.pid}:
            os.kill(worker, signal.SIGINT)
        (tmp_path / "go on").touch()
        wait_until(lambda: begun(second))
        assert first.read_text() == second.read_text()  # the same process: it was not interrupted
        if how == "killed":
            os.kill(running.pid, signal.SIGKILL)
        else:
            os.killpg(running.pid, signal.SIGINT)  # a terminal's Ctrl-C goes to all of them
        _, err = running.communicate()
        wait_until(lambda: not alive(running.pid))
    assert not third.exists()
    assert err.count("KeyboardInterrupt") == (how == "interrupted")


@pytest.mark.slow
def test_a_script_without_a_main_guard_is_told(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.replace('if __name__ == "__main__":', "if True:"))
    with started([sys.executable, "script.py"], tmp_path) as running:
        _, err = running.communicate()
    assert running.returncode == 1
    assert "no worker process can be started: the last ended with exit code 1" in err.splitlines()[-1]
