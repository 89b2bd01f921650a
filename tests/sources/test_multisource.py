"""Many sources into one folder: the same from every engine, what fails is named, what is there is kept."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

import plgc
from plgc.graphs import citation_graph, load_graph, save_npz
from plgc.graphs.views.partition import cut_parts, partition_nodes
from plgc.runtime.errors import ArtifactError, GraphError, GraphNotFoundError, SettingError
from plgc.sources import SourcesError, open_sources, read_manifest, share_nodes, source_seed
from plgc.sources import folder as folder_module
from plgc.sources.task import SourceTask, condense_source
from plgc.sources.workspace import WORK
from plgc.sparse.inputs import fingerprint
from quick import quick

QUICK = quick(16, hidden=16, rounds=1, epochs=2)
SIZE = {"nodes": 8, "settings": QUICK}
NAMES = ["north", "south", "west"]
CUT = {"graph": "g", "parts": 2, "how": "random", "halo": 0, "seed": 0}


def graph_of(number: int, features: int = 40) -> Data:
    graph = citation_graph(nodes=120 + 10 * number, classes=3, features=features, seed=number)
    graph.name = NAMES[number]
    return graph


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("graphs")
    return [save_npz(graph_of(number), folder / f"{NAMES[number]}.npz") for number in range(3)]


@pytest.fixture(scope="module")
def trio(paths: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three finished sources; no test may change them."""
    out = tmp_path_factory.mktemp("trio") / "out"
    plgc.condense_sources(paths, out, **SIZE)
    return out


@pytest.fixture
def folder(trio: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(trio, tmp_path / "out"))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the sources that are condensed, in turn."""
    names: list[str] = []

    def counting(task: SourceTask) -> Any:
        names.append(task.name)
        return condense_source(task)

    monkeypatch.setattr(folder_module, "condense_source", counting)
    return names


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def edit(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change a folder's manifest."""
    content = json.loads((folder / "manifest.json").read_text())
    change(content)
    (folder / "manifest.json").write_text(json.dumps(content))


# What is written


def test_every_source_is_condensed_by_itself(paths: list[Path], trio: Path) -> None:
    assert sorted(files(trio)) == ["manifest.json", *(f"{name}.safetensors" for name in NAMES)]
    manifest = json.loads((trio / "manifest.json").read_text())
    assert (manifest["format"], manifest["schema"], manifest["version"]) == ("plgc-sources", 1, plgc.__version__)
    for place, entry in enumerate(manifest["sources"]):
        seed = 1000 * (place + 1)
        graph = load_graph(paths[place])
        expected = plgc.condense(graph, seed=seed, private=True, threads=1, **SIZE)
        content = (trio / entry["file"]).read_bytes()
        assert content == expected.to_bytes()
        assert (entry["name"], entry["file"]) == (NAMES[place], f"{NAMES[place]}.safetensors")
        assert (entry["seed"], entry["nodes_requested"], entry["weight"]) == (seed, 8, 1.0)
        assert (entry["nodes"], entry["bytes"]) == (expected.num_nodes, len(content))
        assert (entry["settings"]["min_cluster"], entry["settings"]["private"]) == (5, True)
        assert int(expected.counts.min()) >= 5
        assert expected.fingerprint is None


def test_processes_give_the_serial_bytes_and_data_those_of_files(paths: list[Path], trio: Path, tmp_path: Path) -> None:
    mixed = [paths[0], graph_of(1), str(paths[2])]
    found = plgc.condense_sources(mixed, tmp_path / "out", engine="processes", workers=2, **SIZE)
    assert files(tmp_path / "out") == files(trio)
    assert [source.name for source in found.sources] == NAMES
    assert found.manifest == tmp_path / "out" / "manifest.json"
    assert all(source.made and source.seconds > 0 and source.peak_memory_bytes for source in found.sources)
    assert [graph.num_features for graph in found.load()] == [40, 40, 40]


