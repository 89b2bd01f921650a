"""Condense sources into a folder, whatever is missing of them: what is there and right is kept, what fails is named."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch_geometric.data import Data

from plgc.artifact.condensed import CondensedGraph
from plgc.runtime.errors import GraphNotFoundError, PLGCError, SettingError
from plgc.runtime.files import check_writable
from plgc.runtime.progress import Progress
from plgc.sources.engine import Task, TaskResult, run_tasks
from plgc.sources.manifest import (
    MANIFEST,
    SUFFIX,
    Entry,
    Manifest,
    check_width,
    file_digest,
    load_sources,
    open_entry,
    read_manifest,
)
from plgc.sources.recipe import Made, Recipe, Work, checkpoints_of, condense_source, source_seed, write_work
from plgc.sources.wanted import Wanted, checked, expected_of
from plgc.sources.workspace import wait_for_file, workspace


class SourcesError(PLGCError):
    """Some sources could not be condensed; the others are in the folder.

    Attributes:
        failed: why, by name.
        sources: those that are finished.
    """

    kind = "sources-failed"

    def __init__(self, failed: Mapping[str, str], sources: Sources) -> None:
        self.failed, self.sources = dict(failed), sources
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failed.items())
        super().__init__(
            f"{len(failed)} of {len(failed) + len(sources.sources)} source(s) could not be condensed: {reasons}. The "
            f"others are in {sources.folder}; running the same again does only what is missing"
        )


@dataclass(frozen=True)
class Source:
    """A source that is finished.

    ``made`` is False, and costs are nothing, where an earlier call had made it; ``replaced`` says that the folder had
    another source of this name, which was made of another graph or otherwise.
    """

    name: str
    path: Path
    entry: Entry
    made: bool = True
    seconds: float = 0.0
    peak_memory_bytes: int | None = None
    replaced: bool = False


@dataclass(frozen=True)
class Sources:
    """The sources of one call, in its order; the folder may hold others."""

    folder: Path
    sources: tuple[Source, ...]
    partition: dict[str, Any] | None = None

    @property
    def manifest(self) -> Path:
        """Where the manifest is."""
        return self.folder / MANIFEST

    def load(self) -> list[CondensedGraph]:
        """The condensed graphs of these sources, for :func:`plgc.reconstruct`."""
        return load_sources(*(source.path for source in self.sources))


def make_sources(
    wanted: Sequence[Wanted],
    out: str | os.PathLike[str],
    recipe: Recipe,
    *,
    seed: int,
    shared_seed: bool,
    partition: dict[str, Any] | None = None,
    engine: Mapping[str, Any],
    progress: Progress | None = None,
) -> Sources:
    """Make what is missing of the sources, one file each, and list every one in the manifest as soon as it is there.

    Raises:
        SourcesError: some have failed; the others are finished.
    """
    run_tasks(condense_source, [], **engine, cpus=recipe.cpus)  # refuses wrong settings before anything is written
    folder = Path(out).absolute()
    check_writable(folder / MANIFEST)
    with workspace(folder) as work:
        run = _Run(folder, work, _start_manifest(folder, out, partition), recipe)
        places = _places(run.manifest, wanted)
        tasks: list[Task] = []
        for source in wanted:
            run.places[source.name] = places[source.name]
            own = seed if shared_seed else source_seed(seed, places[source.name])
            try:
                task = run.prepare(source, own)
            except PLGCError as error:
                run.fail(source.name, str(error))
                continue
            tasks += [] if task is None else [Task(source.name, (task, recipe))]
        if progress is not None and tasks:
            progress(f"condensing {', '.join(task.name for task in tasks)}", 0, len(tasks))
        run_tasks(condense_source, tasks, **engine, cpus=recipe.cpus, progress=progress, finished=run.settle)
    done = tuple(run.done[source.name] for source in wanted if source.name in run.done)
    sources = Sources(Path(out), tuple(replace(s, path=Path(out) / s.path.name) for s in done), run.manifest.partition)
    if run.failed:
        raise SourcesError({s.name: run.failed[s.name] for s in wanted if s.name in run.failed}, sources)
    return sources


class _Run:
    """What stands in the folder while sources are being made."""

    def __init__(self, folder: Path, work: Path, manifest: Manifest, recipe: Recipe) -> None:
        self.folder, self.work, self.manifest, self.recipe = folder, work, manifest, recipe
        self.places: dict[str, int] = {}
        self.done: dict[str, Source] = {}
        self.failed: dict[str, str] = {}

    def prepare(self, wanted: Wanted, seed: int) -> Work | None:
        """What a task needs to make the source; None where it is finished already."""
        graph = wanted.get()
        entry = self.manifest.find(wanted.name)
        if entry is not None and self._is_finished(entry, wanted, graph, seed):
            self.done[wanted.name] = Source(wanted.name, self.folder / entry.file, entry, made=False)
            return None
        if graph is None:
            raise GraphNotFoundError("its graph is not here, and its file in the folder is not what was asked for")
        size = (wanted.nodes, wanted.ratio)
        if isinstance(graph, Path):
            return Work(wanted.name, str(graph), str(self.work), *size, seed)
        path, core = write_work(checked(graph, wanted.name), wanted.name, self.work)
        return Work(wanted.name, path, str(self.work), *size, seed, core, graph._store.get("seen"))

    def _is_finished(self, entry: Entry, wanted: Wanted, graph: Path | Data | None, seed: int) -> bool:
        """Whether the file in the folder is what a task would make, as far as that can be told without making it."""
        recipe = self.recipe
        try:
            found = open_entry(self.folder, entry)
            expected = expected_of(found, wanted, graph)
        except PLGCError:
            return False
        counts = {} if recipe.clip is None else found.source  # noisy files tell none
        return (
            (found.method, found.seed, found.threads) == ("plgc", seed, recipe.cpus)
            and found.settings == recipe.recorded
            and (found.fingerprint is not None) == recipe.fingerprint
            and (found.num_features, found.nodes_requested, found.seen, counts or found.source)
            == (expected.features, expected.nodes, expected.seen, counts or expected.source)
        )

    def settle(self, result: TaskResult) -> None:
        """Take a finished task's file into the folder and the manifest; or note why there is none."""
        if result.error is not None:
            self.fail(result.name, result.error.message)
            return
        made: Made = result.value
        before = self.manifest.find(result.name)
        wait_for_file(Path(made.path))
        try:
            condensed = CondensedGraph.load(made.path)
            for other in self.manifest.sources:
                if other is not before:
                    check_width(result.name, condensed.num_features, other.name, other.features)
        except PLGCError as error:
            self.fail(result.name, str(error))
            return
        file = f"{result.name}{SUFFIX}"
        entry = Entry(
            name=result.name,
            file=file,
            sha256=file_digest(Path(made.path)),
            bytes=os.path.getsize(made.path),
            nodes=condensed.num_nodes,
            nodes_requested=condensed.nodes_requested,
            features=condensed.num_features,
            seed=condensed.seed,
            place=self.places[result.name],
            weight=1.0 if before is None else before.weight,
            settings=self.recipe.published,
        )
        os.replace(made.path, self.folder / file)
        self.manifest = self.manifest.with_source(entry)
        self.manifest.write(self.folder)
        checkpoints_of(self.folder, result.name).clear_all()
        spent = (made.seconds, made.peak_memory_bytes)
        replaced = before is not None and before.sha256 != entry.sha256
        self.done[result.name] = Source(result.name, self.folder / file, entry, True, *spent, replaced)

    def fail(self, name: str, reason: str) -> None:
        """Note why a source could not be made."""
        self.failed[name] = reason.removeprefix(f"{name}: ").rstrip(".")


