"""How the columns of a table became features: learned once from one table, applied as it is to every later one.

A number x becomes z = clip((x − m) / s), with the median m and the spread s of its column, so that neither units nor
outliers decide; of a skewed column, incomes for instance, log x takes the place of x. Words become one column per word;
an unknown word is a row of zeros. A gap is filled with what was learned. All of it is plain numbers and names:
condensed files and models carry it, and ``plgc data describe`` writes it as JSON, for several owners to share. It is
never learned from a label column.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from plgc.runtime.errors import GraphError, SettingError
from plgc.runtime.files import write_atomically
from plgc.runtime.schema import FreeText, Positive, Size, Within, read

FORMAT, SCHEMA = "plgc-preprocessing", 1
MOST_COLUMNS, MOST_WORDS = 20_000, 1000
MAX_BYTES = 8 * 2**20  # of a description in a file of its own
FARTHEST = 3.0  # spreads from the median: what is farther away counts as this far
WIDE = 1.5  # ratio of the quartiles, from which a column may be skewed
SKEWED = 0.1  # (Q₃ + Q₁ − 2m) / (Q₃ − Q₁), from which a column of positive numbers is skewed
IQR = 1.349  # between the quartiles of a normal distribution, in standard deviations
DIGITS = 6  # significant ones of a number that is kept

Kind = Literal["number", "date", "flag", "words", "vector"]
Name = Annotated[str, FreeText(), Size(0, 1000)]


@dataclass(frozen=True)
class ColumnRule:
    """How one column of a table becomes one or more feature columns.

    Attributes:
        name: of the column.
        kind: ``number``; ``date``, in days since 1970; ``flag``, true or false as 1 and 0; ``words``; or ``vector``.
        fill: what a gap counts as, one number per feature column; none for words, where a gap is a row of zeros.
        centre: m, the median.
        scale: s, a standard deviation as the quartiles tell it; None leaves numbers as they are.
        log: whether m and s are those of log x; numbers that have no logarithm count as far below all others.
        words: the words that have a column, in its order.
        entries: the entries of a vector that have a column, in its order.
    """

    name: Name
    kind: Kind
    fill: Annotated[tuple[float, ...], Size(0, MOST_COLUMNS)] = ()
    centre: float = 0.0
    scale: Annotated[float, Within(0, above=True)] | None = None
    log: bool = False
    words: Annotated[tuple[Name, ...], Size(0, MOST_WORDS)] = ()
    entries: Annotated[tuple[Annotated[int, Within(0)], ...], Size(0, MOST_COLUMNS)] = ()

    def __post_init__(self) -> None:
        counts = {"words": (0, True, False), "vector": (len(self.entries), False, True)}
        gaps, words, entries = counts.get(self.kind, (1, False, False))
        if (len(self.fill), bool(self.words), bool(self.entries)) != (gaps, words, entries):
            raise ValueError(f"the {self.kind} column {self.name[:100]!r} has parts of another kind")

    @property
    def features(self) -> list[str]:
        """The names of its feature columns."""
        if self.kind == "words":
            return [f"{self.name}={word}" for word in self.words]
        return [f"{self.name}[{entry}]" for entry in self.entries] if self.kind == "vector" else [self.name]

    def scaled(self, values: np.ndarray) -> np.ndarray:
        """Values [N, W] with gaps filled, as features."""
        values = np.where(np.isnan(values), np.array(self.fill), values)
        if self.scale is None:
            return values
        values = _log(values) if self.log else values
        return np.clip((values - self.centre) / self.scale, -FARTHEST, FARTHEST)


@dataclass(frozen=True, repr=False)
class Preprocessing:
    """How a table became features, in full.

    Attributes:
        columns: a rule for each column that is used, in the order of the features.
        scaled: whether numbers are scaled.
        rare: every word that is listed occurred in this many rows at least; rarer ones count as unknown.
        roles: names of the columns that say what is joined, with which weight, the id of a node and, where the user
            has named it, the label; a later table is read by the same names where it has them.
        decimal: the sign before decimals where a table has signs between thousands, or None.
    """

    columns: Annotated[tuple[ColumnRule, ...], Size(1, MOST_COLUMNS)]
    scaled: bool = True
    rare: Positive = 1
    roles: Annotated[dict[str, Name], Size(0, 10)] | None = None
    decimal: Literal[".", ","] | None = None

    def __post_init__(self) -> None:
        if len(self.features) > MOST_COLUMNS:
            raise ValueError(f"it describes {len(self.features):,} features, at most {MOST_COLUMNS:,} are possible")
        if len(set(self.features)) < len(self.features):
            raise ValueError("two of its features have one name")

    def __repr__(self) -> str:
        return f"Preprocessing({len(self.columns)} columns, {len(self.features)} features)"

    @property
    def features(self) -> list[str]:
        """The names of the feature columns, in order."""
        return [name for rule in self.columns for name in rule.features]

    def role(self, role: str) -> str | None:
        """The column that had this role, where it is known."""
        return (self.roles or {}).get(role)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; what is as by default is left out."""
        return {**_stated(self), "columns": [_stated(rule) for rule in self.columns]}

    @staticmethod
    def from_dict(values: Any) -> Preprocessing:
        """Read back what :meth:`to_dict` gave; a ValueError names what is not as declared."""
        return read(Preprocessing, values, where="preprocessing")

    def difference(self, other: Preprocessing) -> str | None:
        """In which feature columns two descriptions differ, in words; None where they make the same features."""
        if self.columns == other.columns:
            return None
        for own, others in zip(self.columns, other.columns, strict=False):
            if own.name != others.name:
                return f"{own.name!r} is where the other has {others.name!r}"
            for item in fields(ColumnRule):
                one, another = getattr(own, item.name), getattr(others, item.name)
                if one != another:
                    return f"{own.name!r} has {item.name} {_shown(one)}, in the other {_shown(another)}"
        return f"one has {len(self.columns)} columns, the other {len(other.columns)}"

    def keep(self, features: Sequence[bool]) -> Preprocessing:
        """The same without some words, given which feature columns stay; a column of a table without words goes."""
        rules, stays = list[ColumnRule](), iter(features)
        for rule in self.columns:
            own = [next(stays) for _ in rule.features]
            words = tuple(word for word, kept in zip(rule.words, own, strict=False) if kept)
            if rule.kind != "words" or words:
                rules.append(replace(rule, words=words))
        return replace(self, columns=tuple(rules))

    def told(self) -> dict[str, str]:
        """How each column becomes features, in words, by its name."""
        found = {}
        for rule in self.columns:
            if rule.kind == "words":
                about = f"{len(rule.words)} word(s): {', '.join(rule.words)}; others count as none of them"
            elif rule.kind == "vector":
                about = f"{len(rule.entries)} numbers as they are"
            elif rule.scale is None:
                about = f"as it is, a gap as {rule.fill[0]:g}"
            else:
                value = "log x" if rule.log else "x"
                about = f"({value} − {rule.centre:g}) / {rule.scale:g} within ±{FARTHEST:g}, a gap as {rule.fill[0]:g}"
            found[rule.name] = f"{rule.kind}, {about}"
        return found

    def summary(self) -> str:
        """What was done, in one sentence."""
        counts = {kind: sum(rule.kind == kind for rule in self.columns) for kind in ("words", "date")}
        scaled = sum(rule.scale is not None for rule in self.columns)
        parts = [f"{scaled} of {len(self.columns)} columns scaled by median and quartiles"]
        parts += [f"{counts['words']} of words, one feature per word"] if counts["words"] else []
        parts += [f"{counts['date']} of dates, in days"] if counts["date"] else []
        parts += [f"words of fewer than {self.rare} nodes left out"] if self.rare > 1 else []
        return "; ".join(parts)


