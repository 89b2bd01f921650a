"""A folder of condensed graphs: one file a source, and ``manifest.json``, which says what they are.

The manifest is a JSON object with ``format``, ``schema``, ``version`` (of the package), ``partition`` (how one graph
was cut, where the sources are its parts) and ``sources``: for each its ``name``, ``file`` (a bare name, not a path),
``sha256``, ``bytes``, ``nodes``, ``nodes_requested``, ``features``, ``seed``, ``place`` (which decides the seed),
``weight`` (in the reconstruction; may be edited) and ``settings``. It may come from a stranger: file names that lead
out of the folder are refused, and so is a file whose checksum is not the listed one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from plgc._version import __version__
from plgc.artifact.condensed import CondensedGraph
from plgc.downstream.combine import of_one_graph
from plgc.runtime.container import check_format
from plgc.runtime.errors import ArtifactError, GraphError, SettingError
from plgc.runtime.files import write_atomically
from plgc.runtime.schema import ABSENT, Absent, Count, Digest, Positive, SchemaError, Seed64, Size, Within, Word, read

MANIFEST = "manifest.json"
FORMAT = "plgc-sources"
SCHEMA = 1
SUFFIX = ".safetensors"
MAX_BYTES = 16 * 2**20  # of a manifest; one source takes some hundreds


@dataclass(frozen=True)
class ManifestEntry:
    """One source of a manifest."""

    name: Annotated[str, Size(1, 200)]
    file: Annotated[str, Size(1, 255)]
    sha256: Digest
    bytes: Positive
    nodes: Positive
    nodes_requested: Positive
    features: Positive
    seed: Seed64
    place: Annotated[int, Within(0, 1_000_000)]
    weight: Annotated[float, Within(1e-9, 1e9)]
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        file = self.file
        if any(sign in file for sign in "/\\:") or file.startswith(".") or not file.endswith(SUFFIX):
            raise ValueError(
                f"it names the file {file!r:.100}, which must be the bare name of a {SUFFIX} file beside it"
            )


@dataclass(frozen=True)
class Partition:
    """How one graph was cut into the sources; without numbers of edges where files are private or noisy."""

    graph: Annotated[str, Size(1, 200)]
    parts: Annotated[int, Within(2, 1_000_000)]
    how: Literal["random", "metis", "stream", "skewed"]
    halo: Annotated[int, Within(0, 1_000_000)]
    seed: Seed64
    alpha: Annotated[float, Within(0, above=True)] | Absent = ABSENT
    edges: Count | Absent = ABSENT
    edges_cut: Count | Absent = ABSENT

    def __post_init__(self) -> None:
        if isinstance(self.edges, Absent) != isinstance(self.edges_cut, Absent):
            raise ValueError("edges and edges_cut go together, one of them is missing")
        if (
            not isinstance(self.edges, Absent)
            and not isinstance(self.edges_cut, Absent)
            and self.edges_cut > self.edges
        ):
            raise ValueError(f"{self.edges_cut} of {self.edges} edges are said to be cut")


@dataclass(frozen=True)
class ManifestFile:
    """A manifest as it is written."""

    format: str
    schema: int
    version: Word
    sources: tuple[ManifestEntry, ...]
    partition: Partition | None = None

    def __post_init__(self) -> None:
        names = [entry.name.casefold() for entry in self.sources]
        if len(set(names)) < len(names):
            raise ValueError("two sources have the same name")


@dataclass(frozen=True)
class Manifest:
    """What a folder holds; sources in the order of their places."""

    sources: tuple[ManifestEntry, ...] = ()
    partition: dict[str, Any] | None = None

    def find(self, name: str) -> ManifestEntry | None:
        """The source of this name; upper and lower case are the same, as on some disks."""
        return next((entry for entry in self.sources if entry.name.casefold() == name.casefold()), None)

    def with_source(self, entry: ManifestEntry) -> Manifest:
        """The same with one source added, or put in place of the one with its name."""
        others = [other for other in self.sources if other.name.casefold() != entry.name.casefold()]
        return replace(self, sources=tuple(sorted([*others, entry], key=lambda one: (one.place, one.name))))

    def places(self, names: Sequence[str]) -> dict[str, int]:
        """A place for every name: a source that is listed keeps its own, others take the first that are free."""
        taken = {entry.place for entry in self.sources}
        free = iter(place for place in range(len(taken) + len(names)) if place not in taken)
        listed = {name: self.find(name) for name in names}
        return {name: next(free) if entry is None else entry.place for name, entry in listed.items()}

    def write(self, folder: Path) -> Path:
        """Write it into the folder, whole or not at all."""
        content = {"format": FORMAT, "schema": SCHEMA, "version": __version__, **asdict(self)}
        return write_atomically(folder / MANIFEST, f"{json.dumps(content, indent=2, allow_nan=False)}\n".encode())


@dataclass(frozen=True)
class OpenSource:
    """A condensed graph with the name, file and weight of its source; ``part_of`` is the graph it is a part of."""

    name: str
    path: Path
    condensed: CondensedGraph
    weight: float = 1.0
    part_of: str | None = None


def load_sources(*paths: str | os.PathLike[str]) -> list[CondensedGraph]:
    """Open condensed graphs for :func:`plgc.reconstruct`, one per source.

    Args:
        paths: files, folders with a manifest, or a mix of them; a folder gives all its sources.

    Raises:
        ArtifactError: a file is missing, damaged or not the one that its manifest lists.
        GraphError: two of them have different features.
    """
    return [source.condensed for source in open_sources(paths)]


def open_sources(paths: Sequence[str | os.PathLike[str]]) -> list[OpenSource]:
    """What :func:`load_sources` opens, with names and weights."""
    found: list[OpenSource] = []
    for path in map(Path, paths):
        if path.is_dir() or path.name == MANIFEST:
            found += _open_folder(path if path.is_dir() else path.parent)
        else:
            found.append(OpenSource(path.stem, path, CondensedGraph.load(path)))
    for other in found[1:]:
        check_width(found[0].name, found[0].condensed.num_features, other.name, other.condensed.num_features)
    return found


def default_combination(sources: Sequence[OpenSource], weighted: bool = False) -> str | None:
    """How sources are combined where nobody says how: the parts of one graph are merged; None for the usual way."""
    alike = len({(source.part_of, source.path.parent) for source in sources}) == 1
    if not alike or sources[0].part_of is None or weighted:
        return None
    return of_one_graph([source.condensed for source in sources])


def check_width(name: str, features: int, other: str, others: int) -> None:
    """Raise unless two sources have the same number of features, naming both."""
    if features != others:
        raise GraphError(
            f"{name} has {features} features per node, {other} has {others}: only graphs with the same features can "
            "be combined"
        )


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of a folder, checked.

    Raises:
        ArtifactError: there is none, it is damaged, or it names files outside the folder.
    """
    path = Path(folder) / MANIFEST
    if not path.is_file():
        raise ArtifactError(f"{folder} is a folder without {MANIFEST}: name condensed files, or a folder that has one")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, at most {MAX_BYTES:,} are read")
        content = json.loads(path.read_bytes().decode())
    except (OSError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{path} cannot be read: {error}") from error
    content = check_format(path, content, (FORMAT,), SCHEMA)
    try:
        found = read(ManifestFile, content, schema=content["schema"])
    except SchemaError as error:
        raise ArtifactError(f"{path} is damaged: {str(error)[:400]}") from error
    return Manifest(found.sources, content.get("partition"))


def start_manifest(out: str | os.PathLike[str], partition: dict[str, Any] | None = None) -> Manifest:
    """The manifest of a folder that sources are added to; an empty one where there is none yet.

    Raises:
        SettingError: it lists parts of a graph that was cut in another way than ``partition``.
    """
    manifest = check_same_cut(out, partition)
    if partition is None:
        return manifest
    started = replace(manifest, partition=partition)
    if "edges" in (manifest.partition or {}) and "edges" not in partition:
        started.write(Path(out))  # earlier versions listed the edges of noisy parts
    return started


def check_same_cut(out: str | os.PathLike[str], partition: Mapping[str, Any] | None) -> Manifest:
    """The manifest of a folder, as :func:`start_manifest` has it, without writing anything."""
    manifest = read_manifest(out) if os.path.exists(os.path.join(out, MANIFEST)) else Manifest()
    if None not in (partition, manifest.partition) and not _same_cut(manifest.partition or {}, partition or {}):
        raise SettingError(f"{out} holds parts of a graph that was cut otherwise: choose another folder")
    return manifest


def _same_cut(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two records are of the same cut; numbers of edges are compared where both have them."""
    counts = {"edges", "edges_cut"} - (one.keys() & other.keys())
    return {k: v for k, v in one.items() if k not in counts} == {k: v for k, v in other.items() if k not in counts}


def open_entry(folder: Path, entry: ManifestEntry) -> CondensedGraph:
    """Open the file of a source, which must lie in the folder and have the listed checksum."""
    path = folder / entry.file
    if not os.path.isfile(path):  # also where the name is too long for the disk
        raise ArtifactError(f"{path} is missing: the manifest lists it as {entry.name}; condense that source again")
    if path.resolve().parent != folder.resolve():
        raise ArtifactError(f"{path} leads out of the folder: a manifest's files must lie beside it")
    if file_digest(path) != entry.sha256:
        raise ArtifactError(
            f"{path} is not the file that the manifest lists as {entry.name} (its sha256 differs): condense that "
            "source again, or name the file by itself"
        )
    condensed = CondensedGraph.load(path)
    told = (entry.nodes, entry.nodes_requested, entry.features, entry.seed)
    if told != (condensed.num_nodes, condensed.nodes_requested, condensed.num_features, condensed.seed):
        raise ArtifactError(
            f"{path} has other nodes, features or another seed than the manifest lists for {entry.name}: condense that "
            "source again, or name the file by itself"
        )
    return condensed


def file_digest(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a file's content."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_folder(folder: Path) -> list[OpenSource]:
    manifest = read_manifest(folder)
    if not manifest.sources:
        raise ArtifactError(f"{folder / MANIFEST} lists no source: condense a graph into the folder first")
    whole = (manifest.partition or {}).get("graph")
    return [
        OpenSource(entry.name, folder / entry.file, open_entry(folder, entry), entry.weight, whole)
        for entry in manifest.sources
    ]
