from __future__ import annotations

import contextlib
import getpass
import json
import os
import pickle
import socket
import struct
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load as load_with_numpy
from safetensors.torch import save as save_tensors
from torch import Tensor

from plgc.artifact import condensed as artifact
from plgc.artifact.condensed import FORMAT, SCHEMA, CondensedGraph
from plgc.graphs.attributes import Seen
from plgc.method.settings import preset
from plgc.runtime.container import MAX_HEADER, checksum, container_bytes
from plgc.runtime.errors import ArtifactError

HEADER_KEYS = {
    *("format", "schema", "version", "seed", "threads", "scaling", "blocks", "channels", "settings", "nodes_requested"),
    *("chosen", "curves", "source", "fingerprint", "method", "seen", "num_classes", "checksum", "ancestry"),
    "largest_share",
}


def branches(*widths: int) -> list[dict]:
    """Encoders of these widths as files record them."""
    common = {"kind": "gcn", "hidden": 8, "layers": 2, "edge_drop": 0.5, "feature_mask": 0.25}
    return [{**common, "width": width} for width in widths]


def condensed(**changes: Any) -> CondensedGraph:
    generator = torch.Generator().manual_seed(0)
    values = {
        "features": torch.randn(5, 4, generator=generator),
        "pseudo_labels": torch.randn(5, 6, generator=generator),
        "counts": torch.tensor([7, 0, 3, 2**40, 1]),
        "blocks": (2, 4),
        "scaling": "l2",
        "seed": 11,
        "threads": 2,
        "settings": {"preset": "mine", "rate": 0.1, "ladder": [{"branches": [1, 2]}]},
        "nodes_requested": 6,
        "chosen": {"agreement": 0.875, "branches": branches(*changes.get("blocks", (2, 4)))},
        "curves": {"pseudo_label_loss": [2.0, 1.5, 0.1], "synthesis_loss": []},
        "source": {"nodes": 100, "edges": 400, "features": 4},
        "fingerprint": "ab" * 32,
        "version": "0.0.1",
    }
    return CondensedGraph(**{**values, **changes})


TRAINING = {"training_nodes": "0123456789abcdef", "split": 2, "split_seed": 7}
SEEN_EDGES = {"nodes": "all", "edges": "train", "edge_seed": 3}
SEEN_NODES = {"nodes": "train", "edges": "all", **TRAINING}
OF_EDGES, OF_NODES = Seen.from_dict(SEEN_EDGES), Seen.from_dict(SEEN_NODES)
SOFT = torch.tensor([[0.5, 0.25, 0.25]] * 5)


def labelled(**changes: object) -> CondensedGraph:
    """What a supervised method leaves: labels instead of pseudo-labels, and edges."""
    values = {
        "pseudo_labels": None,
        "blocks": (),
        "method": "coarsening",
        "labels": torch.tensor([0, 2, -1, 1, 2]),
        "num_classes": 3,
        "edge_index": torch.tensor([[0, 1, 3, 4], [1, 0, 4, 3]]),
        "edge_weight": torch.tensor([0.5, 0.5, 2.0, 2.0]),
        "seen": Seen(**TRAINING),
    }
    return condensed(**{**values, **changes})


def assert_equal(one: CondensedGraph, other: CondensedGraph) -> None:
    for item in fields(CondensedGraph):
        left, right = getattr(one, item.name), getattr(other, item.name)
        if isinstance(left, Tensor):
            assert left.dtype == right.dtype
            assert torch.equal(left, right), item.name
        else:
            assert left == right, item.name
            assert type(left) is type(right), item.name


