"""What a description in a file may hold: a dataclass declares it, and one function checks all of it at the door.

The types of a dataclass's fields are the declaration: ``int``, ``float``, ``str``, ``bool``, ``None``, ``Literal``,
unions, ``tuple[X, ...]`` for lists, ``dict[str, X]``, other dataclasses, and ``Any`` for plain values of any kind.
``Annotated`` narrows them: :class:`Within` bounds a number, :class:`Size` the length of a list, a mapping or a text,
:class:`Form` is what a text must look like, :class:`FreeText` lets it hold any character, and :class:`Since` says which
schemas have a field. A field without a default is required, one of ``X | Absent`` may be left out, and only one of
``X | None`` may be null. Keys that are not declared are refused.

Limits hold where nothing is said: no number is NaN, infinite or beyond what float32 holds, whole numbers are exact in
every reader of JSON, texts are short and printable, and nothing is nested deeply. So what is read can be computed
with, shown and written again.
"""

from __future__ import annotations

import functools
import re
import reprlib
import sys
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from plgc.runtime.errors import PLGCError
from plgc.runtime.text import UNPRINTABLE

T = TypeVar("T")
LARGEST_WHOLE = 2**53  # beyond it JSON readers that take numbers for floats round
LARGEST_FLOAT = 3.5e38  # that of float32, of which everything here was made
TEXT = 10_000  # characters
ENTRIES = 1_000_000  # of a list or a mapping
DEEPEST = 12


class SchemaError(ValueError):
    """A description that is not as declared; the message names the field, its value and what is needed."""


@dataclass(frozen=True)
class Within:
    """The least and the largest value of a number; with ``above``, the least itself is excluded.

    Without ``most``, it is the largest that any number may be.
    """

    least: float
    most: float | None = None
    above: bool = False

    def complaint(self, value: float, largest: float) -> str | None:
        """Why a number will not do; None where it will."""
        most = largest if self.most is None else self.most
        if (value > self.least if self.above else value >= self.least) and value <= most:
            return None
        bounds = f"{'above' if self.above else 'at least'} {self.least:g}"
        return f"{bounds} and at most {most:g}" if self.most is not None or value > most else bounds


@dataclass(frozen=True)
class Size:
    """How many entries a list or mapping may have, or characters a text."""

    least: int = 0
    most: int = ENTRIES


@dataclass(frozen=True)
class Form:
    """What a text must look like, as a regular expression and in words."""

    pattern: str
    words: str


@dataclass(frozen=True)
class FreeText:
    """Any character that can be stored will do: what is shown of it is escaped."""


@dataclass(frozen=True)
class Since:
    """The first schema that has a field, and the last one; others do not know it."""

    schema: int
    last: int = sys.maxsize


class Absent:
    """The type of a field that a description may leave out, but not give as null: ``X | Absent = ABSENT``."""


ABSENT = Absent()
Count = Annotated[int, Within(0)]
Positive = Annotated[int, Within(1)]
Share = Annotated[float, Within(0, 1)]
Seed64 = Annotated[int, Within(-(2**63), 2**63 - 1)]
Word = Annotated[str, Form(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}", "letters, digits, dots, hyphens, plus and underscores")]
Digest = Annotated[str, Form(r"[0-9a-f]{64}", "64 hexadecimal digits")]


def read(kind: type[T], value: Any, *, schema: int = 0, where: str = "") -> T:
    """An instance of a dataclass from what a file says.

    Args:
        kind: the dataclass.
        value: the JSON value.
        schema: of the file, for fields that came later (:class:`Since`).
        where: the name of this value in messages; nothing for the whole description.

    Raises:
        SchemaError: it is not as declared, or the dataclass itself refuses it.
    """
    if not isinstance(value, dict):
        raise SchemaError(f"{where or 'it'} is {reprlib.repr(value)}: an object is needed")
    found, declared = {}, _declared(kind)
    known = [name for name, (_, since, _) in declared.items() if since.schema <= max(schema, 1) <= since.last]
    if unknown := sorted(str(key) for key in value if key not in known):
        names = f"{where}." if where else ""
        raise SchemaError(f"{names}{reprlib.repr(unknown[0])} is unknown: known are {', '.join(known)[:400]}")
    for name in known:
        hint, _, required = declared[name]
        place = f"{where}.{name}" if where else name
        if name in value:
            found[name] = _checked(hint, value[name], place)
        elif required:
            raise SchemaError(f"{place} is missing")
    try:
        return kind(**found)
    except (ValueError, TypeError, PLGCError) as error:
        raise SchemaError(f"{where}: {error}" if where else str(error)) from error


def named_tensors(tensors: Mapping[str, Any], *names: str) -> list[Any]:
    """The tensors of these names, in this order; ValueError where one is missing or there is another."""
    if tensors.keys() != set(names):
        raise SchemaError(f"it has the tensors {', '.join(sorted(tensors))[:200]}, where {', '.join(names)} are needed")
    return [tensors[name] for name in names]


@functools.cache
def _declared(kind: type) -> dict[str, tuple[Any, Since, bool]]:
    """The fields of a dataclass: type, the schemas that have it, and whether it is required there."""
    hints, found = typing.get_type_hints(kind, include_extras=True), {}
    for item in fields(kind):
        rules = getattr(hints[item.name], "__metadata__", ())
        since = next((rule for rule in rules if isinstance(rule, Since)), None)
        optional = item.default is not MISSING or item.default_factory is not MISSING
        found[item.name] = hints[item.name], since or Since(1), since is not None or not optional
    return found


def _checked(hint: Any, value: Any, where: str, rules: tuple[Any, ...] = (), depth: int = 0) -> Any:
    """The value as its type says, or :class:`SchemaError`."""
    if depth > DEEPEST:
        raise SchemaError(f"{where[:100]} is nested more than {DEEPEST} deep")
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _checked(arguments[0], value, where, (*rules, *hint.__metadata__), depth)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, value, where, rules, depth)
    if origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in arguments):
            raise SchemaError(f"{where} is {reprlib.repr(value)}: choose {', '.join(map(str, arguments))}")
        return value
    if hint is Any:
        return _plain(value, where, depth)
    if origin in (tuple, list):
        items = _sized(value, list, where, rules)
        return origin(_checked(arguments[0], item, f"{where}[{at}]", (), depth + 1) for at, item in enumerate(items))
    if origin is dict:
        items, item = _sized(value, dict, where, rules), arguments[1]
        return {
            _text(key, f"a name in {where}", ()): _checked(item, own, f"{where}.{key}", (), depth + 1)
            for key, own in items.items()
        }
    if is_dataclass(hint):
        return read(typing.cast(type, hint), value, where=where)
    return _SIMPLE[hint](value, where, rules)


