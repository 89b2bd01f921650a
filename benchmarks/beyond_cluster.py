"""Two Ray nodes on this machine, of which one is lost while a command runs, after one of its workers was killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plgc.runtime.memory import descendants, processes_named

STORE = 100 * 2**20  # bytes of a node's object store: nothing but paths goes through it
NOTICED = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "5"}  # a lost node, in seconds
PART = re.compile(r"/part(\d+)/")  # of a mapped file: the folder that a part was cut to
PATIENCE = 5.0  # seconds to wait for a worker that has mapped a part; small parts are read
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}


@dataclass
class TwoNodes:
    """A cluster of a head and one more node, one core each.

    Attributes:
        cluster: of Ray.
        second: the node that is removed.
        events: what happened, in words.
        lost: numbers of the parts that lost workers were condensing.
    """

    cluster: Any
    second: Any
    events: list[str] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)

    @property
    def address(self) -> str:
        """Where it is joined."""
        return self.cluster.address

    def processes(self) -> list[int]:
        """All processes of the session that have its name in their command line; others descend from these."""
        session = os.path.basename(self.cluster.head_node.get_session_dir_path())
        return [process for process in processes_named(session) if process != os.getpid()]

    def harm(self, manifest: Path, parts: int) -> Callable[[int], None]:
        """What happens meanwhile: after a first file a worker is killed, after half of them the second node is lost."""

        def meanwhile(_: int) -> None:
            _wait(lambda: finished(manifest) >= 1)
            self._lose("worker killed", manifest, self.processes, self._kill)
            _wait(lambda: finished(manifest) >= parts // 2)
            self._lose("node removed", manifest, self._of_second, self._remove)

        return meanwhile

    def _lose(
        self, what: str, manifest: Path, processes: Callable[[], list[int]], harm: Callable[[int | None], None]
    ) -> None:
        """Do harm to a worker that is condensing a part, and note which."""
        start, found = time.monotonic(), dict[int, int | None]()
        while not any(found.values()) and time.monotonic() - start < PATIENCE:
            time.sleep(0.2)
            workers = set(descendants(processes())) & set(processes_named("ray::call"))
            found = {worker: _mapped_part(worker) for worker in sorted(workers)}
        worker, part = max(found.items(), key=lambda pair: pair[1] or 0, default=(None, None))
        harm(worker)
        self.lost |= set() if part is None else {part}
        self.events.append(f"{what} after {finished(manifest)} file(s){'' if part is None else f', at part {part}'}")

    def _kill(self, worker: int | None) -> None:
        if worker is not None:
            with contextlib.suppress(OSError):
                os.kill(worker, signal.SIGKILL)

    def _of_second(self) -> list[int]:
        return [process.pid for _, process in self.second.live_processes()]

    def _remove(self, _: int | None) -> None:
        self.cluster.remove_node(self.second, allow_graceful=False)


@contextlib.contextmanager
def two_nodes(memory: int) -> Iterator[TwoNodes]:
    """Start them, with so many bytes for the tasks of each; they end with the block."""
    os.environ.update(NOTICED | QUIET)
    from ray.cluster_utils import Cluster

    has = {"num_cpus": 1, "num_gpus": 0, "memory": memory, "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=has)
    try:
        yield TwoNodes(cluster, cluster.add_node(**has))
    finally:
        cluster.shutdown()


def finished(manifest: Path) -> int:
    """How many sources a manifest lists."""
    try:
        return len(json.loads(manifest.read_text())["sources"])
    except (OSError, ValueError, KeyError):
        return 0


def _mapped_part(worker: int) -> int | None:
    """The part whose files a process has mapped."""
    try:
        found = PART.search(Path(f"/proc/{worker}/maps").read_text())
    except OSError:
        return None
    return None if found is None else int(found[1])


def _wait(until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(0.2)