def split(content: bytes) -> tuple[dict, bytes]:
    """A safetensors file taken apart by hand: its header and its data."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def join(header: dict, data: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def description(content: bytes) -> dict:
    return json.loads(split(content)[0]["__metadata__"]["plgc"])


def with_description(text: str, **tensors: Tensor) -> bytes:
    """A sound file, except for the text of its description and the tensors given."""
    graph = condensed()
    parts = {"features": graph.features, "pseudo_labels": graph.pseudo_labels, "counts": graph.counts, **tensors}
    parts = {name: tensor for name, tensor in parts.items() if tensor is not None}
    with contextlib.suppress(ValueError, RecursionError):
        found = json.loads(text)
        if isinstance(found, dict) and "checksum" in found:  # whoever changes a file on purpose can do so here, too
            text = json.dumps({**found, "checksum": checksum(parts, found)})
    return save_tensors(parts, {"plgc": text})


def changed(**values: object) -> bytes:
    """A file whose description has other values, or without those given as Ellipsis."""
    found = {**description(condensed().to_bytes()), **values}
    return with_description(json.dumps({key: value for key, value in found.items() if value is not ...}))


def load(folder: Path, content: bytes) -> CondensedGraph:
    path = folder / "file.safetensors"
    path.write_bytes(content)
    return CondensedGraph.load(path)


# Round trip


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"fingerprint": None, "chosen": {}, "curves": {}, "source": {}, "settings": {}},
        {"scaling": "none", "blocks": (6,), "seed": 2**62},
        {"scaling": "l1", "blocks": (1,) * 6},
        {"features": torch.tensor([[1e-38, -3e38]] * 5), "source": {"nodes": 9}},
        {"settings": {"text": 'Ärger "quoted" \\ 🦄'}},
    ],
)
def test_what_is_saved_is_loaded(tmp_path: Path, changes: dict) -> None:
    graph = condensed(**changes)
    path = graph.save(tmp_path / "deeper" / "c.safetensors")
    assert path == tmp_path / "deeper" / "c.safetensors"
    assert_equal(CondensedGraph.load(path), graph)
    assert_equal(CondensedGraph.load(str(path)), graph)
    assert CondensedGraph.load(path).to_bytes() == path.read_bytes() == graph.to_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"labels": SOFT},
        {"labels": torch.full((5,), -1)},
        {"edge_weight": None},
        {"edge_index": None, "edge_weight": None},
        {"edge_index": torch.empty(2, 0, dtype=torch.int64), "edge_weight": torch.empty(0)},
        {"seen": OF_NODES, "method": "a-method-to-come"},
        {"seen": replace(OF_EDGES, **TRAINING)},
    ],
)
def test_labels_and_edges_are_saved_and_loaded(tmp_path: Path, changes: dict) -> None:
    graph = labelled(**changes)
    loaded = load(tmp_path, graph.to_bytes())
    assert_equal(loaded, graph)
    assert loaded.to_bytes() == graph.to_bytes()


@pytest.mark.parametrize(("seen", "written"), [(OF_EDGES, SEEN_EDGES), (OF_NODES, SEEN_NODES)])
def test_what_was_seen_is_saved_and_loaded(tmp_path: Path, seen: Seen, written: dict) -> None:
    content = condensed(seen=seen).to_bytes()
    assert description(content)["seen"] == written
    assert load(tmp_path, content).seen == seen


def test_our_own_method_and_everything_seen_are_the_default() -> None:
    graph = condensed()
    assert (graph.method, graph.seen) == ("plgc", Seen("all", "all"))
    assert (graph.labels, graph.num_classes, graph.edge_index, graph.edge_weight) == (None, None, None, None)
    assert description(graph.to_bytes())["seen"] == {"nodes": "all", "edges": "all"}


def test_a_file_of_schema_1_is_still_read(tmp_path: Path) -> None:
    """As the first version wrote it: no method, nothing on what was seen, no labels and no edges."""
    description = {
        "format": "plgc-condensed-graph",
        "schema": 1,
        "version": "0.0.1",
        "seed": 11,
        "threads": 2,
        "scaling": "l2",
        "blocks": [2, 4],
        "settings": {"preset": "mine", "rate": 0.1, "ladder": [{"branches": [1, 2]}]},
        "nodes_requested": 6,
        "chosen": {"agreement": 0.875, "branches": branches(2, 4)},
        "curves": {"pseudo_label_loss": [2.0, 1.5, 0.1], "synthesis_loss": []},
        "source": {"nodes": 100, "edges": 400, "features": 4},
        "fingerprint": "ab" * 32,
    }
    loaded = load(tmp_path, with_description(json.dumps(description)))
    assert_equal(loaded, condensed())
    assert (loaded.method, loaded.seen) == ("plgc", Seen())
    # what schema 2 added is unknown there
    for later in ({"method": "random"}, {"seen": SEEN_NODES}, {"num_classes": 3}):
        with pytest.raises(ArtifactError, match=f"'{next(iter(later))}' is unknown"):
            load(tmp_path, with_description(json.dumps({**description, **later})))
    content = with_description(json.dumps(description), labels=torch.zeros(5, dtype=torch.int64))
    assert_equal(load(tmp_path, content), condensed())


def test_tensors_need_not_be_contiguous(tmp_path: Path) -> None:
    graph = condensed()
    spread = replace(graph, features=graph.features.t().contiguous().t())
    assert not spread.features.is_contiguous()
    assert spread.to_bytes() == graph.to_bytes()


def test_settings_of_every_preset_fit(tmp_path: Path) -> None:
    for name in ("default", "paper"):
        settings = json.loads(json.dumps(preset(name).to_dict()))
        assert_equal(load(tmp_path, condensed(settings=settings).to_bytes()), condensed(settings=settings))


def test_any_safetensors_reader_can_open_it() -> None:
    graph = condensed()
    arrays = load_with_numpy(graph.to_bytes())
    assert set(arrays) == {"features", "pseudo_labels", "counts"}
    assert [arrays[name].dtype for name in ("features", "pseudo_labels", "counts")] == [
        np.float32,
        np.float32,
        np.int64,
    ]
    np.testing.assert_array_equal(arrays["features"], graph.features.numpy())
    np.testing.assert_array_equal(arrays["pseudo_labels"], graph.pseudo_labels.numpy())
    np.testing.assert_array_equal(arrays["counts"], graph.counts.numpy())


def test_the_header_is_what_the_module_says() -> None:
    header, _ = split(condensed().to_bytes())
    assert set(header) == {"__metadata__", "features", "pseudo_labels", "counts"}
    assert set(header["__metadata__"]) == {"plgc"}
    found = description(condensed().to_bytes())
    assert set(found) == HEADER_KEYS
    assert all(f"``{key}``" in " ".join(artifact.__doc__.split()) for key in HEADER_KEYS)
    assert (found["format"], found["schema"]) == (FORMAT, SCHEMA)
    assert found["blocks"] == [2, 4]
    assert found["curves"]["pseudo_label_loss"] == [2.0, 1.5, 0.1]


def test_sizes_are_those_of_the_features() -> None:
    assert (condensed().num_nodes, condensed().num_features) == (5, 4)


# Bytes


def test_equal_graphs_give_equal_bytes() -> None:
    reversed_settings = dict(reversed(condensed().settings.items()))
    assert list(reversed_settings) != list(condensed().settings)
    first = condensed().to_bytes()
    assert all(condensed().to_bytes() == first for _ in range(10))
    assert condensed(settings=reversed_settings).to_bytes() == first


@pytest.mark.parametrize(
    "changes",
    [
        {"features": torch.zeros(5, 4)},
        {"counts": torch.arange(5)},
        {"blocks": (4, 2)},
        {"scaling": "l1"},
        {"seed": 12},
        {"threads": 1},
        {"settings": {}},
        {"nodes_requested": 7},
        {"chosen": {}},
        {"curves": {}},
        {"source": {}},
        {"fingerprint": None},
        {"version": "0.0.2"},
        {"method": "other"},
        {"seen": OF_EDGES},
        {"num_classes": 3},
        {"labels": SOFT},
        {"edge_index": torch.zeros(2, 1, dtype=torch.int64)},
        {"edge_weight": torch.ones(1)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_different_graph_gives_different_bytes(changes: dict) -> None:
    assert condensed(**changes).to_bytes() != condensed().to_bytes()


def test_no_path_time_host_or_name_is_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = condensed().save(tmp_path / "secret-project" / "alice.safetensors").read_bytes()
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 10**6)
    monkeypatch.setattr(socket, "gethostname", lambda: "another-host")
    monkeypatch.setattr(getpass, "getuser", lambda: "another-user")
    monkeypatch.setenv("USER", "another-user")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    second = condensed().save("b.safetensors").read_bytes()
    assert first == second == condensed().to_bytes()
    for word in ("secret-project", "alice", str(tmp_path), os.fspath(Path(__file__).parent)):
        assert word.encode() not in first


def test_saving_is_atomic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = condensed().save(tmp_path / "c.safetensors")
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk gone")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk gone"):
        condensed(seed=99).save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


# Pickle


class Bomb:
    """A pickle that leaves a mark when it is opened."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self) -> tuple:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_a_pickle_is_refused_and_not_run(tmp_path: Path, writer: str) -> None:
    mark, path = tmp_path / "mark", tmp_path / "c.safetensors"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Bomb(mark)))
    else:
        torch.save({"features": Bomb(mark)}, path)
    with pytest.raises(ArtifactError, match="not a safetensors file"):
        CondensedGraph.load(path)
    assert not mark.exists()
    if writer == "pickle":  # the bomb is live: opening it the unsafe way leaves the mark
        pickle.loads(path.read_bytes())
        assert mark.exists()


