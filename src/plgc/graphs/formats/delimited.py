"""Tables in text: CSV, TSV and the like, read in blocks without pandas; delimiter and header line are guessed.

A column is read as numbers until a word is found; then the file is read once more with that column as words. So a wide
table of numbers takes eight bytes a cell, and a column of long texts without a role takes no memory.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from plgc.graphs.formats.columns import is_known, listed
from plgc.graphs.formats.limits import MAX_COLUMNS, open_lines
from plgc.graphs.formats.values import MISSING, Coder, Column, InputTable, Kind, MakePieces, Numbers, Pieces, is_number
from plgc.graphs.formats.written import Written
from plgc.runtime.errors import GraphError

DELIMITERS = (",", "\t", ";", "|", " ")
SAMPLE_ROWS = 20
SEARCHED_ROWS = 100_000  # in which a cell of the first line is searched
BLOCK_CELLS, BLOCK_ROWS = 500_000, 128  # at most the one, at least the other
BLOCK_LETTERS = 1 << 24  # … and about as many letters at most
MAX_ROWS = 2**31


@dataclass(frozen=True)
class Layout:
    """How a text table is laid out: delimiter, lines before the first row, whether that is a header, its cells."""

    path: Path
    delimiter: str
    skipped: int
    header: bool
    names: tuple[str, ...]
    first: tuple[str, ...]


def find_layout(
    path: Path,
    roles: Sequence[str],
    notes: list[str],
    header: bool | None = None,
    named: Collection[str] = (),
    ids: Callable[[], Collection[str]] = tuple,
) -> Layout:
    """Guess delimiter and header line from the first lines.

    Args:
        path: the file.
        roles: of the edge list or of the node table.
        notes: a sentence on what was guessed is added.
        header: whether the first line is a header, where the user says so.
        named: columns that the user names.
        ids: gives ids of nodes that the other table has; called where nothing else tells.

    Raises:
        GraphError: there are no lines, or not two columns of them.
    """
    skipped, line = 0, ""
    with open_lines(path) as lines:
        for line in lines:
            if line.strip() and not line.startswith("#"):
                break
            skipped += 1
        else:
            raise GraphError(f"{path} holds no rows")
    delimiter = _delimiter(path, skipped, line)
    [first] = _sample(path, skipped, delimiter, 1)
    why = ""
    if header is None:
        header, why = _guess_header(path, skipped, delimiter, roles, named, ids)
    names = tuple(cell or f"column {place}" for place, cell in enumerate(first, 1))
    shown = f"{path.name}: the first line, {delimiter.join(first)!r:.80},"
    if header and why:
        notes.append(f"{shown} is taken for the header, since {why}; if it is a row, give --no-header")
    if not header:
        names = tuple(f"column {place}" for place in range(1, len(first) + 1))
        called = f"no header line; its columns are called 'column 1' to 'column {len(first)}'"
        notes.append(
            f"{shown} is a row, since {why}: {called} (else give --header)" if why else f"{path.name}: {called}"
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise GraphError(f"{path}: {len(twice)} column name(s) occur twice ({listed(twice)}): give each its own")
    return Layout(path, delimiter, skipped, header, names, tuple(first))


def words_of(path: Path) -> set[str]:
    """The cells of a table's first rows, which name nodes where it is an edge list."""
    layout = find_layout(path, (), [], header=False)
    rows = itertools.islice(_rows(path, layout.skipped, layout.delimiter), SEARCHED_ROWS)
    return {cell.strip() for _, row in rows for cell in row}


