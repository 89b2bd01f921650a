"""The role of each column of a table: named by the user, or guessed from its name or place, with a note."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.graphs.check import MASKS
from plgc.runtime.errors import GraphError, SettingError

NAMES = {
    "source": ("source", "src", "from", "u", "source_id", "from_id", "node1"),
    "target": ("target", "dst", "to", "v", "target_id", "to_id", "node2", "dest", "destination"),
    "weight": ("weight", "edge_weight", "weights", "w"),
    "node_id": ("node_id", "id", "node", "nodeid"),
    "label": ("label", "class", "y", "target", "category", "labels"),
    "split": ("split", "subset"),
}


@dataclass(frozen=True)
class TableColumns:
    """Which column of the tables has which role; what is None is guessed, and the graph's ``notes`` say so.

    Attributes:
        source: in the edge list, where an edge starts.
        target: in the edge list, where it ends.
        weight: in the edge list, its weight; where there is none, every edge counts the same.
        node_id: in the node table, the id by which the edge list names a node.
        label: in the node table, the class of a node; empty (or −1) where it has none.
        split: in the node table, a column that says train, val or test.
        features: in the node table, the feature columns, in this order; an empty tuple for none. The
            ``feature_names`` of another graph bring a table to the same columns, also ``colour=red`` and ``x[3]``.
        classes: the names of the classes in their order, for several tables that must agree, such as the
            ``class_names`` of another graph; by default those that occur, sorted.
        standardize: give numeric feature columns mean 0 and variance 1, for columns of unlike units.
        header: whether the first line of tables of text has the names of the columns; without it they are called
            "column 1", "column 2", …
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    node_id: str | None = None
    label: str | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    standardize: bool = False
    header: bool | None = None

    def __post_init__(self) -> None:
        for name in ("features", "classes"):
            if isinstance(value := getattr(self, name), str):
                raise SettingError(f"{name} is {value!r}: give a list of names")
            object.__setattr__(self, name, None if value is None else tuple(value))

    def given(self, roles: Iterable[str]) -> dict[str, str]:
        """The columns that were named, of these roles."""
        return {role: getattr(self, role) for role in roles if getattr(self, role) is not None}


def find_roles(
    table: str, names: Sequence[str], roles: Sequence[str], columns: TableColumns, notes: list[str], header: bool = True
) -> dict[str, str]:
    """Return the column of every role that has one.

    Args:
        table: its name in messages.
        names: its columns, in order.
        roles: of the edge list or of the node table.
        columns: what the user says; it goes before every guess.
        notes: a sentence on what was guessed is added.
        header: whether the names are the table's own; where columns are only numbered, their places decide.

    Raises:
        SettingError: a column that the user names is not there, or is given two roles.
    """
    found = columns.given(roles)
    for role, name in found.items():
        check_name(table, names, role, name)
    taken = set(found.values()) | (set(columns.features or ()) if "label" in roles else set())
    if len(set(found.values())) < len(found):
        raise SettingError(f"{table}: one column is given two roles ({found}): every role needs its own")
    guessed: dict[str, str] = {}
    for role in roles:
        free = {plain(name): name for name in reversed(names) if name not in taken}
        name = next((free[known] for known in NAMES[role] if known in free), None) if header else None
        if role not in found and name is not None:
            guessed[role] = name
            taken.add(name)
    how = " (guessed from the names)"
    needed = [role for role in ("source", "target", "node_id") if role in roles and role not in {**found, **guessed}]
    if needed:
        free_names = [name for name in names if name not in taken]
        if "source" in needed and len(free_names) > 2 and free_names[0].startswith("column "):
            free_names = free_names[1:] if header else free_names  # an unnamed first column counts the rows
        if len(free_names) < len(needed):
            raise GraphError(
                f"{table} has no column for {' and '.join(needed)}: it has {listed(names)}; is the delimiter a comma, "
                "a tab or a semicolon?"
            )
        guessed |= dict(zip(needed, free_names, strict=False))
        how = " (guessed from their places)" if set(guessed) == set(needed) else " (guessed from names and places)"
    if guessed:
        notes.append(f"{table}: {', '.join(f'{role} is {name!r}' for role, name in guessed.items())}{how}")
    return found | guessed


def check_name(table: str, names: Sequence[str], role: str, name: str) -> None:
    """Raise :class:`SettingError` where the table has no such column."""
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise SettingError(f"{table} has no column {name!r} for {role}.{hint} It has {listed(names)}")


def plain(name: str) -> str:
    """The form in which column names are compared."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def may_be_label(name: str) -> bool:
    """Whether a column may hold labels; judged by its name alone, never by its values."""
    words = plain(name).split("_")
    return plain(name) in NAMES["label"] or words[0] in ("label", "class") or words[-1] in ("label", "class")


def is_known(name: str, roles: Iterable[str]) -> bool:
    """Whether a column name says what the column is for."""
    return plain(name) in MASKS or any(plain(name) in NAMES[role] for role in roles)


def listed(names: Sequence[Any], most: int = 8) -> str:
    """The first few of many names, quoted."""
    shown = ", ".join(repr(name) for name in names[:most])
    return f"{shown} and {len(names) - most:,} more" if len(names) > most else shown
