"""One function for all engines, and the simplest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plgc.runtime.progress import Progress, silent
from plgc.sources.engine.cluster import run_ray
from plgc.sources.engine.processes import run_processes
from plgc.sources.engine.tasks import Ledger, Plan, Task, TaskResult, attempt


def run_tasks(
    function: Callable[..., Any],
    tasks: Sequence[Task],
    *,
    engine: str = "serial",
    workers: int | None = None,
    cpus: int = 1,
    gpus: float = 0.0,
    address: str | None = None,
    retries: int = 2,
    progress: Progress | None = None,
    finished: Callable[[TaskResult], None] | None = None,
) -> list[TaskResult]:
    """Call ``function(*task.arguments)`` for every task; results in the order of the tasks.

    Args:
        function: defined at the top of a module that workers can import. It returns something small, such as the path
            of the file it wrote. Workers may have another working directory and, on a cluster, other environment
            variables and another machine: give absolute paths, on a disk that all of them share.
        tasks: names and arguments.
        engine: ``serial``, ``processes`` (of this machine; a script that asks for them needs
            ``if __name__ == "__main__":``) or ``ray``.
        workers: tasks side by side; by default as many as there are cores for, or, with Ray, all that fit.
        cpus: threads inside each task, in every engine; Ray also reserves as many cores.
        gpus: GPUs, or a fraction of one, that Ray reserves for each task; the other engines reserve none.
        address: of a running Ray cluster, ``auto`` for the one on this machine; None starts one for the duration of
            the call, unless the process has joined one already.
        retries: how often a task is tried again after it lost its worker.
        progress: called with a message, the tasks done and the tasks in all.
        finished: called here with every result as soon as it is there, in the order in which tasks end.

    Raises:
        SettingError: the tasks cannot be run as asked for; what a task itself does wrong is in its result.
        MissingExtraError: ``ray`` without Ray.
    """
    plan = Plan(function, engine, workers, cpus, gpus, address, retries)
    ledger = Ledger(tasks, retries, progress or silent, finished)
    if tasks:
        {"serial": run_serial, "processes": run_processes, "ray": run_ray}[engine](ledger, plan)
    return ledger.results()


def run_serial(ledger: Ledger, plan: Plan) -> None:
    """Do what the ledger holds here, one task after the other."""
    while job := ledger.take():
        ledger.settle(job, attempt(plan.function, job.task.arguments, plan.cpus))
