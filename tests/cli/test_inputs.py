"""An output that is also an input is refused before any work, whatever path or link it goes by."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import plgc
from plgc.demo.run import run_demo
from plgc.graphs import citation_graph, save_npz
from plgc.graphs.formats.stored import save_stored


def refused(run: Any, kept: Path, output: Path, *arguments: object) -> None:
    """Wrong usage, with a message that names the output and says what to do; the input keeps its bytes."""
    before, beside = kept.read_bytes(), sorted(kept.parent.iterdir())
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    message = " ".join(done.err.split())
    assert "which this command reads" in message
    assert "Name another place" in message
    as_json = run(*arguments, "--json")
    assert as_json.code == 2
    error = json.loads(as_json.out)["error"]
    assert error["kind"] == "usage"
    assert f"the output {output} is " in error["message"]
    assert kept.read_bytes() == before
    assert sorted(kept.parent.iterdir()) == beside


@pytest.fixture
def own(graph: Path, tmp_path: Path) -> Path:
    """A graph of the test's own, which it could lose."""
    (tmp_path / "own").mkdir()
    return Path(shutil.copy(graph, tmp_path / "own" / "g.npz"))


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """An edge list and its node table."""
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("from,to\n" + "".join(f"a{n},a{(n + 1) % 30}\n" for n in range(30)))
    nodes.write_text("id,size,weight\n" + "".join(f"a{n},{n % 7},{n % 4}\n" for n in range(30)))
    return edges, nodes


def test_condense(run: Any, own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused(run, own, own, "condense", own, "--nodes", 12, "-o", own)
    refused(run, own, own, "condense", own, "--nodes", 12, "-o", own, "--method", "random")
    soft, hard = tmp_path / "soft.npz", tmp_path / "hard.npz"
    soft.symlink_to(own)
    hard.hardlink_to(own)
    for link in (soft, hard):
        refused(run, own, link, "condense", own, "--nodes", 12, "-o", link)
        refused(run, own, own, "condense", link, "--nodes", 12, "-o", own)
    monkeypatch.chdir(own.parent)
    refused(run, own, own, "condense", "g.npz", "--nodes", 12, "-o", own)
    refused(run, own, Path("g.npz"), "condense", "./../own/g.npz", "--nodes", 12, "-o", "g.npz")


def test_condense_tables(run: Any, tables: tuple[Path, Path]) -> None:
    edges, nodes = tables
    for table in tables:
        refused(run, table, table, "condense", edges, "--nodes-table", nodes, "--nodes", 3, "-o", table)


def test_names_of_the_catalogue(run: Any, own: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PLGC_DATA", str(own.parent))
    monkeypatch.chdir(tmp_path)
    refused(run, own, own, "condense", "g", "--nodes", 12, "-o", own)
    refused(run, own, own, "condense", "G", "--nodes", 12, "-o", own)
    (tmp_path / "g").write_text("an earlier file, which the name does not mean")
    assert run("condense", "g", "--nodes", 12, "-o", "g", "--force").code == 0
    # a graph that would be downloaded first
    monkeypatch.setenv("PLGC_DATA", "")
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "cache"))
    done = run("condense", "cora", "--nodes", 12, "-o", tmp_path / "cache" / "cora.npz")
    assert (done.code, (tmp_path / "cache").exists()) == (2, False)


def test_graphs_in_folders(run: Any, own: Path, tmp_path: Path) -> None:
    stored = save_stored(plgc.load_graph(own), tmp_path / "stored")
    for name in ("x_data.npy", "edge_index.npy", "meta.npy"):
        refused(run, stored / name, stored / name, "condense", stored, "--nodes", 12, "-o", stored / name)
    kept = stored / "edge_index.npy"
    refused(run, kept, stored, "condense", stored, "--parts", 2, "--nodes", 12, "-o", stored)
    refused(run, kept, stored, "demo", "--graph", stored, "-o", stored)
    assert run("condense", stored, "--nodes", 12, "-o", stored / "small.safetensors").code == 0  # takes nothing away


