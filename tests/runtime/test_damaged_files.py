"""Damaged and forged files load as something valid or raise our own error, in little memory and time.

``PLGC_FUZZ`` sets how many mutations are tried, of all kinds together; the usual run takes a few hundred.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import plgc
from mutations import HUGE, change_header, change_json, damage, forge, odd_value, split
from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.backbone import BackboneSettings
from plgc.graphs import check_structure, citation_graph, load_graph, save_npz
from plgc.method.settings import Branch, CondenseSettings, PseudoLabelSettings
from plgc.rivals.methods import condense_with
from plgc.runtime.checkpoint import Checkpoint
from plgc.runtime.container import container_bytes
from plgc.runtime.errors import ArtifactError, GraphError, PLGCError
from plgc.sources.manifest import open_sources
from quick import PLAIN

resource = pytest.importorskip("resource")
COUNT = int(os.environ.get("PLGC_FUZZ", "700"))
KINDS = ("condensed", "labelled", "node model", "link model", "checkpoint", "manifest", "npz")
SECONDS = 10.0  # of computing that one file may take
MEMORY = 600 * 2**20  # that all of them together may add to what the process needs
QUICK = CondenseSettings(
    plain=PLAIN,
    encoders=(Branch(hidden=4, width=4),),
    pseudo_labels=PseudoLabelSettings(rounds=1, round_epochs=2),
)


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One file of every kind."""
    folder = tmp_path_factory.mktemp("valid")
    graph = citation_graph(nodes=60, classes=3, features=12)
    condensed = plgc.condense(graph, nodes=6, settings=QUICK)
    backbone = plgc.reconstruct(condensed, settings=BackboneSettings(hidden=5, steps=2))
    keep = Checkpoint(folder / "run.checkpoint", "key")
    keep.save({"x": torch.arange(6.0), "state": torch.Generator().get_state()[:40]}, {"epoch": 3, "curve": [1.0, 0.5]})
    plgc.condense_sources([graph, graph], folder / "sources", names=["a", "b"], nodes=4, settings=QUICK, private=False)
    labels = plgc.graphs.training_labels(graph)
    return {
        "condensed": condensed.save(folder / "condensed.safetensors"),
        "labelled": condense_with("coarsening", graph, nodes=9, labels=labels).save(folder / "labelled.safetensors"),
        "node model": plgc.finetune(backbone, graph, shots=2).save(folder / "node.safetensors"),
        "link model": plgc.finetune(backbone, graph, task="link").save(folder / "link.safetensors"),
        "checkpoint": folder / "run.checkpoint",
        "manifest": folder / "sources" / "manifest.json",
        "npz": save_npz(graph, folder / "graph.npz"),
    }


@pytest.fixture(autouse=True)
def _bounded() -> Iterator[None]:
    """No test of this file may need much more memory than the process had before; where it does, it fails at once."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    resource.setrlimit(resource.RLIMIT_AS, (1024 * int(status["VmSize"].split()[0]) + 2 * 2**30, before[1]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) < MEMORY


# Opening


def open_condensed(path: Path) -> None:
    found = CondensedGraph.load(path)
    assert torch.isfinite(found.features).all()
    assert CondensedGraph.load(found.save(path.with_suffix(".again"))).to_bytes() == found.to_bytes()


def open_model(path: Path) -> None:
    backbone = plgc.load_model(path).backbone
    assert all(torch.isfinite(parameter).all() for parameter in backbone.parameters())


def open_checkpoint(path: Path) -> None:
    found = Checkpoint(path, "key").load()
    if found is None:
        raise ArtifactError("it counts as none")
    assert isinstance(found[1], dict)


def open_folder(path: Path) -> None:
    for source in open_sources([path.parent]):
        assert source.path.resolve().parent == path.parent.resolve()


def open_npz(path: Path) -> None:
    check_structure(load_graph(path))


OPEN: dict[str, Callable[[Path], None]] = {
    "condensed": open_condensed,
    "labelled": open_condensed,
    "node model": open_model,
    "link model": open_model,
    "checkpoint": open_checkpoint,
    "manifest": open_folder,
    "npz": open_npz,
}


# Damaging


def sealed_mutation(content: bytes, draw: random.Random) -> bytes:
    kind = draw.randrange(3)
    if kind == 0:
        return damage(content, draw)
    if kind == 1:
        return change_header(content, draw)
    header, _ = split(content)
    from safetensors.torch import load

    return forge(load(content), json.loads(header["__metadata__"]["plgc"]), draw)


def manifest_mutation(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.4:
        return damage(content, draw)
    value = json.loads(content)
    for _ in range(draw.randint(1, 3)):
        value = change_json(value, draw)
    return json.dumps(value).encode()


def odd_array(draw: random.Random) -> np.ndarray:
    """An array of a type, shape or content that has no business in a graph."""
    shape = draw.choice(((), (0,), (3,), (60,), (2, 0), (2, 5), (60, 12), (2, 3, 4), (1, 60)))
    size = int(np.prod(shape))
    kind = draw.choice(
        ("i1", "i8", "u8", "f2", "f4", "f8", ">i4", ">f8", "c8", "?", "U3", "S4", "M8[s]", "i4,f8", "V3")
    )
    values = np.frombuffer(draw.randbytes(size * np.dtype(kind).itemsize), dtype=np.uint8)
    if kind == "U3":
        return np.full(shape, "abc")
    if kind == "i4,f8":
        return np.zeros(shape, dtype=kind)
    return values.view(kind).reshape(shape) if size else np.zeros(shape, dtype=kind)


def npy_header(shape: tuple[int, ...], kind: str) -> bytes:
    """The start of an array that claims to be larger than it is."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + bytes(40)


