"""Names of nodes that stay in their file: a list of text that takes no memory until it is looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

from plgc.graphs.formats.mixing import splitmix

BLOCK = 1 << 16  # names that are looked at at a time


class StoredText(Sequence[str]):
    """A mapped array of text."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: Any) -> str | list[str]:
        return self.array[place].tolist() if isinstance(place, slice) else str(self.array[place])

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), BLOCK):
            yield from self[start : start + BLOCK]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(str.__eq__, self, other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def repeated(self) -> list[str]:
        """The names that occur more than once; found by hashes, of which memory holds 16 bytes a name."""
        hashes = np.concatenate([self._hashes(start) for start in range(0, len(self), BLOCK)])
        ordered = np.sort(hashes)
        twice = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(twice):
            return []
        places = np.flatnonzero(np.isin(hashes, twice)).tolist()
        return [name for name, count in Counter(self[place] for place in places).items() if count > 1]

    def _hashes(self, start: int) -> np.ndarray:
        block = np.ascontiguousarray(self.array[start : start + BLOCK])
        letters = block.view(np.uint32).reshape(len(block), -1)
        found = np.zeros(len(block), dtype=np.uint64)
        for letter in letters.T:
            found = splitmix(found ^ letter)
        return found
