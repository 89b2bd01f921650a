"""Nothing that comes from a file is ever run: no pickle, no eval; and no manifest leads out of its folder."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import plgc
from plgc.graphs import citation_graph
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.runtime.errors import ArtifactError
from plgc.sources.names import source_names
from quick import PLAIN

PACKAGE = Path(plgc.__file__).parent
UNSAFE = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "yaml"}
BETWEEN_PROCESSES = {"sources/engine/processes.py"}  # messages of ours to processes of ours, never a file
RESTRICTED = {
    "graphs/planetoid.py"
}  # knows six names of plain types, and refuses every other (tests/cli/test_downloads)
WRITERS = {
    "runtime/provenance.py",  # into /proc
    "experiments/records.py",  # adds lines, and skips those that were cut short
    "graphs/formats/npy.py",  # features, block by block, into a folder that is renamed when it is whole
    "graphs/views/parts_on_disk.py",  # parts of a graph, likewise
    "runtime/scratch.py",  # files without a name, gone with their last use
    *(f"graphs/store/{name}.py" for name in ("edges", "nodes", "numbering", "runs", "spill")),  # likewise
}
QUICK = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=4, width=4),),
    pseudo_labels=PseudoLabelSettings(rounds=1, round_epochs=2),
)


@cache
def nodes() -> list[tuple[str, ast.AST]]:
    """Every import and call in the package, with the module it is in."""
    return [
        (path.relative_to(PACKAGE).as_posix(), node)
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Call)
    ]


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    """Every call: the module, what is called as it is written, the call."""
    for module, node in nodes():
        if isinstance(node, ast.Call):
            yield module, ast.unparse(node.func), node


def test_pickle_is_used_between_our_own_processes_alone() -> None:
    found = set()
    for module, node in nodes():
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        found |= {module for name in names if name.split(".")[0] in UNSAFE}
    assert found == BETWEEN_PROCESSES | RESTRICTED
    opened = {(module, name) for module, name, _ in calls() if name in ("pickle.load", "pickle.loads")}
    assert {module for module, _ in opened} <= BETWEEN_PROCESSES


def test_no_file_is_opened_by_a_way_that_could_run_it() -> None:
    loads = 0
    for module, name, call in calls():
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        where = f"{module}, line {call.lineno}: {name}"
        assert options.get("allow_pickle") != "True", where
        assert name not in ("eval", "exec", "os.system"), where
        if name.endswith("torch.load"):
            assert options.get("weights_only") == "True", where
        if name in ("np.load", "numpy.load", "npy.read_array"):
            loads += 1
            assert options.get("allow_pickle") == "False", where
    assert loads >= 3  # the search does find them


def test_every_file_is_written_through_the_one_function_that_does_it_whole() -> None:
    found: set[str] = set()
    for module, name, call in calls():
        mode = [ast.unparse(part) for part in [*call.args[1:2], *(k.value for k in call.keywords if k.arg == "mode")]]
        opened = name.rpartition(".")[2] in ("open", "fdopen") and any(set("wax+") & set(part) for part in mode)
        if opened or name.rpartition(".")[2] in ("write_text", "write_bytes", "tofile", "save_file", "mkstemp"):
            found.add(module)
        if name in ("os.open",) and "O_CREAT" in ast.unparse(call):
            found.add(module)
    assert found == WRITERS | {"runtime/files.py"}


# Manifests


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source, and a file of the same content beside the folder."""
    place = tmp_path_factory.mktemp("place")
    graph = citation_graph(nodes=40, classes=2, features=8)
    plgc.condense_sources(graph, place / "out", names=["a"], nodes=3, settings=QUICK, private=False)
    shutil.copy(place / "out" / "a.safetensors", place / "outside.safetensors")
    return place


@pytest.mark.parametrize(
    "file",
    [
        "../outside.safetensors",
        "./a.safetensors",
        "a/../../outside.safetensors",
        "{place}/outside.safetensors",
        "..\\outside.safetensors",
        "C:outside.safetensors",
        "//host/outside.safetensors",
        "~/outside.safetensors",
        ".safetensors",
        "link.safetensors",
        "deep.safetensors",
        "a.safetensors\0",
        "a.safetensors/",
        "x" * 5000 + ".safetensors",
        "\ud800.safetensors",
        "loop.safetensors",
        "folder.safetensors",
    ],
    ids=lambda file: ascii(file[:24]),
)
def test_a_manifest_cannot_lead_out_of_its_folder(sources: Path, tmp_path: Path, file: str) -> None:
    """The content fits the checksum in every case: only the place is wrong."""
    folder = tmp_path / "out"
    shutil.copytree(sources / "out", folder)
    (folder / "link.safetensors").symlink_to(sources / "outside.safetensors")
    (folder / "deep.safetensors").symlink_to(os.path.join("..", "..", sources.name, "outside.safetensors"))
    (folder / "loop.safetensors").symlink_to(folder / "loop.safetensors")
    (folder / "folder.safetensors").mkdir()
    content = json.loads((folder / "manifest.json").read_text())
    content["sources"][0]["file"] = file.format(place=sources)
    (folder / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(ArtifactError):
        plgc.load_sources(folder)


def test_names_of_sources_cannot_lead_out_of_the_folder_either() -> None:
    for name in ("../a", "/a", "a/b", "..", ".", "a\\b", "", "a\0"):
        with pytest.raises(plgc.PLGCError):
            source_names(["demo"], [name])
