"""Run independent tasks: one after the other, in processes side by side, or on a Ray cluster, behind one function.

A task that fails never stops the others, and what can be helped by trying again is tried again:

- a :class:`~plgc.runtime.errors.PLGCError` is a mistake that stays one: never;
- any other exception of the function: once;
- a killed worker, a lost node, memory that ran out: as often as asked for.

With one number of threads a task gives the same bytes in every engine. Ray is an extra, imported on use.
"""

from plgc.sources.engine.processes import interrupts_held, start_worker
from plgc.sources.engine.run import run_tasks
from plgc.sources.engine.tasks import ENGINES, Task, TaskError, TaskResult

__all__ = ["ENGINES", "Task", "TaskError", "TaskResult", "interrupts_held", "run_tasks", "start_worker"]