def test_one_seed_for_all_and_names_of_their_own(paths: list[Path], tmp_path: Path) -> None:
    found = plgc.condense_sources(paths[:2], tmp_path, names=["a", "B.2"], shared_seed=True, seed=7, **SIZE)
    assert [(source.name, source.entry.seed) for source in found.sources] == [("a", 7), ("B.2", 7)]
    plgc.reconstruct(found.load(), combine="shared-seed")
    with pytest.raises(SettingError, match="one seed"):
        plgc.reconstruct([*found.load(), replace(found.load()[0], seed=1)], combine="shared-seed")


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["a b", "a/b", "../b"], ["a_b", "a_b-2", "b"]),
        (["Cora", "cora", "cora-2"], ["Cora", "cora-2", "cora-2-2"]),
        (["", "…", ".hidden"], ["graph", "graph-2", "hidden"]),
    ],
)
def test_names_are_unique_and_safe_for_files(texts: list[str], names: list[str], tmp_path: Path) -> None:
    graphs = [graph_of(0) for _ in texts]
    for graph, text in zip(graphs, texts, strict=True):
        graph.name = text
    found = plgc.condense_sources(graphs, tmp_path, **SIZE)
    assert [source.name for source in found.sources] == names
    assert {path.name for path in tmp_path.iterdir()} == {"manifest.json", *(f"{name}.safetensors" for name in names)}


def test_noise_is_on_what_is_published_and_kept_on_rerun(paths: list[Path], tmp_path: Path, made: list[str]) -> None:
    given: dict[str, Any] = {**SIZE, "clip": 1.0, "noise": 0.1, "max_share": 0.5, "private": False}
    first = plgc.condense_sources(paths[:2], tmp_path, **given)
    before = files(tmp_path)
    assert [graph.settings["noise"] for graph in first.load()] == [0.1, 0.1]
    assert all("edges" not in graph.source for graph in first.load())
    plgc.condense_sources(paths[:2], tmp_path, **given)  # new noise would have to be averaged away by its owner alone
    assert files(tmp_path) == before
    plgc.condense_sources(paths[:2], tmp_path, **{**given, "noise": 0.2})
    assert made == ["north", "south"] * 2


def test_labels_do_not_reach_the_work_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo_graph: Data) -> None:
    seen: list[tuple[set[str], set[str], int]] = []

    def looking(task: SourceTask) -> Any:
        folder = Path(task.folder)
        assert folder.parent == tmp_path / "out"
        with np.load(task.graph) as archive:
            seen.append((set(archive.files), {path.name for path in folder.iterdir()}, folder.stat().st_mode & 0o777))
        return condense_source(task)

    monkeypatch.setattr(folder_module, "condense_source", looking)
    plgc.condense_parts(demo_graph, tmp_path / "out", 2, halo=1, nodes=20, settings=QUICK)
    assert len(seen) == 2
    for arrays, names, mode in seen:
        assert arrays == {"edge_index", "x_indptr", "x_indices", "x_data", "x_shape", "meta"}
        assert {f"{demo_graph.name}-part1.npz", f"{demo_graph.name}-part1.core.npy"} <= names
        assert mode == 0o700
    assert not list((tmp_path / "out").glob(f"{WORK}*"))


# Faults


def bad_graph() -> Data:
    graph = graph_of(1)
    graph.x = torch.full((graph.num_nodes or 0, 40), float("nan"))
    return graph


def test_a_source_that_fails_is_named_and_the_others_are_kept(
    paths: list[Path], trio: Path, tmp_path: Path, made: list[str]
) -> None:
    out = tmp_path / "out"
    torn = tmp_path / "south.npz"
    torn.write_bytes(paths[1].read_bytes()[:500])
    with pytest.raises(
        SourcesError, match=r"1 of 3 .*south: .*not a readable npz.* does only what is missing"
    ) as error:
        plgc.condense_sources([paths[0], torn, paths[2]], out, **SIZE)
    assert error.value.kind == "sources-failed"
    assert list(error.value.failed) == ["south"]
    assert [source.name for source in error.value.sources.sources] == ["north", "west"]
    assert [entry.name for entry in read_manifest(out).sources] == ["north", "west"]
    assert sorted(path.name for path in out.iterdir()) == ["manifest.json", "north.safetensors", "west.safetensors"]
    made.clear()
    torn.write_bytes(paths[1].read_bytes())
    found = plgc.condense_sources([paths[0], torn, paths[2]], out, **SIZE)
    assert made == ["south"]
    assert [source.made for source in found.sources] == [False, True, False]
    assert files(out) == files(trio)  # as if nothing had happened