def number_rule(name: str, kind: Kind, values: np.ndarray, scale: bool) -> ColumnRule:
    """Learn how a column of numbers, float64 [N] with NaN for gaps, becomes a feature.

    0 and 1 stay. Of a column that has one value in half of its rows or more, a count that is mostly zero for instance,
    this value becomes 0, and the spread is that of the others.
    """
    known = values[~np.isnan(values)]
    if not scale or np.isin(known, (0, 1)).all():
        return ColumnRule(name, kind, fill=(_rounded(known.mean()),))
    fill = centre = float(np.median(known))
    others = np.abs(known - centre)[known != centre]
    log = False
    if 2 * len(others) <= len(known):
        spread = float(np.median(others)) if len(others) else 1.0
    else:
        if log := _is_skewed(known):
            known = _log(known)
        lower, centre, upper = map(float, np.percentile(known, (25, 50, 75)))
        spread = (upper - lower) / IQR
    digits = 3 - math.floor(math.log10(spread))  # the median to a thousandth of the spread
    return ColumnRule(
        name, kind, (_rounded(fill) if log else round(fill, digits),), round(centre, digits), _rounded(spread), log
    )


def _is_skewed(known: np.ndarray) -> bool:
    """Whether numbers, few of them 0 and none below, have their upper quartile much farther away than the lower one.

    Where the quartiles are nearly the same, as those of temperatures in kelvin, a logarithm would change nothing.
    """
    least, lower, centre, upper = np.percentile(known, (5, 25, 50, 75))
    wide = known.min() >= 0 < least and upper > WIDE * lower
    return bool(wide and upper + lower - 2 * centre > SKEWED * (upper - lower))


