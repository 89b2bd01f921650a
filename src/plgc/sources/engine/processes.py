"""Tasks in processes of this machine. Each has a pipe of its own: one that dies takes down its own task, no other."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any

from plgc.runtime.errors import SettingError
from plgc.sources.engine.tasks import Job, Ledger, Outcome, Plan, attempt, cores, died, unexpected

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    listening: bool = False
    job: Job | None = None


def run_processes(ledger: Ledger, plan: Plan) -> None:
    """Do what the ledger holds in processes side by side; one that dies is replaced."""
    most = plan.workers or max(1, cores() // plan.cpus)
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
                    outcome: Outcome | None = worker.connection.recv()
                except (EOFError, OSError):
                    workers.remove(worker)
                    stillborn = 0 if worker.listening else stillborn + 1
                    outcome = died(f"its process {_end_of(worker.process)}")
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


def _give(worker: _Worker, job: Job, ledger: Ledger, function: Callable[..., Any]) -> None:
    """Send a job to a worker; one that cannot be pickled has failed."""
    try:
        message = ForkingPickler.dumps((function, job.task.arguments))
    except Exception as error:
        ledger.settle(job, unexpected(error))
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
            outcome = ForkingPickler.dumps(attempt(function, arguments, cpus))
        except Exception as error:  # what came, or what is to be sent, cannot be pickled
            outcome = ForkingPickler.dumps(unexpected(error))
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