def _one_of(hints: tuple[Any, ...], value: Any, where: str, rules: tuple[Any, ...], depth: int) -> Any:
    """A union: None, or the first of the others that takes the value; the last one's complaint where none does."""
    if value is None and type(None) in hints:
        return None
    others = [hint for hint in hints if hint not in (type(None), Absent)]
    for hint in others[:-1]:
        try:
            return _checked(hint, value, where, rules, depth)
        except SchemaError:
            continue
    return _checked(others[-1], value, where, rules, depth)


def _plain(value: Any, where: str, depth: int) -> Any:
    """A value of any kind, within the limits that hold everywhere."""
    if value is None or isinstance(value, bool):
        return value
    for kind, hint in ((str, str), (int, int), (float, float), (list, list[Any]), (dict, dict[str, Any])):
        if type(value) is kind:
            return _checked(hint, value, where, (), depth + 1)
    raise SchemaError(f"{where} is {reprlib.repr(value)}: a plain value is needed")


def _sized(value: Any, kind: type, where: str, rules: tuple[Any, ...]) -> Any:
    if not isinstance(value, kind):
        needed = "a list" if kind is list else "an object"
        raise SchemaError(f"{where} is {reprlib.repr(value)}: {needed} is needed")
    size = next((rule for rule in rules if isinstance(rule, Size)), Size())
    if not size.least <= len(value) <= size.most:
        raise SchemaError(f"{where} has {len(value)} entries: {size.least} to {size.most} are possible")
    return value


def _number(value: Any, where: str, rules: tuple[Any, ...], words: str, kinds: tuple[type, ...], most: float) -> Any:
    if type(value) not in kinds:
        raise SchemaError(f"{where} is {reprlib.repr(value)}: {words} is needed")
    for bound in [rule for rule in rules if isinstance(rule, Within)] or [Within(-most)]:
        if (complaint := bound.complaint(value, most)) is not None:
            raise SchemaError(f"{where} is {reprlib.repr(value)}: it must be {complaint}")
    return value


def _whole(value: Any, where: str, rules: tuple[Any, ...]) -> int:
    return _number(value, where, rules, "a whole number", (int,), LARGEST_WHOLE)


def _float(value: Any, where: str, rules: tuple[Any, ...]) -> float:
    return float(_number(value, where, rules, "a number", (int, float), LARGEST_FLOAT))


def _flag(value: Any, where: str, rules: tuple[Any, ...]) -> bool:
    if not isinstance(value, bool):
        raise SchemaError(f"{where} is {reprlib.repr(value)}: true or false is needed")
    return value


def _text(value: Any, where: str, rules: tuple[Any, ...]) -> str:
    if not isinstance(value, str):
        raise SchemaError(f"{where} is {reprlib.repr(value)}: a text is needed")
    size = next((rule for rule in rules if isinstance(rule, Size)), Size(0, TEXT))
    if not size.least <= len(value) <= size.most:
        raise SchemaError(f"{where} has {len(value)} characters: {size.least} to {size.most} are possible")
    for rule in rules:
        if isinstance(rule, Form) and not re.fullmatch(rule.pattern, value):
            raise SchemaError(f"{where} is {reprlib.repr(value)}: {rule.words} are possible")
    if any(isinstance(rule, FreeText) for rule in rules):
        if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
            raise SchemaError(f"{where} is {reprlib.repr(value)}: it cannot be written as UTF-8")
    elif UNPRINTABLE.search(value):
        raise SchemaError(f"{where} is {reprlib.repr(value)}: only printable characters are possible")
    return value


_SIMPLE: dict[Any, Callable[[Any, str, tuple[Any, ...]], Any]] = {int: _whole, float: _float, bool: _flag, str: _text}