def test_neither_saving_nor_loading_pickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("pickle was used")

    for module, names in (
        (pickle, ("dump", "dumps", "load", "loads", "Unpickler", "Pickler")),
        (torch, ("load", "save")),
    ):
        for name in names:
            monkeypatch.setattr(module, name, fail)
    assert_equal(CondensedGraph.load(condensed().save(tmp_path / "c.safetensors")), condensed())


# Damage


def test_a_file_cut_short_anywhere_is_refused(tmp_path: Path) -> None:
    content = condensed().to_bytes()
    for length in [*range(16), *range(16, len(content), 7), len(content) - 1]:
        with pytest.raises(ArtifactError, match=r"file\.safetensors cannot be opened: damaged, cut short"):
            load(tmp_path, content[:length])


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("graph", [condensed(), labelled()], ids=["plgc", "rival"])
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, graph: CondensedGraph, stride: int) -> None:
    """What can be flipped unnoticed is how the header is written, such as blanks at its end; never what it says."""
    content, harmless = graph.to_bytes(), 0
    for position in range(0, len(content), stride):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        try:
            loaded = load(tmp_path, bytes(damaged))
        except ArtifactError:
            continue
        assert_equal(loaded, graph)
        harmless += 1
    assert harmless < 0.02 * len(content) / stride


