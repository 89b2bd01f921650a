"""Run independent tasks: one after the other, in processes side by side, or on a Ray cluster, behind one function.

A task that fails never stops the others, and what can be helped by trying again is tried again:

- a :class:`~plgc.errors.PLGCError` is a mistake that stays one: never;
- any other exception of the function: once;
- a killed worker, a lost node, memory that ran out: as often as asked for.

With one number of threads a task gives the same bytes in every engine. Ray is an extra, imported on use.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import socket
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

from plgc.condense import cpu_threads
from plgc.errors import MissingExtraError, PLGCError, SettingError
from plgc.progress import Progress, silent

ENGINES = ("serial", "processes", "ray")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
OBJECT_STORE = 100 * 2**20  # bytes of a local Ray's store: nothing but paths goes through it
POLL = 1.0  # seconds between two looks at the cluster, while tasks are waited for
KNOCK = 10.0  # seconds in which a cluster has to answer
PATIENCE = 30.0  # seconds in which a cluster may replace the nodes it has lost


@dataclass(frozen=True)
class Task:
    """What to call the function with, under a name for people; everything is sent to other processes by pickle."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class TaskError:
    """Why a task failed.

    Attributes:
        kind: that of the :class:`~plgc.errors.PLGCError`; ``unexpected`` for other exceptions; ``worker-died`` where
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

    Raises:
        SettingError: the tasks cannot be run as asked for; what a task itself does wrong is in its result.
        MissingExtraError: ``ray`` without Ray.
    """
    plan = _Plan(function, engine, workers, cpus, gpus, address, retries)
    ledger = _Ledger(tasks, retries, progress or silent)
    if tasks:
        {"serial": _run_serial, "processes": _run_processes, "ray": _run_ray}[engine](ledger, plan)
    return ledger.results()


@dataclass(frozen=True)
class _Plan:
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
class _Outcome:
    """Of one attempt; ``tries`` says how many attempts an error of its kind is worth, None for as many as allowed."""

    value: Any = None
    error: TaskError | None = None
    tries: int | None = 1


@dataclass
class _Job:
    number: int
    task: Task
    attempts: int = 0


class _Ledger:
    """Which tasks wait, and what came of those that are finished."""

    def __init__(self, tasks: Sequence[Task], retries: int, progress: Progress) -> None:
        self.waiting = deque(_Job(number, task) for number, task in enumerate(tasks))
        self.found: dict[int, TaskResult] = {}
        self.total, self.most, self.progress = len(tasks), retries + 1, progress

    @property
    def unfinished(self) -> int:
        return self.total - len(self.found)

    def take(self) -> _Job | None:
        return self.waiting.popleft() if self.waiting else None

    def settle(self, job: _Job, outcome: _Outcome) -> None:
        """Note the end of an attempt: the task is finished, or waits again, behind the others."""
        job.attempts += 1
        name, error = job.task.name, outcome.error
        if error is not None and job.attempts < min(self.most, outcome.tries or self.most):
            self.waiting.append(job)
            self.progress(f"{name}: {error.message}; trying again", len(self.found), self.total)
            return
        self.found[job.number] = TaskResult(name, outcome.value, error, job.attempts)
        self.progress(f"{name}: {error.message if error else 'done'}", len(self.found), self.total)

    def results(self) -> list[TaskResult]:
        return [self.found[number] for number in range(self.total)]


def _attempt(function: Callable[..., Any], arguments: tuple[Any, ...], cpus: int) -> _Outcome:
    """Call the function, wherever this runs; no exception leaves, since not every one can be sent."""
    try:
        with cpu_threads(cpus):
            return _Outcome(function(*arguments))
    except PLGCError as error:
        return _Outcome(error=TaskError(error.kind, str(error)))
    except (Exception, SystemExit) as error:
        return _unexpected(error)


def _unexpected(error: BaseException) -> _Outcome:
    text = str(error).strip().partition("\n")[0]
    message = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return _Outcome(error=TaskError("unexpected", message, "".join(traceback.format_exception(error))), tries=2)


def _died(message: str) -> _Outcome:
    return _Outcome(error=TaskError("worker-died", message), tries=None)


# One after the other


def _run_serial(ledger: _Ledger, plan: _Plan) -> None:
    while job := ledger.take():
        ledger.settle(job, _attempt(plan.function, job.task.arguments, plan.cpus))


# Processes. Each has a pipe of its own, so that one that dies takes down its own task and no other.


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    listening: bool = False
    job: _Job | None = None


def _run_processes(ledger: _Ledger, plan: _Plan) -> None:
    most = plan.workers or max(1, _cores() // plan.cpus)
    workers: list[_Worker] = []
    stillborn = 0
    try:
        while ledger.unfinished:
            while len(workers) < min(most, ledger.unfinished):
                with interrupts_held():
                    workers.append(_start_worker(plan.cpus))
            for worker in workers:
                while worker.listening and worker.job is None and (job := ledger.take()):
                    _give(worker, job, ledger, plan.function)
            if not ledger.unfinished:
                break
            ready = wait_for([worker.connection for worker in workers])
            for worker in [worker for worker in workers if worker.connection in ready]:
                try:
                    outcome: _Outcome | None = worker.connection.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    stillborn = 0 if worker.listening else stillborn + 1
                    outcome = _died(f"its process {_end_of(worker.process)}")
                    if stillborn > plan.retries or (stillborn and worker.process.exitcode == 1):
                        raise SettingError(_no_start(worker.process)) from None
                else:
                    worker.listening = True
                job, worker.job = worker.job, None
                if job is not None and outcome is not None:
                    ledger.settle(job, outcome)
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.connection.close()


def _give(worker: _Worker, job: _Job, ledger: _Ledger, function: Callable[..., Any]) -> None:
    """Send a job to a worker; one that cannot be pickled has failed."""
    try:
        message = ForkingPickler.dumps((function, job.task.arguments))
    except Exception as error:
        ledger.settle(job, _unexpected(error))
        return
    worker.job = job
    with contextlib.suppress(OSError):  # it has died: the next look at its pipe says so
        worker.connection.send_bytes(message)


def _start_worker(cpus: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, cpus))
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(cpus)))  # libraries read them once, when they are loaded
    try:
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    theirs.close()  # so that the pipe ends with the process
    return _Worker(process, ours)


