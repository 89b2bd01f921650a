"""Wrong usage and bad input: a message that names the value, the right exit code, and never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import plgc
from plgc.graphs import citation_graph, save_npz
from plgc.runtime.errors import SettingError

NODES, KEPT = 300, 12


def changed(graph: Path, path: Path, **arrays: Any) -> Path:
    """A copy of a graph file with some arrays replaced, or removed where the value is None."""
    with np.load(graph) as archive:
        kept = {key: archive[key] for key in archive.files if key not in arrays}
    np.savez(path, **kept, **{key: value for key, value in arrays.items() if value is not None})
    return path


def dense(graph: Path) -> dict[str, Any]:
    """The features as one dense array, in place of the CSR parts."""
    with np.load(graph) as archive:
        x = np.zeros(archive["x_shape"], dtype=np.float32)
        for row in range(len(x)):
            part = slice(archive["x_indptr"][row], archive["x_indptr"][row + 1])
            x[row, archive["x_indices"][part]] = archive["x_data"][part]
    return {"x": x, **dict.fromkeys(("x_indptr", "x_indices", "x_data", "x_shape"))}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["condense", "GRAPH", "-o", "x"], "--ratio or --nodes"),
        (["condense", "GRAPH", "-o", "x", "--ratio", "0.1", "--nodes", "9"], "not both"),
        (["condense", "GRAPH", "--nodes", "9"], "output"),
        (["condense", "GRAPH", "-o", "x", "--nodes", "many"], "--nodes"),
        (["condense", "GRAPH", "-o", "x", "--nodes", "9", "--preset", "best"], "paper"),
        (["evaluate", "x", "--graph", "GRAPH", "--shots", "3", "--labels", "9"], "not both"),
        (["evaluate", "x"], "graph"),
        (["evaluate", "x", "--graph", "GRAPH", "--seeds", "0"], "seeds"),
        (["train", "x", "--graph", "GRAPH", "-o", "y", "--backbone", "transformer"], "sage"),
        (["unknown"], "unknown"),
        (["data", "unknown"], "unknown"),
    ],
)
def test_wrong_usage(run: Any, arguments: list[str], words: str, graph: Path, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [str(graph) if argument == "GRAPH" else argument for argument in arguments]
    done = run(*arguments)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    as_json = run(*arguments, "--json")
    assert as_json.code == 2
    error = json.loads(as_json.out)["error"]
    assert error["kind"] == "usage"
    assert words in error["message"]
    assert list(tmp_path.iterdir()) == []


def test_without_a_command_help_is_shown(run: Any) -> None:
    done = run()
    assert done.code == 2
    assert "condense" in done.err + done.out


def refused(run: Any, kind: str, words: str, *arguments: object) -> None:
    """The command fails with one message of that kind that has these words, on stderr or as JSON."""
    done = run(*arguments)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert words in done.err
    assert "Traceback" not in done.err
    as_json = run(*arguments, "--json")
    assert (as_json.code, as_json.err) == (1, "")
    assert json.loads(as_json.out) == {"error": {"kind": kind, "message": done.err.removeprefix("error: ").strip()}}


def with_value(row: int, value: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def change(features: dict[str, Any]) -> dict[str, Any]:
        features["x"][row, 5] = value
        return features

    return change


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("1 NaN and 0 infinite", with_value(7, np.nan)),
        ("row 9, column 5", with_value(9, np.inf)),
        ("constant", lambda features: {**features, "x": np.ones((NODES, 4), np.float32)}),
        ("no node features", lambda features: {**features, "x": np.ones((NODES, 0), np.float32)}),
        ("300 nodes (0 to 299)", lambda features: {**features, "edge_index": np.array([[0], [NODES]])}),
        ("negative", lambda features: {**features, "edge_index": np.array([[0], [-1]])}),
        ("no edges", lambda features: {**features, "edge_index": np.zeros((2, 0), np.int64)}),
        (
            "no nodes",
            lambda features: {
                **features,
                "x": np.ones((0, 4), np.float32),
                "edge_index": np.zeros((2, 0), np.int64),
                **dict.fromkeys(("y", "train_mask", "val_mask", "test_mask")),
            },
        ),
    ],
)
def test_bad_graphs_are_refused(
    run: Any, words: str, change: Callable[..., dict[str, Any]], graph: Path, tmp_path: Path
) -> None:
    bad = changed(graph, tmp_path / "bad.npz", **change(dense(graph)))
    refused(run, "bad-graph", words, "condense", bad, "--nodes", KEPT, "-o", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--nodes", NODES + 1], str(NODES)),
        (["--nodes", 1], "1"),
        (["--nodes", -4], "-4"),
        (["--ratio", 0], "0"),
        (["--ratio", 1.5], "1.5"),
        (["--ratio", -0.1], "-0.1"),
        (["--ratio", "nan"], "nan"),
        (["--ratio", 0.001], "0.001"),
        (["--nodes", KEPT, "--device", "abacus"], "abacus"),
    ],
)
def test_bad_settings_are_refused(run: Any, given: list[object], words: str, graph: Path, tmp_path: Path) -> None:
    refused(run, "bad-setting", words, "condense", graph, *given, "-o", tmp_path / "out.safetensors")


def test_a_device_that_is_not_there_is_refused_before_the_work(
    run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path
) -> None:
    for command in (
        ["train", artifact, "--graph", graph, "-o", tmp_path / "m.safetensors"],
        ["evaluate", artifact, "--graph", graph],
        ["inspect", artifact, "--graph", graph, "--theory"],
        ["predict", model, "--graph", graph, "-o", tmp_path / "p.csv"],
        ["report", artifact, "--graph", graph, "-o", tmp_path / "r.html"],
        ["demo", "--graph", graph, "-o", tmp_path / "demo"],
    ):
        refused(run, "bad-setting", "device 'abacus' cannot be used", *command, "--device", "abacus")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    with pytest.raises(SettingError, match="abacus"):  # and not: the file is damaged
        plgc.load_model(model, device="abacus")


def test_bad_places_are_refused_before_the_work(
    run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "file" / "out"):
        refused(run, "bad-setting", str(place.name), "condense", "no-such-graph", "--nodes", 9, "-o", place)
        refused(run, "bad-setting", str(place.name), "train", "no-such-file", "--graph", graph, "-o", place)
        refused(run, "bad-setting", str(place.name), "predict", "no-such-file", "--graph", graph, "-o", place)


def test_unknown_graphs_are_refused(run: Any, artifact: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.safetensors"
    refused(run, "graph-not-found", "Did you mean cora", "condense", "corra", "--nodes", 9, "-o", out)
    refused(run, "graph-not-found", "no such file", "condense", tmp_path / "missing.npz", "--nodes", 9, "-o", out)
    refused(run, "graph-not-found", "Did you mean cora", "evaluate", artifact, "--graph", "corra")
    refused(run, "graph-not-found", "Did you mean cora", "data", "get", "corra")


def test_other_feature_width_is_refused(run: Any, artifact: Path, model: Path, tmp_path: Path) -> None:
    other = save_npz(citation_graph(nodes=NODES, classes=3, features=90), tmp_path / "other.npz")
    for arguments in (
        ["evaluate", artifact, "--graph", other],
        ["train", artifact, "--graph", other, "-o", tmp_path / "m.safetensors"],
        ["predict", model, "--graph", other, "-o", tmp_path / "p.csv"],
    ):
        done = run(*arguments)
        assert done.code == 1
        assert "100" in done.err
        assert "90" in done.err


def test_missing_labels_are_refused(run: Any, graph: Path, unlabelled: Path, artifact: Path, tmp_path: Path) -> None:
    refused(run, "missing-labels", "labels", "evaluate", artifact, "--graph", unlabelled)
    refused(run, "missing-labels", "labels", "train", artifact, "--graph", unlabelled, "-o", tmp_path / "m.safetensors")
    refused(run, "missing-labels", "labels", "demo", "--graph", unlabelled, "-o", tmp_path / "demo")
    refused(run, "missing-labels", "1000", "evaluate", artifact, "--graph", graph, "--shots", 1000)
    refused(run, "missing-labels", "2 label", "evaluate", artifact, "--graph", graph, "--labels", 2)


def test_other_files_are_refused(run: Any, graph: Path, artifact: Path, model: Path, tmp_path: Path) -> None:
    short, foreign = tmp_path / "short.safetensors", tmp_path / "foreign.safetensors"
    short.write_bytes(artifact.read_bytes()[:-100])
    foreign.write_bytes(b"not a condensed graph at all")
    for file, words in ((short, "damaged"), (foreign, "damaged"), (tmp_path, "folder"), (tmp_path / "none", "no file")):
        refused(run, "bad-artifact", words, "inspect", file)
        refused(run, "bad-artifact", words, "evaluate", file, "--graph", graph)
        refused(run, "bad-artifact", words, "predict", file, "--graph", graph, "-o", tmp_path / "p.csv")
    refused(run, "bad-artifact", "plgc-condensed-graph", "inspect", model)
    refused(run, "bad-artifact", "plgc-condensed-graph", "evaluate", artifact, model, "--graph", graph)
    refused(
        run, "bad-artifact", "plgc-condensed-graph", "predict", artifact, "--graph", graph, "-o", tmp_path / "p.csv"
    )
