"""Tasks, where they run, what came of them, and the queue that decides which are tried again."""

from __future__ import annotations

import os
import sys
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.runtime.errors import PLGCError, SettingError
from plgc.runtime.options import cpu_threads
from plgc.runtime.progress import Progress

ENGINES = ("serial", "processes", "ray")
DIED = "worker-died"
TRIES = {"unexpected": 2, DIED: sys.maxsize}  # how often a task is tried that fails so; once with any other error


@dataclass(frozen=True)
class Placement:
    """Where tasks run.

    Attributes:
        engine: ``serial``, ``processes`` (of this machine; a script that uses them needs
            ``if __name__ == "__main__":``) or ``ray``.
        workers: tasks side by side; by default one for every ``cpus`` cores, or, with Ray, all that fit.
        address: of a running Ray cluster, ``auto`` for the one on this machine; None starts one for the duration of
            the call, unless the process has joined one already.
        cpus: threads inside each task, in every engine; Ray also reserves as many cores.
        gpus: GPUs, or a fraction of one, that Ray reserves for each task; the other engines reserve none.
        retries: how often a task is tried again after it lost its worker.
    """

    engine: str = "serial"
    workers: int | None = None
    address: str | None = None
    cpus: int = 1
    gpus: float = 0.0
    retries: int = 2

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
class Task:
    """A name for messages, and the arguments of the function; they are sent to other processes by pickle.

    ``memory`` is what it takes, in bytes: engines place it where there is as much. None where that is not known.
    """

    name: str
    arguments: tuple[Any, ...] = ()
    memory: int | None = None


@dataclass(frozen=True)
class TaskError:
    """Why a task failed.

    Attributes:
        kind: that of the :class:`~plgc.runtime.errors.PLGCError`; ``unexpected`` for other exceptions; ``worker-died``
            where the process or node that ran it is gone; ``no-resources`` where no node is left that could run it.
        message: one sentence for people.
        traceback: of an unexpected exception.
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


class TaskQueue:
    """Tasks by number: those that wait, and the results of those that are finished."""

    def __init__(
        self,
        tasks: Sequence[Task],
        retries: int,
        progress: Progress,
        finished: Callable[[TaskResult], None] | None = None,
    ) -> None:
        self.tasks, self.attempts = tasks, [0] * len(tasks)
        self.waiting = deque(range(len(tasks)))
        self.found: dict[int, TaskResult] = {}
        self.most, self.progress, self.finished = retries + 1, progress, finished

    @property
    def unfinished(self) -> int:
        """How many tasks wait or are running."""
        return len(self.tasks) - len(self.found)

    def take(self) -> int | None:
        """The number of the next task to run; None where none waits."""
        return self.waiting.popleft() if self.waiting else None

    def record(self, number: int, value: Any, error: TaskError | None) -> None:
        """Record the end of an attempt: the task is finished, or waits again, behind the others."""
        self.attempts[number] += 1
        name, count = self.tasks[number].name, len(self.tasks)
        if error is not None and self.attempts[number] < min(self.most, TRIES.get(error.kind, 1)):
            self.waiting.append(number)
            self.progress(f"{name}: {error.message}; trying again", len(self.found), count)
            return
        result = self.found[number] = TaskResult(name, value, error, self.attempts[number])
        if self.finished is not None:
            self.finished(result)
        self.progress(f"{name}: {error.message if error else 'done'}", len(self.found), count)

    def results(self) -> list[TaskResult]:
        """The results of all tasks, in their order."""
        return [self.found[number] for number in range(len(self.tasks))]


def call(function: Callable[..., Any], arguments: tuple[Any, ...], cpus: int) -> tuple[Any, TaskError | None]:
    """Call the function, in whichever process this is; exceptions become text, since not all of them can be sent."""
    try:
        with cpu_threads(cpus):
            return function(*arguments), None
    except PLGCError as error:
        return None, TaskError(error.kind, str(error))
    except (Exception, SystemExit) as error:
        return None, unexpected(error)


def unexpected(error: BaseException) -> TaskError:
    """An exception that is no :class:`PLGCError`."""
    text = str(error).strip().partition("\n")[0]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return TaskError("unexpected", message, "".join(traceback.format_exception(error)))


def most_memory(tasks: Sequence[Task]) -> int:
    """The memory of the task that takes most, as far as it is known."""
    return max((task.memory or 0 for task in tasks), default=0)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