def test_a_description_without_its_checksum_is_refused_and_one_of_schema_2_is_still_read(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"file\.safetensors is damaged: what it holds has no checksum"):
        load(tmp_path, changed(checksum=...))
    earlier = changed(checksum=..., schema=2, channels=..., ancestry=..., largest_share=...)
    assert_equal(load(tmp_path, earlier), condensed())


def test_a_file_of_schema_3_has_one_channel(tmp_path: Path) -> None:
    assert_equal(load(tmp_path, changed(schema=3, channels=..., ancestry=..., largest_share=...)), condensed())
    assert condensed().channels == ("edges", "edges")
    two = condensed(chosen={}, channels=("edges", "plain"))
    assert_equal(CondensedGraph.load(two.save(tmp_path / "two.safetensors")), two)
    content = condensed().to_bytes()
    with pytest.raises(ArtifactError, match="does not fit its checksum; get or make it again"):
        load(tmp_path, content.replace(b"l2", b"l1"))


def test_an_enormous_header_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "file.safetensors"
    with path.open("wb") as file:
        file.write(struct.pack("<Q", MAX_HEADER + 1))
        file.truncate(2 * MAX_HEADER)  # a hole: nothing is written, everything can be read
    with pytest.raises(ArtifactError, match=f"header is said to have {MAX_HEADER + 1:,} bytes"):
        CondensedGraph.load(path)
    with pytest.raises(ArtifactError, match=r"description is .* bytes long, at most"):
        condensed(settings={"text": "x" * MAX_HEADER}).to_bytes()


def test_bytes_at_the_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be opened"):
        load(tmp_path, condensed().to_bytes() + b"\0")


@pytest.mark.parametrize("stride", [13, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_changed_header_byte_without_a_checksum_is_refused_or_harmless(
    tmp_path: Path, mask: int, stride: int
) -> None:
    """Without a checksum (schema 2) some changes give another sound description; none may end in any other error."""
    content = changed(checksum=..., schema=2, channels=..., ancestry=..., largest_share=...)
    (size,) = struct.unpack("<Q", content[:8])
    refused: list[str] = []
    for position in range(0, 8 + size, stride):
        damaged = bytearray(content)
        damaged[position] ^= mask
        try:
            graph = load(tmp_path, bytes(damaged))
        except ArtifactError as error:
            refused.append(str(error))
        else:
            assert graph.features.shape == (5, 4)
            assert graph.pseudo_labels is not None
            assert sum(graph.blocks) == graph.pseudo_labels.shape[1]
    assert len(refused) > (8 + size) / stride * (0.2 if mask == 0x01 else 0.95)
    assert all("file.safetensors" in message for message in refused)


def test_every_part_of_the_description_is_needed(tmp_path: Path) -> None:
    for key in HEADER_KEYS - {"format", "schema", "checksum"}:
        with pytest.raises(ArtifactError, match=f"is damaged: {key} is missing"):
            load(tmp_path, changed(**{key: ...}))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("features", ".*'features'"), ("counts", ".*'counts'"), ("pseudo_labels", "it holds neither")],
)
def test_every_tensor_is_needed(tmp_path: Path, name: str, complaint: str) -> None:
    text = json.dumps(description(condensed().to_bytes()))
    with pytest.raises(ArtifactError, match=f"is damaged: {complaint}"):
        load(tmp_path, with_description(text, **{name: None}))


