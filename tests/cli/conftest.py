"""A small graph, the files the commands make of it, and ``run``: one command as a user gives it."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from plgc.cli import main
from plgc.graphs import citation_graph, save_npz


@dataclass
class Run:
    """What one command left behind."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The one JSON object of a command that went well."""
        assert self.code == 0, self.err or self.out
        assert self.out.count("\n") == 1
        return json.loads(self.out)


def _run(*arguments: object) -> Run:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Run(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session", autouse=True)
def _commands_built_once() -> Iterator[None]:
    """Every call of the command line builds its commands from the signatures: half of the time that a refusal takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def run() -> Callable[..., Run]:
    return _run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cli")


@pytest.fixture(scope="session")
def graph(folder: Path) -> Path:
    """300 nodes, 3 classes, 100 sparse features, a split."""
    return save_npz(citation_graph(nodes=300, classes=3, features=100), folder / "small.npz")


@pytest.fixture(scope="session")
def unlabelled(folder: Path, graph: Path) -> Path:
    """The same graph without labels and masks."""
    with np.load(graph) as archive:
        kept = {key: archive[key] for key in archive.files if key != "y" and not key.endswith("_mask")}
    np.savez(folder / "unlabelled.npz", **kept)
    return folder / "unlabelled.npz"


@pytest.fixture(scope="session")
def condense_run(folder: Path, graph: Path) -> Run:
    """The graph condensed to 12 nodes with seed 3."""
    return _run("condense", graph, "--nodes", 12, "--seed", 3, "-o", folder / "small.safetensors", "--json")


@pytest.fixture(scope="session")
def artifact(condense_run: Run) -> Path:
    return Path(condense_run.result["artifact"])


@pytest.fixture(scope="session")
def train_run(folder: Path, graph: Path, artifact: Path) -> Run:
    """A model with 5 labels per class."""
    return _run("train", artifact, "--graph", graph, "--shots", 5, "-o", folder / "model.safetensors", "--json")


@pytest.fixture(scope="session")
def model(train_run: Run) -> Path:
    return Path(train_run.result["model"])