def _log(values: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(values, np.finfo(float).tiny))


def check_preprocessing(made: Preprocessing | None, own: Preprocessing | None, what: str) -> None:
    """Raise :class:`GraphError` where a graph's table was read otherwise than that of a file or model.

    Args:
        made: how the table of the file or model was read; None for a matrix, and for files from before this was kept.
        own: how the table of the graph was read; None for a matrix.
        what: the file's or model's name in messages.
    """
    if own is None or (made is None and not own.scaled):
        return
    if made is None:
        raise GraphError(
            f"{what} says nothing of how a table became its features: it was made from a matrix, or before numbers "
            "were scaled. Read the table as it is (--no-scale, TableColumns(scale=False)), or condense it again"
        )
    if (where := made.difference(own)) is not None:
        raise GraphError(
            f"{what} was made from columns that became features in another way: {where}. Read the table by the "
            "description it carries: TableColumns(preprocessing=…), which every command does by itself"
        )


def save_preprocessing(preprocessing: Preprocessing, path: str | os.PathLike[str]) -> Path:
    """Write a description as JSON, whole or not at all."""
    values = {"format": FORMAT, "schema": SCHEMA, **preprocessing.to_dict()}
    return write_atomically(path, (json.dumps(values, ensure_ascii=False, indent=1) + "\n").encode())


def read_preprocessing(path: str | os.PathLike[str]) -> Preprocessing:
    """Read what :func:`save_preprocessing` wrote; SettingError where a file is anything else."""
    try:
        if os.path.getsize(path) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES:,} bytes")
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise ValueError("its format is another")
        if (schema := values.pop("schema", None)) != SCHEMA:
            raise ValueError(f"its schema is {schema!r}, this version reads {SCHEMA}")
        return Preprocessing.from_dict(values)
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise SettingError(
            f"{path} is not a description that 'plgc data describe' has written: {reason or error}"[:500]
        ) from error


def common_preprocessing(parts: Sequence[tuple[str, Preprocessing | None]]) -> Preprocessing | None:
    """The description that several files share, each with its name in messages; GraphError where two differ."""
    (first_name, first), *others = parts
    for name, other in others:
        if first is not None and other is not None:
            where = first.difference(other)
        else:
            where = None if first is other else "one was made from a table, the other from a matrix"
        if where is not None:
            raise GraphError(
                f"{first_name} and {name} describe their features differently: {where}. Let all owners use one "
                "description: 'plgc data describe TABLE -o description.json', then --preprocess description.json"
            )
    return first


def _stated(record: ColumnRule | Preprocessing) -> dict[str, Any]:
    """The fields of a record that are not as by default, as JSON has them."""
    values = {item.name: getattr(record, item.name) for item in fields(record)}
    stated = {item.name: values[item.name] for item in fields(record) if values[item.name] != item.default}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in stated.items()}


def _rounded(value: Any) -> float:
    return float(f"{float(value):.{DIGITS}g}")


def _shown(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return text if len(text) < 60 else f"{text[:57]}…"
