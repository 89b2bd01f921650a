"""Checks of settings: every number within its range, every choice one of the allowed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.runtime.errors import SettingError


def check_ranges(settings: Any, rules: Mapping[str, str | Sequence[str]]) -> None:
    """Raise :class:`SettingError` for the first field out of range; a field that is None is not checked.

    Args:
        settings: the object.
        rules: by the names of fields, several with spaces between: an interval such as ``"[0, 1)"`` (square brackets
            include the bound, ``inf`` is no bound), or the words to choose from.

    Example:
        >>> from types import SimpleNamespace
        >>> check_ranges(SimpleNamespace(epochs=0, dropout=0.5), {"dropout": "[0, 1)", "epochs rounds": "[1, inf)"})
        Traceback (most recent call last):
        ...
        plgc.runtime.errors.SettingError: epochs is 0: it must be at least 1
    """
    for names, rule in rules.items():
        for name in names.split():
            value = getattr(settings, name)
            if value is None:
                continue
            if not isinstance(rule, str):
                if value not in rule:
                    raise SettingError(f"{name} is {value!r}: choose {', '.join(rule)}")
            elif not _inside(value, rule):
                raise SettingError(f"{name} is {value}: it must be {_words(rule)}")


def _inside(value: float, interval: str) -> bool:
    low, high = map(float, interval[1:-1].split(","))
    return (low <= value if interval[0] == "[" else low < value) and (
        value <= high if interval[-1] == "]" else value < high
    )


def _words(interval: str) -> str:
    low, high = interval[1:-1].split(", ")
    above = f"{'at least' if interval[0] == '[' else 'above'} {low}"
    return above if high == "inf" else f"{above} and {'at most' if interval[-1] == ']' else 'below'} {high}"
