"""Columns in memory: numbers, dates, or words with a number each; from arrays, lists of values, and text in blocks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Literal

import numpy as np

from plgc.graphs.formats.limits import MAX_COLUMNS

MAX_VALUES = 50  # of a column of words that becomes one feature column per value
DAY = 86_400  # seconds
MISSING = frozenset(("", "na", "n/a", "#n/a", "nan", "null", "none", "?"))
GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3})+")  # points that may stand between thousands

Kind = Literal["id", "word", "value"]
"""How a column is read. ``id``: names of nodes, of which only an empty one is missing, since "NA" may be a name.
``word``: words, also where they are numbers, as labels are. ``value``: numbers where all are, else words, which are not
kept where more than :data:`MAX_VALUES` are different."""


@dataclass(frozen=True)
class Column:
    """One column: numbers, or words.

    Attributes:
        numbers: float64 [N] with NaN where a value is missing, or [N, W] where every value is a vector.
        codes: int64 [N], which of the words; −1 where a value is missing.
        words: the distinct values; None where there were too many to keep.
        dates: whether the numbers are days since 1970.
        decimal: the sign before decimals, where the numbers were not written as plain ones.
        unclear: a value that may be two numbers, 1,234 for instance, where nothing tells which.
        example: a value of a column of words.
    """

    numbers: np.ndarray | None = None
    codes: np.ndarray | None = None
    words: list[str] | None = None
    dates: bool = False
    decimal: str | None = None
    unclear: str | None = None
    example: str | None = None

    def part(self, start: int, end: int) -> Column:
        """Some consecutive rows of it."""
        numbers = None if self.numbers is None else self.numbers[start:end]
        return replace(self, numbers=numbers, codes=None if self.codes is None else self.codes[start:end])

    def coded(self) -> tuple[list[str], np.ndarray]:
        """The words and codes of a column that was read as ids or words."""
        assert self.words is not None
        assert self.codes is not None
        return self.words, self.codes

    def text(self) -> list[str | None]:
        """The values of a column of words, None where one is missing."""
        words, codes = self.coded()
        known = [*words, None]
        return [known[code] for code in codes.tolist()]

    def rows(self, kept: np.ndarray) -> Column:
        """These rows of it, by a mask; words that none of them has are left out."""
        if self.numbers is not None:
            return replace(self, numbers=self.numbers[kept])
        assert self.codes is not None
        codes = self.codes[kept]
        if self.words is None:
            return replace(self, codes=codes)
        used = np.unique(codes[codes >= 0])
        number = np.full(len(self.words) + 1, -1)
        number[used] = np.arange(len(used))
        return replace(self, codes=number[codes], words=[self.words[place] for place in used.tolist()])

    def repeated(self) -> list[str]:
        """The words that occur more than once."""
        words, codes = self.coded()
        return [words[place] for place in np.flatnonzero(np.bincount(codes[codes >= 0]) > 1)]


@dataclass(frozen=True)
class InputTable:
    """A table in memory: columns by name, all of the same length; ``name`` is for messages."""

    name: str
    rows: int
    columns: Mapping[str, Column]

    def only(self, kept: np.ndarray) -> InputTable:
        """The table of some of its rows, by a mask."""
        return InputTable(self.name, int(kept.sum()), {name: own.rows(kept) for name, own in self.columns.items()})


def column_of(values: Any, kind: Kind = "value") -> Column:
    """Make a column of one value per row: numbers, booleans, words, None, or vectors of one length."""
    array = np.asarray(values) if hasattr(values, "dtype") else _object_array(list(values))
    if array.dtype.kind == "O":
        array = _simplified(array)
    if array.dtype.kind in "fiub" and array.ndim <= 2 and (kind == "value" or array.ndim != 1):
        return Column(numbers=array.astype(np.float64))
    if array.dtype.kind in "fiub" and array.ndim == 1:
        distinct, codes = np.unique(array, return_inverse=True)
        missing = np.isnan(distinct) if distinct.dtype.kind == "f" else np.zeros(len(distinct), bool)
        kept = [word_of(value) for value in distinct[~missing].tolist()]
        return Column(codes=np.where(codes < len(kept), codes, -1), words=kept)
    if array.dtype.kind == "M" and array.ndim == 1 and kind == "value":
        return Column(numbers=days_of(array), dates=True)
    if array.ndim != 1 or array.dtype.kind not in "OUS":  # matrices of objects are not read
        return Column(codes=np.full(len(array), -1), words=None)
    coder = Coder(kind)
    coder.add([None if value is None else word_of(value) for value in array.tolist()])
    return coder.column()


class Pieces:
    """Arrays that come one after another and are joined at the end: here in memory, elsewhere on disk."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []

    def append(self, array: np.ndarray) -> None:
        """Add the next one."""
        self.arrays.append(array)

    def joined(self, dtype: type = np.float64) -> np.ndarray:
        """All of them as one; of this type where there are none."""
        return np.concatenate([np.zeros(0, dtype), *self.arrays])

    def clear(self) -> None:
        """Forget them."""
        self.arrays.clear()


MakePieces = Callable[[], Pieces]


class Numbers:
    """Collects numbers; it is given up where a cell is a word."""

    def __init__(self, pieces: MakePieces = Pieces) -> None:
        self.parts: Pieces | None = pieces()
        self.pointed, self.grouped = False, True  # whether there are points; whether they may be between thousands

    def add(self, cells: Sequence[str]) -> None:
        """Add the next cells."""
        if self.parts is not None:
            if self.grouped and "." in "".join(cells):
                self.pointed = True
                self.grouped = all("." not in cell or GROUPED.fullmatch(cell.strip()) for cell in cells)
            if (numbers := numbers_of(cells)) is not None:
                self.parts.append(numbers)
            else:
                self.parts.clear()
                self.parts = None

    def column(self) -> Column | None:
        """All numbers that were added; None where a cell was a word."""
        return None if self.parts is None else Column(numbers=self.parts.joined())


