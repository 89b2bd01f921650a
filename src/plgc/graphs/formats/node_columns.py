"""Features, labels and masks from the columns of a node table; what was guessed is added to the notes.

Numbers are features as they are, gaps filled with the column's mean. True and false become 1 and 0, a column of few
different words one feature column per word. Other columns are left out. Features never depend on the label column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from plgc.graphs.check import MASKS
from plgc.graphs.features import as_features
from plgc.graphs.formats.columns import TableColumns, check_name, listed, may_be_label, plain
from plgc.graphs.formats.limits import MAX_COLUMNS
from plgc.graphs.formats.values import MAX_VALUES, Column, InputTable, column_of
from plgc.runtime.errors import GraphError

TRUE, FALSE = frozenset(("true", "yes", "t")), frozenset(("false", "no", "f"))
SPLITS = {
    "train_mask": ("train", "training"),
    "val_mask": ("val", "valid", "validation", "dev"),
    "test_mask": ("test", "testing"),
}
UNUSED = ("unused", "unlabelled", "unlabeled", "-")
UNLIKE_SCALES = 100.0  # ratio of the standard deviations of two columns
SHOWN = 8  # columns left out that are named one by one
SPARSE_COLUMNS, SPARSE_DENSITY = 64, 0.1  # features with as many columns and fewer non-zeros become CSR


def encode_nodes(
    table: InputTable, roles: Mapping[str, str], columns: TableColumns, notes: list[str]
) -> dict[str, Any]:
    """Features, labels, masks and names, as attributes of a ``Data``, from a node table.

    ``roles`` says which columns are node_id, label and split (read as ids and words), ``columns`` what the user chose.

    Raises:
        GraphError: a column the user named cannot have that role.
        SettingError: a feature column does not exist.
    """
    found: dict[str, Any] = {}
    used = set(roles.values())

    def place(name: str) -> str:
        return f"{table.name}: {name!r}"

    if "label" in roles:
        name = roles["label"]
        y, names = _labels(table.columns[name], columns.classes, place(name), columns.label is None, notes)
        found |= {"y": None if y is None else torch.from_numpy(y), "class_names": names}
    masks: dict[str, np.ndarray] = {}
    if "split" in roles:
        name = roles["split"]
        masks = _split_masks(table.columns[name], place(name), columns.split is None)
        used -= set() if masks else {name}
        found["split_origin"] = f"the table's own split (column {name})" if masks else None
    for name, column in table.columns.items():
        if plain(name) in MASKS and name not in (columns.features or ()):
            used.add(name)
            if not found.get("split_origin"):
                masks[plain(name)] = _mask(column, place(name))
    features = columns.features
    if features is None:
        doubtful = [name for name in table.columns if name not in used and may_be_label(name)]
        if doubtful:
            notes.append(
                f"{table.name}: {listed(doubtful)} left out, since by name it may be a label too; to use it, name all "
                "feature columns"
            )
        features = [name for name in table.columns if name not in used and name not in doubtful]
    x, names = _features(table, features, columns, notes)
    found |= {key: torch.from_numpy(mask) for key, mask in masks.items()}
    return found if x is None else found | {"x": _sparse_or_dense(x), "feature_names": names}


def _labels(
    column: Column, classes: Sequence[str] | None, place: str, guessed: bool, notes: list[str]
) -> tuple[np.ndarray | None, list[str] | None]:
    """Return class numbers, −1 where there is none, and the classes' names.

    Whole numbers that are 0, 1, … already stay, and need no names. Everything else is numbered in order of its names,
    or in the order of ``classes``. A column that was only guessed to be the label, and whose values are no classes, is
    left out (None, None). ``place`` is the column's name in messages.
    """
    words, codes = column.coded()
    if classes is not None:
        names = [str(name) for name in classes]
        return _numbered(words, codes, names, place), names
    numbers = [_number(word) for word in words]
    whole = [int(number) for number in numbers if number is not None and number == int(number)]
    if any(number is not None and number != int(number) for number in numbers) and None not in numbers:
        what = f"{place} holds numbers such as {listed(words, 2)}, not classes"
        if not guessed:
            raise GraphError(f"{what}: name another column as label")
        notes.append(f"{what}: left out")
        return None, None
    if guessed and len(words) > max(MAX_VALUES, len(codes) // 2):
        notes.append(
            f"{place} has {len(words):,} different values for {len(codes):,} nodes, too many for classes: left out"
        )
        return None, None
    if len(whole) == len(words):
        ranks = sorted({number for number in whole if number != -1})
        values = np.array([*whole, -1], dtype=object)[codes]
        if ranks == list(range(len(ranks))):
            return values.astype(np.int64), None
        order = {number: rank for rank, number in enumerate(ranks)} | {-1: -1}
        notes.append(f"{place}: the classes are {listed(ranks)}, numbered 0 to {len(ranks) - 1} in this order")
        return np.array([order[number] for number in values.tolist()], dtype=np.int64), [str(rank) for rank in ranks]
    names = sorted(words)
    return _numbered(words, codes, names, place), names


def labels_of(values: object, place: str, notes: list[str]) -> tuple[np.ndarray, list[str] | None]:
    """Class numbers and names from an array or list of labels: numbers, words, None."""
    y, names = _labels(column_of(values, "word"), None, place, False, notes)
    assert y is not None
    return y, names


def _split_masks(column: Column, place: str, guessed: bool) -> dict[str, np.ndarray]:
    """Masks from a column of train, val and test; none where a column that was only guessed holds something else."""
    words, codes = column.coded()
    part = {word: key for key, words in SPLITS.items() for word in words}
    unknown = [word for word in words if word.lower() not in part and word.lower() not in UNUSED]
    if unknown or not any(word.lower() in SPLITS["train_mask"] for word in words):
        if guessed:
            return {}
        what = f"holds {listed(unknown)}" if unknown else "has no train"
        raise GraphError(f"{place} {what}: a split column says train, val or test")
    parts = np.array([*(part.get(word.lower(), "") for word in words), ""])[codes]
    return {key: parts == key for key in SPLITS}


def _mask(column: Column, place: str) -> np.ndarray:
    """A column of true and false as booleans, [N] or [N, S]."""
    numbers = column.numbers if column.numbers is not None else _booleans(column)
    if numbers is None or not np.isin(numbers, (0, 1)).all():
        raise GraphError(f"{place} holds other values than true and false, or gaps")
    return numbers.astype(bool)


def _booleans(column: Column) -> np.ndarray | None:
    """Words that are all true or false as 1 and 0, NaN where one is missing; else None."""
    words = [word.lower() for word in column.words or ()]
    if column.codes is None or not words or not all(word in TRUE or word in FALSE for word in words):
        return None
    return np.array([*(float(word in TRUE) for word in words), np.nan])[column.codes]


def _numbered(words: list[str], codes: np.ndarray, names: list[str], place: str) -> np.ndarray:
    order = {name: number for number, name in enumerate(names)}
    unknown = [word for word in words if word not in order and word != "-1"]
    if unknown:
        raise GraphError(f"{place} holds {listed(unknown)}, not among the classes given ({listed(names)})")
    return np.array([*(order.get(word, -1) for word in words), -1], dtype=np.int64)[codes]


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if np.isfinite(number) and "_" not in word else None


def _features(
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
        numbers = _booleans(column)
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


def _sparse_or_dense(x: np.ndarray) -> Tensor | None:
    """Features in the form that is cheaper to work with: a wide table of mostly zeros, a bag of words, as CSR."""
    wide = x.shape[1] >= SPARSE_COLUMNS and np.count_nonzero(x) < SPARSE_DENSITY * x.size
    return as_features(sp.csr_matrix(x)) if wide else torch.from_numpy(x)