def safetensors_graph(path: Path, seed: int) -> Path:
    """A graph as one safetensors file, which a folder of sources could write over."""
    import torch
    from safetensors.torch import save_file

    data = citation_graph(nodes=100, classes=3, features=40, seed=seed)
    assert data.x is not None
    x = data.x.to_dense() if data.x.layout != torch.strided else data.x
    save_file({"edge_index": data.edge_index.contiguous(), "x": x.contiguous()}, path)
    return path


def test_several_sources(run: Any, tmp_path: Path) -> None:
    (tmp_path / "graphs").mkdir()
    one, two = (safetensors_graph(tmp_path / "graphs" / f"{name}.safetensors", 0) for name in ("one", "two"))
    out = one.parent
    refused(run, one, one, "condense", one, two, "--nodes", 5, "-o", out)
    refused(run, two, two, "condense", one, two, "--names", "a,two", "--nodes", 5, "-o", out)
    part = Path(shutil.copy(one, out / "x-part2.safetensors"))
    refused(run, part, part, "condense", part, "--parts", 2, "--names", "x", "--nodes", 6, "-o", out)
    before = one.read_bytes()
    assert run("condense", one, two, "--names", "a,b", "--nodes", 5, "--no-private", "-o", out).code == 0
    again = run("condense", one, "--names", "a", "--nodes", 6, "--no-private", "-o", out)  # made anew
    assert again.code == 0
    assert one.read_bytes() == before


def test_train(run: Any, own: Path, artifact: Path, tables: tuple[Path, Path], tmp_path: Path) -> None:
    mine = Path(shutil.copy(artifact, tmp_path / "own" / "mine.safetensors"))
    for path in (mine, own):
        refused(run, path, path, "train", mine, "--graph", own, "-o", path)
    refused(run, tables[1], tables[1], "train", mine, "--graph", tables[0], "--nodes-table", tables[1], "-o", tables[1])


def test_folders_of_sources(run: Any, own: Path, tmp_path: Path) -> None:
    trio = tmp_path / "trio"
    assert run("condense", own, "--parts", 2, "--nodes", 12, "-o", trio).code == 0
    for name in ("manifest.json", "g-part1.safetensors"):
        for given in (trio, trio / "manifest.json"):
            refused(run, trio / name, trio / name, "train", given, "--graph", own, "-o", trio / name)
            refused(run, trio / name, trio / name, "report", given, "-o", trio / name)
    for _ in range(2):  # beside the sources there is room
        assert run("report", trio, "-o", trio / "report.html").code == 0


def test_predict(run: Any, own: Path, model: Path, tmp_path: Path) -> None:
    mine, pairs = Path(shutil.copy(model, tmp_path / "model.safetensors")), tmp_path / "pairs.csv"
    pairs.write_text("source,target\n1,2\n")
    for path in (mine, own, pairs):
        refused(run, path, path, "predict", mine, "--graph", own, "--pairs", pairs, "-o", path)


def test_report(run: Any, own: Path, artifact: Path, tmp_path: Path) -> None:
    mine, records = Path(shutil.copy(artifact, tmp_path / "mine.safetensors")), tmp_path / "run" / "records.jsonl"
    records.parent.mkdir()
    records.write_text("{}\n")
    for path in (mine, own, records):
        refused(run, path, path, "report", mine, records.parent, "--graph", own, "-o", path)


def test_demo(run: Any, tmp_path: Path) -> None:
    graph = safetensors_graph(tmp_path / "condensed.safetensors", 1)
    refused(run, graph, graph, "demo", "--graph", graph, "-o", tmp_path)


def test_what_the_demo_leaves_is_what_is_checked(tmp_path: Path) -> None:
    from plgc.cli.demo import FILES

    run_demo(citation_graph(nodes=150, classes=3, features=40), tmp_path, seeds=1)
    assert {path.name for path in tmp_path.iterdir()} <= set(FILES)


def test_experiment(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "run").mkdir()
    graph = save_npz(citation_graph(nodes=100, classes=3, features=40), tmp_path / "data" / "cora.npz")
    (tmp_path / "run" / "records.jsonl").hardlink_to(graph)
    monkeypatch.setenv("PLGC_DATA", str(graph.parent))
    given = ["experiment", "run", "table3", "--datasets", "cora", "--seeds", 1, "--out", tmp_path / "run"]
    refused(run, graph, tmp_path / "run" / "records.jsonl", *given)