INF = float("inf")
HUGE = '{"format": "plgc-condensed-graph", "schema": 1, "seed": ' + "9" * 5000 + "}"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(lambda: b"", "cannot be opened", id="empty"),
        pytest.param(lambda: b"PK\x03\x04" + bytes(100), "cannot be opened", id="zip"),
        pytest.param(lambda: b"node,label\n0,1\n" * 20, "cannot be opened", id="text"),
        pytest.param(
            lambda: save_tensors({"weight": torch.ones(2)}), "safetensors file, but not one of plgc's", id="foreign"
        ),
        pytest.param(
            lambda: save_tensors({"weight": torch.ones(2)}, {"format": "pt"}),
            "not one of plgc's",
            id="foreign metadata",
        ),
        pytest.param(
            lambda: changed(format="plgc-model"), f"holds 'plgc-model', where '{FORMAT}' is", id="other format"
        ),
        pytest.param(lambda: changed(format=...), "holds None", id="no format"),
        pytest.param(
            lambda: changed(schema=SCHEMA + 1, version="9.8.7"),
            rf"schema {SCHEMA + 1}, written by plgc 9\.8\.7; .* reads up to schema {SCHEMA}: upgrade plgc",
            id="newer schema",
        ),
        pytest.param(lambda: changed(schema=SCHEMA + 1, version=...), "later version.*upgrade", id="newer, no version"),
        pytest.param(lambda: changed(schema=...), "schema None is not a version", id="no schema"),
        pytest.param(lambda: changed(schema="1"), "schema '1' is not a version", id="schema text"),
        pytest.param(lambda: changed(schema=0), "schema 0 is not a version", id="schema zero"),
        pytest.param(lambda: with_description("{not json"), "description is not readable", id="not json"),
        pytest.param(lambda: with_description(""), "description is not readable", id="no text"),
        pytest.param(lambda: with_description("[" * 100_000), "description is not readable", id="deep"),
        pytest.param(lambda: with_description("[1, 2]"), "holds None", id="a list"),
        pytest.param(lambda: with_description("null"), "holds None", id="null"),
        pytest.param(lambda: with_description(HUGE), "description is not readable", id="digits"),
        pytest.param(lambda: changed(seed="eleven"), "seed is 'eleven': a whole number is needed", id="seed text"),
        pytest.param(lambda: changed(seed=None), "seed is None: a whole number", id="seed null"),
        pytest.param(lambda: changed(seed=INF), "damaged", id="seed infinite"),
        pytest.param(lambda: changed(source={"nodes": INF}), "damaged", id="source infinite"),
        pytest.param(lambda: changed(blocks=6), "blocks is 6: a list is needed", id="blocks number"),
        pytest.param(lambda: changed(curves={"loss": 1.0}), r"curves.loss is 1.0: a list", id="curves number"),
        pytest.param(lambda: changed(curves=[1.0]), r"curves is \[1.0\]: an object", id="curves list"),
        pytest.param(lambda: changed(settings="default"), "settings is 'default': an object", id="settings text"),
        pytest.param(lambda: changed(source={"nodes": "many"}), "source.nodes is 'many'", id="source text"),
        pytest.param(
            lambda: changed(blocks=[2, 3], chosen={}), r"blocks \(2, 3\) do not add up to the 6 col", id="blocks sum"
        ),
        pytest.param(lambda: changed(channels=[]), r"names 0 channel\(s\) for 2 block\(s\)", id="channels empty"),
        pytest.param(lambda: changed(channels=["edges"]), r"names 1 channel\(s\) for 2", id="channels few"),
        pytest.param(lambda: changed(channels=7), "channels is 7: a list", id="channels number"),
        pytest.param(
            lambda: changed(channels=["edges", "far"]), r"channels\[1\] is 'far': choose edges, plain", id="far"
        ),
        pytest.param(lambda: changed(channels=["plain", "edges"]), "blocks with edges come before", id="channel order"),
        pytest.param(lambda: changed(blocks=[], channels=[], chosen={}), r"blocks \(\) do not", id="blocks empty"),
        pytest.param(
            lambda: changed(blocks=[8, -2]), r"blocks\[1\] is -2: it must be at least 1", id="blocks negative"
        ),
        pytest.param(lambda: changed(blocks=[6, 0]), r"blocks\[1\] is 0: it must be at least 1", id="blocks zero"),
        pytest.param(lambda: changed(scaling="auto"), "scaling is 'auto': choose l1, l2, none", id="scaling"),
        pytest.param(lambda: changed(curves={"loss": [float("nan")]}), r"curves.loss\[0\] is nan", id="curve of NaN"),
        pytest.param(lambda: changed(settings={"a": [INF]}), r"settings.a\[0\] is inf", id="setting infinite"),
        pytest.param(lambda: changed(seed=10**30), "seed is 10000", id="seed too large"),
        pytest.param(lambda: changed(threads=0), "threads is 0", id="no threads"),
        pytest.param(lambda: changed(later=1), "'later' is unknown: known are format, schema", id="unknown key"),
        pytest.param(lambda: changed(curves={"loss": [1e308]}), r"curves.loss\[0\] is 1e\+308", id="curve too large"),
        pytest.param(lambda: changed(curves={"\x1b[2J": [1.0]}), "printable", id="escape sequence in a name"),
        pytest.param(lambda: changed(method="\x1b[31m"), "method is .*: letters, digits", id="escape in the method"),
        pytest.param(lambda: changed(version="1\u202e"), "version is ", id="bidirectional version"),
        pytest.param(lambda: changed(settings={"clip": 1.0}), "settings: clip and noise go together", id="clip alone"),
        pytest.param(lambda: changed(settings={"min_cluster": "5"}), "settings.min_cluster is '5'", id="cluster text"),
        pytest.param(lambda: changed(settings={"max_share": 0}), "settings.max_share is 0", id="no share"),
        pytest.param(
            lambda: changed(chosen={"branches": "gcn"}), "chosen.branches is 'gcn': a list", id="branches text"
        ),
        pytest.param(
            lambda: changed(chosen={"branches": branches(4, 2)}), r"encoders are \(4, 2\) wide", id="branches"
        ),
        pytest.param(
            lambda: changed(channels=["edges", "plain"]), "encoders are of the channels", id="channel of a gcn"
        ),
        pytest.param(
            lambda: changed(source={"nodes": 9, "features": 5}), "it has 4 features", id="features of another"
        ),
        pytest.param(lambda: changed(source={"who": 9}), "source.'who' is unknown", id="unknown count"),
        pytest.param(lambda: changed(seen={**SEEN_EDGES, "edge_seed": 2**62}), "seen.edge_seed is", id="seed of edges"),
        pytest.param(lambda: changed(nodes_requested=-5), "nodes_requested is -5", id="nodes below 0"),
        pytest.param(lambda: changed(source={"nodes": 0}), "source: nodes is 0|source.nodes is 0", id="no original"),
        pytest.param(lambda: changed(fingerprint=[1]), r"fingerprint is \[1\]: a text", id="fingerprint"),
    ],
)
def test_a_file_that_is_not_ours_is_refused_with_the_reason(tmp_path: Path, content, message: str) -> None:
    with pytest.raises(ArtifactError, match=rf"file\.safetensors.*{message}"):
        load(tmp_path, content())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": torch.zeros(5, 4, dtype=torch.float64)}, r"features are torch.float64 \(5, 4\), not float32"),
        ({"features": torch.zeros(5, 4, dtype=torch.bfloat16)}, "features are torch.bfloat16"),
        ({"features": torch.zeros(20)}, r"features are torch.float32 \(20,\)"),
        ({"features": torch.zeros(5, 0)}, r"features are torch.float32 \(5, 0\)"),
        ({"features": torch.zeros(0, 4)}, r"features are torch.float32 \(0, 4\)"),
        ({"features": torch.full((5, 4), float("nan"))}, "NaN or infinite"),
        ({"features": torch.full((5, 4), INF)}, "NaN or infinite"),
        ({"pseudo_labels": torch.full((5, 6), float("nan"))}, "NaN or infinite"),
        ({"pseudo_labels": torch.full((5, 6), -INF)}, "NaN or infinite"),
        ({"pseudo_labels": torch.zeros(4, 6)}, r"pseudo-labels are torch.float32 \(4, 6\), not float32 \[5, d\]"),
        ({"pseudo_labels": torch.zeros(5, 6, dtype=torch.int64)}, "pseudo-labels are torch.int64"),
        ({"pseudo_labels": torch.zeros(5, 3, 2)}, r"pseudo-labels are torch.float32 \(5, 3, 2\)"),
        ({"pseudo_labels": torch.zeros(5, 7)}, r"blocks \(2, 4\) do not add up to the 7"),
        ({"pseudo_labels": torch.zeros(5, 0)}, r"blocks \(2, 4\) do not add up to the 0"),
        ({"counts": torch.zeros(5)}, r"counts are torch.float32 \(5,\), not int64 \[5\]"),
        ({"counts": torch.zeros(5, dtype=torch.int8)}, "counts are torch.int8"),
        ({"counts": torch.zeros(6, dtype=torch.int64)}, r"counts are torch.int64 \(6,\)"),
        ({"counts": torch.zeros(5, 1, dtype=torch.int64)}, r"counts are torch.int64 \(5, 1\)"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Tensor], message: str) -> None:
    text = json.dumps(description(condensed().to_bytes()))
    with pytest.raises(ArtifactError, match=f"is damaged: .*{message}"):
        load(tmp_path, with_description(text, **changes))