def _serve(connection: Connection, cpus: int) -> None:
    """A worker: say that it listens, then do what it is given until the pipe ends."""
    start_worker()
    connection.send(None)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            function, arguments = pickle.loads(message)
            outcome = ForkingPickler.dumps(_attempt(function, arguments, cpus))
        except Exception as error:  # what came, or what is to be sent, cannot be pickled
            outcome = ForkingPickler.dumps(_unexpected(error))
        connection.send_bytes(outcome)


def start_worker() -> None:
    """To be called first in a worker process: it leaves Ctrl-C to its parent, and does not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait_for([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back while workers are started: they inherit that, and so leave it to their parent from the first."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_of(process: BaseProcess) -> str:
    process.join()
    code = process.exitcode or 0
    return f"was killed by signal {-code}, perhaps for lack of memory" if code < 0 else f"ended with exit code {code}"


def _no_start(process: BaseProcess) -> str:
    return (
        f"no worker process can be started: the last {_end_of(process)} before it did anything. A script that asks for "
        'processes has to do its work under if __name__ == "__main__":'
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Ray


def _run_ray(ledger: _Ledger, plan: _Plan) -> None:
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("the engine ray needs Ray: pip install 'plgc[ray]'") from error
    # Ray reports a lost node on stdout, which belongs to results.
    with contextlib.redirect_stdout(sys.stderr), _cluster(ray, plan):
        if not _fits(ray, plan):
            raise SettingError(_too_large(ray, plan))
        remote = ray.remote(num_cpus=plan.cpus, num_gpus=plan.gpus, max_retries=0)(_attempt)
        pending: dict[Any, _Job] = {}
        fitted = time.monotonic()
        try:
            while ledger.unfinished:
                while (plan.workers is None or len(pending) < plan.workers) and (job := ledger.take()):
                    try:
                        pending[remote.remote(plan.function, job.task.arguments, plan.cpus)] = job
                    except (TypeError, ValueError) as error:  # the arguments cannot be pickled
                        ledger.settle(job, _unexpected(error))
                for done in ray.wait(list(pending), timeout=POLL)[0] if pending else ():
                    ledger.settle(pending.pop(done), _fetch(ray, done))
                if _fits(ray, plan):
                    fitted = time.monotonic()
                elif time.monotonic() - fitted > PATIENCE:
                    lost = _Outcome(error=TaskError("no-resources", _too_large(ray, plan)))
                    for job in [*pending.values(), *ledger.waiting]:
                        ledger.settle(job, lost)
        finally:
            for left in pending:
                with contextlib.suppress(Exception):
                    ray.cancel(left, force=True)


def _fetch(ray: ModuleType, done: Any) -> _Outcome:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:  # not the function's: it, or its value, could not be sent
        return _unexpected(error.cause if isinstance(error.cause, Exception) else error)
    except ray.exceptions.OutOfMemoryError:
        return _died("its node ran out of memory")
    except ray.exceptions.RayError as error:
        return _died(f"its worker or its node is gone ({type(error).__name__})")


@contextlib.contextmanager
def _cluster(ray: ModuleType, plan: _Plan) -> Iterator[None]:
    """Be part of a cluster; one that was joined or started here is left again."""
    if ray.is_initialized():
        yield
        return
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "include_dashboard": False}
    local = {"num_cpus": (plan.workers or 0) * plan.cpus or _cores(), "object_store_memory": OBJECT_STORE}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nobody is told that a graph is being condensed
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if plan.address is None:
            ray.init("local", **quiet, **local)
        else:
            _knock(plan.address)
            ray.init(plan.address, **quiet)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if plan.address is None:
            raise SettingError(f"cannot start a local Ray cluster: {reason}") from error
        raise SettingError(
            f"cannot join a Ray cluster at {plan.address}: {reason}. Start one with: ray start --head, or leave the "
            "address out"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
        if handler is not None and threading.current_thread() is threading.main_thread():  # Ray has put in its own
            signal.signal(signal.SIGTERM, handler)


def _knock(address: str) -> None:
    """Raise unless something listens at host:port, where Ray itself would wait for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK).close()


def _fits(ray: ModuleType, plan: _Plan) -> bool:
    return any(cpus >= plan.cpus and gpus >= plan.gpus for cpus, gpus in _nodes(ray))


def _nodes(ray: ModuleType) -> list[tuple[float, float]]:
    """Cores and GPUs of every node that is alive."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [(has.get("CPU", 0.0), has.get("GPU", 0.0)) for has in alive]


def _too_large(ray: ModuleType, plan: _Plan) -> str:
    nodes = ", ".join(f"{cpus:g} and {gpus:g}" for cpus, gpus in sorted(_nodes(ray), reverse=True)) or "none at all"
    return (
        f"a task asks for {plan.cpus} CPU(s) and {plan.gpus:g} GPU(s), and no node of the cluster has as many "
        f"(CPUs and GPUs by node: {nodes}): ask for fewer, or add nodes"
    )
