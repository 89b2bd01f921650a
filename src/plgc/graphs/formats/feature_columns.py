"""The feature matrix from the columns of a node table; what was done to each column is added to the notes.

Numbers are features as they are, gaps filled with the column's mean. True and false become 1 and 0, a column of few
different words one feature column per word. Other columns are left out. Labels are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plgc.graphs.formats.classes import booleans
from plgc.graphs.formats.columns import TableColumns, check_name, listed
from plgc.graphs.formats.limits import MAX_COLUMNS
from plgc.graphs.formats.values import MAX_VALUES, Column, InputTable, column_of
from plgc.runtime.errors import GraphError

UNLIKE_SCALES = 100.0  # ratio of the standard deviations of two columns
SHOWN = 8  # columns left out that are named one by one


def encode_features(
    table: InputTable, names: Sequence[str], columns: TableColumns, notes: list[str]
) -> tuple[np.ndarray | None, list[str]]:
    """The feature matrix, float32 [N, F], of some columns of a table, and a name for each of its own columns.

    Raises:
        GraphError: a column that the user named cannot be a feature, or there are too many.
        SettingError: a column does not exist.
    """
    names_out: list[str] = []
    blocks: list[np.ndarray] = []
    filled: dict[str, int] = {}
    left_out: dict[str, str] = {}
    deviations: list[float] = []
    for name in names:
        if name not in table.columns:
            names_out.append(name)
            blocks.append(_single_column(name, table))
            continue
        column = table.columns[name]
        labels, values, reason = _block(name, column, table.rows)
        if reason:
            if columns.features is not None:
                raise GraphError(f"{table.name}: {name!r} cannot be a feature: it {reason}")
            left_out[name] = reason
            continue
        gaps = np.isnan(values)
        if gaps.any():
            if column.words is None or len(labels) == 1:
                filled[name] = int(gaps.any(axis=1).sum())
            values = np.where(gaps, np.nanmean(values, axis=0), values)
        if column.numbers is not None and not np.isin(values, (0, 1)).all():
            with np.errstate(invalid="ignore", over="ignore"):
                deviation = values.std(axis=0)
                deviations.extend(deviation[deviation > 0].tolist())
                if columns.standardize:
                    values = (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        with np.errstate(over="ignore"):
            blocks.append(values.astype(np.float32))
        names_out.extend(labels)
        if column.words is not None and len(labels) > 1:
            notes.append(
                f"{table.name}: {name!r} became {len(labels)} feature columns, one per value ({listed(labels, 3)}); "
                "if it is what you want to predict, name it as label"
            )
    if len(names_out) > MAX_COLUMNS:
        raise GraphError(
            f"{table.name}: {len(names_out):,} feature columns, the limit is {MAX_COLUMNS:,}: name fewer as features"
        )
    if columns.features is None and blocks:
        notes.append(f"{table.name}: {len(names_out):,} feature column(s): {listed(names_out)}")
    if filled:
        notes.append(
            f"{table.name}: {sum(filled.values()):,} missing value(s) in {listed(list(filled))} were filled with the "
            "mean of the column"
        )
    notes.extend(f"{table.name}: {name!r} was left out: it {reason}" for name, reason in list(left_out.items())[:SHOWN])
    if len(left_out) > SHOWN:
        notes.append(f"{table.name}: {len(left_out) - SHOWN:,} more columns were left out")
    if deviations and max(deviations) > UNLIKE_SCALES * min(deviations) and not columns.standardize:
        notes.append(
            f"{table.name}: numeric columns differ in scale by a factor of {max(deviations) / min(deviations):,.0f}, "
            "so that the largest will decide everything: TableColumns(standardize=True) puts them on one scale"
        )
    return (np.concatenate(blocks, axis=1), names_out) if blocks else (None, [])


def _block(name: str, column: Column, rows: int) -> tuple[list[str], np.ndarray, str]:
    """A column as one or more feature columns, their names first; at the end the reason where it cannot be any."""
    empty = np.empty((rows, 0))
    numbers, words = column.numbers, column.words
    if numbers is None and words:
        numbers = booleans(column)
    if numbers is not None:
        if np.isnan(numbers).reshape(rows, -1).all(axis=0).any():
            return [], empty, "is empty"
        if numbers.ndim == 2:
            return [f"{name}[{place}]" for place in range(numbers.shape[1])], numbers, ""
        return [name], numbers[:, None], ""
    if words is None:
        return [], empty, f"has more than {MAX_VALUES} different values that are not numbers"
    if not words:
        return [], empty, "is empty"
    if len(words) == 1 or len(words) > min(MAX_VALUES, max(2, rows // 2)):
        return [], empty, f"holds words, {len(words)} different one(s) in {rows:,} rows"
    names = sorted(words)
    place = np.array([*(names.index(word) for word in words), len(names)])[column.codes]
    return [f"{name}={word}" for word in names], np.eye(len(names) + 1, len(names), dtype=np.float32)[place], ""


def _single_column(name: str, table: InputTable) -> np.ndarray:
    """One of the columns that a column of words or vectors is turned into: ``colour=red``, ``x[3]``; [N, 1]."""
    for place in (place for place, letter in enumerate(name) if letter in "=["):
        column, rest = table.columns.get(name[:place]), name[place + 1 :]
        if column is None:
            continue
        if name[place] == "[" and column.numbers is not None and column.numbers.ndim == 2:
            index = rest.removesuffix("]")
            if index.isascii() and index.isdigit() and int(index) < column.numbers.shape[1]:
                return column.numbers[:, [int(index)]].astype(np.float32)
        elif name[place] == "=" and column.words is not None:
            words, codes = column.coded()
            known = words.index(rest) if rest in words else len(words)
            return (codes == known).astype(np.float32)[:, None]
        elif name[place] == "=" and column.numbers is not None and column.numbers.ndim == 1:
            words = column_of(column.numbers, "word")
            return np.array([[word == rest] for word in words.text()], dtype=np.float32)
    check_name(table.name, list(table.columns), "features", name)
    raise AssertionError("the table has no such column")
