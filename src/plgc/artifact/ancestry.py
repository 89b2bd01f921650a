"""What a condensed graph was made from, where that was other condensed graphs: by updating, forgetting or merging.

Checksums and sizes, and of every parent what was done before its release; no time, no path, no name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from plgc.runtime.schema import Count, Digest, Positive, Size, Within

MOST_PARENTS = 10_000
How = Literal["update", "update-only-new", "forget", "merge"]


@dataclass(frozen=True)
class Parent:
    """A file that another one was made from.

    Attributes:
        checksum: SHA-256 of the file, as this version writes it.
        rows: its synthetic nodes.
        nodes: of the graph that it was made from; None where it does not say.
        edges: likewise.
        min_cluster, max_share, clip, noise, private: what was done before its release, see
            :class:`plgc.method.release.Release`.
    """

    checksum: Digest
    rows: Positive
    nodes: Positive | None = None
    edges: Count | None = None
    min_cluster: Positive = 1
    max_share: Annotated[float, Within(0, 1, above=True)] = 1.0
    clip: Annotated[float, Within(0, above=True)] | None = None
    noise: Annotated[float, Within(0)] | None = None
    private: bool = False

    def __post_init__(self) -> None:
        if (self.clip is None) != (self.noise is None):
            raise ValueError("clip and noise go together, one of them is missing")


@dataclass(frozen=True)
class Ancestor:
    """One step in the making of a file: what was done, and to which files.

    Forgetting names no parent: its checksum and sizes would let guesses at the removed nodes be checked.
    """

    how: How
    parents: Annotated[tuple[Parent, ...], Size(0, MOST_PARENTS)]

    def __post_init__(self) -> None:
        if (self.how == "forget") != (not self.parents):
            raise ValueError(f"{self.how} names {len(self.parents)} parent(s): forgetting names none, all else does")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without those that are not known."""
        parents = [{name: value for name, value in asdict(p).items() if value is not None} for p in self.parents]
        return {"how": self.how, "parents": parents}
