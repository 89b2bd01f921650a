"""Feature columns of a node table: how each becomes features is learned from one table, and applied to any.

Numbers and dates are scaled, true and false become 1 and 0, a column of few different words one feature column per
word. Columns of texts, constants and empty columns are left out when learning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from plgc.graphs.formats.columns import TableColumns, check_name, listed, suggests_classes
from plgc.graphs.formats.limits import MAX_COLUMNS
from plgc.graphs.formats.values import MAX_VALUES, Column, InputTable, column_of
from plgc.graphs.preprocessing import ColumnRule, Preprocessing, number_rule
from plgc.runtime.errors import GraphError

TRUE, FALSE = frozenset(("true", "yes", "t")), frozenset(("false", "no", "f"))
BLOCK_CELLS = 1 << 20  # features that are made at a time
LARGEST = 1e30  # of a number in a table
SHOWN = 8  # columns left out that are named one by one
FEW_CLASSES, ROWS_A_CLASS = 20, 5  # what looks like classes: so many words at most, each of so many rows on average


def learn(table: InputTable, names: Sequence[str], columns: TableColumns, notes: list[str]) -> Preprocessing | None:
    """How these columns of a table become features; None where none can.

    Raises:
        GraphError: a column that the user named cannot be a feature, its numbers may mean two things, or there are too
            many columns.
        SettingError: a column does not exist.
    """
    rules: list[ColumnRule] = []
    left_out: dict[str, str] = {}
    for name in names:
        if name not in table.columns:
            rules.append(_single_column(name, table))
            continue
        rule = _learn_column(name, table, columns)
        if isinstance(rule, ColumnRule):
            rules.append(rule)
        elif columns.features is not None:
            raise GraphError(f"{table.name}: {name!r} cannot be a feature: it {rule}")
        else:
            left_out[name] = rule
    for rule in rules:
        if rule.kind == "words" and len(rule.words) > 1:
            notes.append(
                f"{table.name}: {rule.name!r} became {len(rule.words)} feature columns, one per value "
                f"({listed(rule.features, 3)}); if it is what you want to predict, name it as label"
            )
    features = [name for rule in rules for name in rule.features]
    if len(features) > MAX_COLUMNS:
        raise GraphError(
            f"{table.name}: {len(features):,} feature columns, the limit is {MAX_COLUMNS:,}: name fewer as features"
        )
    if columns.features is None and rules:
        notes.append(f"{table.name}: {len(features):,} feature column(s): {listed(features)}")
    if columns.rare > 1 and any(rule.kind == "words" for rule in rules):
        notes.append(f"{table.name}: words of fewer than {columns.rare} rows have no column: they count as unknown")
    if commas := [rule.name for rule in rules if (own := table.columns.get(rule.name)) and own.decimal == ","]:
        notes.append(f"{table.name}: the comma in {listed(commas)} is read as the sign before decimals")
    scaled = [rule.name for rule in rules if rule.scale is not None]
    if scaled and columns.scale is None:
        notes.append(
            f"{table.name}: {len(scaled):,} numeric column(s) were scaled by median and quartiles: {listed(scaled)} "
            "(--no-scale leaves them as they are)"
        )
    notes.extend(f"{table.name}: {name!r} was left out: it {reason}" for name, reason in list(left_out.items())[:SHOWN])
    if len(left_out) > SHOWN:
        notes.append(f"{table.name}: {len(left_out) - SHOWN:,} more columns were left out")
    signs = {column.decimal for column in table.columns.values()} - {None}
    decimal = columns.decimal or (signs.pop() if len(signs) == 1 else None)
    scale = columns.scale is not False
    return Preprocessing(tuple(rules), scale, columns.rare, None, decimal) if rules else None  # pyright: ignore


def apply(known: Preprocessing, table: InputTable, notes: list[str], *, later: bool = True) -> np.ndarray:
    """The features of a table, float32 [N, F], as they are described.

    Of the table that they were learned from (not ``later``), words that have no column are no news.

    Raises:
        GraphError: a column holds another kind of values than it did.
    """
    x = np.empty((table.rows, len(known.features)), dtype=np.float32)
    for start, block in encoded_blocks(known, table, notes, later=later):
        x[start : start + len(block)] = block
    return x


def encoded_blocks(
    known: Preprocessing, table: InputTable, notes: list[str], *, later: bool = True
) -> Iterator[tuple[int, np.ndarray]]:
    """The features of a table, some rows at a time with the number of the first; the rest is as in :func:`apply`."""
    columns = {rule.name: table.columns.get(rule.name) for rule in known.columns}
    present = {name: column for name, column in columns.items() if column is not None and not _is_empty(column)}
    absent = [name for name in columns if name not in present]
    if not present:
        raise GraphError(
            f"{table.name} has none of the columns that were described ({listed(known.features)}): is it another table?"
        )
    filled, unknown = Counter[str](), dict[str, dict[str, None]]()
    rows = max(1, BLOCK_CELLS // len(known.features))
    for start in range(0, table.rows, rows):
        end, blocks = min(start + rows, table.rows), list[np.ndarray]()
        for rule in known.columns:
            if rule.name not in present:
                blocks.append(_absent(rule, end - start))
                continue
            column = present[rule.name].part(start, end)
            if rule.kind == "words":
                block, others = _word_block(rule, column)
                blocks.append(block)
                unknown.setdefault(rule.name, {}).update(dict.fromkeys(others))
            else:
                values = _numbers(rule, column, table.name)
                filled[rule.name] += int(np.isnan(values).any(axis=1).sum())
                with np.errstate(over="ignore"):
                    blocks.append(rule.scaled(values).astype(np.float32))
        yield start, np.concatenate(blocks, axis=1)
    if absent:
        notes.append(f"{table.name}: {listed(absent)} missing or empty: filled with what was usual in the first table")
    if gaps := +filled:
        what = "median or mean" if known.scaled else "mean"
        notes.append(
            f"{table.name}: {sum(gaps.values()):,} missing value(s) in {listed(list(gaps))} were filled with the "
            f"{what} of the column"
        )
    for name, words in unknown.items() if later else ():
        if words:
            notes.append(
                f"{table.name}: {name!r} has {listed(list(words), 3)}, which has no column: counted as unknown"
            )


def announce_others(table: InputTable, known: Preprocessing, used: Collection[str], notes: list[str]) -> None:
    """Add a note on the columns that a description does not know, and that are therefore ignored."""
    names = {rule.name for rule in known.columns}
    if others := [name for name in table.columns if name not in names and name not in used]:
        notes.append(f"{table.name}: {listed(others)} ignored: it was no feature of the first table")


def doubts(table: InputTable, learned: Preprocessing) -> list[str]:
    """Sentences on feature columns that look like what a user wants to predict: few values, and the name of classes.

    A column of the right name is doubtful whatever it holds; of several others, only one that is the last column is.
    """
    found = []
    last = list(table.columns)[-1] if table.columns else ""
    for rule in learned.columns:
        column = table.columns.get(rule.name)
        distinct = _distinct(column) if column is not None else 0
        few = 2 <= distinct <= min(FEW_CLASSES, table.rows // ROWS_A_CLASS)
        if few and (suggests_classes(rule.name) or (rule.kind == "words" and rule.name == last)):
            found.append(
                f"{table.name}: {rule.name!r} looks like classes ({distinct} different values in {table.rows:,} rows) "
                "and is used as a feature. If it is what you want to predict, its answers are now in the features: "
                f"name it, --column 'label={rule.name}' (TableColumns(label={rule.name!r}))"
            )
    return found


def booleans(column: Column) -> np.ndarray | None:
    """Words that are all true or false as 1 and 0, NaN where one is missing; else None."""
    words = [word.lower() for word in column.words or ()]
    if column.codes is None or not words or not all(word in TRUE or word in FALSE for word in words):
        return None
    return np.array([*(float(word in TRUE) for word in words), np.nan])[column.codes]


def _learn_column(name: str, table: InputTable, columns: TableColumns) -> ColumnRule | str:
    """How a column becomes features; or the reason why it cannot."""
    column, scale = table.columns[name], columns.scale is not False
    if column.unclear is not None:
        _refuse_unclear(name, column, table.name)
    flags = booleans(column) if column.numbers is None else None
    numbers = column.numbers if flags is None else flags
    if numbers is not None and numbers.ndim == 2:
        means = _means(numbers)
        if np.isnan(means).any():
            return "is empty"
        fill = tuple(float(f"{value:.6g}") for value in means)
        return ColumnRule(name, "vector", fill, entries=tuple(range(numbers.shape[1])))
    if numbers is not None:
        known = numbers[~np.isnan(numbers)]
        if not known.size:
            return "is empty"
        _check_size(name, known, table.name)
        if scale and columns.features is None and (known == known[0]).all():
            return f"is {known[0]:g} in every row"
        return number_rule(name, "flag" if flags is not None else "date" if column.dates else "number", numbers, scale)
    if column.words is None:
        return f"has more than {MAX_VALUES} different values that are not numbers"
    if not column.words:
        return "is empty"
    if len(column.words) == 1 or len(column.words) > min(MAX_VALUES, max(2, table.rows // 2)):
        return f"holds words, {len(column.words)} different one(s) in {table.rows:,} rows"
    words, codes = column.coded()
    counts = np.bincount(codes[codes >= 0], minlength=len(words))
    kept = sorted(word for word, count in zip(words, counts.tolist(), strict=True) if count >= columns.rare)
    return ColumnRule(name, "words", words=tuple(kept)) if kept else f"has no word in {columns.rare} rows or more"


def _single_column(name: str, table: InputTable) -> ColumnRule:
    """The rule of one of the columns that a column of words or vectors is turned into: ``colour=red``, ``x[3]``."""
    for place in (place for place, letter in enumerate(name) if letter in "=["):
        column, rest = table.columns.get(name[:place]), name[place + 1 :]
        if column is None:
            continue
        numbers = column.numbers
        if name[place] == "[" and numbers is not None and numbers.ndim == 2:
            index = rest.removesuffix("]")
            if index.isascii() and index.isdigit() and int(index) < numbers.shape[1]:
                return ColumnRule(name[:place], "vector", (0.0,), entries=(int(index),))
        elif name[place] == "=" and (column.words is not None or (numbers is not None and numbers.ndim == 1)):
            return ColumnRule(name[:place], "words", words=(rest,))
    check_name(table.name, list(table.columns), "features", name)
    raise AssertionError("the table has no such column")


def _numbers(rule: ColumnRule, column: Column, table: str) -> np.ndarray:
    """The values of a column as its rule needs them, [N, W]."""
    if column.unclear is not None:
        _refuse_unclear(rule.name, column, table)
    numbers = column.numbers
    if rule.kind == "flag" and numbers is None:
        numbers = booleans(column)
    width = 2 if rule.kind == "vector" else 1
    if numbers is None or numbers.ndim != width or column.dates != (rule.kind == "date"):
        seen = f"words such as {column.example!r}" if numbers is None else "dates" if column.dates else "numbers"
        raise GraphError(
            f"{table}: {rule.name!r} holds {seen}, and was a column of kind {rule.kind} in the first table: correct "
            "it, or remove the column, so that it is filled"
        )
    if rule.kind != "vector":
        _check_size(rule.name, numbers, table)
        return numbers[:, None]
    if numbers.shape[1] <= max(rule.entries):
        raise GraphError(
            f"{table}: {rule.name!r} has {numbers.shape[1]} numbers a row, {max(rule.entries) + 1} are needed"
        )
    return numbers[:, list(rule.entries)]


def _check_size(name: str, numbers: np.ndarray, table: str) -> None:
    """Raise where a number is infinite or too large to be computed with."""
    largest = float(np.nanmax(np.abs(numbers), initial=0))
    if largest > LARGEST:
        what = "an infinite value" if np.isinf(largest) else f"{largest:g}, beyond {LARGEST:g}"
        raise GraphError(f"{table}: {name!r} holds {what}: leave the cell empty where nothing is known")


def _word_block(rule: ColumnRule, column: Column) -> tuple[np.ndarray, list[str]]:
    """One column per word, float32 [N, W], and the words that have none."""
    if column.numbers is not None and column.numbers.ndim == 1:
        column = column_of(column.numbers, "word")
    words, codes = (column.words or [], column.codes)
    place = {word: at for at, word in enumerate(rule.words)}
    width = len(rule.words)
    known = np.array([*(place.get(word, width) for word in words), width])[codes]
    return np.eye(width + 1, width, dtype=np.float32)[known], [word for word in words if word not in place]


def _absent(rule: ColumnRule, rows: int) -> np.ndarray:
    """The features of a column that a table does not have."""
    if rule.kind == "words":
        return np.zeros((rows, len(rule.words)), dtype=np.float32)
    return rule.scaled(np.full((rows, len(rule.fill)), np.nan)).astype(np.float32)


def _means(vectors: np.ndarray) -> np.ndarray:
    """The mean of each entry of vectors [N, W], some rows at a time; NaN where an entry is missing in all of them."""
    total, count = np.zeros(vectors.shape[1]), np.zeros(vectors.shape[1])
    rows = max(1, BLOCK_CELLS // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), rows):
        block = vectors[start : start + rows]
        total += np.nansum(block, axis=0, dtype=np.float64)
        count += (~np.isnan(block)).sum(axis=0)
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def _is_empty(column: Column) -> bool:
    if column.numbers is not None:
        rows = max(1, BLOCK_CELLS // max(1, column.numbers[:1].size))
        starts = range(0, len(column.numbers), rows)
        return all(np.isnan(column.numbers[start : start + rows]).all() for start in starts)
    return column.words == [] and column.unclear is None


def _distinct(column: Column) -> int:
    """How many different values a column has."""
    if column.numbers is not None:
        whole = column.numbers.ndim == 1 and not column.dates
        return len(np.unique(column.numbers[~np.isnan(column.numbers)])) if whole else 0
    return len(column.words or ())


def _refuse_unclear(name: str, column: Column, table: str) -> None:
    value = column.unclear or ""
    raise GraphError(
        f"{table}: {name!r} holds {value!r}, which may be {value.replace(',', '.')} or {value.replace(',', '')}: say "
        "what stands before decimals, --decimal comma or --decimal point (TableColumns(decimal=','))"
    )