def npz_mutation(content: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.3:
        return damage(content, draw)
    with np.load(io.BytesIO(content)) as archive:
        arrays: dict[str, Any] = {key: archive[key] for key in archive.files}
    raw: dict[str, bytes] = {}
    for _ in range(draw.choice((1, 1, 2))):
        key = draw.choice([*arrays, "x", "num_nodes", "edge_weight", "y_multi"])
        match draw.randrange(9):
            case 0:
                arrays.pop(key, None)
            case 1:
                arrays[key] = odd_array(draw)
            case 2 if key in arrays and arrays[key].size and arrays[key].dtype.kind in "if":
                kind = draw.choice((np.int64, np.float64))
                arrays[key] = arrays[key].astype(kind)
                value = draw.choice((-1, 2**31, 2**53, 10**9, *((np.nan, np.inf) if kind is np.float64 else ())))
                arrays[key].reshape(-1)[draw.randrange(arrays[key].size)] = value
            case 3 if key in arrays and arrays[key].ndim:
                arrays[key] = arrays[key][..., : draw.randrange(1 + arrays[key].shape[-1])]
            case 4:
                arrays[key] = np.array([odd_value(draw)], dtype=object)
            case 5:
                big = tuple(draw.choice((1, 60, *HUGE)) for _ in range(draw.randint(1, 2)))
                raw[key] = npy_header(big, draw.choice(("<i8", "<f4", "|b1", "|O", "<U9")))
            case 6:
                arrays["num_nodes"] = np.array(draw.choice((0, -1, 60, 2**31, 2**53, 2**63 - 1)))
            case 7:
                arrays["meta"] = np.array(json.dumps(odd_value(draw)).replace("\0", ""))
            case _:
                arrays["x_shape"] = np.array([draw.choice((0, 60, 2**40)), draw.choice((0, 12, 2**40, -5))])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            part = io.BytesIO()
            np.save(part, array, allow_pickle=True)
            archive.writestr(f"{key}.npy", raw.pop(key, None) or part.getvalue())
        for key, part in raw.items():
            archive.writestr(f"{key}.npy", part)
    return out.getvalue()


MUTATE: dict[str, Callable[[bytes, random.Random], bytes]] = {"manifest": manifest_mutation, "npz": npz_mutation}


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_and_forged_files(kind: str, valid: dict[str, Path], tmp_path: Path) -> None:
    source, draw = valid[kind], random.Random(kind)
    folder = tmp_path / "files"
    shutil.copytree(source.parent, folder) if kind == "manifest" else folder.mkdir()
    path, content = folder / source.name, source.read_bytes()
    mutate, open_file = MUTATE.get(kind, sealed_mutation), OPEN[kind]
    path.write_bytes(content)
    open_file(path)  # the undamaged file has to load
    loaded, count = 0, COUNT // len(KINDS) + 1
    for number in range(count):
        mutated = mutate(content, draw)
        path.write_bytes(mutated)
        start = time.process_time()
        outcome = attempt(open_file, path)
        if not isinstance(outcome, PLGCError | None):
            kept = Path(tempfile.gettempdir(), f"mutation{number}-{path.name}")
            kept.write_bytes(mutated)
            raise AssertionError(f"{outcome!r} from mutation {number} of {kind}, kept as {kept}") from outcome
        loaded += outcome is None
        assert kind == "npz" or len(str(outcome)) < 2_000, "nobody reads a message of this length"
        assert time.process_time() - start < SECONDS
    print(f"fuzz: {kind}: {count} mutations, {loaded} loaded as valid, {count - loaded} refused")
    assert loaded < count / 2


def attempt(open_file: Callable[[Path], None], path: Path) -> BaseException | None:
    """What opening a file raises; None where it is valid."""
    try:
        open_file(path)
    except BaseException as error:
        return error
    return None


# Bombs


def test_an_archive_that_unpacks_without_end_is_refused(valid: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        with archive.open("x.npy", "w") as file:
            file.write(npy_header((8_000, 10_000), "|i1")[:-40])
            for _ in range(80):
                file.write(bytes(10**6))
        archive.writestr("edge_index.npy", npy_header((2, 0), "<i8"))
    with pytest.raises(GraphError, match="decompression bomb"):
        load_graph(path)


def test_a_pickle_in_an_archive_is_not_opened(valid: dict[str, Path], tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (mark,)

    with np.load(valid["npz"]) as archive:
        arrays = {key: archive[key] for key in archive.files}
    np.savez(tmp_path / "bomb.npz", **{**arrays, "y": np.array([Bomb()], dtype=object)})
    with pytest.raises(GraphError, match="never opened"):
        load_graph(tmp_path / "bomb.npz")
    assert not mark.exists()


def test_a_model_that_claims_to_be_larger_than_its_file_is_not_built(valid: dict[str, Path], tmp_path: Path) -> None:
    content = valid["node model"].read_bytes()
    description = json.loads(split(content)[0]["__metadata__"]["plgc"])
    from safetensors.torch import load

    for change in (
        {"num_features": 10**9},
        {"outputs": {"edges": [10**8], "plain": []}},
        {"backbone": {**description["backbone"], "layers": 9}},
    ):
        path = tmp_path / "model.safetensors"
        path.write_bytes(container_bytes(load(content), {**description, **change}))
        with pytest.raises(ArtifactError, match="is damaged: it describes"):
            plgc.load_model(path)


def test_an_enormous_manifest_is_not_read(valid: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(valid["manifest"].parent, tmp_path / "sources")
    with (tmp_path / "sources" / "manifest.json").open("r+b") as file:
        file.truncate(2**40)  # a hole
    with pytest.raises(ArtifactError, match="at most"):
        open_sources([tmp_path / "sources"])
