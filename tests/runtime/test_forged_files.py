"""Forged files, by the declared schemas: every reader takes one as valid or raises our own error, and what it takes can
be written and read again. ``PLGC_FORGED`` sets how many are tried, of all readers together.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plgc
from forgeries import all_finite, forged, forged_file, read_back, tries
from mutations import split
from plgc.artifact.description import Description
from plgc.downstream.backbone import BackboneSettings
from plgc.downstream.model_file import ModelDescription
from plgc.experiments.grid import Cell
from plgc.experiments.records import Record, read_records
from plgc.graphs import citation_graph
from plgc.rivals.methods import condense_with
from plgc.runtime.checkpoint import Checkpoint, CheckpointDescription
from plgc.runtime.errors import PLGCError
from plgc.sources.manifest import ManifestFile, open_sources
from quick import PLAIN, quick

KINDS = ("condensed", "labelled", "node model", "link model", "checkpoint", "manifest", "records")
DECLARED = {"condensed": Description, "labelled": Description, "checkpoint": CheckpointDescription}
CELL = Cell("table3", "cora", "plgc", 35, "default", 0, "node")


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of every kind."""
    import torch

    folder, small = tmp_path_factory.mktemp("valid"), quick(4, hidden=4, rounds=1, epochs=2, plain=PLAIN)
    graph = citation_graph(nodes=60, classes=3, features=12)
    condensed = plgc.condense(graph, nodes=6, settings=small)
    backbone = plgc.reconstruct(condensed, settings=BackboneSettings(hidden=5, steps=2))
    Checkpoint(folder / "kept", "key").save({"x": torch.arange(6.0)}, {"epoch": 3, "curve": [1.0, 0.5]})
    plgc.condense_sources([graph, graph], folder / "sources", names=["a", "b"], nodes=4, settings=small, private=False)
    record = {"cell": vars(CELL), "metrics": {"accuracy": 80.0}, "seconds": 1.0, "machine": "CPU", "version": "0.2.0"}
    (folder / "records.jsonl").write_text(json.dumps(record) + "\n")
    labels = plgc.graphs.training_labels(graph)
    return {
        "condensed": condensed.save(folder / "condensed"),
        "labelled": condense_with("coarsening", graph, nodes=9, labels=labels).save(folder / "labelled"),
        "node model": plgc.finetune(backbone, graph, shots=2).save(folder / "node"),
        "link model": plgc.finetune(backbone, graph, task="link").save(folder / "link"),
        "checkpoint": folder / "kept",
        "manifest": folder / "sources" / "manifest.json",
        "records": folder / "records.jsonl",
    }


def open_again(kind: str, path: Path) -> None:
    """Open a file; what is taken as valid is written, and read as the same."""
    if kind in ("condensed", "labelled"):
        found = plgc.CondensedGraph.load(path)
        assert all_finite(read_back(found.to_bytes()))
        assert plgc.CondensedGraph.load(found.save(path.with_suffix(".again"))).to_bytes() == found.to_bytes()
    elif kind.endswith("model"):
        model = plgc.load_model(path)
        again = model.save(path.with_suffix(".again")).read_bytes()
        assert plgc.load_model(path.with_suffix(".again")).save(path).read_bytes() == again
    elif kind == "checkpoint":
        if Checkpoint(path, "key").load() is None:
            raise PLGCError("it counts as none")
    elif kind == "manifest":
        assert all(source.path.parent == path.parent for source in open_sources([path]))
    else:
        json.dumps(read_records([path]), allow_nan=False)


def forgeries(kind: str, path: Path) -> st.SearchStrategy[bytes]:
    content = path.read_bytes()
    if kind == "manifest":
        return forged(ManifestFile, json.loads(content)).map(lambda found: json.dumps(found).encode())
    if kind == "records":
        return forged(Record, json.loads(content)).map(lambda found: json.dumps(found).encode() + b"\n")
    description = json.loads(split(content)[0]["__metadata__"]["plgc"])
    return forged_file(DECLARED.get(kind, ModelDescription), read_back(content), description)


@pytest.mark.parametrize("kind", KINDS)
def test_forged_files(kind: str, valid: dict[str, Path], tmp_path: Path) -> None:
    source, count = valid[kind], {"valid": 0, "refused": 0}
    folder = Path(shutil.copytree(source.parent, tmp_path / "files"))
    path: Any = folder / source.name
    open_again(kind, path)  # the file itself is sound

    @tries("PLGC_FORGED", 420, shared=len(KINDS))
    @given(content=forgeries(kind, source))
    def attempt(content: bytes) -> None:
        path.write_bytes(content)
        try:
            open_again(kind, path)
            count["valid"] += 1
        except PLGCError:
            count["refused"] += 1

    attempt()
    tried = sum(count.values())
    print(f"\nforged: {kind}: {tried} files, {count['valid']} taken as valid, {count['refused']} refused")
    assert count["valid"]
    assert count["refused"]
