"""One function for all engines, and the simplest of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plgc.runtime.options import accepts
from plgc.runtime.progress import Progress, silent
from plgc.sources.engine.cluster import run_ray
from plgc.sources.engine.processes import run_processes
from plgc.sources.engine.tasks import Placement, Task, TaskQueue, TaskResult, call


@accepts(placement=Placement())
def run_tasks(
    function: Callable[..., Any],
    tasks: Sequence[Task],
    *,
    placement: Placement,
    progress: Progress | None = None,
    finished: Callable[[TaskResult], None] | None = None,
) -> list[TaskResult]:
    """Call ``function(*task.arguments)`` for every task; results in the order of the tasks.

    Args:
        function: defined at the top of a module that workers can import. It returns something small, such as the path
            of the file it wrote. Workers may have another working directory and, on a cluster, other environment
            variables and another machine: give absolute paths, on a disk that all of them share.
        tasks: names and arguments.
        engine, workers, address, cpus, gpus, retries: see :class:`Placement`.
        progress: called with a message, the tasks done and the tasks in all.
        finished: called here with every result as soon as it is there, in the order in which tasks end. If it raises,
            the run ends: no further task is started, and those under way are stopped.

    Raises:
        SettingError: the tasks cannot be run with these options; errors of the tasks themselves are in their results.
        MissingExtraError: ``ray`` without Ray.
    """
    queue = TaskQueue(tasks, placement.retries, progress or silent, finished)
    if tasks:
        {"serial": _run_serial, "processes": run_processes, "ray": run_ray}[placement.engine](
            function, queue, placement
        )
    return queue.results()


def _run_serial(function: Callable[..., Any], queue: TaskQueue, placement: Placement) -> None:
    """Run the queue here, one task after the other."""
    while (number := queue.take()) is not None:
        queue.record(number, *call(function, queue.tasks[number].arguments, placement.cpus))
