"""Scales of charts: where values are in the picture, and round ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

WIDTH, HEIGHT = 420.0, 230.0


@dataclass(frozen=True)
class Frame:
    """Maps values to coordinates in the picture, inside its margins."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    height: float = HEIGHT
    width: float = WIDTH
    left: float = 56.0
    right: float = 14.0
    top: float = 14.0
    bottom: float = 36.0

    def x(self, value: float) -> float:
        """The horizontal coordinate of a value."""
        span = (self.high_x - self.low_x) or 1.0
        return self.left + (value - self.low_x) / span * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        """The vertical coordinate of a value, from the top."""
        span = (self.high_y - self.low_y) or 1.0
        return self.height - self.bottom - (value - self.low_y) / span * (self.height - self.top - self.bottom)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round values between two ends: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def nice_top(value: float) -> float:
    """A round value at or just above the given one, for an axis that starts at 0."""
    step = nice_ticks(0, value, 8)[1]
    return math.ceil(value / step - 1e-9) * step
