"""What may vary in an experiment, besides graph, size, method and seed: the names of levels, and their values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from plgc.downstream.combine import COMBINATIONS
from plgc.experiments.releases import RELEASES
from plgc.experiments.variants import VARIANTS
from plgc.method.encoder import KINDS
from plgc.runtime.errors import SettingError

LEVELS = ("variant", "shots", "noise", "imbalance", "backbone", "partition", "sources", "combine", "release")
LEVELS += ("history", "year", "share")
# How a file came about: of a growing graph, of several sources, and of a graph that nodes have left.
GROWN = ("anew", "updated", "only-new", "never", "new-part")
JOINED = ("whole", "own", "heads", "merged")
LEFT = ("forgotten", "old")
HISTORIES = (*GROWN, *JOINED, *LEFT)
OPEN, PRIVATE = "open", "private"  # whether files with a history, and those they come from, are private
ALL = "all"  # as a number of labels per class: every training label
NAMES = {  # levels whose values are names
    "variant": tuple(VARIANTS),
    "backbone": tuple(KINDS),
    "partition": ("none", "random", "metis", "skewed-0.1", "skewed-1"),
    "sources": ("own", "all", "others"),
    "combine": COMBINATIONS,
    "release": (OPEN, *RELEASES),
    "history": HISTORIES,
}
# The values of a level that are numbers: type, least, most, in words.
RANGES: dict[str, tuple[Any, float, float, str]] = {
    "shots": (int, 1, math.inf, 'a whole number from 1, or "all",'),
    "noise": ((int, float), 0, 1, "a share from 0 to 1"),
    "imbalance": ((int, float), 1, math.inf, "a number from 1"),
    "year": (int, 1, 9999, "a year"),
    "share": ((int, float), 0, 1, "a share from 0 to 1"),
}


def as_tuple(key: str, values: Any) -> tuple[Any, ...]:
    """A list of the file; ``key`` is what an error names."""
    require(isinstance(values, list), f"{key} is {values!r}: a list is needed")
    return tuple(values)


def read_level(key: str, values: Any) -> tuple[Any, ...]:
    """A level's values; all labels are no number of them."""
    return tuple(None if key == "shots" and value == ALL else value for value in as_tuple(key, values))


def check_levels(levels: Mapping[str, tuple[Any, ...]], where: str = "") -> None:
    """Raise unless every level is known and every value is one that it can have."""
    unknown = set(levels) - set(LEVELS)
    require(not unknown, f"{where}unknown level {', '.join(sorted(unknown))}: choose {', '.join(LEVELS)}")
    for level, values in levels.items():
        require(bool(values), f"{where}{level} is empty: name at least one value")
        require_once(values, f"{where}{level}")
        for value in values:
            if level == "shots" and value is None:
                continue
            if level in NAMES:
                require(value in NAMES[level], f"{where}unknown {level} {value!r}: choose {', '.join(NAMES[level])}")
            else:
                kind, least, most, words = RANGES[level]
                sound = isinstance(value, kind) and least <= value <= most
                require(sound, f"{where}{level} is {value!r}: {words} is needed")


def check_releases(values: Iterable[str], task: str) -> None:
    """Raise where a task cannot have a release: only attacks know all of them, others open and private files."""
    known = tuple(RELEASES) if task == "membership" else (OPEN, PRIVATE)
    for value in values:
        require(value in known, f"release is {value!r}: {task} has {', '.join(known)}")


def require_once(values: Iterable[Any], what: str) -> None:
    """Raise where a value is there twice."""
    values = list(values)
    twice = [ALL if value is None else value for value in dict.fromkeys(values) if values.count(value) > 1]
    require(not twice, f"{what}: {', '.join(map(str, twice))} is there twice")


def require(condition: bool, message: str) -> None:
    """Raise a :class:`SettingError` with the message unless the condition holds."""
    if not condition:
        raise SettingError(message)
