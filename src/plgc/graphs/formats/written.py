"""Numbers and dates as people write them: 1.234,50 and 1,234.50, 2026-01-31, 2026-01-31 12:00.

Whether a comma stands before decimals or between thousands is told by the cells of a column or, where these leave it
open (1,234), by the other columns of the table. Where nothing tells, the column is marked as ambiguous, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from plgc.graphs.formats.values import MISSING, Column, Kind, MakePieces, Pieces, column_of, days_of, numbers_of

SPACES = " \u00a0\u202f'’"  # between thousands, whatever stands before decimals


def _form(decimal: str, group: str) -> re.Pattern[str]:
    groups = rf"[1-9]\d{{0,2}}(?:[{SPACES}{re.escape(group)}]\d{{3}})+|\d+"
    return re.compile(rf"[+-]?(?:{groups})(?:{re.escape(decimal)}\d+)?")


COMMA, POINT = _form(",", "."), _form(".", ",")
DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?")


class Written:
    """Collects the cells of a column that are no plain numbers; a reading is given up where a cell does not fit it."""

    def __init__(self, pieces: MakePieces = Pieces) -> None:
        self.parts: dict[str, Pieces] = {reading: pieces() for reading in READINGS}
        self.unclear: str | None = None

    def add(self, cells: Sequence[str | None]) -> None:
        """Add the next cells, None or empty where one is missing."""
        if not self.parts:
            return
        known = [None if cell is None or cell.strip().lower() in MISSING else cell.strip() for cell in cells]
        for reading in list(self.parts):
            numbers = READINGS[reading](known)
            if numbers is None:
                self.parts.pop(reading).clear()
            else:
                self.parts[reading].append(numbers)
        if self.unclear is None and {",", "."} <= self.parts.keys():
            self.unclear = next((cell for cell in known if cell and ("," in cell or "." in cell)), None)

    @property
    def decimal(self) -> str | None:
        """The sign before decimals, where only one fits."""
        found = self.parts.keys() & {",", "."}
        return next(iter(found)) if len(found) == 1 else None

    def column(self, decimal: str | None) -> Column | None:
        """The column, read with this sign before decimals where two fit; None where it is neither numbers nor dates."""
        readings = {reading: parts.joined() for reading, parts in self.parts.items()}
        readings = {reading: numbers for reading, numbers in readings.items() if not np.isnan(numbers).all()}
        if "date" in readings:
            return Column(numbers=readings["date"], dates=True)
        if not readings:
            return None
        if len(readings) == 2 and not np.array_equal(readings[","], readings["."], equal_nan=True):
            if decimal is None:
                return Column(codes=np.full(len(readings[","]), -1), words=[], unclear=self.unclear)
            return Column(numbers=readings[decimal], decimal=decimal)
        sign, numbers = next(iter(readings.items()))
        return Column(numbers=numbers, decimal=sign)


def written_column(values: Any, kind: Kind, decimal: str | None) -> Column:
    """A column of a data frame: as :func:`column_of` has it, and numbers and dates where they are written as text."""
    column = column_of(values, kind)
    if kind != "value" or column.numbers is not None or column.example is None:
        return column
    cells = [value if isinstance(value, str) else None for value in np.asarray(values, dtype=object).tolist()]
    if numbers_of([cell or "" for cell in cells]) is not None:
        return column  # plain numbers that are declared as text are words
    written = Written()
    written.add(cells)
    return written.column(decimal) or column


def _with(decimal: str, form: re.Pattern[str]) -> Callable[[Sequence[str | None]], np.ndarray | None]:
    dropped = str.maketrans(dict.fromkeys(SPACES + (".", ",")[decimal == "."], ""))

    def numbers(cells: Sequence[str | None]) -> np.ndarray | None:
        if not all(cell is None or form.fullmatch(cell) for cell in cells):
            return None
        plain = [np.nan if cell is None else float(cell.translate(dropped).replace(",", ".")) for cell in cells]
        return np.array(plain, dtype=np.float64)

    return numbers


def _dates(cells: Sequence[str | None]) -> np.ndarray | None:
    """Dates and times of day as days since 1970."""
    if not all(cell is None or DATE.fullmatch(cell) for cell in cells):
        return None
    try:
        times = np.array(["NaT" if cell is None else cell.rstrip("Z") for cell in cells], dtype="datetime64[s]")
    except ValueError:  # the 31st of February
        return None
    return days_of(times)


READINGS: dict[str, Callable[[Sequence[str | None]], np.ndarray | None]] = {
    ",": _with(",", COMMA),
    ".": _with(".", POINT),
    "date": _dates,
}
