"""Features that stay in their file: the same products as in memory, and hardly any memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from plgc.graphs import load_graph, save_stored
from plgc.runtime import mapped
from plgc.sparse import inputs
from plgc.sparse.features import StoredFeatures, mean_rows, times
from plgc.sparse.inputs import fingerprint, prepare, resolve_scaling

NODES, WIDTH = 500, 40

MEASURED = """
import sys
import torch
from plgc.graphs import load_graph
from plgc.graphs.check import check_condensable
from plgc.sparse.inputs import fingerprint, prepare, resolve_scaling
from plgc.sparse.features import mean_rows
from plgc.runtime.provenance import peak_memory, reset_peak_memory
from plgc.sparse.features import times

torch.set_num_threads(1)
weight = torch.rand(1000, 4, requires_grad=True)
(torch.rand(300, 1000) @ weight).sum().backward()
reset_peak_memory()
before = peak_memory()
graph = load_graph(load_graph(sys.argv[1]))
check_condensable(graph)
fingerprint(graph)
ready = prepare(graph, resolve_scaling(graph.x, "auto"), reorder=True, keep_stored=True)
assert ready.order is not None
ready.x.rows(torch.arange(0, 64_000, 16))
times(ready.x, weight).sum().backward()
mean_rows(ready.x, torch.rand(64_000, 3))
print(peak_memory() - before)
"""


@pytest.fixture
def graph() -> Data:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(NODES, WIDTH, generator=generator)
    x[7] = 0
    return load_graph(Data(x=x, edge_index=torch.randint(NODES, (2, 2000), generator=generator), num_nodes=NODES))


@pytest.fixture
def stored(graph: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Data:
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    return load_graph(save_stored(graph, tmp_path / "g"))


def in_blocks(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(mapped, "BLOCK", rows * WIDTH * 4)
    monkeypatch.setattr(mapped, "ROWS", 13)


@pytest.mark.parametrize("scaling", ["none", "l1", "l2"])
@pytest.mark.parametrize("reorder", [False, True])
def test_products_are_those_of_features_in_memory(
    graph: Data, stored: Data, scaling: str, reorder: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "REORDERED_FROM", 0)
    plain = prepare(graph, scaling, reorder=reorder)
    weight = torch.rand(WIDTH, 5, requires_grad=True)
    weights, grad = torch.rand(NODES, 3), torch.rand(NODES, 5)
    times(plain.x, weight).backward(grad)
    assert weight.grad is not None
    expected = [times(plain.x, weight).detach(), weight.grad.clone(), mean_rows(plain.x, weights)]
    for rows in (NODES, 64):
        in_blocks(monkeypatch, rows)
        ready = prepare(stored, scaling, reorder=reorder, keep_stored=True)
        assert isinstance(ready.x, StoredFeatures)
        assert ready.x.shape == (NODES, WIDTH)
        assert torch.equal(ready.x.to_dense(), plain.x)
        weight.grad = None
        times(ready.x, weight).backward(grad)
        found = [times(ready.x, weight).detach(), weight.grad, mean_rows(ready.x, weights)]
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other)
            assert rows < NODES or torch.equal(one, other)


@pytest.mark.parametrize("reorder", [False, True])
def test_some_rows_are_taken_scaled_and_in_order(stored: Data, reorder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks(monkeypatch, 64)
    monkeypatch.setattr(inputs, "REORDERED_FROM", 0)
    x = prepare(stored, "l2", reorder=reorder, keep_stored=True).x
    assert isinstance(x, StoredFeatures)
    index = torch.randperm(NODES)[:50]
    assert torch.equal(x.rows(index), x.to_dense()[index])


def test_who_does_not_ask_for_stored_features_gets_one_dense_copy(graph: Data, stored: Data) -> None:
    x = prepare(stored, "l1").x
    assert isinstance(x, torch.Tensor)
    assert not mapped.is_mapped(x)
    assert torch.equal(x, prepare(graph, "l1").x)


def test_float16_in_memory_is_not_made_float32(graph: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MAPPED_FROM", 0)
    assert graph.x is not None
    half = load_graph(Data(x=graph.x.half(), edge_index=graph.edge_index))
    assert half.x.dtype == torch.float16
    x = prepare(half, "l1", keep_stored=True).x
    assert isinstance(x, StoredFeatures)
    torch.testing.assert_close(x.to_dense(), prepare(graph, "l1").x, atol=1e-4, rtol=2e-3)
    assert torch.equal(x.to_dense(), prepare(half, "l1").x)


def test_scaling_and_fingerprint_do_not_depend_on_blocks(graph: Data, stored: Data, monkeypatch) -> None:
    in_blocks(monkeypatch, 64)
    assert fingerprint(stored) == fingerprint(graph)
    assert resolve_scaling(stored.x, "auto") == "l1"
    changed = graph.x.clone()
    changed[-1, -1] = -1
    assert resolve_scaling(changed, "auto") == "none"
    assert fingerprint(Data(x=changed, edge_index=graph.edge_index)) != fingerprint(graph)


def test_a_tensor_is_mapped_for_as_long_as_something_looks_at_it(tmp_path: Path) -> None:
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    values.tofile(tmp_path / "values")
    tensor = mapped.map_array(tmp_path / "values", values.dtype, (18, 3), 24)
    part = tensor[5:]
    assert mapped.is_mapped(tensor)
    assert mapped.is_mapped(part)
    assert not mapped.is_mapped(tensor.clone())
    mapped.release(tensor)
    assert torch.equal(part, torch.from_numpy(values[7:]))
    del tensor, part
    assert len(mapped._mappings) == 0


def test_preparing_a_large_stored_graph_takes_a_fraction_of_its_size(tmp_path: Path) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of a process is read from /proc")
    nodes, block = 64_000, np.random.default_rng(0).random((1_000, 1_000), dtype=np.float32)
    folder = tmp_path / "large"
    folder.mkdir()
    with open(folder / "x.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (nodes, 1_000)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(nodes // 1_000):
            file.write(block.data)
    node = np.arange(nodes)
    ring = np.stack([np.repeat(node, 2), np.sort(np.stack([(node - 1) % nodes, (node + 1) % nodes], 1)).ravel()])
    np.save(folder / "edge_index.npy", ring.astype(np.int32))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(folder)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 0.6 * 256e6, f"{int(done.stdout):,} bytes"
