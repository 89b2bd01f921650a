"""Files with a right checksum and one wrong value, in the commands that take them: a message, exit code 1, at once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from forgeries import read_back
from mutations import split
from plgc.runtime.container import container_bytes


def forge(path: Path, out: Path, change: Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]) -> Path:
    """A copy of a file with another description or other tensors, and the right checksum."""
    content = path.read_bytes()
    header, tensors = json.loads(split(content)[0]["__metadata__"]["plgc"]), read_back(content)
    change(header, tensors)
    out.write_bytes(container_bytes(tensors, {name: value for name, value in header.items() if name != "checksum"}))
    return out


def refused(run: Any, message: str, *commands: list[Any]) -> None:
    for command in commands:
        done = run(*command)
        assert (done.code, done.out) == (1, ""), command
        assert message in " ".join(done.err.split())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, t: h["chosen"].update(branches="gcn"), "chosen.branches is 'gcn': a list is needed"),
        (lambda h, t: h["chosen"].update(branches=[]) or h.update(blocks=[1]), "channel(s) for 1 block(s)"),
        (lambda h, t: h["chosen"]["branches"][0].update(width=3), "its encoders are (3, "),
        (lambda h, t: h["chosen"].update(batch_nodes="64"), "chosen.batch_nodes is '64'"),
        (lambda h, t: h["settings"].update(clip=0.1), "clip and noise go together"),
        (lambda h, t: h["settings"].update(clip=None, noise=None), "settings.clip is None"),
        (lambda h, t: h["settings"].update(min_cluster="5"), "settings.min_cluster is '5'"),
        (lambda h, t: h["curves"].update(explained=[1e308, -1e308]), "curves.explained[0] is 1e+308"),
        (lambda h, t: h.update(seed=2**64), "seed is 18446744073709551616"),
        (lambda h, t: h["seen"].update(edges="train", edge_seed=2**63), "seen.edge_seed is 9223372036854775808"),
        (lambda h, t: h.update(source={"nodes": 0}), "source.nodes is 0"),
        (lambda h, t: h.update(hidden="key"), "'hidden' is unknown"),
        (lambda h, t: h.update(method="\x1b[2Jplgc"), "method is '\\x1b[2Jplgc'"),
        (lambda h, t: t.update(features=t["features"].double()), "features have exponents, but are torch.float64"),
    ],
)
def test_condensed_graphs(run: Any, graph: Path, artifact: Path, tmp_path: Path, change: Any, message: str) -> None:
    path = forge(artifact, tmp_path / "forged.safetensors", change)
    out = tmp_path / "out"
    refused(
        run,
        message,
        ["inspect", path],
        ["evaluate", path, "--graph", graph, "--seeds", 1],
        ["train", path, "--graph", graph, "-o", out],
        ["report", path, "-o", out],
    )
    assert not out.exists()


def labels(header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """One class more than a network could have outputs for."""
    header.update(num_classes=2**31 - 1)


def test_classes_beyond_all_bounds(run: Any, graph: Path, tmp_path: Path) -> None:
    path = tmp_path / "labelled.safetensors"
    assert run("condense", graph, "--nodes", 9, "--method", "coarsening", "-o", path).code == 0
    forge(path, path, labels)
    command = ["evaluate", path, "--graph", graph, "--seeds", 1]
    refused(run, "num_classes is 2147483647", ["inspect", path], command, ["report", path, "-o", tmp_path / "out"])


def overflow(header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors["head.weight"] = torch.full_like(tensors["head.weight"], 3e38)
    tensors["head.weight"][:, 0] = -3e38


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, t: h["head"].update(smoothing_steps=10**12), "head.smoothing_steps is 1000000000000"),
        (lambda h, t: h["head"].update(restart=-3), "head.restart is -3"),
        (lambda h, t: h["head"].update(sigma=7.5), "head.sigma is 7.5"),
        (lambda h, t: h["head"].update(settled={"smoothing": 1}), "settled has one of smoothing and weight_of_edges"),
        (lambda h, t: h["backbone"].update(layers=10**12), "layers"),
        (lambda h, t: h["backbone"].update(kind="sgc", layers=10**12), "at most 1000"),
        (lambda h, t: h.update(outputs={"edges": [], "plain": []}), "it describes no output"),
        (lambda h, t: h.update(seed=-(2**70)), "seed is -1180591620717411303424"),
        (lambda h, t: h.update(names={"classes": ["a"], "features": None, "derived": None}), "1 names for 3 classes"),
        (lambda h, t: t.update({"head.bias": t["head.bias"].double()}), "is torch.float64, not float32"),
        (overflow, "the model's predictions are no numbers"),
    ],
)
def test_models(run: Any, graph: Path, model: Path, tmp_path: Path, change: Any, message: str) -> None:
    path = forge(model, tmp_path / "forged.safetensors", change)
    refused(run, message, ["predict", path, "--graph", graph, "-o", tmp_path / "out.csv"])
    assert not (tmp_path / "out.csv").exists()


@pytest.fixture(scope="module")
def parts(run: Any, graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("parts") / "parts"
    assert run("condense", graph, "--parts", 2, "--nodes", 12, "-o", out).code == 0
    return out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["partition"].update(halo="1"), "partition.halo is '1'"),
        (lambda m: m["partition"].pop("how"), "partition.how is missing"),
        (lambda m: m["partition"].update(alpha=None), "partition.alpha is None"),
        (lambda m: m["partition"].update(edges_cut=10**9), "1000000000 of "),
        (lambda m: m["sources"][0].update(weight=1e308), "sources[0].weight is 1e+308"),
        (lambda m: m["sources"][0].update(name=["a"]), "sources[0].name is ['a']"),
        (lambda m: m["sources"][0].update(settings=3), "sources[0].settings is 3"),
        (lambda m: m["sources"][0].update(place=10**30), "sources[0].place is "),
        (lambda m: m["sources"][0].update(seed=1), "another seed than the manifest lists"),
    ],
)
def test_manifests(run: Any, graph: Path, parts: Path, tmp_path: Path, change: Any, message: str) -> None:
    folder = Path(shutil.copytree(parts, tmp_path / "parts"))
    content = json.loads((folder / "manifest.json").read_text())
    change(content)
    (folder / "manifest.json").write_text(json.dumps(content))
    refused(
        run,
        message,
        ["inspect", folder],
        ["evaluate", folder, "--graph", graph, "--seeds", 1],
        ["report", folder, "-o", tmp_path / "out"],
    )


def test_one_bad_record(run: Any, tmp_path: Path) -> None:
    cell = {"experiment": "table3", "graph": "cora", "method": "plgc", "nodes": 35, "preset": "default", "seed": 0}
    cell |= {"task": "node", "backbone": "gcn", "shots": None, "labels": None, "noise": None, "imbalance": None}
    good = {"cell": {**cell, "inductive": False}, "metrics": {"accuracy": 80.0}, "version": "0.1.0"}
    for change, message in (
        ({"metrics": {"accuracy": "80"}}, "metrics.accuracy is '80'"),
        ({"metrics": None}, "metrics is None"),
        ({"cell": {**good["cell"], "method": "magic"}}, "there is no method 'magic'"),
        ({"machine": 7}, "machine is 7"),
    ):
        lines = [json.dumps(good), json.dumps({**good, "cell": {**good["cell"], "seed": 1}, **change})]
        (tmp_path / "records.jsonl").write_text("\n".join(lines) + "\n")
        table = ["experiment", "table", "table3", "--out", tmp_path]
        refused(run, message, table, [*table, "--format", "csv"], ["report", tmp_path, "-o", tmp_path / "out"])
        refused(run, "line 2 of", table)
    (tmp_path / "records.jsonl").write_text(json.dumps(good) + '\n{"cell": {"exp')  # killed while it wrote
    assert run("experiment", "table", "table3", "--out", tmp_path).code == 0
