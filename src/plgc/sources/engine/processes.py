"""Tasks in processes of this machine. Each has its own pipe, so that one that dies fails its own task and no other."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from plgc.runtime.errors import SettingError
from plgc.runtime.memory import machine_memory
from plgc.runtime.provenance import COMMIT_VARIABLE, source_commit
from plgc.sources.engine.tasks import DIED, Placement, TaskError, TaskQueue, call, cores, most_memory, unexpected

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    started: bool = False
    task: int | None = None


def run_processes(function: Callable[..., Any], queue: TaskQueue, placement: Placement) -> None:
    """Run the queue in processes side by side; one that dies is replaced."""
    most = placement.workers or max(1, cores() // placement.cpus)
    if (each := most_memory(queue.tasks)) and (machine := machine_memory()) is not None:
        most = max(1, min(most, machine // each))
    workers: list[_Worker] = []
    failed_starts = 0
    try:
        while queue.unfinished:
            while len(workers) < min(most, queue.unfinished):
                with _interrupts_blocked():
                    workers.append(_start_worker(placement.cpus))
            for worker in workers:
                while worker.started and worker.task is None and (number := queue.take()) is not None:
                    _send(worker, number, queue, function)
            if not queue.unfinished:
                break
            ready = wait_for([worker.connection for worker in workers])
            for worker in [worker for worker in workers if worker.connection in ready]:
                try:
                    attempt = worker.connection.recv()  # None: it has started
                    worker.started = True
                except (EOFError, OSError):
                    workers.remove(worker)
                    attempt = None, TaskError(DIED, f"its process {_exit_of(worker.process)}")
                    failed_starts = 0 if worker.started else failed_starts + 1
                    if failed_starts > placement.retries or (failed_starts and worker.process.exitcode == 1):
                        raise SettingError(
                            f"no worker process can be started: the last {_exit_of(worker.process)} before it ran "
                            'anything. A script that uses processes has to do its work under if __name__ == "__main__":'
                        ) from None
                if worker.task is not None:
                    queue.record(worker.task, *attempt)
                worker.task = None
    finally:
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            worker.process.join()
            worker.connection.close()


def _send(worker: _Worker, number: int, queue: TaskQueue, function: Callable[..., Any]) -> None:
    """Send a task to a worker; one that cannot be pickled has failed."""
    try:
        message = ForkingPickler.dumps((function, queue.tasks[number].arguments))
    except Exception as error:
        queue.record(number, None, unexpected(error))
        return
    worker.task = number
    with contextlib.suppress(OSError):  # the process has died: reading from its pipe will show that
        worker.connection.send_bytes(message)


def _start_worker(cpus: int) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, cpus))
    # Libraries read the thread counts once, when they are loaded. The commit is that of the code which is running.
    given = dict.fromkeys(THREAD_VARIABLES, str(cpus)) | {COMMIT_VARIABLE: source_commit() or ""}
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        process.start()
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    theirs.close()  # so that the pipe ends with the process
    return _Worker(process, ours)


def _work(connection: Connection, cpus: int) -> None:
    """A worker process: say that it has started, then run the tasks it is sent until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent handles it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection.send(None)
    while True:
        try:
            message = connection.recv_bytes()
        except (EOFError, OSError):
            return
        try:
            function, arguments = pickle.loads(message)
            result = ForkingPickler.dumps(call(function, arguments, cpus))
        except Exception as error:  # the task, or its value, cannot be pickled
            result = ForkingPickler.dumps((None, unexpected(error)))
        connection.send_bytes(result)


def _end_with_parent() -> None:
    """Wait until the parent process has ended, however it did, and end this one."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait_for([parent.sentinel])
    os._exit(1)


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C while a worker is started: it inherits that, until it ignores the signal itself."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # with the first worker it would be started, which unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _exit_of(process: BaseProcess) -> str:
    process.join()
    code = process.exitcode or 0
    return f"was killed by signal {-code}, perhaps for lack of memory" if code < 0 else f"ended with exit code {code}"