def _places(manifest: Manifest, wanted: Sequence[Wanted]) -> dict[str, int]:
    """Where each source stands: a name the manifest knows keeps its place, others take the first that are free."""
    known = {source.name: manifest.find(source.name) for source in wanted}
    taken = {entry.place for entry in manifest.sources}
    free = iter(place for place in range(len(taken) + len(wanted)) if place not in taken)
    return {name: next(free) if entry is None else entry.place for name, entry in known.items()}


def _start_manifest(folder: Path, out: str | os.PathLike[str], partition: dict[str, Any] | None) -> Manifest:
    """The manifest that is there, or an empty one; parts of another cut are not mixed with those that are there."""
    manifest = read_manifest(folder) if (folder / MANIFEST).exists() else Manifest()
    if partition is None:
        return manifest
    if manifest.partition is not None and not _same_cut(manifest.partition, partition):
        raise SettingError(f"{out} holds parts of a graph that was cut otherwise: choose another folder")
    started = replace(manifest, partition=partition)
    if "edges" in (manifest.partition or {}) and "edges" not in partition:
        started.write(folder)  # an older version told the edges of noisy parts
    return started


def _same_cut(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records are of the same cut; edges count where both tell them."""
    counts = {"edges", "edges_cut"} - (one.keys() & other.keys())
    return {k: v for k, v in one.items() if k not in counts} == {k: v for k, v in other.items() if k not in counts}
