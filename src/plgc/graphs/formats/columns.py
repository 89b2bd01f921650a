"""The role of each column of a table: named by the user, or guessed from its name or place, with a note."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plgc.graphs.check import MASKS
from plgc.graphs.preprocessing import Preprocessing
from plgc.runtime.errors import GraphError, SettingError

NAMES = {
    "source": ("source", "src", "from", "u", "source_id", "from_id", "node1"),
    "target": ("target", "dst", "to", "v", "target_id", "to_id", "node2", "dest", "destination"),
    "weight": ("weight", "edge_weight", "weights", "w"),
    "node_id": ("node_id", "id", "node", "nodeid"),
    "label": ("label", "class", "y", "target", "category", "labels"),
    "split": ("split", "subset"),
    "time": (),  # only where it is asked for
}
CLASS_WORDS = frozenset(
    (
        *("category", "churn", "class", "community", "field", "fraud", "group", "kind", "label", "outcome", "result"),
        *("risk", "segment", "stage", "state", "status", "target", "team", "tier", "topic", "type"),
    )
)


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
        scale: whether numeric feature columns are scaled by their median and quartiles; by default they are
            (:mod:`plgc.graphs.preprocessing`).
        rare: in the node table, words of fewer rows than this have no column of their own: they count as unknown.
        decimal: the sign before decimals, "." or ",", where a table leaves open what 1,234 is.
        preprocessing: how another table became features: this one is read in the same way, and nothing is learned from
            it. ``graph.seen.preprocessing`` has it, and so have condensed graphs and models (``model.names``).
        header: whether the first line of tables of text has the names of the columns; without it they are called
            "column 1", "column 2", …
        time: in the node table, when a node came; it is no feature unless it is named as one too.
        until: features are learned from the rows up to this time; :func:`plgc.load_graph` then leaves the others out.
    """

    source: str | None = None
    target: str | None = None
    weight: str | None = None
    node_id: str | None = None
    label: str | None = None
    split: str | None = None
    features: Sequence[str] | None = None
    classes: Sequence[str] | None = None
    scale: bool | None = None
    rare: int = 1
    decimal: str | None = None
    preprocessing: Preprocessing | None = None
    header: bool | None = None
    time: str | None = None
    until: float | None = None

    def __post_init__(self) -> None:
        for name in ("features", "classes"):
            if isinstance(value := getattr(self, name), str):
                raise SettingError(f"{name} is {value!r}: give a list of names")
            object.__setattr__(self, name, None if value is None else tuple(value))
        if self.decimal not in (None, ".", ","):
            raise SettingError(f"decimal is {self.decimal!r}: give '.' or ','")
        if isinstance(self.rare, bool) or not isinstance(self.rare, int) or self.rare < 1:
            raise SettingError(f"rare is {self.rare!r}: give a whole number of rows, 1 or more")
        if self.preprocessing is not None:
            self._check_agreement(self.preprocessing)

    def _check_agreement(self, known: Preprocessing) -> None:
        """Raise where something else is asked for than what the description says."""
        if self.scale is not None and self.scale != known.scaled:
            was = "scaled" if known.scaled else "left as they are"
            option = "--scale" if self.scale else "--no-scale"
            raise SettingError(f"{option} was given, but numbers of the table described were {was}: leave it out")
        described = {*known.features, *(rule.name for rule in known.columns)}
        if others := [name for name in self.features or () if name not in described]:
            raise SettingError(
                f"{others[0]!r} is named as a feature, and is none of those described ({listed(known.features)}): "
                "leave the names of features out"
            )
        if self.label is not None and any(rule.name == self.label for rule in known.columns):
            raise SettingError(
                f"{self.label!r} is named as label, and is one of the features that were condensed: a model would be "
                f"given its own answers. Condense the table again with --column 'label={self.label}'"
            )

    def names_of(self, roles: Sequence[str]) -> list[str]:
        """All columns, of the table that has these roles, whose names are known before it is opened."""
        known = self.preprocessing
        before = [] if known is None else [name for role in roles if (name := known.role(role)) is not None]
        return [*self.given(roles).values(), *before, *(self.named_features if "node_id" in roles else ())]

    @property
    def named_features(self) -> set[str]:
        """The columns of the node table that are features already: named by the user, or described."""
        described = () if self.preprocessing is None else (rule.name for rule in self.preprocessing.columns)
        return {*(self.features or ()), *described}

    @property
    def word_columns(self) -> tuple[str, ...]:
        """The columns that were words in the other table, and are read as words whatever they hold."""
        known = self.preprocessing
        return () if known is None else tuple(rule.name for rule in known.columns if rule.kind == "words")

    @property
    def only_known(self) -> bool:
        """Whether nothing is given that only a table can have: the description of another, and what is rare."""
        return TableColumns() != self == TableColumns(preprocessing=self.preprocessing, rare=self.rare)

    @property
    def timed(self) -> tuple[str, ...]:
        """The role of the time, where it is asked for."""
        return () if self.time is None else ("time",)

    def given(self, roles: Iterable[str]) -> dict[str, str]:
        """The columns that were named, of these roles."""
        return {role: getattr(self, role) for role in roles if getattr(self, role) is not None}

    def known(self, roles: Iterable[str], names: Sequence[str]) -> dict[str, str]:
        """The columns of these roles that were named or, where the table has them, had the role in the other table."""
        before = (self.preprocessing.roles or {}) if self.preprocessing is not None else {}
        named = self.given(roles)
        again = {role: before[role] for role in roles if before.get(role) in names}
        return {role: name for role, name in again.items() if name not in named.values()} | named


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
    found = columns.known(roles, names)
    for role, name in found.items():
        check_name(table, names, role, name)
    taken = set(found.values()) | (columns.named_features if "label" in roles else set())
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


def suggests_classes(name: str) -> bool:
    """Whether a column's name is one that people give to what is to be predicted."""
    return not CLASS_WORDS.isdisjoint(plain(name).split("_"))


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
