"""Names at the right end of the lines of a panel, pushed apart where they would overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 6.5  # points
LINE = 1.2  # distance between names, in their own size
BESIDE = 1.04  # where they are, in widths of the panel


def label_ends(axes: Axes, ends: Mapping[str, tuple[float, float]], colours: Mapping[str, str], height: float) -> None:
    """Write every name beside its line's last point, with a thin line to it.

    Args:
        axes: what was drawn on; its limits are kept from here on.
        ends: the last point of every line.
        colours: of the names.
        height: of the panel, in inches.
    """
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    names = sorted(ends, key=lambda name: (ends[name][1], name))
    places = spread_out([(ends[name][1] - low) / (high - low) for name in names], LINE * SIZE / 72 / height)
    for name, place in zip(names, places, strict=True):
        line = {"arrowstyle": "-", "color": colours[name], "linewidth": 0.4, "shrinkA": 0, "shrinkB": 2}
        axes.annotate(
            name,
            ends[name],
            (BESIDE, place),
            textcoords="axes fraction",
            fontsize=SIZE,
            color=colours[name],
            verticalalignment="center",
            arrowprops=line,
            annotation_clip=False,
        )


def spread_out(places: Sequence[float], least: float) -> list[float]:
    """Places in rising order, at least ``least`` apart and moved as little as that needs.

    Those that touch form a block, whose middle is the mean of what its members asked for.
    """
    blocks: list[list[float]] = []
    for place in places:
        blocks.append([place])
        while len(blocks) > 1 and _first(blocks[-1], least) < _last(blocks[-2], least) + least:
            blocks[-2:] = [blocks[-2] + blocks[-1]]
    return [_first(block, least) + i * least for block in blocks for i in range(len(block))]


def _first(block: Sequence[float], least: float) -> float:
    return sum(block) / len(block) - least * (len(block) - 1) / 2


def _last(block: Sequence[float], least: float) -> float:
    return _first(block, least) + least * (len(block) - 1)
