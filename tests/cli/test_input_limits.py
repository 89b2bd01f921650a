"""Sizes that a file only claims, labels far off, pipes, mute servers: one message, soon, and in little memory."""

from __future__ import annotations

import io
import os
import resource
import socket
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

NODES = 300
MEMORY = 4 << 30  # bytes of address space: Python with torch takes less than a third
SECONDS = 60


def arrays(**changes: Any) -> dict[str, Any]:
    ring = np.arange(NODES)
    x = np.random.default_rng(0).random((NODES, 8), dtype=np.float32)
    content = {"edge_index": np.stack([ring, (ring + 1) % NODES]), "x": x, "y": ring % 3} | changes
    return {key: value for key, value in content.items() if value is not None}


def sparse(columns: Any) -> dict[str, Any]:
    return {
        "x": None,
        "x_indptr": np.arange(NODES + 1),
        "x_indices": np.arange(NODES) % 8,
        "x_data": np.ones(NODES, np.float32),
        "x_shape": np.array([NODES, columns], dtype=np.uint64),
    }


def claimed(path: Path, key: str, descr: str, shape: tuple[int, ...], **changes: Any) -> Path:
    """An archive in which one array is a header without the values that it claims."""
    np.savez_compressed(path, **arrays(**changes))
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": descr, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{key}.npy", header.getvalue())
    return path


def limited(*arguments: object) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own that may take little memory and time."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    return subprocess.run(
        [sys.executable, "-m", "plgc", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        preexec_fn=limit,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_an_array_larger_than_its_file(tmp_path: Path) -> None:
    """Texts without letters take no bytes in a file, and fifty each in memory."""
    graph = claimed(tmp_path / "g.npz", "node_ids", "<U0", (100_000_000,))
    assert graph.stat().st_size < 12_000
    done = limited("condense", graph, "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert (done.returncode, done.stdout) == (1, "")
    assert "node_ids.npy is cut short: [100000000] values of <U0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("key", "descr", "shape"),
    [("train_mask", "|b1", (10**9,)), ("meta", "<U1", (10**9,)), ("num_nodes", "<i8", (10**10,))],
)
def test_any_array_is_measured_first(run: Any, tmp_path: Path, key: str, descr: str, shape: tuple[int, ...]) -> None:
    graph = claimed(tmp_path / "g.npz", key, descr, shape)
    done = run("condense", graph, "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert (done.code, f"{key}.npy is cut short" in done.err) == (1, True)


@pytest.mark.parametrize("label", [1_000_000, 2 * 10**9, 2**62])
def test_a_label_far_off(run: Any, tmp_path: Path, artifact: Path, label: int) -> None:
    y = np.arange(NODES) % 3
    y[5] = label
    np.savez(tmp_path / "g.npz", **arrays(y=y))
    for command in (
        ["condense", tmp_path / "g.npz", "--nodes", 4, "-o", tmp_path / "c.safetensors"],
        ["evaluate", artifact, "--graph", tmp_path / "g.npz"],
    ):
        done = run(*command)
        assert (done.code, done.out) == (1, "")
        assert f"y[5] is {label}: classes are numbered from 0" in done.err


@pytest.mark.parametrize("columns", [10**9, 2**62, 2**63])
def test_columns_that_hold_nothing(run: Any, tmp_path: Path, columns: int) -> None:
    np.savez(tmp_path / "g.npz", **arrays(**sparse(columns)))
    done = run("condense", tmp_path / "g.npz", "--nodes", 4, "-o", tmp_path / "c.safetensors")
    assert (done.code, done.out) == (1, "")
    assert f"x_shape claims {columns:,} columns for 300 values" in done.err


@pytest.mark.parametrize(
    "content",
    [
        {"edge_index": np.array([[0], [2 * 10**9]])},
        {"edge_index": np.array([[0], [1]]), "num_nodes": np.array(2 * 10**9)},
        {"edge_index": np.array([[0], [1]]), "x": np.zeros((2 * 10**9, 0), np.float32)},
    ],
    ids=["edge", "count", "rows"],
)
def test_nodes_that_are_only_counted(run: Any, tmp_path: Path, content: dict[str, Any]) -> None:
    np.savez(tmp_path / "g.npz", **content)
    options = ["--features", "fastrp:8", "--nodes", 4, "-o", tmp_path / "c.safetensors"]
    done = run("condense", tmp_path / "g.npz", *options)
    assert (done.code, done.out) == (1, "")
    assert "2,000,000,00" in done.err
    assert "of which only 1 edge(s) tell" in done.err


def test_a_pipe_as_input(graph: Path, artifact: Path, model: Path, tmp_path: Path) -> None:
    """Nothing ever comes out of these pipes."""
    pipes = [tmp_path / name for name in ("g.npz", "e.csv", "e.parquet", "g.graphml", "g.safetensors", "plain")]
    for pipe in pipes:
        os.mkfifo(pipe)
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    edges = tmp_path / "edges.csv"
    script = "import sys, plgc.cli as c; [print(c.main(a.split('|')), flush=True) for a in sys.argv[1:]]"
    commands = [f"condense|{pipe}|--nodes|4|-o|{tmp_path / 'c'}" for pipe in pipes]
    commands += [f"condense|{edges}|--nodes-table|{pipes[1]}|--nodes|4|-o|{tmp_path / 'c'}"]
    commands += [f"inspect|{pipes[0]}", f"evaluate|{pipes[0]}|--graph|{graph}"]
    done = subprocess.run(
        [sys.executable, "-c", script, *commands], capture_output=True, text=True, timeout=SECONDS, check=True
    )
    assert done.stdout.split() == ["1"] * len(commands)
    assert done.stderr.count("a pipe or a device") == len(commands) - 2
    assert "Traceback" not in done.stderr


def test_pairs_from_a_pipe(tmp_path: Path) -> None:
    from plgc.cli.node_lists import read_nodes
    from plgc.runtime.errors import SettingError

    os.mkfifo(tmp_path / "pairs")
    with pytest.raises(SettingError, match=r"pairs cannot be read as a CSV file of pairs .*plain file"):
        read_nodes(tmp_path / "pairs", None, 2)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
@pytest.mark.parametrize("answer", [None, b"SSH-2.0-OpenSSH_9.6\r\n"], ids=["mute", "other"])
def test_an_address_that_is_no_cluster(
    run: Any, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, answer: bytes | None
) -> None:
    pytest.importorskip("ray")
    monkeypatch.setattr("plgc.sources.engine.cluster.CONNECT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = form.format(port=server.getsockname()[1])
        if answer is not None:
            monkeypatch.setattr(socket.socket, "recv", lambda *_: answer[:9])
        options = ["--nodes", 12, "--parts", 2, "--engine", "ray", "--address", address, "-o", tmp_path / "out"]
        done = run("condense", graph, *options)
    words = "does not answer within 1 seconds" if answer is None else "what listens there is no Ray cluster"
    assert (done.code, words in done.err, address in done.err) == (1, True, True)
