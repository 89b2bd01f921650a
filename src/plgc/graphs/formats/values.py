"""Columns in memory: numbers, or words by number; from arrays, lists of anything, and text that comes in blocks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_COLUMNS = 20_000
MAX_VALUES = 50  # of a column of words that becomes one feature column per value
MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?"))


@dataclass(frozen=True)
class Column:
    """One column: numbers, or words.

    Attributes:
        numbers: float64 [N] with NaN where a value is missing, or [N, W] where every value is a vector.
        codes: int64 [N], which of the words; −1 where a value is missing.
        words: the distinct values; None where there were too many to keep.
    """

    numbers: np.ndarray | None = None
    codes: np.ndarray | None = None
    words: list[str] | None = None

    def text(self) -> list[str | None]:
        """The values of a column of words, None where one is missing."""
        assert self.codes is not None
        assert self.words is not None
        words = [*self.words, None]
        return [words[code] for code in self.codes.tolist()]


@dataclass(frozen=True)
class Table:
    """A table in memory: columns by name, all of the same length, and what to call it in messages."""

    name: str
    rows: int
    columns: Mapping[str, Column]


def column_of(values: Any, words: bool = False, cap: int | None = None, ids: bool = False) -> Column:
    """Bring values of any origin (an array, a list with None in it) to a column.

    Args:
        values: one value per row: numbers, booleans, words, None, or vectors of one length.
        words: take numbers as words too, as ids and labels are.
        cap: forget the values of a column with more different words than this.
        ids: take values as names of nodes, of which only an empty one is missing.
    """
    words = words or ids
    array = np.asarray(values) if hasattr(values, "dtype") else _array(list(values))
    if array.dtype.kind == "O":
        array = _plain_objects(array)
    if array.dtype.kind in "fiub" and array.ndim <= 2 and not (words and array.ndim == 1):
        return Column(numbers=array.astype(np.float64))
    if array.dtype.kind in "fiub" and array.ndim == 1:
        distinct, codes = np.unique(array, return_inverse=True)
        missing = np.isnan(distinct) if distinct.dtype.kind == "f" else np.zeros(len(distinct), bool)
        kept = [_word(value) for value in distinct[~missing].tolist()]
        return Column(codes=np.where(codes < len(kept), codes, -1), words=kept)
    if array.ndim != 1 or array.dtype.kind not in "OUS":  # times, matrices: not for us
        return Column(codes=np.full(len(array), -1), words=None)
    coder = Coder(cap, ids)
    coder.add([None if value is None else _word(value) for value in array.tolist()])
    return coder.column()


class Coder:
    """Numbers words in the order in which they come, in blocks; gives up beyond ``cap`` different ones.

    Of an id only an empty one is missing: "NA" may be the name of a node.
    """

    def __init__(self, cap: int | None = None, ids: bool = False) -> None:
        self.cap, self.rows = cap, 0
        self.missing = frozenset(("",)) if ids else MISSING
        self.known: defaultdict[str | None, int] = defaultdict()
        self.known.default_factory = self.known.__len__
        self.parts: list[np.ndarray] | None = []

    def add(self, values: Sequence[str | None]) -> None:
        """Take the next values, None or empty where one is missing."""
        self.rows += len(values)
        if self.parts is None:
            return
        self.parts.append(np.fromiter(map(self.known.__getitem__, values), np.int64, len(values)))
        if self.cap is not None and len(self.known) > self.cap + len(self.missing) + 1:
            self.parts = None
            self.known.clear()

    def column(self) -> Column:
        """Everything so far."""
        kept = [word for word in self.known if word is not None and word.lower() not in self.missing]
        if self.parts is None or (self.cap is not None and len(kept) > self.cap):
            return Column(codes=np.full(self.rows, -1), words=None)
        codes = np.concatenate([np.zeros(0, np.int64), *self.parts])
        if len(kept) < len(self.known):
            number = {word: place for place, word in enumerate(kept)}
            codes = np.array([number.get(word, -1) for word in self.known], dtype=np.int64)[codes]  # pyright: ignore
        return Column(codes=codes, words=kept)


def _array(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _plain_objects(array: np.ndarray) -> np.ndarray:
    """Python objects as numbers or as a matrix, where all of them are; else as they are, missing ones None."""
    values = [None if value is None or value is np.nan else value for value in array.tolist()]
    values = [None if isinstance(value, float) and value != value else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    present = sum(value is not None for value in values)
    if kinds and all(issubclass(kind, (bool, int, float, np.number, np.bool_)) for kind in kinds):
        if len(values) == present and all(issubclass(kind, (bool, int)) for kind in kinds):
            return np.array(values, dtype=object).astype(np.float64 if _large(values) else np.int64)
        return np.array([np.nan if value is None else float(value) for value in values])
    if kinds and all(issubclass(kind, (list, tuple, np.ndarray)) for kind in kinds) and len(values) == present:
        widths = {len(value) for value in values}
        if len(widths) == 1 and max(widths) <= MAX_COLUMNS:
            try:
                return np.array([np.asarray(value, dtype=np.float64) for value in values])
            except (TypeError, ValueError):
                pass
        return np.empty((len(values), 0), dtype=object)
    simple = (str, int, float, bool, np.generic)
    if any(not issubclass(kind, simple) for kind in kinds):
        return np.empty((len(values), 0), dtype=object)
    return _array(values)


def _large(values: list[Any]) -> bool:
    return any(not -(2**63) <= int(value) < 2**63 for value in values)


def _word(value: Any) -> str:
    """A value as text; 3.0, which is what a table makes of a 3 beside a gap, as 3."""
    value = value.item() if isinstance(value, np.generic) else value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
