"""Options: what is computed with, plain keywords for groups of options, and checks of settings by a table of ranges."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar

import torch

from plgc.runtime.errors import SettingError

PRECISIONS = ("float32", "bfloat16")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


@dataclass(frozen=True)
class Compute:
    """What a computation may use.

    Attributes:
        device: such as ``cpu`` or ``cuda``.
        threads: CPU threads; None for torch's current number. Recorded, since sums differ between numbers of threads.
        memory: bytes to stay within, as a number or a text such as ``4GiB``; None for no limit.
        precision: of the encoders' products, ``float32`` or, on a GPU, ``bfloat16``; None for what the settings say.
    """

    device: str = "cpu"
    threads: int | None = None
    memory: int | str | None = None
    precision: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", str(self.device))  # torch.device is welcome too
        check_ranges(self, {"threads": "[1, inf)", "precision": PRECISIONS})
        if self.memory is not None:
            object.__setattr__(self, "memory", parse_memory(self.memory))
        check_precision(self.precision or "float32", self.device)

    @property
    def budget(self) -> int | None:
        """Bytes to stay within; None for no limit."""
        return None if self.memory is None else int(self.memory)


def check_device(device: str | torch.device) -> None:
    """Raise :class:`SettingError` for a device that torch does not know or that is not here, before any work."""
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:  # torch without CUDA asserts
        reason = str(error).splitlines()[0].rstrip(".")
        raise SettingError(f"device {str(device)!r} cannot be used: {reason}. Try cpu") from error


def check_precision(precision: str, device: str) -> None:
    """Raise :class:`SettingError` where the device cannot compute as asked."""
    if precision != "float32" and not device.startswith("cuda"):
        raise SettingError(f"precision is {precision}, but device is {device}: give a GPU (cuda), or float32")


def parse_memory(text: str | int) -> int:
    """Bytes from a number of them or a text such as ``4GiB``."""
    if isinstance(text, int):
        text = f"{text}B"
    for unit, size in sorted(UNITS.items(), key=lambda pair: -len(pair[0])):
        number = text.removesuffix(unit).strip()
        if text.endswith(unit) and number.replace(".", "", 1).isdecimal() and float(number) > 0:
            return int(float(number) * size)
    raise SettingError(f"memory is {text!r}: give a number and a unit ({', '.join(UNITS)}), as in 4GiB")


@contextmanager
def cpu_threads(threads: int | None) -> Iterator[int]:
    """Compute with this many CPU threads, and put things back afterwards."""
    before = torch.get_num_threads()
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        yield torch.get_num_threads()
    finally:
        torch.set_num_threads(before)


Result = TypeVar("Result")


def accepts(**groups: Any) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Let a function take the fields of option dataclasses as plain keywords, and hand it one object for each group.

    Args:
        groups: by the function's parameter, an option dataclass, or an instance of one with other defaults.

    Example:
        >>> from plgc.runtime.options import Compute
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
