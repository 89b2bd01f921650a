"""Forged files in every command that takes one: each ends in a result or in one of our messages, in bounded time, and
nothing that was forged steers a terminal. ``PLGC_COMMANDS`` sets how many files each command is given.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from forgeries import forged, forged_file, read_back, tries
from mutations import split
from plgc.artifact.description import Description
from plgc.downstream.model_file import ModelDescription
from plgc.experiments.records import Record
from plgc.graphs import citation_graph, save_npz
from plgc.runtime.text import UNPRINTABLE
from plgc.sources.manifest import ManifestFile

SECONDS = 60.0  # of computing that one command may take
TAKEN = {  # by the command: what is forged, and how it is given
    "inspect": ("condensed", ["inspect", "{file}"]),
    "inspect --theory": ("condensed", ["inspect", "{file}", "--graph", "{graph}", "--theory"]),
    "inspect, labels": ("labelled", ["inspect", "{file}"]),
    "audit": ("condensed", ["audit", "{file}", "--graph", "{graph}", "--seeds", "1", "--shadows", "0"]),
    "evaluate": ("condensed", ["evaluate", "{file}", "--graph", "{graph}", "--seeds", "1", "--shots", "2"]),
    "evaluate, links": ("edges", ["evaluate", "{file}", "--graph", "{graph}", "--seeds", "1", "--task", "link"]),
    "evaluate, labels": ("labelled", ["evaluate", "{file}", "--graph", "{graph}", "--seeds", "1"]),
    "train": ("condensed", ["train", "{file}", "--graph", "{graph}", "--shots", "2", "-o", "{out}"]),
    "train, links": ("edges", ["train", "{file}", "--graph", "{graph}", "--task", "link", "-o", "{out}"]),
    "report": ("condensed", ["report", "{file}", "--graph", "{graph}", "--seeds", "1", "-o", "{out}"]),
    "report, labels": ("labelled", ["report", "{file}", "-o", "{out}"]),
    "predict": ("model", ["predict", "{file}", "--graph", "{graph}", "-o", "{out}"]),
    "predict, links": ("links", ["predict", "{file}", "--graph", "{graph}", "--pairs", "{pairs}", "-o", "{out}"]),
    "export": ("model", ["export", "{file}", "--to", "torch-export", "-o", "{out}"]),
    "export, PyG": ("condensed", ["export", "{file}", "--to", "pyg", "-o", "{out}"]),
    "update": ("condensed", ["update", "{file}", "--graph", "{graph}", "-o", "{out}"]),
    "update, new part": ("condensed", ["update", "{file}", "--graph", "{graph}", "--only-new", "-o", "{out}"]),
    "forget": (
        "condensed",
        ["forget", "{file}", "--graph", "{graph}", "--ids", "{pairs}", "--unchecked", "-o", "{out}"],
    ),
    "merge": ("condensed", ["merge", "{file}", "--nodes", "3", "-o", "{out}"]),
    "merge a folder": ("manifest", ["merge", "{folder}", "-o", "{out}"]),
    "inspect a folder": ("manifest", ["inspect", "{folder}"]),
    "evaluate a folder": ("manifest", ["evaluate", "{folder}", "--graph", "{graph}", "--seeds", "1", "--labels", "6"]),
    "report on a folder": ("manifest", ["report", "{folder}", "-o", "{out}"]),
    "condense into a folder": ("manifest", ["condense", "{graph}", "--parts", "2", "--nodes", "8", "-o", "{folder}"]),
    "table": ("records", ["experiment", "table", "table3", "--out", "{folder}"]),
    "table, CSV": ("records", ["experiment", "table", "table3", "--out", "{folder}", "--format", "csv"]),
    "report on a run": ("records", ["report", "{folder}", "-o", "{out}"]),
}


@pytest.fixture(scope="module")
def made(run: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A graph of 50 nodes, and what the commands make of it."""
    place = tmp_path_factory.mktemp("made")
    graph = save_npz(citation_graph(nodes=50, classes=3, features=12), place / "graph.npz")
    small, pairs = place / "small.safetensors", place / "pairs.csv"
    pairs.write_text("source,target\n0,1\n2,3\n")
    for command in (
        ["condense", graph, "--nodes", 6, "-o", small],
        ["condense", graph, "--nodes", 6, "--edges", "train", "-o", place / "edges.safetensors"],
        ["condense", graph, "--nodes", 6, "--method", "coarsening", "-o", place / "labelled.safetensors"],
        ["train", small, "--graph", graph, "--shots", 2, "-o", place / "model.safetensors"],
        ["train", small, "--graph", graph, "--task", "link", "-o", place / "links.safetensors"],
        ["condense", graph, "--parts", 2, "--nodes", 8, "-o", place / "parts"],
    ):
        assert run(*command).code == 0
    cell = {"experiment": "table3", "graph": "cora", "method": "plgc", "nodes": 35, "preset": "default", "seed": 0}
    cell |= {"task": "node", "backbone": "gcn", "shots": None, "labels": None, "noise": None, "imbalance": None}
    record = {"cell": {**cell, "inductive": False}, "metrics": {"accuracy": 80.0}, "machine": "CPU", "commit": "abc"}
    (place / "run").mkdir()
    (place / "run" / "records.jsonl").write_text(json.dumps(record) + "\n")
    return {
        "graph": graph,
        "pairs": pairs,
        "condensed": small,
        "edges": place / "edges.safetensors",
        "labelled": place / "labelled.safetensors",
        "model": place / "model.safetensors",
        "links": place / "links.safetensors",
        "manifest": place / "parts" / "manifest.json",
        "records": place / "run" / "records.jsonl",
    }


def forgeries(kind: str, path: Path) -> Any:
    content = path.read_bytes()
    if kind in ("manifest", "records"):
        declared = ManifestFile if kind == "manifest" else Record
        return forged(declared, json.loads(content)).map(lambda found: json.dumps(found).encode() + b"\n")
    description = json.loads(split(content)[0]["__metadata__"]["plgc"])
    return forged_file(ModelDescription if kind in ("model", "links") else Description, read_back(content), description)


class Forged(bytes):
    """The content of a file, which a message about it leaves out."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes>"


@pytest.mark.parametrize("name", TAKEN)
def test_forged_files_in_commands(name: str, made: dict[str, Path], run: Callable[..., Any], tmp_path: Path) -> None:
    kind, given_as = TAKEN[name]
    source, place = made[kind], tmp_path / "place"
    place.mkdir()
    for beside in source.parent.iterdir():
        if beside.is_file() and kind in ("manifest", "records"):
            (place / beside.name).write_bytes(beside.read_bytes())
    names = {"file": place / source.name, "folder": place, "graph": made["graph"], "pairs": made["pairs"]}
    arguments = [word.format(**names, out=tmp_path / "out") for word in given_as]
    codes = {0: 0, 1: 0, 2: 0}

    @tries("PLGC_COMMANDS", 6)
    @given(content=forgeries(kind, source).map(Forged))
    def attempt(content: Forged) -> None:
        (place / source.name).write_bytes(content)
        start = time.process_time()
        done = run(*arguments)
        assert time.process_time() - start < SECONDS
        codes[done.code] += 1
        shown = done.out + done.err
        if (tmp_path / "out").exists() and given_as[0] in ("report", "predict"):
            shown += (tmp_path / "out").read_text()
        assert not UNPRINTABLE.search(shown.replace("\n", ""))
        assert "nan" not in done.out.split()

    attempt()
    print(f"\ncommands: {name}: {sum(codes.values())} files, {codes[0]} worked, {codes[1] + codes[2]} refused")
