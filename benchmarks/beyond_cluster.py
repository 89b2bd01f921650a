"""Two Ray nodes on this machine, of which one is lost while a command runs, after one of its workers was killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plgc.runtime.memory import descendants, processes_named

STORE = 100 * 2**20  # bytes of a node's object store: nothing but paths goes through it
NOTICED = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "5"}  # a lost node, in seconds
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}


@dataclass
class TwoNodes:
    """A cluster of a head and one more node, one core each."""

    cluster: Any
    second: Any
    events: list[str] = field(default_factory=list)

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
            workers = [process for process in descendants(self.processes()) if process in processes_named("ray::call")]
            if workers:
                with contextlib.suppress(OSError):
                    os.kill(workers[0], signal.SIGKILL)
                self.events.append(f"worker killed after {finished(manifest)} file(s)")
            _wait(lambda: finished(manifest) >= parts // 2)
            self.cluster.remove_node(self.second, allow_graceful=False)
            self.events.append(f"node removed after {finished(manifest)} file(s)")

        return meanwhile


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


def _wait(until: Callable[[], bool]) -> None:
    while not until():
        time.sleep(0.2)
