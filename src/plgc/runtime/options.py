"""Options and settings: groups of options as frozen dataclasses, plain keywords for callers, and a table of checks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from plgc.runtime.errors import SettingError

Result = TypeVar("Result")


def accepts(**groups: Any) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a function take the fields of option dataclasses as plain keywords, and hand it one object for each group.

    Args:
        groups: by the function's parameter, an option dataclass, or an instance of one with other defaults.

    Example:
        >>> from plgc.runtime.compute import Compute
        >>> @accepts(compute=Compute)
        ... def work(*, compute):
        ...     return compute.device
        >>> work(device="cuda"), work(compute=Compute(device="cpu"))
        ('cuda', 'cpu')
    """
    defaults = {name: group() if isinstance(group, type) else group for name, group in groups.items()}
    assert all(is_dataclass(group) for group in defaults.values())

    def decorate(function: Callable[..., Result]) -> Callable[..., Result]:
        @functools.wraps(function)
        def call(*positional: Any, **given: Any) -> Result:
            for name, default in defaults.items():
                own = {item.name: given.pop(item.name) for item in fields(default) if item.name in given}
                if own or name not in given:
                    given[name] = replace(given.get(name, default), **own)
            return function(*positional, **given)

        call.__signature__ = _signature(function, defaults)  # pyright: ignore[reportAttributeAccessIssue]
        return call

    return decorate


def _signature(function: Callable[..., Any], defaults: dict[str, Any]) -> inspect.Signature:
    """The function's own, with the fields of every group as keywords in the group's place."""
    signature = inspect.signature(function)
    own = [parameter for name, parameter in signature.parameters.items() if name not in defaults]
    keyword = inspect.Parameter.KEYWORD_ONLY
    given = [
        inspect.Parameter(item.name, keyword, default=getattr(default, item.name), annotation=item.type)
        for default in defaults.values()
        for item in fields(default)
    ]
    return signature.replace(parameters=[*own, *given])


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