def _guess_header(
    path: Path,
    skipped: int,
    delimiter: str,
    roles: Sequence[str],
    named: Collection[str],
    ids: Callable[[], Collection[str]],
) -> tuple[bool, str]:
    """Whether the first line is a header, and why; no reason where the user's or a column's own name says so."""
    first, *below = _sample(path, skipped, delimiter, SAMPLE_ROWS)
    if any(name in first for name in named):
        return True, ""
    if any(re.fullmatch(r"column \d+", name) for name in named):
        return False, ""
    ends = 2 if "source" in roles else 1 if "node_id" in roles else 0  # columns of ids, if ids come first
    known: Collection[str] = ids() if ends == 2 else ()
    if known and all(cell in known for cell in first[:2]):
        return False, "its cells are ids of nodes"
    if any(len(cell) > 1 and is_known(cell, roles) for cell in first):
        return True, ""
    if number := next((cell for cell in first if is_number(cell)), None):
        return False, f"{number!r} is a number"
    columns = list(zip(first, *(row for row in below if len(row) == len(first)), strict=True))
    for top, *rest in columns:
        if top and any(map(is_number, rest)) and all(is_number(cell) or cell.lower() in MISSING for cell in rest):
            return True, f"{top!r} is above numbers"
    known = ids() if ends == 1 else ()
    if first[0] in known:
        return False, f"{first[0]!r} is an id of a node"
    again = _seen_again(path, skipped, delimiter, first, ends)
    return (False, f"{again!r} occurs again") if again else (True, "it has no numbers and nothing in it occurs again")


def _seen_again(path: Path, skipped: int, delimiter: str, first: Sequence[str], ends: int) -> str | None:
    """A cell of the first row that occurs again in its column, or, of an edge list, as an end of another edge."""
    rows = (row for _, row in _rows(path, skipped, delimiter) if len(row) == len(first))
    for row in itertools.islice(rows, 1, SEARCHED_ROWS):
        cells = [cell.strip() for cell in row]
        for place, cell in enumerate(first):
            if cell and (cell == cells[place] or (ends == 2 and place < 2 and cell in cells[:2])):
                return cell
    return None


class Collector(Protocol):
    """Makes a column of cells, which come in blocks; told of every file before its cells."""

    def begin(self, path: Path) -> None:
        """The next cells come from this file."""
        ...

    def add(self, cells: Sequence[str]) -> None:
        """Add the next cells."""
        ...

    def column(self) -> Column:
        """The column of all cells."""
        ...


def read_delimited(layout: Layout, kinds: Mapping[str, Kind], decimal: str | None = None) -> InputTable:
    """Read these columns of a text table, each as its kind; ``decimal`` is the sign before decimals, where it is known.

    What is no plain number is read once more, as words, and as numbers and dates that people write. A column that tells
    what a comma means speaks for those that do not.
    """
    return read_parts(layout.path.name, [layout], kinds, decimal)


def read_parts(
    name: str,
    layouts: Sequence[Layout],
    kinds: Mapping[str, Kind],
    decimal: str | None = None,
    pieces: MakePieces = Pieces,
    own: Mapping[str, Collector] | None = None,
) -> InputTable:
    """Read the rows of several text tables with the same columns below each other, as :func:`read_delimited` does.

    Args:
        name: of all of them, in messages.
        layouts: of the files.
        kinds: of the columns that are read.
        decimal: the sign before decimals, where it is known.
        pieces: where values are kept until all are read.
        own: collectors for some of the columns, in place of those for their kind.
    """
    names, own = layouts[0].names, own or {}
    places = [place for place, name in enumerate(names) if name in kinds]
    collectors: dict[int, Numbers | Coder | Collector] = {}
    for place in places:
        kind = kinds[names[place]]
        usual = partial(Numbers, pieces) if kind == "value" else partial(Coder, kind, pieces)
        collectors[place] = own.get(names[place]) or usual()
    rows = 0
    for layout in layouts:
        for one in own.values():
            one.begin(layout.path)
        rows += _collect(layout, collectors)
    columns = {place: one.column() for place, one in collectors.items()}
    words = {place: Coder("value", pieces) for place in places if columns[place] is None}
    doubtful = [place for place, one in collectors.items() if isinstance(one, Numbers) and one.pointed and one.grouped]
    if words or (doubtful and decimal == ","):
        written = {place: Written(pieces) for place in (*words, *doubtful)}
        for layout in layouts:
            _collect(layout, words, written)
        found = {written[place].decimal for place in words} - {None}
        known = decimal or (found.pop() if len(found) == 1 else None)
        for place in words:
            columns[place] = written[place].column(known) or words[place].column()
        for place in doubtful if known == "," else ():
            columns[place] = written[place].column(known) or columns[place]
    return InputTable(name, rows, {names[place]: columns[place] for place in places})  # pyright: ignore


