"""What is to be done, and what came of it: tasks, their results, and the ledger that decides what is tried again."""

from __future__ import annotations

import os
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.runtime.compute import cpu_threads
from plgc.runtime.errors import PLGCError, SettingError
from plgc.runtime.progress import Progress

ENGINES = ("serial", "processes", "ray")


@dataclass(frozen=True)
class Task:
    """What to call the function with, under a name for people; everything is sent to other processes by pickle."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TaskError:
    """Why a task failed.

    Attributes:
        kind: that of the :class:`~plgc.runtime.errors.PLGCError`; ``unexpected`` for other exceptions; ``worker-died`` where
            whatever ran it is gone; ``no-resources`` where no node is left that could run it.
        message: one sentence for people.
        traceback: where an unexpected exception came from, for a report of the mistake.
    """

    kind: str
    message: str
    traceback: str = ""


@dataclass(frozen=True)
class TaskResult:
    """What came of a task: the function's value, or the error of its last attempt."""

    name: str
    value: Any = None
    error: TaskError | None = None
    attempts: int = 1


@dataclass(frozen=True)
class Plan:
    """What to call and how, checked; see :func:`plgc.sources.engine.run_tasks`."""

    function: Callable[..., Any]
    engine: str
    workers: int | None
    cpus: int
    gpus: float
    address: str | None
    retries: int

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SettingError(f"there is no engine {self.engine!r}: choose {', '.join(ENGINES[:-1])} or {ENGINES[-1]}")
        if self.workers is not None and self.workers < 1:
            raise SettingError(f"workers is {self.workers}: at least 1 is needed")
        if isinstance(self.cpus, bool) or not isinstance(self.cpus, int) or self.cpus < 1:
            raise SettingError(f"cpus is {self.cpus!r}: a task needs a whole number of threads, at least 1")
        if not self.gpus >= 0 or (self.gpus > 1 and self.gpus != int(self.gpus)):
            raise SettingError(f"gpus is {self.gpus}: it must be 0, a fraction of one, or a whole number")
        if self.retries < 0:
            raise SettingError(f"retries is {self.retries}: it must be 0 or more")
        if self.address is not None and self.engine != "ray":
            raise SettingError(f"address {self.address!r} is of a Ray cluster, the engine is {self.engine}: use ray")


@dataclass(frozen=True)
class Outcome:
    """Of one attempt; ``tries`` says how many attempts an error of its kind is worth, None for as many as allowed."""

    value: Any = None
    error: TaskError | None = None
    tries: int | None = 1


@dataclass
class Job:
    """A task with its place among the others, and how often it was tried."""

    number: int
    task: Task
    attempts: int = 0


class Ledger:
    """Which tasks wait, and what came of those that are finished."""

    def __init__(
        self,
        tasks: Sequence[Task],
        retries: int,
        progress: Progress,
        finished: Callable[[TaskResult], None] | None = None,
    ) -> None:
        self.waiting = deque(Job(number, task) for number, task in enumerate(tasks))
        self.found: dict[int, TaskResult] = {}
        self.total, self.most, self.progress, self.finished = len(tasks), retries + 1, progress, finished

    @property
    def unfinished(self) -> int:
        """How many tasks wait or are under way."""
        return self.total - len(self.found)

    def take(self) -> Job | None:
        """The next task to begin; None where none waits."""
        return self.waiting.popleft() if self.waiting else None

    def settle(self, job: Job, outcome: Outcome) -> None:
        """Note the end of an attempt: the task is finished, or waits again, behind the others."""
        job.attempts += 1
        name, error = job.task.name, outcome.error
        if error is not None and job.attempts < min(self.most, outcome.tries or self.most):
            self.waiting.append(job)
            self.progress(f"{name}: {error.message}; trying again", len(self.found), self.total)
            return
        result = self.found[job.number] = TaskResult(name, outcome.value, error, job.attempts)
        if self.finished is not None:
            self.finished(result)
        self.progress(f"{name}: {error.message if error else 'done'}", len(self.found), self.total)

    def results(self) -> list[TaskResult]:
        """What came of all tasks, in their order."""
        return [self.found[number] for number in range(self.total)]


def attempt(function: Callable[..., Any], arguments: tuple[Any, ...], cpus: int) -> Outcome:
    """Call the function, wherever this runs; no exception leaves, since not every one can be sent."""
    try:
        with cpu_threads(cpus):
            return Outcome(function(*arguments))
    except PLGCError as error:
        return Outcome(error=TaskError(error.kind, str(error)))
    except (Exception, SystemExit) as error:
        return unexpected(error)


def unexpected(error: BaseException) -> Outcome:
    """An exception that nobody meant: worth one more try."""
    text = str(error).strip().partition("\n")[0]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return Outcome(error=TaskError("unexpected", message, "".join(traceback.format_exception(error))), tries=2)


def died(message: str) -> Outcome:
    """Whatever ran the task is gone: worth as many tries as are allowed."""
    return Outcome(error=TaskError("worker-died", message), tries=None)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