def test_a_graph_that_cannot_even_be_written_fails_alone(paths: list[Path], tmp_path: Path) -> None:
    with pytest.raises(SourcesError, match=r"1 of 2 .*: south: x has 5200 NaN"):
        plgc.condense_sources([paths[0], bad_graph()], tmp_path / "out", **SIZE)
    assert (tmp_path / "out" / "north.safetensors").exists()
    with pytest.raises(SourcesError, match=r"1 of 1 .*: big: 100 synthetic nodes of at least 5 nodes each need 500"):
        plgc.condense_sources([graph_of(0)], tmp_path / "out", names=["big"], nodes=100, settings=QUICK)


def test_the_manifest_grows_with_every_finished_source(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(task: SourceTask) -> Any:
        if task.name == "west":
            raise KeyboardInterrupt
        return condense_source(task)

    monkeypatch.setattr(folder_module, "condense_source", interrupted)
    with pytest.raises(KeyboardInterrupt):
        plgc.condense_sources(paths, tmp_path, **SIZE)
    assert [entry.name for entry in read_manifest(tmp_path).sources] == ["north", "south"]
    assert not list(tmp_path.glob(".*"))


def test_a_killed_run_leaves_no_graph_for_good(paths: list[Path], folder: Path) -> None:
    left = folder / f"{WORK}abc"
    left.mkdir()
    (left / "north.npz").write_bytes(paths[0].read_bytes())
    plgc.condense_sources(paths, folder, **SIZE)
    assert not left.exists()


def test_two_runs_do_not_write_into_one_folder(paths: list[Path], folder: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SettingError, match="another run is writing"):
            plgc.condense_sources(paths, folder, **SIZE)
    finally:
        os.close(handle)
    plgc.condense_sources(paths, folder, **SIZE)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, []),
        ({"seed": 1}, NAMES),
        ({"nodes": 9}, NAMES),
        ({"min_cluster": 6}, NAMES),
        ({"private": False}, NAMES),
        ({"cpus": 2}, NAMES),
        ({"private": False, "fingerprint": True}, NAMES),
        ({"memory": "8GiB"}, NAMES),
        ({"engine": "processes", "workers": 1}, []),
    ],
)
def test_what_would_come_out_otherwise_is_made_again(
    paths: list[Path], folder: Path, made: list[str], change: dict[str, Any], names: list[str]
) -> None:
    plgc.condense_sources(paths, folder, **{**SIZE, **change})
    assert made == names


def test_a_changed_graph_or_file_is_made_again(paths: list[Path], folder: Path, made: list[str]) -> None:
    content = (folder / "north.safetensors").read_bytes()
    (folder / "north.safetensors").write_bytes(content[:-4] + b"abcd")
    smaller = graph_of(1)
    assert smaller.edge_index is not None
    smaller.edge_index = smaller.edge_index[:, (smaller.edge_index > 2).all(0)]
    (folder / "west.safetensors").unlink()
    found = plgc.condense_sources([paths[0], smaller, paths[2]], folder, **SIZE)
    assert made == NAMES
    assert [source.replaced for source in found.sources] == [False, True, False]  # the others are as they were listed
    assert (folder / "north.safetensors").read_bytes() == content