LONG = torch.int64


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"counts": torch.tensor([1, 1, -2, 1, 1])}, "a count is -2, below 0"),
        ({"features": torch.full((5, 4), INF)}, "its features hold NaN or infinite"),
        ({"scaling": "auto"}, "scaling is 'auto': choose l1, l2, none"),
        ({"pseudo_labels": torch.zeros(5, 6), "blocks": (6,)}, "it holds pseudo-labels and labels"),
        ({"labels": None, "num_classes": None}, "it holds neither pseudo-labels nor labels"),
        ({"num_classes": None}, "it has labels, but num_classes is None"),
        ({"num_classes": 0}, "num_classes is 0: it must be at least 1"),
        ({"num_classes": 2}, "labels run from -1 to 2 for 2 classes"),
        ({"labels": torch.tensor([0, 1, 2, -2, 0])}, "labels run from -2 to 2 for 3 classes"),
        ({"labels": torch.zeros(4, dtype=LONG)}, r"labels are torch.int64 \(4,\), not int64 \[5\] or float32 \[5, 3\]"),
        ({"labels": torch.zeros(5, 3, dtype=LONG)}, r"labels are torch.int64 \(5, 3\)"),
        ({"labels": torch.zeros(5)}, r"labels are torch.float32 \(5,\)"),
        ({"labels": torch.zeros(5, 4)}, r"labels are torch.float32 \(5, 4\), .* float32 \[5, 3\]"),
        ({"labels": torch.zeros(5, 3, dtype=torch.float64)}, "labels are torch.float64"),
        ({"labels": SOFT / 0}, "its labels hold NaN or infinite"),
        ({"edge_index": None}, "it has edge weights but no edges"),
        ({"edge_index": torch.zeros(4, dtype=LONG)}, r"edge_index is torch.int64 \(4,\), not int64 \[2, E\]"),
        ({"edge_index": torch.zeros(3, 4, dtype=LONG)}, r"edge_index is torch.int64 \(3, 4\)"),
        ({"edge_index": torch.zeros(2, 4)}, r"edge_index is torch.float32 \(2, 4\)"),
        ({"edge_index": torch.tensor([[0, 1, 2, 3], [1, 2, 3, 5]])}, "edges name nodes 0 to 5, it has 5"),
        ({"edge_index": torch.tensor([[0, 1, 2, 3], [1, 2, 3, -1]])}, "edges name nodes -1 to 3"),
        ({"edge_weight": torch.ones(3)}, r"edge_weight is torch.float32 \(3,\), not float32 \[4\]"),
        ({"edge_weight": torch.ones(4, 1)}, r"edge_weight is torch.float32 \(4, 1\)"),
        ({"edge_weight": torch.ones(4, dtype=LONG)}, "edge_weight is torch.int64"),
        ({"edge_weight": torch.tensor([1.0, -1.0, 1.0, 1.0])}, "an edge weight is negative, NaN or infinite"),
        ({"edge_weight": torch.tensor([1.0, float("nan"), 1.0, 1.0])}, "an edge weight is negative, NaN"),
        ({"edge_weight": torch.tensor([1.0, INF, 1.0, 1.0])}, "an edge weight is negative, NaN or inf"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    tmp_path: Path, changes: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is not finite is never written; whoever changes a file on purpose can do so here."""
    monkeypatch.setattr(
        artifact, "container_bytes", lambda tensors, header, allow_nan: container_bytes(tensors, header)
    )
    with pytest.raises(ArtifactError, match=rf"file\.safetensors is damaged: .*{message}"):
        load(tmp_path, labelled(**changes).to_bytes())


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        ({}, "says None of the nodes it has seen"),
        ({"nodes": "all"}, "says None of the edges it has seen"),
        ({"nodes": "test", "edges": "all"}, "says 'test' of the nodes it has seen, not 'all' or 'train'"),
        ({"nodes": "all", "edges": ["train"]}, r"says \['train'\] of the edges"),
        ({"nodes": "all", "edges": "train"}, "edge_seed of what it has seen is None"),
        ({**SEEN_EDGES, "edge_seed": "3"}, "edge_seed of what it has seen is '3'"),
        ({"nodes": "train", "edges": "all"}, "training_nodes of what it has seen is None"),
        ({**SEEN_NODES, "training_nodes": 5}, "training_nodes of what it has seen is 5"),
        ({**SEEN_NODES, "split": None}, "split of what it has seen is None"),
        ({**SEEN_NODES, "split_seed": True}, "split_seed of what it has seen is True"),
        ({"nodes": "all", "edges": "all", "training_nodes": "ab"}, "split of what it has seen is None"),
    ],
)
def test_what_was_seen_has_to_make_sense(tmp_path: Path, seen: dict, message: str) -> None:
    with pytest.raises(ArtifactError, match=rf"file\.safetensors is damaged: .*{message}"):
        load(tmp_path, changed(seen=seen))


@pytest.mark.parametrize("changes", [{"seen": "all"}, {"seen": None}, {"num_classes": "three"}, {"num_classes": INF}])
def test_a_description_of_schema_2_that_makes_no_sense_is_refused(tmp_path: Path, changes: dict) -> None:
    with pytest.raises(ArtifactError, match=f"is damaged: {next(iter(changes))} is "):
        load(tmp_path, changed(**changes))


def test_one_bad_number_is_enough(tmp_path: Path) -> None:
    features = condensed().features
    features[3, 2] = float("nan")
    with pytest.raises(ArtifactError, match="NaN or infinite"):
        load(tmp_path, condensed(features=features).to_bytes())


@pytest.mark.parametrize("dtype", ["F4", "F6_E2M3", "C64", "F99"])
def test_number_types_we_never_write_are_refused(tmp_path: Path, dtype: str) -> None:
    header, data = split(condensed().to_bytes())
    header["features"]["dtype"] = dtype
    with pytest.raises(ArtifactError):
        load(tmp_path, join(header, data))


def test_a_header_that_lies_about_sizes_is_refused(tmp_path: Path) -> None:
    header, data = split(condensed().to_bytes())
    assert_equal(load(tmp_path, join(header, data)), condensed())
    header["features"]["shape"] = [5_000_000, 4_000_000]
    with pytest.raises(ArtifactError, match="cannot be opened"):
        load(tmp_path, join(header, data))
    with pytest.raises(ArtifactError, match="cannot be opened"):
        load(tmp_path, struct.pack("<Q", 2**62) + condensed().to_bytes()[8:])


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=rf"there is no file {tmp_path}/none\.safetensors"):
        CondensedGraph.load(tmp_path / "none.safetensors")
    with pytest.raises(ArtifactError, match=f"{tmp_path} is a folder, not a file"):
        CondensedGraph.load(str(tmp_path))


# As it is shown in Python and in a notebook


def test_it_is_shown_on_one_line() -> None:
    assert repr(condensed()) == "CondensedGraph(5 nodes of 100, 4 features, 1 channel, plgc)"
    both = condensed(channels=("edges", "plain"), source={})
    assert repr(both) == "CondensedGraph(5 nodes, 4 features, 2 channels, plgc)"
    labels = {"labels": torch.tensor([0, 1, 2, 0, 1]), "num_classes": 3, "pseudo_labels": None, "blocks": ()}
    edges = {"edge_index": torch.tensor([[0], [1]]), "edge_weight": torch.ones(1)}
    supervised = condensed(**labels, **edges, method="gcond")
    assert repr(supervised) == "CondensedGraph(5 nodes of 100, 4 features, 3 classes, 1 edge, gcond)"


def test_text_of_a_file_is_escaped_where_it_is_shown() -> None:
    forged = condensed(method="<script>\x1b[2J\n")
    assert repr(forged).endswith("1 channel, <script>\\x1b[2J\\n)")
    page = forged._repr_html_()
    assert "&lt;script&gt;\\x1b[2J\\n" in page
    assert "<script>" not in page
