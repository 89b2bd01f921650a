"""The engine on Ray: a real cluster of two nodes on this machine, one of which is lost during the run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.graphs import citation_graph, save_npz, save_stored
from plgc.runtime import mapped
from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.memory import descendants, processes_named
from plgc.sources import folder as folder_module
from plgc.sources.cutting import CUTS
from plgc.sources.engine import Task, run_tasks
from plgc.sources.engine import cluster as engine_module
from plgc.sources.task import MadeSource, SourceTask, condense_source
from processes import wait_until
from quick import quick

ray = pytest.importorskip("ray", reason="ray is not installed")
cluster_utils = pytest.importorskip("ray.cluster_utils")

STORE = 100 * 2**20
DATA = os.environ.get("PLGC_DATA")  # taken from the environment for the tests themselves
QUICK = quick(16, hidden=16, rounds=1, epochs=2)
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")]


@pytest.fixture(scope="module", autouse=True)
def _environment() -> Iterator[None]:
    """Workers can import this file, and tell nobody that they run."""
    with pytest.MonkeyPatch.context() as patch:
        for folder in (Path(__file__).parents[2], Path(__file__).parent):
            patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("PLGC_DATA", raising=False)  # other machines do not have it
        patch.setenv("RAY_health_check_period_ms", "500")  # a lost node is noticed in two seconds, not in fifteen
        patch.setenv("RAY_health_check_failure_threshold", "3")
        yield


@pytest.fixture(scope="module")
def cluster(_environment: None) -> Iterator[Any]:
    """A head with one core; tests add nodes."""
    head = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE, "include_dashboard": False}
    made = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    yield made
    made.shutdown()


def add_node(cluster: Any, **resources: Any) -> Any:
    return cluster.add_node(num_cpus=1, num_gpus=0, object_store_memory=STORE, **resources)


# What tasks do


def condense_to(path: Path, seed: int, begun: Path, release: Path | None) -> tuple[str, str, int]:
    """Say on which node it runs, wait there if asked to, condense; where to, on which node, with how many threads."""
    node = ray.get_runtime_context().get_node_id() if ray.is_initialized() else "here"
    with begun.open("a") as file:
        file.write(f"{node} {os.getpid()}\n")
    while release is not None and not release.exists():
        time.sleep(0.05)
    graph = citation_graph(nodes=120, classes=3, features=40)
    plgc.condense(graph, nodes=6, seed=seed, settings=QUICK).save(path)
    return str(path), node, torch.get_num_threads()


def source_to(task: SourceTask) -> MadeSource:
    """The task of many sources, which waits until the second node is gone; beside the folder it says where it runs."""
    base = Path(task.folder).parents[1]
    with (base / f"{task.name}.begun").open("a") as file:
        file.write(f"{ray.get_runtime_context().get_node_id()} {os.getpid()}\n")
    while not (base / "release").exists():
        time.sleep(0.05)
    assert "PLGC_DATA" not in os.environ  # graphs named by the catalogue are found without it
    return condense_source(task)


def act(folder: Path, what: str) -> str:
    with (folder / what).open("a") as file:
        file.write("begun\n")
    if what == "die" or (what == "die once" and attempts(folder, what) == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "bad graph":
        raise GraphError("edge 3 joins nodes 4 and 5: out of range")
    return what


def attempts(folder: Path, name: str) -> int:
    return len((folder / name).read_text().splitlines())


def sources(folder: Path, release: Path | None = None) -> list[Task]:
    folder.mkdir()
    names = range(4)
    return [Task(f"source {n}", (folder / f"{n}.file", n, folder / f"{n}.begun", release)) for n in names]


def begun(folder: Path) -> list[tuple[str, str]]:
    """Node and process of every attempt so far."""
    lines = [line.split() for path in folder.glob("*.begun") for line in path.read_text().splitlines()]
    return [(node, process) for node, process in lines]


def files(folder: Path) -> list[bytes]:
    return [(folder / f"{n}.file").read_bytes() for n in range(4)]


# A cluster of two nodes


def test_a_lost_node_costs_only_what_ran_on_it(
    cluster: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every task waits until the second node is gone, with what ran on it."""
    assert all(result.error is None for result in run_tasks(condense_to, sources(tmp_path / "serial")))
    second = add_node(cluster)
    release = tmp_path / "release"
    tasks = sources(tmp_path / "ray", release)

    def lose_a_node() -> None:
        wait_until(lambda: len(begun(tmp_path / "ray")) == 2)  # one task on each node
        cluster.remove_node(second, allow_graceful=False)
        [process] = [process for node, process in begun(tmp_path / "ray") if node == second.node_id]
        wait_until(lambda: not Path(f"/proc/{process}").exists())
        release.touch()

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    results = run_tasks(condense_to, tasks, engine="ray", address=cluster.address)
    thread.join()
    assert [result.error for result in results] == [None] * 4
    assert files(tmp_path / "ray") == files(tmp_path / "serial")
    nodes = [node for node, _ in begun(tmp_path / "ray")]
    assert (nodes.count(second.node_id), len(nodes)) == (1, 5)
    assert sorted(result.attempts for result in results) == [1, 1, 1, 2]
    assert all(node != second.node_id and threads == 1 for _, node, threads in (result.value for result in results))
    assert not ray.is_initialized()
    assert capsys.readouterr().out == ""


