"""``plgc update`` and ``plgc forget`` as a user runs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import plgc
from plgc.graphs import citation_graph, save_npz
from plgc.graphs.views.inductive import induced_subgraph


@pytest.fixture(scope="module")
def earlier(folder: Path, run: Any) -> Path:
    """A condensed graph of the first 240 of the 300 nodes."""
    graph = citation_graph(nodes=300, classes=3, features=100)
    path = save_npz(induced_subgraph(graph, torch.arange(300) < 240), folder / "earlier.npz")
    assert run("condense", path, "--nodes", 12, "-o", folder / "earlier.safetensors").code == 0
    return folder / "earlier.safetensors"


@pytest.fixture
def gone(tmp_path: Path) -> Path:
    (tmp_path / "gone.csv").write_text("id\n5\n17\n17\n")
    return tmp_path / "gone.csv"


def test_update_is_the_python_function(run: Any, earlier: Path, graph: Path, tmp_path: Path) -> None:
    output = tmp_path / "new.safetensors"
    result = run("update", earlier, "--graph", graph, "-o", output, "--json").result
    assert (result["nodes_requested"], result["graph"], result["rounds"]) == (15, "small", 1)
    assert 0 < result["kept"] <= 1
    expected = plgc.update(plgc.CondensedGraph.load(earlier), plgc.load_graph(graph))
    assert output.read_bytes() == expected.to_bytes()
    assert list(tmp_path.iterdir()) == [output]


def test_update_from_the_new_part(run: Any, earlier: Path, graph: Path, tmp_path: Path) -> None:
    output = tmp_path / "new.safetensors"
    done = run("update", earlier, "--graph", graph, "--only-new", "--ratio", 0.02, "-o", output)
    assert "all of its 300 nodes count as new" in done.err
    assert "540 nodes" in done.out
    assert "moved" in done.out


def test_forget_is_the_python_function(run: Any, artifact: Path, graph: Path, gone: Path, tmp_path: Path) -> None:
    output = tmp_path / "less.safetensors"
    result = run("forget", artifact, "--graph", graph, "--ids", gone, "-o", output, "--json").result
    assert result["forgotten"] == 2
    condensed = plgc.CondensedGraph.load(output)
    assert condensed.source["nodes"] == 298
    expected = plgc.forget(plgc.CondensedGraph.load(artifact), plgc.load_graph(graph), [5, 17])
    assert output.read_bytes() == expected.to_bytes()


def test_forget_by_the_ids_of_a_table(run: Any, tmp_path: Path) -> None:
    rows = [f"n{node},{'red' if node % 3 else 'blue'},{node % 7}" for node in range(60)]
    rows[9] = "n9,purple,3"
    (tmp_path / "nodes.csv").write_text("\n".join(["id,colour,size", *rows]) + "\n")
    edges = [f"n{node},n{(node * 7 + 1) % 60}" for node in range(60) if (node * 7 + 1) % 60 != node]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    graph = ["--nodes-table", tmp_path / "nodes.csv"]
    file, output, ids = tmp_path / "c.safetensors", tmp_path / "less.safetensors", tmp_path / "ids.csv"
    assert run("condense", tmp_path / "edges.csv", *graph, "--nodes", 6, "-o", file).code == 0
    ids.write_text("n9\n")
    done = run("forget", file, "--graph", tmp_path / "edges.csv", *graph, "--ids", ids, "-o", output)
    assert done.code == 0, done.err
    assert b"purple" in file.read_bytes()
    assert b"purple" not in output.read_bytes()
    assert plgc.CondensedGraph.load(output).source["nodes"] == 59
    ids.write_text("n9\nn99\n")
    done = run("forget", file, "--graph", tmp_path / "edges.csv", *graph, "--ids", ids, "-o", output)
    assert "there is no node 'n99', did you mean 'n9'?" in done.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "holds no nodes: give a node number a line, as in 17"),
        ("id\n", "holds no nodes"),
        ("id\n5\nx\n", "node 2 is 'x', expected a node number"),
        ("400\n", "no node 400: nodes are numbered from 0 to 299"),
        (f"{10**30}\n", "expected a node number"),
    ],
)
def test_wrong_ids(run: Any, artifact: Path, graph: Path, gone: Path, content: str, message: str) -> None:
    gone.write_text(content)
    output = gone.parent / "less.safetensors"
    done = run("forget", artifact, "--graph", graph, "--ids", gone, "-o", output)
    assert done.code == 1
    assert message in done.err
    assert not output.exists()


@pytest.mark.parametrize("written", ["file", "ids"])
def test_an_input_is_not_written_over(run: Any, artifact: Path, graph: Path, gone: Path, written: str) -> None:
    output = {"file": artifact, "ids": gone}[written]
    before = output.read_bytes()
    done = run("forget", artifact, "--graph", graph, "--ids", gone, "-o", output)
    assert done.code == 2
    assert "which this command reads" in done.err
    assert output.read_bytes() == before


def test_refusals(run: Any, earlier: Path, graph: Path, gone: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.safetensors"
    wrong = run("forget", earlier, "--graph", graph, "--ids", gone, "-o", output, "--json")
    assert wrong.code == 1
    assert "its fingerprint is another" in wrong.out
    both = run("update", earlier, "--graph", graph, "--nodes", 5, "--ratio", 0.1, "-o", output)
    assert both.code == 2
    assert run("update", earlier, "--graph", graph, "--nodes", 301, "-o", output).code == 1
    assert not output.exists()