def test_what_files_were_made_from_is_kept_outside_the_folder(
    paths: list[Path], tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, out = tmp_path / "cache", tmp_path / "out"
    monkeypatch.setenv("PLGC_CACHE", str(cache))
    plgc.condense_sources(paths[:2], out, **SIZE)
    before = files(out)
    kept = files(cache / "sources")
    assert (cache / "sources").stat().st_mode & 0o077 == 0
    assert len(kept) == 3  # the key, and a record a source
    told = b"".join([*map(str.encode, kept), *kept.values(), *before.values()])
    assert fingerprint(load_graph(paths[0])).encode() not in told  # nobody can test a guess at the graph
    shutil.move(out, tmp_path / "moved")
    made.clear()
    plgc.condense_sources(paths[:2], tmp_path / "moved", **SIZE)
    assert made == []
    shutil.rmtree(cache)  # lost, or another machine: made again, with the same bytes
    again = plgc.condense_sources(paths[:2], tmp_path / "moved", **SIZE)
    assert made == NAMES[:2]
    assert files(tmp_path / "moved") == before
    assert not any(source.replaced for source in again.sources)
    (cache / "sources" / "key").write_bytes(b"short")  # damaged
    made.clear()
    plgc.condense_sources(paths[:2], tmp_path / "moved", **SIZE)
    assert made == NAMES[:2]


def test_a_cache_that_cannot_be_written_costs_time_alone(
    paths: list[Path], tmp_path: Path, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder can be made here")
    monkeypatch.setenv("PLGC_CACHE", str(tmp_path / "file"))
    for _ in range(2):
        plgc.condense_sources(paths[:1], tmp_path / "out", **SIZE)
    assert made == NAMES[:1] * 2


def test_a_late_source_needs_none_of_the_others(paths: list[Path], trio: Path, tmp_path: Path, made: list[str]) -> None:
    gone = [tmp_path / path.name for path in paths[:2]]
    for path, copy in zip(paths, gone, strict=False):
        shutil.copy(path, copy)
    plgc.condense_sources(gone, tmp_path / "one", **SIZE)
    for path in gone:
        path.unlink()
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    made.clear()
    plgc.condense_sources(paths[2], tmp_path / "one", **SIZE)
    plgc.condense_sources([*gone, paths[2]], tmp_path / "two", **SIZE)
    assert made == ["west", "west"]
    assert files(tmp_path / "one") == files(tmp_path / "two") == files(trio)
    with pytest.raises(SourcesError, match=r"north: its graph is not here"):
        plgc.condense_sources([*gone, paths[2]], tmp_path / "two", **{**SIZE, "nodes": 9})
    with pytest.raises(GraphNotFoundError):
        plgc.condense_sources([tmp_path / "typo.npz"], tmp_path / "two", **SIZE)


def test_another_feature_width_is_refused_naming_both(paths: list[Path], folder: Path) -> None:
    other = graph_of(0, features=30)
    other.name = "narrow"
    with pytest.raises(SourcesError, match="narrow has 30 features per node, north has 40"):
        plgc.condense_sources([other], folder, **SIZE)
    assert len(read_manifest(folder).sources) == 3
    alone = plgc.condense(other, **SIZE).save(folder / "narrow.safetensors")
    with pytest.raises(GraphError, match="north has 40 features per node, narrow has 30"):
        plgc.load_sources(folder, alone)


def test_wrong_settings_leave_nothing_behind(paths: list[Path], tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"nodes": None}, "neither"),
        ({"ratio": 0.1}, "both"),
        ({"noise": 1.0}, "clip is not given"),
        ({"clip": -1.0}, "clip is -1"),
        ({"clip": 1.0, "noise": float("nan")}, "noise is nan"),
        ({"clip": 1.0, "fingerprint": True}, "no fingerprint"),
        ({"min_cluster": 0}, "min_cluster is 0"),
        ({"max_share": 2.0}, "max_share is 2"),
        ({"engine": "dask"}, "no engine 'dask'"),
        ({"cpus": 0}, "cpus is 0"),
        ({"names": ["a"]}, r"1 name\(s\) for 3"),
        ({"names": ["a", "b", "../c"]}, "cannot name a file"),
        ({"names": ["a", "b", "A"]}, "not all different"),
    ]
    for change, message in wrong:
        with pytest.raises(SettingError, match=message):
            plgc.condense_sources(paths, tmp_path / "out", **{**SIZE, **change})
    with pytest.raises(SettingError, match="no graph given"):
        plgc.condense_sources([], tmp_path / "out", **SIZE)
    assert not (tmp_path / "out").exists()
    (tmp_path / "file").touch()
    with pytest.raises(SettingError, match="file"):
        plgc.condense_sources(paths, tmp_path / "file", **SIZE)


# Parts


