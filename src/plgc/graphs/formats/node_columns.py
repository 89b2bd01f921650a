"""Features, labels and masks from the columns of a node table; what was guessed is added to the notes.

:mod:`plgc.graphs.formats.table_features` makes the features; they never depend on the label column.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from plgc.graphs.attributes import Seen
from plgc.graphs.check import MASKS
from plgc.graphs.features import as_features
from plgc.graphs.formats.columns import TableColumns, listed, may_be_label, plain
from plgc.graphs.formats.table_features import announce_others, apply, booleans, doubts, learn
from plgc.graphs.formats.values import MAX_VALUES, Column, InputTable, column_of
from plgc.runtime.errors import GraphError

SPLITS = {
    "train_mask": ("train", "training"),
    "val_mask": ("val", "valid", "validation", "dev"),
    "test_mask": ("test", "testing"),
}
UNUSED = ("unused", "unlabelled", "unlabeled", "-")
SPARSE_COLUMNS, SPARSE_DENSITY = 64, 0.1  # features with as many columns and fewer non-zeros become CSR


def encode_nodes(
    table: InputTable, roles: Mapping[str, str], columns: TableColumns, notes: list[str]
) -> dict[str, Any]:
    """Features, labels, masks and names, as attributes of a ``Data``; the rest is as in :func:`describe_nodes`."""
    found = describe_nodes(table, roles, columns, notes)
    if "seen" in found:
        x = apply(found["seen"].preprocessing, table, notes, later=columns.preprocessing is not None)
        found["x"] = _sparse_or_dense(x)
    return found


def describe_nodes(
    table: InputTable, roles: Mapping[str, str], columns: TableColumns, notes: list[str]
) -> dict[str, Any]:
    """What :func:`encode_nodes` finds but the features: labels, masks and names, and how columns become features.

    ``roles`` says which columns are node_id, label, split (read as ids and words) and time, ``columns`` what the user
    chose.

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
    found |= {key: torch.from_numpy(mask) for key, mask in masks.items()}
    learned_from = table
    if "time" in roles:
        time = _times(table.columns[roles["time"]], place(roles["time"]), notes)
        found["time"] = torch.from_numpy(time)
        if columns.until is not None and (time <= columns.until).any():
            learned_from = table.only(time <= columns.until)
    if columns.preprocessing is not None:
        learned = columns.preprocessing
        announce_others(table, learned, used, notes)
    else:
        names = columns.features if columns.features is not None else _candidates(table, used, notes)
        learned = learn(learned_from, names, columns, notes)
    if learned is None:
        return found
    if columns.preprocessing is None and "label" not in roles and (doubtful := doubts(learned_from, learned)):
        found["doubts"] = doubtful
    found["seen"] = Seen(preprocessing=replace(learned, roles=_kept_roles(roles, columns)))
    return found | {"feature_names": learned.features}


def _candidates(table: InputTable, used: set[str], notes: list[str]) -> list[str]:
    """The columns that may be features where none are named: all without a role whose name does not say label."""
    doubtful = [name for name in table.columns if name not in used and may_be_label(name)]
    if doubtful:
        notes.append(
            f"{table.name}: {listed(doubtful)} left out, since by name it may be a label too; to use it, name all "
            "feature columns"
        )
    return [name for name in table.columns if name not in used and name not in doubtful]


def _kept_roles(roles: Mapping[str, str], columns: TableColumns) -> dict[str, str]:
    """The roles that a later table is read by: the id and, where the user named them, label and split."""
    before = (columns.preprocessing.roles or {}) if columns.preprocessing is not None else {}
    named = columns.given(("label", "split"))
    return {**before, **{role: name for role, name in roles.items() if role == "node_id" or role in named}}


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
    return {key: np.array([*(part.get(word.lower()) == key for word in words), False])[codes] for key in SPLITS}


def _mask(column: Column, place: str) -> np.ndarray:
    """A column of true and false as booleans, [N] or [N, S]."""
    numbers = column.numbers if column.numbers is not None else booleans(column)
    if numbers is None or not np.isin(numbers, (0, 1)).all():
        raise GraphError(f"{place} holds other values than true and false, or gaps")
    return numbers.astype(bool)


def _times(column: Column, place: str, notes: list[str]) -> np.ndarray:
    """When every node came, float64 [N], NaN where that is not known; dates count by their year."""
    if column.numbers is None or column.numbers.ndim != 1:
        what = f"words such as {column.example!r}" if column.example is not None else "no numbers"
        raise GraphError(f"{place} is named as the time and holds {what}: a number a row is needed, such as a year")
    notes.append(f"{place} is the time{', by the year of its dates' if column.dates else ''}; it is no feature")
    if not column.dates:
        return column.numbers
    known = ~np.isnan(column.numbers)
    years = np.where(known, column.numbers, 0).astype("datetime64[D]").astype("datetime64[Y]").astype(np.int64) + 1970
    return np.where(known, years, np.nan)


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


def _sparse_or_dense(x: np.ndarray) -> Tensor | None:
    """Features in the form that is cheaper to work with: a wide table of mostly zeros, a bag of words, as CSR."""
    return as_features(sp.csr_matrix(x)) if is_sparse(x.shape, int(np.count_nonzero(x))) else torch.from_numpy(x)


def is_sparse(shape: tuple[int, ...], values: int) -> bool:
    """Whether features of this shape, with so many values that are not 0, are kept as CSR."""
    return shape[1] >= SPARSE_COLUMNS and values < SPARSE_DENSITY * shape[0] * shape[1]