def _collect(layout: Layout, *collectors: Mapping[int, Numbers | Coder | Written | Collector]) -> int:
    """Read the file once, and add every column to the collectors of its place; return the number of rows."""
    width, count = len(layout.names), 0
    for cells in cell_blocks(layout):
        for place, one in itertools.chain(*(some.items() for some in collectors)):
            one.add(cells[place::width])
        count += len(cells) // width
        if count >= MAX_ROWS:
            raise GraphError(f"{layout.path} has more than {MAX_ROWS:,} rows: split it into parts")
    return count


def cell_blocks(layout: Layout) -> Iterator[list[str]]:
    """The cells of a text table, row after row, some rows at a time.

    Raises:
        GraphError: a line has more or fewer cells than the first.
    """
    width, cells = len(layout.names), list[str]()
    least = BLOCK_ROWS * width
    size = most = max(least, BLOCK_CELLS)
    rows = _rows(layout.path, layout.skipped, layout.delimiter)
    if layout.header:
        next(rows)
    for line, row in rows:
        if len(row) == width:
            cells.extend(row)
        elif any(row):
            raise GraphError(
                f"{layout.path}: line {line} has {len(row)} cell(s), the first line has {width}: every line needs the "
                "same number; a cell that holds the delimiter must be in quotes"
            )
        if len(cells) == least:  # long texts come in fewer rows
            size = min(most, max(least, BLOCK_LETTERS * least // max(1, sum(map(len, cells)))))
        if len(cells) >= size:
            yield cells
            cells = []
    yield cells


def _sample(path: Path, skipped: int, delimiter: str, count: int) -> list[list[str]]:
    """The first few rows that are not blank."""
    rows = list(itertools.islice((row for _, row in _rows(path, skipped, delimiter) if any(row)), count))
    if (widest := max(map(len, rows), default=0)) > MAX_COLUMNS:
        raise GraphError(f"{path} has {widest:,} columns, the limit is {MAX_COLUMNS:,}")
    return [[cell.strip() for cell in row] for row in rows]


def _rows(path: Path, skipped: int, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The rows after some lines, each with the number of its last line; errors name the line."""
    with open_lines(path) as lines:
        lines = itertools.islice(lines, skipped, None)
        if delimiter == " ":
            lines = (re.sub(r"[ \t]+", " ", line.strip()) for line in lines)
        reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)
        try:
            for row in reader:
                yield reader.line_num + skipped, row
        except csv.Error as error:
            raise GraphError(f"{path}: line {reader.line_num + skipped} cannot be read ({error})") from error


def _delimiter(path: Path, skipped: int, first: str) -> str:
    """The delimiter that gives the first rows the same number of cells, two or more; the one with most cells wins."""
    tab = path.name.lower().removesuffix(".gz").endswith(".tsv")
    best, most = None, 1
    for delimiter in DELIMITERS:
        try:
            widths = {len(row) for row in _sample(path, skipped, delimiter, SAMPLE_ROWS)}
        except GraphError:
            continue
        if len(widths) == 1 and max(widths) > most and (delimiter != " " or best is None):
            best, most = delimiter, max(widths)
        if best == "\t" and tab:
            break
    if best is not None:
        return best
    counts = {delimiter: first.count(delimiter) for delimiter in (("\t", ",") if tab else DELIMITERS)}
    likely = max(counts, key=lambda delimiter: counts[delimiter])
    if not counts[likely]:
        raise GraphError(
            f"{path} has one column only ({first.strip()[:60]!r}): expected cells parted by a comma, tab, semicolon, "
            "bar or space"
        )
    return likely  # lines of unlike length: reading on says which