def test_parts_share_the_nodes_by_size(tmp_path: Path, demo_graph: Data, made: list[str]) -> None:
    given: dict[str, Any] = {"nodes": 31, "halo": 1, "seed": 3, "settings": QUICK}
    found = plgc.condense_parts(demo_graph, tmp_path, 3, "metis", **given)
    part = partition_nodes(load_graph(demo_graph), 3, "metis", seed=3)
    cuts = cut_parts(load_graph(demo_graph), part, halo=1)
    assert [graph.nodes_requested for graph in found.load()] == share_nodes(31, torch.bincount(part).tolist())
    assert sum(graph.nodes_requested for graph in found.load()) == 31
    for place, (graph, cut) in enumerate(zip(found.load(), cuts, strict=True)):
        core = int(cut["core_mask"].sum())
        assert (graph.source["nodes"], graph.source["halo"]) == (core, (cut.num_nodes or 0) - core)
        assert graph.source["halo"] > 0
        assert int(graph.counts.sum()) == core
        seed = source_seed(3, place)
        expected = plgc.condense(
            cut, nodes=graph.nodes_requested, seed=seed, settings=QUICK, min_cluster=5, fingerprint=False
        )
        assert graph.to_bytes() == expected.to_bytes()
    assert demo_graph.edge_index is not None
    assert found.partition is not None
    assert found.partition == read_manifest(tmp_path).partition
    assert found.partition["edges"] == demo_graph.edge_index.shape[1] // 2
    across = part[demo_graph.edge_index[0]] != part[demo_graph.edge_index[1]]
    assert found.partition["edges_cut"] == int(across.sum()) // 2 > 0
    made.clear()
    assert not any(source.made for source in plgc.condense_parts(demo_graph, tmp_path, 3, "metis", **given).sources)
    assert made == []
    with pytest.raises(SettingError, match="cut otherwise"):
        plgc.condense_parts(demo_graph, tmp_path, 4, "metis", **given)


