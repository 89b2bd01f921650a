"""Run independent tasks one after the other, in processes side by side, or on a Ray cluster, through one function.

A task that fails never stops the others. It is tried again where that may help:

- a :class:`~plgc.runtime.errors.PLGCError`, which would come again: never;
- any other exception of the function: once;
- a killed worker, a lost node, memory that ran out: ``retries`` times.

With the same number of threads a task gives the same bytes in every engine. Ray is an extra, imported on use.
"""

from plgc.sources.engine.cluster import ray_processes
from plgc.sources.engine.run import run_tasks
from plgc.sources.engine.tasks import ENGINES, Placement, Task, TaskError, TaskResult

__all__ = ["ENGINES", "Placement", "Task", "TaskError", "TaskResult", "ray_processes", "run_tasks"]