class Coder:
    """Collects words, with a number for each different one in the order in which they come."""

    def __init__(self, kind: Kind = "value", pieces: MakePieces = Pieces) -> None:
        self.rows, self.most = 0, MAX_VALUES if kind == "value" else None
        self.missing = frozenset(("",)) if kind == "id" else MISSING
        self.known: defaultdict[str | None, int] = defaultdict()
        self.known.default_factory = self.known.__len__
        self.example: str | None = None
        self.parts: Pieces | None = pieces()

    def add(self, cells: Sequence[str | None]) -> None:
        """Add the next cells, None or empty where one is missing."""
        self.rows += len(cells)
        if self.parts is None:
            return
        if self.example is None:
            self.example = next((cell for cell in cells if cell and cell.strip().lower() not in self.missing), None)
        codes = (self.known[cell and cell.strip()] for cell in cells)
        self.parts.append(np.fromiter(codes, np.int64, len(cells)))
        if self.most is not None and len(self.known) > self.most + len(self.missing) + 1:
            self.parts.clear()
            self.parts = None
            self.known.clear()

    def column(self) -> Column:
        """All words that were added."""
        kept = [word for word in self.known if word is not None and word.lower() not in self.missing]
        if self.parts is None or (self.most is not None and len(kept) > self.most):
            return Column(codes=np.full(self.rows, -1), words=None, example=self.example)
        codes = self.parts.joined(np.int64)
        if len(kept) < len(self.known):
            number = {word: place for place, word in enumerate(kept)}
            codes = np.array([number.get(word, -1) for word in self.known], dtype=np.int64)[codes]  # pyright: ignore
        return Column(codes=codes, words=kept, example=self.example)


def days_of(times: np.ndarray) -> np.ndarray:
    """Times of NumPy as days since 1970, NaN where there is none."""
    seconds = times.astype("datetime64[s]")
    return np.where(np.isnat(seconds), np.nan, seconds.astype(np.int64) / DAY)


def numbers_of(cells: Sequence[str]) -> np.ndarray | None:
    """Cells of text as float64 [N], NaN where one is missing; None where one is a word."""
    try:
        numbers = np.array(cells, dtype=np.float64)
    except ValueError:
        try:
            numbers = np.array(["nan" if cell.strip().lower() in MISSING else cell for cell in cells], dtype=np.float64)
        except ValueError:
            return None
    return None if "_" in "".join(cells) else numbers  # Python reads 1_0 as ten, other programs do not


def is_number(cell: str) -> bool:
    """Whether a cell of text is a number, and not missing."""
    return numbers_of([cell]) is not None and cell.lower() not in MISSING


def joined_column(name: str, columns: Sequence[Column]) -> Column:
    """The rows of several columns of one name below each other; ValueError where they are of different kinds."""
    arrays = [column.numbers for column in columns if column.numbers is not None]
    if len(arrays) == len(columns):
        if len({(array.shape[1:], column.dates) for array, column in zip(arrays, columns, strict=True)}) > 1:
            raise ValueError(f"{name!r} holds numbers in one table, and dates or vectors in another")
        return Column(numbers=np.concatenate(arrays), dates=columns[0].dates, decimal=columns[0].decimal)
    if arrays:
        word = next(column.example for column in columns if column.numbers is None)
        raise ValueError(f"{name!r} holds numbers in one table and words such as {word!r} in another")
    unclear = next((column.unclear for column in columns if column.unclear is not None), None)
    if unclear is not None or any(column.words is None for column in columns):
        rows = sum(0 if column.codes is None else len(column.codes) for column in columns)
        return Column(codes=np.full(rows, -1), words=None if unclear is None else [], unclear=unclear)
    coder = Coder("word")
    for column in columns:
        coder.add(column.text())
    return coder.column()


def _object_array(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _simplified(array: np.ndarray) -> np.ndarray:
    """Python objects as numbers or as a matrix, where all of them are; else as they are, missing ones None."""
    values: list[Any] = [None if isinstance(value, float) and value != value else value for value in array.tolist()]
    kinds = {type(value) for value in values if value is not None}
    complete = all(value is not None for value in values)

    def all_of(*types: type) -> bool:
        return bool(kinds) and all(issubclass(kind, types) for kind in kinds)

    if all_of(bool, int, float, np.number, np.bool_):
        if complete and all_of(bool, int):
            large = any(not -(2**63) <= int(value) < 2**63 for value in values)
            return np.array(values, dtype=object).astype(np.float64 if large else np.int64)
        return np.array([np.nan if value is None else float(value) for value in values])
    if all_of(list, tuple, np.ndarray) and complete:
        widths = {len(value) for value in values}
        if len(widths) == 1 and max(widths) <= MAX_COLUMNS:
            try:
                return np.array([np.asarray(value, dtype=np.float64) for value in values])
            except (TypeError, ValueError):
                pass
    if all_of(date) and not any(getattr(value, "tzinfo", None) for value in values):
        return np.array(values, dtype="datetime64[s]")
    if kinds and not all_of(str, int, float, bool, np.generic):
        return np.empty((len(values), 0), dtype=object)  # not read
    return _object_array(values)


def word_of(value: Any) -> str:
    """A value as text; 3.0, which some libraries make of a 3 where another value is missing, as 3."""
    value = value.item() if isinstance(value, np.generic) else value
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()
