"""Condense sources into a folder: those that are finished already are kept, those that fail are named."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from plgc.artifact.condensed import CondensedGraph
from plgc.graphs.bare import BareGraph
from plgc.method.condense import resolve_count
from plgc.runtime.errors import GraphError, GraphNotFoundError, PLGCError
from plgc.runtime.files import check_writable
from plgc.runtime.progress import Progress, silent
from plgc.runtime.text import html_line, visible
from plgc.sources.cutting import Cut
from plgc.sources.engine import Placement, Task, TaskResult, run_tasks
from plgc.sources.manifest import (
    MANIFEST,
    SUFFIX,
    Manifest,
    ManifestEntry,
    check_width,
    file_digest,
    load_sources,
    open_entry,
    start_manifest,
)
from plgc.sources.options import SourceOptions
from plgc.sources.origin import StoredPart, is_made_from, origin, part_origin, remember
from plgc.sources.task import (
    MadeSource,
    SourceRequest,
    SourceTask,
    condense_source,
    largest_first,
    read_graph,
    source_checkpoints,
    source_task,
)
from plgc.sources.workspace import wait_for_file, workspace

SEED_STEP = 1000
NAMES_SHOWN = 8  # names of sources on one line


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
    """A finished source.

    ``made`` is False, and the costs are 0 and None, where an earlier call had made it; ``replaced`` says that the
    folder had another source of this name, made from another graph or with other options.
    """

    name: str
    path: Path
    entry: ManifestEntry
    made: bool = True
    seconds: float = 0.0
    peak_memory_bytes: int | None = None
    replaced: bool = False


@dataclass(frozen=True, repr=False)
class Sources:
    """The sources of one call, in its order; the folder may hold others."""

    folder: Path
    sources: tuple[Source, ...]
    partition: dict[str, Any] | None = None

    def __repr__(self) -> str:
        names = [source.name for source in self.sources]
        shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
        return f"Sources({visible(f'{len(names):,} in {self.folder}: {shown}')})"

    def _repr_html_(self) -> str:
        return html_line(repr(self))

    @property
    def manifest(self) -> Path:
        """Where the manifest is."""
        return self.folder / MANIFEST

    def load(self) -> list[CondensedGraph]:
        """The condensed graphs of these sources, for :func:`plgc.reconstruct`."""
        return load_sources(*(source.path for source in self.sources))


def source_seed(seed: int, place: int) -> int:
    """The seed of the source at a place, counted from 0: 1000 · (place + 1) + seed."""
    return SEED_STEP * (place + 1) + seed


def make_sources(
    requests: Sequence[SourceRequest],
    out: str | os.PathLike[str],
    options: SourceOptions,
    placement: Placement,
    *,
    seed: int,
    shared_seed: bool,
    partition: dict[str, Any] | None = None,
    cut: Cut | None = None,
    progress: Progress | None = None,
) -> Sources:
    """Make the sources that are missing, one file each, and list every one in the manifest as soon as it is finished.

    ``cut`` cuts the requests that are parts of a graph on disk.

    Raises:
        SourcesError: some have failed; the others are finished.
    """
    folder = Path(out).absolute()
    check_writable(folder / MANIFEST)
    with workspace(folder) as private:
        run = _Run(folder, start_manifest(out, partition), options, requests)
        started: list[SourceTask] = []
        for request in requests:
            own = seed if shared_seed else source_seed(seed, run.places[request.name])
            try:
                task = run.start(request, private, own)
            except PLGCError as error:
                run.fail(request.name, str(error))
                continue
            started += [] if task is None else [task]
        if cut is not None:
            wanted = [run.cut_parts[task.name] for task in started if task.name in run.cut_parts]
            cut.make(wanted, progress or silent)
        if progress is not None and started:
            progress(f"condensing {', '.join(task.name for task in started)}", 0, len(started))
        tasks = [Task(task.name, (task,), options.compute.budget) for task in largest_first(started, placement)]
        run_tasks(condense_source, tasks, placement=placement, progress=progress, finished=run.finish)
        if cut is not None and not run.failed:
            cut.clear()
    names = [request.name for request in requests]
    done = [replace(run.done[name], path=Path(out) / run.done[name].path.name) for name in names if name in run.done]
    sources = Sources(Path(out), tuple(done), run.manifest.partition)
    if run.failed:
        raise SourcesError({name: run.failed[name] for name in names if name in run.failed}, sources)
    return sources


class _Run:
    """The folder's manifest while sources are made, with those that are done and those that have failed."""

    def __init__(
        self, folder: Path, manifest: Manifest, options: SourceOptions, requests: Sequence[SourceRequest]
    ) -> None:
        self.folder, self.manifest, self.options = folder, manifest, options
        self.places = manifest.places([request.name for request in requests])
        self.cut_parts = {one.name: one.graph for one in requests if isinstance(one.graph, StoredPart)}
        self.done: dict[str, Source] = {}
        self.failed: dict[str, str] = {}

    def start(self, request: SourceRequest, private: Path, seed: int) -> SourceTask | None:
        """The task that makes a source; None where it is finished already."""
        graph = request.read()
        entry = self.manifest.find(request.name)
        if entry is not None and self._is_finished(entry, request, graph, seed):
            self.done[request.name] = Source(request.name, self.folder / entry.file, entry, made=False)
            return None
        if graph is None:
            raise GraphNotFoundError(
                "its graph is not here, and its file in the folder is missing or has other options"
            )
        return source_task(request, graph, private, seed, self.options)

    def _is_finished(
        self, entry: ManifestEntry, request: SourceRequest, graph: Path | BareGraph | StoredPart | None, seed: int
    ) -> bool:
        """Whether the file in the folder is what a task would make; without the graph, as far as its options tell."""
        release, threads = self.options.release, self.options.compute.threads
        try:
            found = open_entry(self.folder, entry)
            if graph is None:
                made = (found.method, found.seed, found.threads, found.settings, found.fingerprint is not None)
                same = made == ("plgc", seed, threads, self.options.recorded, release.fingerprint)
                return same and request.nodes in (None, found.nodes_requested)
            if isinstance(graph, StoredPart):
                count = resolve_count(graph.nodes, request.ratio, request.nodes)
                return is_made_from(entry.sha256, part_origin(graph, count, seed, self.options))
            graph = read_graph(graph) if isinstance(graph, Path) else graph
            count = resolve_count(graph.num_own, request.ratio, request.nodes)
        except PLGCError:
            return False
        return is_made_from(entry.sha256, origin(graph, count, seed, self.options))

    def finish(self, result: TaskResult) -> None:
        """Move a finished task's file into the folder and list it in the manifest; or note why there is none."""
        if result.error is not None:
            self.fail(result.name, result.error.message)
            if result.error.kind == GraphError.kind:
                self._drop_part(result.name)  # which may be damaged: it is cut again
            return
        made: MadeSource = result.value
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
        entry = ManifestEntry(
            name=result.name,
            file=f"{result.name}{SUFFIX}",
            sha256=file_digest(made.path),
            bytes=os.path.getsize(made.path),
            nodes=condensed.num_nodes,
            nodes_requested=condensed.nodes_requested,
            features=condensed.num_features,
            seed=condensed.seed,
            place=self.places[result.name],
            weight=1.0 if before is None else before.weight,
            settings=self.options.published,
        )
        path = self.folder / entry.file
        remember(entry.sha256, made.origin)
        os.replace(made.path, path)
        self.manifest = self.manifest.with_source(entry)
        self.manifest.write(self.folder)
        source_checkpoints(self.folder, result.name).clear_all()
        self._drop_part(result.name)
        replaced = before is not None and before.sha256 != entry.sha256
        self.done[result.name] = Source(result.name, path, entry, True, made.seconds, made.peak_memory_bytes, replaced)

    def _drop_part(self, name: str) -> None:
        """Remove a part that was cut from a graph on disk."""
        if name in self.cut_parts:
            shutil.rmtree(self.cut_parts[name].path, ignore_errors=True)

    def fail(self, name: str, reason: str) -> None:
        """Note why a source could not be made."""
        self.failed[name] = reason.removeprefix(f"{name}: ").rstrip(".")