def test_the_manifest_of_noisy_parts_tells_no_edges(tmp_path: Path, demo_graph: Data, made: list[str]) -> None:
    given: dict[str, Any] = {"nodes": 20, "halo": 1, "settings": QUICK, "clip": 1.0, "noise": 0.1}
    found = plgc.condense_parts(demo_graph, tmp_path, 2, **given)
    record = {"graph": "demo", "parts": 2, "how": "random", "halo": 1, "seed": 0}
    assert found.partition == read_manifest(tmp_path).partition == {**record, "graph": found.partition["graph"]}
    assert demo_graph.edge_index is not None
    for count in (demo_graph.edge_index.shape[1], demo_graph.edge_index.shape[1] // 2, demo_graph.num_nodes):
        # as a number of its own: a checksum may have its digits
        assert not re.search(rf"\b{count}\b", (tmp_path / "manifest.json").read_text())
    before = files(tmp_path)
    # a manifest from before that was so is read, its files are kept, and the next run takes the counts out of it
    edit(tmp_path, lambda content: content["partition"].update(edges=1000, edges_cut=300))
    assert read_manifest(tmp_path).partition == {**found.partition, "edges": 1000, "edges_cut": 300}
    assert len(plgc.load_sources(tmp_path)) == 2
    made.clear()
    plgc.condense_parts(demo_graph, tmp_path, 2, **given)
    assert (made, files(tmp_path)) == ([], before)
    with pytest.raises(SettingError, match="cut otherwise"):
        plgc.condense_parts(demo_graph, tmp_path, 2, **{**given, "halo": 0})


def test_ratio_is_of_each_part(tmp_path: Path, demo_graph: Data) -> None:
    found = plgc.condense_parts(demo_graph, tmp_path, 2, "skewed", alpha=0.5, ratio=0.05, name="x", settings=QUICK)
    assert [source.name for source in found.sources] == ["x-part1", "x-part2"]
    for graph in found.load():
        assert graph.nodes_requested == round(0.05 * graph.source["nodes"])


@pytest.mark.parametrize(
    ("total", "sizes", "shares"),
    [
        (70, [903, 903, 902], [24, 23, 23]),
        (10, [97, 1, 1, 1], [4, 2, 2, 2]),
        (6, [10, 10, 10], [2, 2, 2]),
        (100, [5, 3, 2], [50, 30, 20]),
    ],
)
def test_shares(total: int, sizes: list[int], shares: list[int]) -> None:
    assert share_nodes(total, sizes) == shares


def test_too_few_nodes_for_the_parts(tmp_path: Path, demo_graph: Data) -> None:
    with pytest.raises(SettingError, match="nodes is 5 for 3 parts: each needs at least 2, so ask for 6"):
        plgc.condense_parts(demo_graph, tmp_path / "out", 3, nodes=5, settings=QUICK)
    assert not (tmp_path / "out").exists()


# Opening


def test_folders_files_and_mixes_are_opened(trio: Path, folder: Path) -> None:
    edit(folder, lambda content: content["sources"][1].update(weight=2.5))
    opened = open_sources([folder, trio / "west.safetensors"])
    assert [(source.name, source.weight) for source in opened] == [
        *zip(NAMES, [1.0, 2.5, 1.0], strict=True),
        ("west", 1.0),
    ]
    [first, *_] = plgc.load_sources(trio / "manifest.json")
    assert first.to_bytes() == (trio / "north.safetensors").read_bytes()
    assert plgc.reconstruct(plgc.load_sources(trio)).blocks == (16, 16, 16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c["sources"][0].update(file="../north.safetensors"), "bare name"),
        (lambda c: c["sources"][0].update(file="/etc/north.safetensors"), "bare name"),
        (lambda c: c["sources"][0].update(file="a\\north.safetensors"), "bare name"),
        (lambda c: c["sources"][0].update(file=".."), "bare name"),
        (lambda c: c["sources"][0].update(file="manifest.json"), "bare name"),
        (lambda c: c["sources"][0].update(file="none.safetensors"), "is missing"),
        (lambda c: c["sources"][0].update(file="link.safetensors"), "leads out of the folder"),
        (lambda c: c["sources"][0].update(sha256="0" * 64), "sha256 differs"),
        (lambda c: c["sources"][0].update(file="south.safetensors"), "sha256 differs"),
        (lambda c: c["sources"][0].update(weight=0), r"sources\[0\].weight is 0: it must be at least 1e-09"),
        (lambda c: c["sources"][0].update(nodes="8"), r"sources\[0\].nodes is '8': a whole number"),
        (lambda c: c["sources"][0].pop("seed"), r"sources\[0\].seed is missing"),
        (lambda c: c["sources"].append(c["sources"][0]), "same name"),
        (lambda c: c.update(sources=[]), "lists no source"),
        (lambda c: c.update(sources="all"), "sources is 'all': a list is needed"),
        (lambda c: c["sources"][0].update(weight=1e300), r"sources\[0\].weight is 1e\+300"),
        (lambda c: c["sources"][0].update(seed=7), "another seed than the manifest lists for north"),
        (lambda c: c["sources"][0].update(nodes=c["sources"][0]["nodes"] + 1), "has other nodes"),
        (lambda c: c["sources"][0].update(name="\x1b]0;north"), "only printable characters"),
        (lambda c: c["sources"][0].update(later=1), r"sources\[0\].'later' is unknown"),
        (lambda c: c.update(partition={"graph": "g"}), "partition.parts is missing"),
        (lambda c: c.update(partition={**CUT, "edges": 5}), "edges and edges_cut go together"),
        (lambda c: c.update(partition={**CUT, "halo": "1"}), "partition.halo is '1'"),
        (lambda c: c.update(format="other"), "holds 'other'"),
        (lambda c: c.update(schema=2), "upgrade plgc"),
        (lambda c: c.update(schema=True), "not a version number"),
    ],
)
def test_a_manifest_is_not_trusted(
    trio: Path, folder: Path, change: Callable[[dict[str, Any]], Any], message: str
) -> None:
    (folder / "link.safetensors").symlink_to(trio / "north.safetensors")
    edit(folder, change)
    with pytest.raises(ArtifactError, match=message):
        plgc.load_sources(folder)


def test_folders_without_a_sound_manifest_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"folder without manifest\.json"):
        plgc.load_sources(tmp_path)
    (tmp_path / "manifest.json").write_text("{")
    with pytest.raises(ArtifactError, match="cannot be read"):
        plgc.load_sources(tmp_path)
    with pytest.raises(ArtifactError, match="no file"):
        plgc.load_sources(tmp_path / "none.safetensors")


def test_a_folder_is_shown_on_one_line(tmp_path: Path) -> None:
    made = plgc.condense_sources([graph_of(0), graph_of(1)], tmp_path / "<b>", **SIZE, progress=False)
    assert repr(made) == f"Sources(2 in {tmp_path / '<b>'}: north, south)"
    assert "&lt;b&gt;: north, south" in made._repr_html_()
