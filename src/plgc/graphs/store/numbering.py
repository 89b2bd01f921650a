"""Nodes are numbered: in the order of their table, or, without one, in order of the ids that edges name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from plgc.graphs.formats.columns import listed
from plgc.graphs.formats.npy import write_header
from plgc.graphs.formats.values import Column
from plgc.graphs.store.budget import MIB
from plgc.graphs.store.ids import TEXT_BYTES, MissingIdError, NodeIds, as_ids, check_lengths, hashes, sorted_ids
from plgc.graphs.store.spill import Spill, raw
from plgc.runtime.errors import GraphError, SettingError

MERGED_FROM = 1 << 20  # ids that are collected before duplicates are removed
ROWS = 1 << 16  # ids that are written at a time


class IdColumn:
    """Collects the ids of a node table, in order; only their hashes are kept in memory."""

    def __init__(self, folder: Path, column: str, owner: str, told: Callable[[int], None] | None = None) -> None:
        self.folder, self.name, self.owner, self.part = folder, column, owner, ""
        self.told, self.total = told, 0  # called with the number of ids so far
        self.numbers, self.hashes, self.row = Spill(folder), (Spill(folder), Spill(folder)), 0
        self.text, self.width = None, 0  # the file of ids that are text, and the length of the longest

    def begin(self, path: Path) -> None:
        """The next ids come from this file."""
        self.part, self.row = str(path), 0

    def add(self, cells: Any) -> None:
        """Add the next ids: cells of text, or an array of pyarrow or NumPy.

        Raises:
            GraphError: one is missing, or too long.
        """
        try:
            ids = as_ids(cells)
        except MissingIdError as error:
            raise GraphError(
                f"{self.part}: row {self.row + error.row + 1} has no id in {self.name!r}: every node needs one"
            ) from error
        self.row, self.total = self.row + len(ids), self.total + len(ids)
        if self.told is not None:
            self.told(self.total)
        if self.text is None and ids.dtype.kind == "i":
            self.numbers.append(ids)
            return
        if self.text is None:
            self.text, before = self.folder / "ids.text", self.numbers.joined(np.int64)
            for start in range(0, len(before), ROWS):
                self._add_text(before[start : start + ROWS].astype(np.str_))
            self.numbers.clear()
        self._add_text(ids if ids.dtype.kind == "U" else ids.astype(np.str_))

    def _add_text(self, text: np.ndarray) -> None:
        if text.nbytes > TEXT_BYTES and len(text) > 1:  # one long id among short ones makes all of them wide
            for half in np.array_split(text, 2):
                self._add_text(half.astype(f"<U{max(1, int(np.char.str_len(half).max()))}"))
            return
        check_lengths(text)
        for spill, part in zip(self.hashes, hashes(text), strict=True):
            spill.append(part)
        assert self.text is not None
        with open(self.text, "ab") as file:
            np.save(file, text)
        self.width = max(self.width, int(np.char.str_len(text).max(initial=0)))

    def column(self) -> Column:
        """Nothing: ids are no values."""
        return Column(codes=np.zeros(0, np.int64), words=[])

    def finish(self, target: Path) -> NodeIds:
        """Write the ids to ``target``, an npy file of text, and return their places.

        Raises:
            GraphError: there are none, or two nodes have the same.
        """
        first, second = (self.numbers.joined(np.int64), None) if self.text is None else self._joined_hashes()
        if not len(first):
            raise GraphError(f"{self.owner} holds no nodes")
        ids, twice = sorted_ids(np.array(first), second, self.owner)
        if len(twice):
            shown = list(dict.fromkeys(self._named(np.sort(twice)[:5])))
            raise GraphError(
                f"{self.owner}: {len(twice):,} row(s) have an id in {self.name!r} that another row has "
                f"({listed(shown)}): keep one row per node, or name another column as node_id"
            )
        width = self.width or max(len(str(int(first.min()))), len(str(int(first.max()))))
        with open(target, "wb") as file:
            write_text(file, len(first), width, self._blocks())
        for spill in (self.numbers, *self.hashes):
            spill.clear()
        if self.text is not None:
            self.text.unlink()
        return ids

    def _joined_hashes(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = (spill.joined(np.uint64) for spill in self.hashes)
        return first, np.array(second)

    def _blocks(self) -> Iterator[np.ndarray]:
        """The ids as they came, as text or numbers."""
        if self.text is None:
            numbers = self.numbers.joined(np.int64)
            yield from (numbers[start : start + ROWS] for start in range(0, len(numbers), ROWS))
            return
        with open(self.text, "rb") as file:
            while file.peek(1):
                yield np.load(file, allow_pickle=False)

    def _named(self, rows: np.ndarray) -> list[str]:
        """The ids of some rows."""
        found, start = list[str](), 0
        for block in self._blocks():
            found += [str(block[row - start]) for row in rows if start <= row < start + len(block)]
            start += len(block)
        return found


class NamedNodes:
    """Collects the different ids that edges name, within some bytes of memory."""

    def __init__(self, memory: int) -> None:
        self.memory, self.ids, self.pending, self.waiting = memory, np.zeros(0, np.int64), list[np.ndarray](), 0

    def add(self, ids: np.ndarray) -> None:
        """Add the ids of some edges.

        Raises:
            SettingError: they do not fit into memory.
        """
        self.pending.append(np.unique(ids))
        self.waiting += len(self.pending[-1])
        if self.waiting > max(MERGED_FROM, len(self.ids)):
            self._merge()

    def _merge(self) -> None:
        arrays: Sequence[np.ndarray] = [self.ids, *self.pending]
        if any(array.dtype.kind == "U" for array in arrays):
            arrays = [array.astype(np.str_) for array in arrays if len(array)]
        self.ids, self.pending, self.waiting = np.unique(np.concatenate(arrays)), [], 0
        if 4 * self.ids.nbytes > self.memory:
            raise SettingError(
                f"the edges name {len(self.ids):,} nodes or more, whose ids do not fit into memory: allow "
                f"{-(-4 * self.ids.nbytes // MIB):,} MiB more, or give a table of the nodes (--nodes-table)"
            )

    def finish(self, target: Path, owner: str) -> NodeIds:
        """Write the ids to ``target``, in order as numbers where all are digits, else as text; return their places."""
        self._merge()
        ids: Any = self.ids
        if ids.dtype.kind == "i" and len(ids) and not 0 <= ids[0] <= ids[-1] < 10**18:
            ids = np.sort(ids.astype(np.str_))
        elif ids.dtype.kind == "U" and all(word.isascii() and word.isdigit() and len(word) < 19 for word in ids.flat):
            ids = ids[np.argsort(ids.astype(np.int64), kind="stable")]
        as_text = ids.dtype.kind == "U"
        if as_text:
            check_lengths(ids)
        width = int(np.char.str_len(ids).max()) if as_text else len(str(int(ids.max(initial=0))))
        blocks = (ids[start : start + ROWS] for start in range(0, len(ids), ROWS))
        with open(target, "wb") as file:
            write_text(file, len(ids), width, blocks)
        return sorted_ids(*(hashes(ids) if as_text else (ids, None)), owner)[0]


def write_text(file: IO[bytes], rows: int, width: int, blocks: Iterator[np.ndarray]) -> None:
    """Write an npy array of text, of ids that are text or numbers."""
    dtype = np.dtype(f"<U{max(1, width)}")
    write_header(file, dtype, (rows,))
    rows_a_time = max(1, TEXT_BYTES // dtype.itemsize)
    for block in blocks:
        for start in range(0, len(block), rows_a_time):
            file.write(raw(np.ascontiguousarray(block[start : start + rows_a_time], dtype)))
