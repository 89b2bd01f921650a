"""From the columns of a node table to features, classes and masks; what was done to each column is announced.

Numbers are features as they are, gaps filled with the column's mean. True and false become 1 and 0, a column of few
different words one feature column per word. Other columns are left out. No label is looked at for any of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from plgc.graphs.formats.classes import booleans, encode_labels, mask_column, split_masks
from plgc.graphs.formats.columns import MASK_NAMES, TableColumns, check_name, listed, may_be_label, plain
from plgc.graphs.formats.values import MAX_COLUMNS, MAX_VALUES, Column, Table, column_of
from plgc.runtime.errors import GraphError

UNLIKE_SCALES = 100.0


@dataclass
class Encoded:
    """What a node table says of its nodes, as arrays."""

    x: np.ndarray | None = None
    feature_names: list[str] = field(default_factory=list)
    y: np.ndarray | None = None
    class_names: list[str] | None = None
    masks: dict[str, np.ndarray] = field(default_factory=dict)
    split_origin: str | None = None


def encode_nodes(table: Table, roles: Mapping[str, str], columns: TableColumns, notes: list[str]) -> Encoded:
    """Encode a node table.

    Args:
        table: with the columns of ``roles`` read as words.
        roles: which columns are node_id, label and split.
        columns: what the user said.
        notes: gets a sentence on everything that was not said.

    Raises:
        GraphError: a column the user named cannot be what it was named for.
        SettingError: a feature column does not exist.
    """
    encoded, used = Encoded(), set(roles.values())
    if "label" in roles:
        guessed = columns.label is None
        place = f"{table.name}: {roles['label']!r}"
        found = encode_labels(table.columns[roles["label"]], columns.classes, place, guessed, notes)
        encoded.y, encoded.class_names = found if found is not None else (None, None)
    if "split" in roles:
        encoded.masks = split_masks(table, roles["split"], columns.split is None) or {}
        used -= set() if encoded.masks else {roles["split"]}
        encoded.split_origin = f"the table's own split (column {roles['split']})" if encoded.masks else None
    for name, column in table.columns.items():
        if plain(name) in MASK_NAMES and name not in (columns.features or ()):
            used.add(name)
            if "split" not in roles or not encoded.split_origin:
                encoded.masks[plain(name)] = mask_column(table, name, column)
    names = columns.features
    if names is None:
        doubtful = [name for name in table.columns if name not in used and may_be_label(name)]
        if doubtful:
            notes.append(
                f"{table.name}: {listed(doubtful)} left out, since by name it may be a label too; to use it, name all "
                "feature columns"
            )
        names = [name for name in table.columns if name not in used and name not in doubtful]
    encoded.x, encoded.feature_names = _features(table, names, columns, notes)
    return encoded


def _features(
    table: Table, names: Sequence[str], columns: TableColumns, notes: list[str]
) -> tuple[np.ndarray | None, list[str]]:
    """The feature matrix, float32 [N, F], and a name for each of its columns."""
    blocks: list[tuple[list[str], np.ndarray]] = []
    filled, left_out, spread = {}, {}, []
    for name in names:
        if name not in table.columns:
            blocks.append(([name], _part(name, table)))
            continue
        block, reason = _block(name, table.columns[name], table.rows)
        if block is None:
            if columns.features is not None:
                raise GraphError(f"{table.name}: {name!r} cannot be a feature: it {reason}")
            left_out[name] = reason
            continue
        labels, values = block
        gaps = np.isnan(values)
        if gaps.any():
            if table.columns[name].words is None or len(labels) == 1:
                filled[name] = int(gaps.any(axis=1).sum())
            values = np.where(gaps, np.nanmean(values, axis=0), values)
        if table.columns[name].numbers is not None and not np.isin(values, (0, 1)).all():
            with np.errstate(invalid="ignore", over="ignore"):
                deviation = values.std(axis=0)
                spread.extend(deviation[deviation > 0].tolist())
                if columns.standardize:
                    values = (values - values.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        with np.errstate(over="ignore"):
            blocks.append((labels, values.astype(np.float32)))
        if table.columns[name].words is not None and len(labels) > 1:
            notes.append(
                f"{table.name}: {name!r} became {len(labels)} feature columns, one per value ({listed(labels, 3)}); "
                "if it is what you want to predict, name it as label"
            )
    width = sum(len(labels) for labels, _ in blocks)
    if width > MAX_COLUMNS:
        raise GraphError(
            f"{table.name}: {width:,} feature columns, the limit is {MAX_COLUMNS:,}: name fewer as features"
        )
    _announce(table.name, blocks, filled, left_out, spread, columns, notes)
    if not blocks:
        return None, []
    return np.concatenate([values for _, values in blocks], axis=1), [name for names, _ in blocks for name in names]


def _block(name: str, column: Column, rows: int) -> tuple[tuple[list[str], np.ndarray] | None, str]:
    """A column as one or more feature columns with their names; or None, and the reason."""
    numbers, words = column.numbers, column.words
    if numbers is None and words:
        numbers = booleans(column)
    if numbers is not None:
        if np.isnan(numbers).reshape(rows, -1).all(axis=0).any():
            return None, "is empty"
        if numbers.ndim == 2:
            return ([f"{name}[{place}]" for place in range(numbers.shape[1])], numbers), ""
        return ([name], numbers[:, None]), ""
    if words is None:
        return None, f"has more than {MAX_VALUES} different values that are not numbers"
    if not words:
        return None, "is empty"
    if len(words) == 1 or len(words) > min(MAX_VALUES, max(2, rows // 2)):
        return None, f"holds words, {len(words)} different one(s) in {rows:,} rows"
    assert column.codes is not None
    names = sorted(words)
    place = np.array([*(names.index(word) for word in words), len(names)])[column.codes]
    return ([f"{name}={word}" for word in names], np.eye(len(names) + 1, len(names), dtype=np.float32)[place]), ""


def _part(name: str, table: Table) -> np.ndarray:
    """One column of those that a column of words or vectors became in another table: ``colour=red``, ``x[3]``."""
    for place in (place for place, letter in enumerate(name) if letter in "=["):
        column, rest = table.columns.get(name[:place]), name[place + 1 :]
        if column is None:
            continue
        if name[place] == "[" and column.numbers is not None and column.numbers.ndim == 2:
            index = rest.removesuffix("]")
            if index.isascii() and index.isdigit() and int(index) < column.numbers.shape[1]:
                return column.numbers[:, [int(index)]].astype(np.float32)
        elif name[place] == "=" and column.words is not None:
            assert column.codes is not None
            known = column.words.index(rest) if rest in column.words else len(column.words)
            return (column.codes == known).astype(np.float32)[:, None]
        elif name[place] == "=" and column.numbers is not None and column.numbers.ndim == 1:
            words = column_of(column.numbers, words=True)
            return np.array([[word == rest] for word in words.text()], dtype=np.float32)
    check_name(table.name, list(table.columns), "features", name)
    raise AssertionError("the name is none of the table's")


def _announce(
    table: str,
    blocks: list[tuple[list[str], np.ndarray]],
    filled: dict[str, int],
    left_out: dict[str, str],
    spread: list[float],
    columns: TableColumns,
    notes: list[str],
) -> None:
    if columns.features is None and blocks:
        names = [name for labels, _ in blocks for name in labels]
        notes.append(f"{table}: {len(names):,} feature column(s): {listed(names)}")
    if filled:
        notes.append(
            f"{table}: {sum(filled.values()):,} missing value(s) in {listed(list(filled))} were filled with the mean "
            "of the column"
        )
    for name, reason in list(left_out.items())[:8]:
        notes.append(f"{table}: {name!r} was left out: it {reason}")
    if len(left_out) > 8:
        notes.append(f"{table}: {len(left_out) - 8:,} more columns were left out")
    if spread and max(spread) > UNLIKE_SCALES * min(spread) and not columns.standardize:
        notes.append(
            f"{table}: numeric columns differ in scale by a factor of {max(spread) / min(spread):,.0f}, so that the "
            "largest will decide everything: TableColumns(standardize=True) puts them on one scale"
        )
