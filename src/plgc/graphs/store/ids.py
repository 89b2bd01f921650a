"""Ids of nodes, and the numbers 0 … N − 1 that they get.

Ids are compared as text. Where all of them are whole numbers as one writes them (7, not 007), the numbers are sorted;
else a 128-bit hash of the text. So a node takes 12 or 20 bytes, whatever its id is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from plgc.graphs.check import MAX_NODES
from plgc.graphs.formats.arrays import MAX_NAME
from plgc.graphs.formats.values import word_of
from plgc.graphs.standard import splitmix
from plgc.runtime.errors import GraphError

SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)  # digits of π
TEXT_BYTES = 8 << 20  # of ids as an array of text at a time
SPARE = 2  # numbers a node up to which places are looked up in a table, not searched


class MissingIdError(GraphError):
    """A row without an id; ``row`` counts from 0 within what was given."""

    def __init__(self, row: int) -> None:
        super().__init__(f"row {row + 1} has no id")
        self.row = row


def as_ids(values: Any) -> np.ndarray:
    """Cells of text, an array of pyarrow or a NumPy array of text as int64, where all ids are such, else as text.

    Raises:
        MissingIdError: one is empty or missing.
    """
    if isinstance(values, np.ndarray):
        return _whole_numbers(values)
    if isinstance(values, list):
        return _whole_numbers(_text(values))
    if values.null_count:
        raise MissingIdError(int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0]))
    import pyarrow as pa

    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_ids(values.dictionary_decode())
    if pa.types.is_integer(kind) and kind != pa.uint64():
        return values.to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        numbers = _arrow_numbers(values)
        return _text(values.to_pylist()) if numbers is None else numbers
    cells = values.to_numpy(zero_copy_only=False)
    if cells.dtype.kind == "f" and np.isnan(cells).any():
        raise MissingIdError(int(np.flatnonzero(np.isnan(cells))[0]))
    return _whole_numbers(_text([word_of(value) for value in cells.tolist()]))


def _text(cells: list[str]) -> np.ndarray:
    text = np.array([cell.strip() for cell in cells], dtype=np.str_)
    if (text == "").any():
        raise MissingIdError(int(np.flatnonzero(text == "")[0]))
    return text


def _arrow_numbers(values: Any) -> np.ndarray | None:
    """Text as int64; None where an id is no whole number as one writes it."""
    import pyarrow as pa

    try:
        numbers = values.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers.to_numpy(zero_copy_only=False) if numbers.cast(values.type).equals(values) else None


def _whole_numbers(text: np.ndarray) -> np.ndarray:
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if np.array_equal(numbers.astype(np.str_), text) else text


def hashes(text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two 64-bit hashes of each text; they do not depend on the array's width."""
    length = np.char.str_len(text).astype(np.uint64)
    letters = np.ascontiguousarray(text).view(np.uint32).reshape(len(text), -1)
    letters = np.pad(letters, ((0, 0), (0, letters.shape[1] % 2))).view(np.uint64)
    found = []
    for seed in SEEDS:
        mixed = splitmix(length ^ np.uint64(seed))
        for place in range(letters.shape[1]):
            mixed = np.where(length > np.uint64(2 * place), splitmix(mixed ^ letters[:, place]), mixed)
        found.append(mixed)
    return found[0], found[1]


@dataclass(frozen=True)
class NodeIds:
    """The places of all nodes by their ids.

    Attributes:
        keys: int64 or, where ids are text, uint64 [N], sorted.
        second: the second hash, in the same order; None for numbers.
        order: int32 [N], the node of each key.
        table: int32, the node of each number from the smallest on, −1 for none; for numbers with few gaps, of which
            ``keys`` then has the smallest and the largest alone.
        count: N.
    """

    keys: np.ndarray
    second: np.ndarray | None
    order: np.ndarray
    table: np.ndarray | None = None
    count: int = 0

    def __len__(self) -> int:
        return self.count or len(self.order)

    def __contains__(self, word: object) -> bool:
        return bool(word) and bool(self.find(as_ids([str(word)]))[0] >= 0)

    def find(self, ids: np.ndarray) -> np.ndarray:
        """The nodes of some ids, int64; −1 for those that there are not."""
        if not len(self.keys):
            return np.full(len(ids), -1)
        if self.second is None and ids.dtype.kind == "U":  # numbers and words: the words are not there
            return np.concatenate([self._found(as_ids([word])) for word in ids.tolist()])
        return self._found(ids)

    def _found(self, ids: np.ndarray) -> np.ndarray:
        if self.second is None:
            if ids.dtype.kind == "U":
                return np.full(len(ids), -1)
            if self.table is not None:
                near = ids - self.keys[0]
                inside = (ids >= self.keys[0]) & (ids <= self.keys[-1])
                return np.where(inside, self.table[np.where(inside, near, 0)], -1).astype(np.int64)
            first, second = ids, None
        else:
            first, second = hashes(ids if ids.dtype.kind == "U" else ids.astype(np.str_))
        place = np.minimum(np.searchsorted(self.keys, first), len(self.keys) - 1)
        known = self.keys[place] == first
        if self.second is not None:
            known &= self.second[place] == second
        return np.where(known, self.order[place], -1).astype(np.int64)

    def save(self, folder: Path) -> None:
        """Write it into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "keys.npy", self.keys)
        np.save(folder / "order.npy", self.order)
        if self.second is not None:
            np.save(folder / "second.npy", self.second)

    @staticmethod
    def load(folder: Path) -> NodeIds:
        """Read what :meth:`save` wrote."""
        keys, order = (_stored(folder / f"{name}.npy") for name in ("keys", "order"))
        if (folder / "second.npy").exists():
            return NodeIds(keys, _stored(folder / "second.npy"), order)
        span = int(keys[-1]) - int(keys[0]) + 1 if len(keys) else 0
        if not 0 < span <= SPARE * len(keys):
            return NodeIds(keys, None, order)
        table = np.full(span, -1, dtype=np.int32)
        table[keys - keys[0]] = order
        return NodeIds(keys[[0, -1]], None, order[:0], table, len(order))


def sorted_ids(first: np.ndarray, second: np.ndarray | None, owner: str) -> tuple[NodeIds, np.ndarray]:
    """Ids, or hashes of ids, as :class:`NodeIds`; and the nodes whose id is that of another node.

    Raises:
        GraphError: there are too many, or two different ids have one hash.
    """
    if len(first) >= MAX_NODES:
        raise GraphError(f"{owner}: {len(first)} nodes, the limit is {MAX_NODES - 1}")
    order = np.argsort(first)
    keys = first[order]
    again = np.flatnonzero(keys[1:] == keys[:-1])
    order = order.astype(np.int32)
    if second is None:
        return NodeIds(keys, None, order), order[again + 1]
    second = second[order]
    if (second[again + 1] != second[again]).any():
        raise GraphError(f"{owner}: two different ids have the same 64-bit hash: give the nodes numbers as ids")
    return NodeIds(keys, second, order), order[again + 1]


def check_lengths(text: np.ndarray) -> None:
    """Raise where an id is too long to be kept."""
    length = np.char.str_len(text)
    if length.max(initial=0) > MAX_NAME:
        longest = str(text[int(length.argmax())])
        raise GraphError(f"node_ids: {longest[:20]!r}… has {len(longest)} characters, the limit is {MAX_NAME}")


def _stored(path: Path) -> np.ndarray:
    return np.load(path, allow_pickle=False)
