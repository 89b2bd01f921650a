"""Numbers, sizes and settings as text, the same everywhere in the report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

NONE = "–"


def whole(value: int) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{value:,}".replace(",", "\u202f")


def number(value: float | None, digits: int = 3) -> str:
    """So many significant digits, without an exponent where it can be avoided."""
    if value is None or not math.isfinite(value):
        return NONE
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e7 else text.replace("-", "−")


def percent(share: float, digits: int = 2) -> str:
    """A share from 0 to 1 in per cent."""
    return f"{number(100 * share, digits)}\u202f%"


def size(count: int | None) -> str:
    """Bytes in a unit that gives three digits or so."""
    if count is None:
        return NONE
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g}\u202f{units[0]}"


def spread(mean: float, deviation: float | None, digits: int = 1) -> str:
    """Mean ± standard deviation; the mean alone where there is no second value."""
    text = f"{mean:.{digits}f}".replace("-", "−")
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def signed(value: float, digits: int = 1) -> str:
    """A difference with its sign."""
    return f"{value:+.{digits}f}".replace("-", "−")


def counted(count: int, noun: str) -> str:
    """A number and a noun: ``1 node``, ``2 nodes``."""
    return f"{whole(count)} {noun}{'' if count == 1 else 's'}"


def flattened(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as one list of dotted names and values; short lists stay in one piece."""
    found: list[tuple[str, str]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found += flattened(value, f"{name}.")
        elif isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, Mapping) for v in value):
            found += flattened({str(place): item for place, item in enumerate(value)}, f"{name}.")
        else:
            found.append((name, plain(value)))
    return found


def plain(value: Any) -> str:
    """One setting's value."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(plain, value))
    return str(value)
