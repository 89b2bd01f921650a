"""What every chart shares: where values fall, ticks, axes, and the frame with its text alternative and its numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plgc.report.html import Html, details, join, tag
from plgc.report.text import number

WIDTH, HEIGHT = 420.0, 230.0
LEFT, RIGHT, TOP, BOTTOM = 56.0, 14.0, 14.0, 36.0


@dataclass(frozen=True)
class Frame:
    """Where values fall in the picture."""

    low_x: float
    high_x: float
    low_y: float
    high_y: float
    height: float = HEIGHT

    def x(self, value: float) -> float:
        """The place of a value along the picture."""
        span = (self.high_x - self.low_x) or 1.0
        return LEFT + (value - self.low_x) / span * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """The place of a value up the picture, from the top."""
        span = (self.high_y - self.low_y) or 1.0
        return self.height - BOTTOM - (value - self.low_y) / span * (self.height - TOP - BOTTOM)


def nice_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values between two ends: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(index * step, 12) for index in range(first, last + 1)]


def nice_top(value: float) -> float:
    """A round value at or just above the given one, for an axis that starts at 0."""
    step = nice_ticks(0, value, 8)[1]
    return math.ceil(value / step - 1e-9) * step


def axes(frame: Frame, x_label: str, y_label: str, ticks: Sequence[tuple[float, str]] | None) -> Html:
    """Lines across, values beside them, and the names of both axes."""
    parts: list[Html] = []
    for tick in nice_ticks(frame.low_y, frame.high_y, 4):
        y = frame.y(tick)
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{y:.1f}", y2=f"{y:.1f}", class_="grid"))
        parts.append(tag("text", number(tick), x=LEFT - 6, y=f"{y + 4:.1f}", class_="end"))
    named = ticks or [(tick, number(tick)) for tick in nice_ticks(frame.low_x, frame.high_x, 5)]
    for place, name in named:
        parts.append(tag("text", name, x=f"{frame.x(place):.1f}", y=frame.height - BOTTOM + 15, class_="mid"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(tag("text", x_label, x=middle, y=frame.height - 4, class_="mid label"))
    parts.append(
        tag("text", y_label, x=-(frame.height - BOTTOM) / 2, y=12, class_="mid label", transform="rotate(-90)")
    )
    return join(parts)


def figure(
    identity: str, title: str, text: str, content: Html, height: float, legend: Html | None, numbers: Html
) -> Html:
    """The picture, what it shows in words for those who do not see it, and its numbers."""
    svg = tag(
        "svg",
        tag("title", title, id=f"{identity}-title"),
        tag("desc", text, id=f"{identity}-text"),
        content,
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        role="img",
        aria_labelledby=f"{identity}-title {identity}-text",
    )
    caption = tag("figcaption", title)
    return tag("figure", caption, svg, legend, details("The numbers", numbers), id=identity, class_="chart")
