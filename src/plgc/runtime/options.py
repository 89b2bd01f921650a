"""Groups of options as frozen dataclasses, and plain keywords for the people who call us."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

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
