"""Labels and masks from the columns of a node table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plgc.graphs.formats.columns import listed
from plgc.graphs.formats.values import MAX_VALUES, Column, column_of
from plgc.runtime.errors import GraphError

TRUE, FALSE = frozenset(("true", "yes", "t")), frozenset(("false", "no", "f"))
SPLITS = {
    "train_mask": ("train", "training"),
    "val_mask": ("val", "valid", "validation", "dev"),
    "test_mask": ("test", "testing"),
}
UNUSED = ("unused", "unlabelled", "unlabeled", "-")


def encode_labels(
    column: Column, classes: Sequence[str] | None, place: str, guessed: bool, notes: list[str]
) -> tuple[np.ndarray | None, list[str] | None]:
    """Return class numbers, −1 where there is none, and the classes' names.

    Whole numbers that are 0, 1, … already stay, and need no names. Everything else is numbered in order of its names.

    Args:
        column: the labels, read as words.
        classes: the names of the classes in their order; None for those that occur.
        place: the column's name in messages.
        guessed: whether the column is only guessed to be the label; if its values are no classes, it is left out
            (None, None), and the reason is added to the notes.
        notes: sentences on what was guessed.
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
    y, names = encode_labels(column_of(values, "word"), None, place, False, notes)
    assert y is not None
    return y, names


def split_masks(column: Column, place: str, guessed: bool) -> dict[str, np.ndarray]:
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


def mask_column(column: Column, place: str) -> np.ndarray:
    """A column of true and false as booleans, [N] or [N, S]."""
    numbers = column.numbers if column.numbers is not None else booleans(column)
    if numbers is None or not np.isin(numbers, (0, 1)).all():
        raise GraphError(f"{place} holds other values than true and false, or gaps")
    return numbers.astype(bool)


def booleans(column: Column) -> np.ndarray | None:
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
