"""A new figure, and figures written as SVG."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from plgc.runtime.errors import MissingExtraError
from plgc.runtime.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(inches: tuple[float, float]) -> Figure:
    """An empty figure outside pyplot: nothing to close, no display needed."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("figures need matplotlib: pip install 'plgc[figures]'") from error
    return Figure(figsize=inches, layout="constrained")


def save_svg(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure as SVG, whole or not at all; the same figure gives the same bytes."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "plgc", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return write_atomically(path, buffer.getvalue())
