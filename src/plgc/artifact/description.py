"""What the description of a condensed graph may say, by schema, and how its parts must fit each other."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, TypeVar

from plgc.artifact.ancestry import Ancestor
from plgc.graphs.attributes import ALL, Seen
from plgc.graphs.derive import checked_mark
from plgc.runtime.schema import ABSENT, Absent, Count, Positive, Seed64, Share, Since, Size, Within, Word, read

CHANNELS = ("edges", "plain")
EDGE_FREE = "mlp"  # the kind of encoder that sees no edges, as in plgc.method, which is below this package
MANY_CLASSES = 10_000  # classes that a file may have whatever its size: a network has an output for each
Width = Annotated[int, Within(1, 2**31 - 1)]
Plain = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class BranchRecord:
    """An encoder as the file records it: :class:`plgc.method.settings.Branch`."""

    kind: Word
    width: Width
    layers: Width
    edge_drop: Share
    feature_mask: Share
    hidden: Width | Absent = ABSENT  # the first version had one width for every layer


@dataclass(frozen=True)
class ChosenRecord:
    """What our own method chose from the graph, as far as it is read again."""

    branches: tuple[BranchRecord, ...] = ()
    agreement: float | None = None  # of twin encoders, in files of version 0.2.0 and before
    batch_nodes: Positive | Absent = ABSENT


@dataclass(frozen=True)
class SettingsRecord:
    """Settings that are read again; all others are only shown."""

    preset: Annotated[str, Size(1, 100)] | Absent = ABSENT
    min_cluster: Positive = 1
    max_share: Annotated[float, Within(0, 1, above=True)] = 1.0
    clip: Annotated[float, Within(0, above=True)] | Absent = ABSENT
    noise: Annotated[float, Within(0)] | Absent = ABSENT
    private: bool = False
    dtype: Literal["float8", "float16", "float32"] | Absent = ABSENT
    density: Annotated[float, Within(0, 1, above=True)] | Absent = ABSENT

    def __post_init__(self) -> None:
        if (self.clip is ABSENT) != (self.noise is ABSENT):
            raise ValueError("clip and noise go together, one of them is missing")


@dataclass(frozen=True)
class SourceRecord:
    """Counts of the original graph."""

    nodes: Positive | Absent = ABSENT
    edges: Count | Absent = ABSENT
    features: Positive | Absent = ABSENT
    halo: Count | Absent = ABSENT


@dataclass(frozen=True)
class Description:
    """The description of a condensed graph, in full; the module :mod:`plgc.artifact.condensed` explains the fields."""

    format: str
    schema: int
    version: Word
    seed: Seed64
    threads: Annotated[int, Within(1, 2**20)]
    scaling: Literal["l1", "l2", "none"]
    blocks: Annotated[tuple[Width, ...], Size(0, 10_000)]
    settings: Plain
    nodes_requested: Positive
    chosen: Plain
    curves: dict[str, tuple[float, ...]]
    source: dict[str, int]
    fingerprint: Word | None
    method: Annotated[Word, Since(2)] = "plgc"
    seen: Annotated[Plain | Absent, Since(2)] = ABSENT
    num_classes: Annotated[Width | None, Since(2)] = None
    checksum: Annotated[str, Since(3)] = ""
    channels: Annotated[tuple[Literal["edges", "plain"], ...], Since(4)] = ()
    ancestry: Annotated[tuple[Ancestor, ...], Size(0, 10_000), Since(6)] = ()
    largest_share: Annotated[Share | None, Since(6)] = None

    def __post_init__(self) -> None:
        chosen = _known(ChosenRecord, self.chosen, "chosen")
        _known(SettingsRecord, self.settings, "settings")
        read(SourceRecord, self.source, where="source")
        self._check_channels()
        self._check_branches(chosen.branches)

    @property
    def what_was_seen(self) -> Seen:
        """``seen`` as an object; of a file of schema 1, all."""
        if isinstance(self.seen, Absent):
            return ALL
        seen = Seen.from_dict(self.seen)
        _ = None if seen.derived is None else checked_mark(seen.derived)
        if seen.preprocessing is not None and self.schema < 5:
            raise ValueError(f"it describes a table, which schema {self.schema} does not know")
        width = self.source.get("features")
        if seen.preprocessing is not None and width not in (None, len(seen.preprocessing.features)):
            raise ValueError(f"it describes {len(seen.preprocessing.features)} features of a table, and has {width}")
        return seen

    def _check_channels(self) -> None:
        if self.schema < 4:
            return
        if len(self.channels) != len(self.blocks):
            count = f"{len(self.channels)} channel(s) for {len(self.blocks)} block(s)"
            raise ValueError(f"it names {count} of pseudo-labels")
        if list(self.channels) != sorted(self.channels):
            raise ValueError(
                f"its channels are {', '.join(self.channels)}: blocks with edges come before those without"
            )

    def _check_branches(self, branches: tuple[BranchRecord, ...]) -> None:
        """Every branch gave a block of its width, in its channel."""
        if not branches:
            return
        widths = tuple(branch.width for branch in branches)
        if widths != self.blocks:
            raise ValueError(f"its encoders are {widths} wide, its blocks of pseudo-labels {self.blocks}")
        kinds = tuple("plain" if branch.kind == EDGE_FREE else "edges" for branch in branches)
        if self.schema >= 4 and kinds != self.channels:
            raise ValueError(f"its encoders are of the channels {kinds}, its blocks of {self.channels}")


def _known(kind: type[T], values: Plain, where: str) -> T:
    """The declared part of values that a method may add to."""
    names = {item.name for item in fields(kind)}  # pyright: ignore[reportArgumentType]
    return read(kind, {name: value for name, value in values.items() if name in names}, where=where)