def test_many_sources_survive_a_lost_node(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By name, as a file and as Data: completed, listed, and the serial bytes."""
    made = [citation_graph(nodes=120, classes=3, features=40, seed=seed) for seed in range(4)]
    for name, graph in zip(("first", "second"), made, strict=False):
        save_npz(graph, tmp_path / f"{name}.npz")
    monkeypatch.setenv("PLGC_DATA", str(tmp_path))
    graphs = ["first", tmp_path / "second.npz", *made[2:]]
    plgc.condense_sources(graphs, tmp_path / "serial", nodes=6, settings=QUICK, private=False)
    base = tmp_path / "cluster"
    base.mkdir()
    second = add_node(cluster)

    def lose_a_node() -> None:
        wait_until(lambda: len(begun(base)) == 2)
        cluster.remove_node(second, allow_graceful=False)
        [process] = [process for node, process in begun(base) if node == second.node_id]
        wait_until(lambda: not Path(f"/proc/{process}").exists())
        (base / "release").touch()

    thread = threading.Thread(target=lose_a_node)
    thread.start()
    monkeypatch.setattr(folder_module, "condense_source", source_to)
    found = plgc.condense_sources(
        graphs, base / "out", nodes=6, settings=QUICK, private=False, engine="ray", address=cluster.address
    )
    thread.join()
    assert len(begun(base)) == 5
    assert all(source.made for source in found.sources)
    content = {path.name: path.read_bytes() for path in (base / "out").iterdir()}
    assert content == {path.name: path.read_bytes() for path in (tmp_path / "serial").iterdir()}
    assert len(content) == 5


def test_killed_workers_and_mistakes(cluster: Any, tmp_path: Path) -> None:
    names = ["fine", "die once", "die", "bad graph"]
    before = signal.getsignal(signal.SIGTERM)
    results = run_tasks(
        act, [Task(name, (tmp_path, name)) for name in names], engine="ray", address=cluster.address, retries=1
    )
    assert signal.getsignal(signal.SIGTERM) is before
    assert [result.value for result in results] == ["fine", "die once", None, None]
    assert [result.attempts for result in results] == [attempts(tmp_path, name) for name in names] == [1, 2, 2, 1]
    dead, bad = results[2].error, results[3].error
    assert dead is not None
    assert bad is not None
    assert dead.kind == "worker-died"
    assert (bad.kind, bad.message) == ("bad-graph", "edge 3 joins nodes 4 and 5: out of range")


@pytest.mark.skipif(DATA is None, reason="PLGC_DATA is not set: real graphs are not available")
def test_a_graph_in_eight_parts_from_the_cut_to_the_answers(cluster: Any, tmp_path: Path) -> None:
    graph = plgc.load_graph(Path(str(DATA)) / "ogbn_arxiv_structure.npz", features="fastrp:16")
    add_node(cluster)
    made = plgc.condense_parts(
        graph,
        tmp_path / "parts",
        8,
        "metis",
        halo=1,
        nodes=80,
        settings=QUICK,
        memory="1GiB",
        engine="ray",
        address=cluster.address,
    )
    files = made.load()
    assert len(files) == 8
    assert sum(file.source["nodes"] for file in files) == 169_343  # every node is some part's own, once
    assert all(file.source["halo"] > 0 for file in files)
    assert all(file.seen.derived == {"features": "fastrp:16", "seed": 0} for file in files)
    assert made.partition is not None
    assert 0 < made.partition["edges_cut"] < 0.5 * made.partition["edges"]
    model = plgc.finetune(plgc.reconstruct(files), graph, shots=3)
    assert model.evaluate(graph)["accuracy"] > 10  # of 40 classes


@pytest.mark.parametrize("resources", [{"cpus": 64}, {"gpus": 1.0}])
def test_what_no_node_could_ever_run_is_refused(cluster: Any, tmp_path: Path, resources: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=r"no node of the cluster has as many .*1 and 0.*: ask for fewer"):
        run_tasks(act, [Task("fine", (tmp_path, "fine"))], engine="ray", address=cluster.address, **resources)
    assert not ray.is_initialized()


def test_more_memory_than_any_node_has_is_refused(cluster: Any, tmp_path: Path) -> None:
    tasks = [Task("large", (tmp_path, "large"), 1 << 50), Task("small", (tmp_path, "small"), 1 << 20)]
    with pytest.raises(SettingError, match=r"1048576\.00 GiB of memory, .*CPUs, GPUs and memory by node: 1 and 0 and "):
        run_tasks(act, tasks, engine="ray", address=cluster.address)
    assert list(tmp_path.iterdir()) == []
    results = run_tasks(act, tasks[1:], engine="ray", address=cluster.address)
    assert [result.value for result in results] == ["small"]


def test_a_cluster_that_has_lost_its_only_fitting_node_is_not_waited_for(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "PATIENCE", 1.0)
    second = cluster.add_node(num_cpus=2, num_gpus=0, object_store_memory=STORE)
    tasks = sources(tmp_path / "ray", tmp_path / "never")[:2]

    def lose_it() -> None:
        wait_until((tmp_path / "ray" / "0.begun").exists)
        cluster.remove_node(second, allow_graceful=False)

    thread = threading.Thread(target=lose_it)
    thread.start()
    results = run_tasks(condense_to, tasks, engine="ray", address=cluster.address, cpus=2)
    thread.join()
    assert [result.error.kind for result in results if result.error] == ["no-resources"] * 2


DRIVER = """
import sys
from pathlib import Path
import plgc
from plgc.sources import folder
from quick import quick
out, address = sys.argv[1:3]
if __name__ == "__main__":
    plgc.condense_sources(
        sys.argv[3:], out, nodes=6, settings=quick(16, hidden=16, rounds=1, epochs=2), engine="ray", address=address,
        workers=1, private=False,
    )
"""


def test_a_killed_driver_loses_what_was_under_way_alone(cluster: Any, tmp_path: Path) -> None:
    """The same call again keeps what was listed, makes the rest, and leaves nothing else behind."""
    graphs = [
        save_npz(citation_graph(nodes=120, classes=3, features=40, seed=seed), tmp_path / f"g{seed}.npz")
        for seed in range(3)
    ]
    plgc.condense_sources(graphs, tmp_path / "serial", nodes=6, settings=QUICK, private=False)
    script, out = tmp_path / "driver.py", tmp_path / "out"
    script.write_text(DRIVER)
    command = [sys.executable, str(script), str(out), cluster.address, *map(str, graphs)]
    driver = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        wait_until((out / "manifest.json").exists)
    finally:
        driver.kill()
        driver.wait()
    kept = {entry.name for entry in plgc.sources.read_manifest(out).sources}
    found = plgc.condense_sources(
        graphs, out, nodes=6, settings=QUICK, private=False, engine="ray", address=cluster.address
    )
    assert kept
    assert {source.name for source in found.sources if not source.made} == kept
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "serial").iterdir()
    }


PARTS_DRIVER = """
import sys
import plgc
from plgc.runtime import mapped
from quick import quick
mapped.MAPPED_FROM = 0
if __name__ == "__main__":
    plgc.condense_parts(
        sys.argv[1], sys.argv[2], 4, "stream", halo=1, nodes=16, settings=quick(16, hidden=16, rounds=1, epochs=2),
        engine="ray", address=sys.argv[3], workers=1,
    )
"""


@pytest.mark.parametrize("harm", ["worker", "driver"])
def test_parts_on_disk_survive_a_killed_process(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    """A worker is replaced; after the driver the same call goes on with the parts that are cut. The bytes are those
    of one process."""
    graph = citation_graph(nodes=400, classes=3, features=20, seed=1)
    assert graph.x is not None
    graph.x = graph.x.to_dense()
    stored, out, script = (
        save_stored(plgc.load_graph(graph), tmp_path / "big"),
        tmp_path / "out",
        tmp_path / "driver.py",
    )
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    how: dict[str, Any] = {"halo": 1, "nodes": 16, "settings": QUICK}
    plgc.condense_parts(stored, tmp_path / "serial", 4, "stream", **how)
    script.write_text(PARTS_DRIVER)
    command = [sys.executable, str(script), str(stored), str(out), cluster.address]
    driver = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        wait_until((out / "manifest.json").exists)
        if harm == "worker":
            session = processes_named(os.path.basename(cluster.head_node.get_session_dir_path()))
            for process in set(descendants(session)) & set(processes_named("ray::call")):
                os.kill(process, signal.SIGKILL)
            assert driver.wait(timeout=300) == 0
    finally:
        driver.kill()
        driver.wait()
    left = {path.name for path in out.iterdir()}
    found = plgc.condense_parts(stored, out, 4, "stream", engine="ray", address=cluster.address, **how)
    assert any(not source.made for source in found.sources)
    assert {path.name: path.read_bytes() for path in out.iterdir()} == {
        path.name: path.read_bytes() for path in (tmp_path / "serial").iterdir()
    }
    assert any(name.startswith(CUTS) for name in left) == (harm == "driver")


# Without a cluster


def test_without_an_address_one_is_started_and_ended(tmp_path: Path) -> None:
    results = run_tasks(act, [Task(name, (tmp_path, name)) for name in ("one", "two")], engine="ray", workers=1)
    assert [result.value for result in results] == ["one", "two"]
    assert not ray.is_initialized()


def test_a_cluster_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for address in (f"127.0.0.1:{port}", "nonsense"):
        with pytest.raises(SettingError, match=f"cannot join a Ray cluster at {address}: .*ray start --head"):
            run_tasks(act, [Task("fine", (tmp_path, "fine"))], engine="ray", address=address)
