"""Tasks on a Ray cluster: one that is joined, or one of this machine, started for the call. Ray is an extra."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from plgc.runtime.errors import MissingExtraError, SettingError
from plgc.runtime.memory import processes_named
from plgc.sources.engine.tasks import DIED, Placement, TaskError, TaskQueue, call, cores, most_memory, unexpected

OBJECT_STORE = 100 * 2**20  # bytes of a local Ray's store: nothing but paths goes through it
POLL = 1.0  # seconds between two checks of the cluster's nodes, while tasks run
CONNECT = 10.0  # seconds in which a cluster has to answer
HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HTTP2_SETTINGS = b"\0\0\0\4\0\0\0\0\0"  # a frame without content; its fourth byte is its kind
GIB = 2**30
PATIENCE = 30.0  # seconds in which a cluster may replace the nodes it has lost


def run_ray(function: Callable[..., Any], queue: TaskQueue, placement: Placement) -> None:
    """Run the queue on a cluster; what ran on a lost worker or node is tried again."""
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("the engine ray needs Ray: pip install 'plgc[ray]'") from error
    # Ray reports a lost node on stdout, which belongs to results.
    with contextlib.redirect_stdout(sys.stderr), _cluster(ray, placement):
        memory = most_memory(queue.tasks)
        if not _fits(ray, placement, memory):
            raise SettingError(_too_large(ray, placement, memory))
        remote = ray.remote(num_cpus=placement.cpus, num_gpus=placement.gpus, max_retries=0)(call)
        pending: dict[Any, int] = {}
        fitted = time.monotonic()
        try:
            while queue.unfinished:
                while placement.workers is None or len(pending) < placement.workers:
                    if (number := queue.take()) is None:
                        break
                    task = queue.tasks[number]
                    asked = remote if task.memory is None else remote.options(memory=task.memory)
                    try:
                        pending[asked.remote(function, task.arguments, placement.cpus)] = number
                    except (TypeError, ValueError) as error:  # the arguments cannot be pickled
                        queue.record(number, None, unexpected(error))
                for done in ray.wait(list(pending), timeout=POLL)[0] if pending else ():
                    queue.record(pending.pop(done), *_fetch(ray, done))
                if _fits(ray, placement, memory):
                    fitted = time.monotonic()
                elif time.monotonic() - fitted > PATIENCE:
                    for number in [*pending.values(), *queue.waiting]:
                        queue.record(number, None, TaskError("no-resources", _too_large(ray, placement, memory)))
        finally:
            for left in pending:
                with contextlib.suppress(Exception):
                    ray.cancel(left, force=True)


def ray_processes() -> list[int]:
    """Processes of this machine that belong to the Ray session of this process; none without one."""
    ray = sys.modules.get("ray")
    try:
        if ray is None or not ray.is_initialized():
            return []
        return processes_named(os.path.basename(ray._private.worker._global_node.get_session_dir_path()))
    except AttributeError:  # another version of Ray, or it is just starting
        return []


def _fetch(ray: ModuleType, done: Any) -> tuple[Any, TaskError | None]:
    try:
        return ray.get(done)
    except ray.exceptions.RayTaskError as error:  # not the function's: the task, or its value, could not be sent
        return None, unexpected(error.cause if isinstance(error.cause, Exception) else error)
    except ray.exceptions.OutOfMemoryError:
        return None, TaskError(DIED, "its node ran out of memory")
    except ray.exceptions.RayError as error:
        return None, TaskError(DIED, f"its worker or its node is gone ({type(error).__name__})")


@contextlib.contextmanager
def _cluster(ray: ModuleType, placement: Placement) -> Iterator[None]:
    """Connect to a cluster; one that was joined or started here is left at the end."""
    if ray.is_initialized():
        yield
        return
    quiet = {"logging_level": "ERROR", "log_to_driver": False, "include_dashboard": False}
    local = {"num_cpus": (placement.workers or 0) * placement.cpus or cores(), "object_store_memory": OBJECT_STORE}
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage report is sent
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if placement.address is None:
            ray.init("local", **quiet, **local)
        else:
            _check_answers(placement.address)
            ray.init(placement.address, **quiet)
    except Exception as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        if placement.address is None:
            raise SettingError(f"cannot start a local Ray cluster: {reason}") from error
        raise SettingError(
            f"cannot join a Ray cluster at {placement.address}: {reason}. Start one with: ray start --head, or leave "
            "the address out"
        ) from error
    try:
        yield
    finally:
        ray.shutdown()
        if handler is not None and threading.current_thread() is threading.main_thread():  # Ray has set its own
            signal.signal(signal.SIGTERM, handler)


def _check_answers(address: str) -> None:
    """Raise unless a server at host:port or ray://host:port speaks gRPC, where Ray itself would wait for minutes.

    gRPC is HTTP/2, in which a server answers the first words of a client with its settings.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal() or "/" in host or os.environ.get("RAY_USE_TLS", "0") != "0":
        return
    with socket.create_connection((host.strip("[]"), int(port)), CONNECT) as connection:
        connection.settimeout(CONNECT)
        connection.sendall(HTTP2_PREFACE + HTTP2_SETTINGS)
        try:
            answer = connection.recv(len(HTTP2_SETTINGS))
        except TimeoutError:
            raise TimeoutError(f"something listens there and does not answer within {CONNECT:g} seconds") from None
    if answer[3:4] != HTTP2_SETTINGS[3:4]:
        raise ConnectionError("what listens there is no Ray cluster")


def _fits(ray: ModuleType, placement: Placement, memory: int) -> bool:
    wanted = (placement.cpus, placement.gpus, memory)
    return any(all(has >= asks for has, asks in zip(node, wanted, strict=True)) for node in _nodes(ray))


def _nodes(ray: ModuleType) -> list[tuple[float, float, float]]:
    """Cores, GPUs and bytes of memory of every node that is alive."""
    alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [(has.get("CPU", 0.0), has.get("GPU", 0.0), has.get("memory", 0.0)) for has in alive]


def _too_large(ray: ModuleType, placement: Placement, memory: int) -> str:
    """What a task asks for, and what the nodes have; memory only where it is asked for."""
    asked = f"{placement.cpus} CPU(s) and {placement.gpus:g} GPU(s)"
    asked += f" and {memory / GIB:.2f} GiB of memory" if memory else ""
    listed = [
        f"{cpus:g} and {gpus:g}" + (f" and {has / GIB:.2f} GiB" if memory else "")
        for cpus, gpus, has in sorted(_nodes(ray), reverse=True)
    ]
    what = "CPUs, GPUs and memory" if memory else "CPUs and GPUs"
    return (
        f"a task asks for {asked}, and no node of the cluster has as many ({what} by node: "
        f"{', '.join(listed) or 'none at all'}): ask for fewer, or add nodes"
    )
