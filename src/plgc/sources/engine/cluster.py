"""Tasks on a Ray cluster: one that is joined, or one of this machine, started for the occasion. Ray is an extra."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from plgc.runtime.errors import MissingExtraError, SettingError
from plgc.sources.engine.tasks import Job, Ledger, Outcome, Plan, TaskError, attempt, cores, died, unexpected

OBJECT_STORE = 100 * 2**20  # bytes of a local Ray's store: nothing but paths goes through it
POLL = 1.0  # seconds between two looks at the cluster, while tasks are waited for
KNOCK = 10.0  # seconds in which a cluster has to answer
PATIENCE = 30.0  # seconds in which a cluster may replace the nodes it has lost


def run_ray(ledger: Ledger, plan: Plan) -> None:
    """Do what the ledger holds on a cluster; a lost worker or node costs what ran there, and that is tried again."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("the engine ray needs Ray: pip install 'plgc[ray]'") from error
    # Ray reports a lost node on stdout, which belongs to results.
    with contextlib.redirect_stdout(sys.stderr), _cluster(ray, plan):
        if not _fits(ray, plan):
            raise SettingError(_too_large(ray, plan))
        remote = ray.remote(num_cpus=plan.cpus, num_gpus=plan.gpus, max_retries=0)(attempt)
        pending: dict[Any, Job] = {}
        fitted = time.monotonic()
        try:
            while ledger.unfinished:
                while (plan.workers is None or len(pending) < plan.workers) and (job := ledger.take()):
                    try:
                        pending[remote.remote(plan.function, job.task.arguments, plan.cpus)] = job
                    except (TypeError, ValueError) as error:  # the arguments cannot be pickled
                        ledger.settle(job, unexpected(error))
                for done in ray.wait(list(pending), timeout=POLL)[0] if pending else ():
                    ledger.settle(pending.pop(done), _fetch(ray, done))
                if _fits(ray, plan):
                    fitted = time.monotonic()
                elif time.monotonic() - fitted > PATIENCE:
                    lost = Outcome(error=TaskError("no-resources", _too_large(ray, plan)))
                    for job in [*pending.values(), *ledger.waiting]:
                        ledger.settle(job, lost)
        finally:
            for left in pending:
                with contextlib.suppress(Exception):
                    ray.cancel(left, force=True)


def _fetch(ray: ModuleType, done: Any) -> Outcome:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:  # not the function's: it, or its value, could not be sent
        return unexpected(error.cause if isinstance(error.cause, Exception) else error)
    except ray.exceptions.OutOfMemoryError:
        return died("its node ran out of memory")
    except ray.exceptions.RayError as error:
        return died(f"its worker or its node is gone ({type(error).__name__})")


@contextlib.contextmanager
def _cluster(ray: ModuleType, plan: Plan) -> Iterator[None]:
    """Be part of a cluster; one that was joined or started here is left again."""
    if ray.is_initialized():
        yield
        return
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "include_dashboard": False}
    local = {"num_cpus": (plan.workers or 0) * plan.cpus or cores(), "object_store_memory": OBJECT_STORE}
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


def _fits(ray: ModuleType, plan: Plan) -> bool:
    return any(cpus >= plan.cpus and gpus >= plan.gpus for cpus, gpus in _nodes(ray))


def _nodes(ray: ModuleType) -> list[tuple[float, float]]:
    """Cores and GPUs of every node that is alive."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [(has.get("CPU", 0.0), has.get("GPU", 0.0)) for has in alive]


def _too_large(ray: ModuleType, plan: Plan) -> str:
    nodes = ", ".join(f"{cpus:g} and {gpus:g}" for cpus, gpus in sorted(_nodes(ray), reverse=True)) or "none at all"
    return (
        f"a task asks for {plan.cpus} CPU(s) and {plan.gpus:g} GPU(s), and no node of the cluster has as many "
        f"(CPUs and GPUs by node: {nodes}): ask for fewer, or add nodes"
    )
