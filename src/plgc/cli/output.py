"""What the user gets to see: results on stdout, as text or as one JSON object; notices and progress on stderr.

Messages go through one logger, which every command sets up anew. Colours are used only where stderr is a terminal and
``NO_COLOR`` is not set.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from plgc.runtime.progress import Progress, progress_line, silent
from plgc.runtime.text import visible, visible_lines

if TYPE_CHECKING:
    from plgc.artifact.condensed import CondensedGraph
    from plgc.graphs.attributes import Seen

LOG = logging.getLogger("plgc.cli")
DETAIL, NOTICE, ERRORS = logging.DEBUG, logging.INFO, logging.ERROR


class _Stderr(logging.Handler):
    """Writes to the stderr of the moment, which tests replace."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(record.getMessage(), err=True)


def start_messages() -> None:
    """Show notices and no details, as every command does unless told otherwise."""
    LOG.handlers, LOG.propagate = [_Stderr()], False
    LOG.setLevel(NOTICE)


def notice(text: str) -> None:
    """Print something that the user should know, such as what was guessed; not with ``--quiet``."""
    LOG.log(NOTICE, f"{painted('note:', typer.colors.CYAN)} {visible_lines(text)}")


def warn(texts: Sequence[str], name: str = "") -> None:
    """Print what makes a result useless, also with ``--quiet``."""
    for text in texts:
        words = visible_lines(f"{name}{': ' if name else ''}{text}")
        LOG.log(ERRORS, f"{painted('warning:', typer.colors.YELLOW)} {words}")


def detail(text: str) -> None:
    """Print something with ``--verbose`` only."""
    LOG.log(DETAIL, visible_lines(text))


@contextmanager
def working() -> Iterator[Progress]:
    """A progress line for a job; none with ``--quiet``, with ``--verbose`` also lines in a log."""
    if not LOG.isEnabledFor(NOTICE):
        yield silent
        return
    with progress_line(in_logs=LOG.isEnabledFor(DETAIL)) as progress:
        yield progress


def painted(text: str, colour: str) -> str:
    """Text in a colour where stderr shows colours, else plain."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or not sys.stderr.isatty()
    return text if plain else typer.style(text, fg=colour, bold=True)


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Print the result on stdout, as JSON or as text; nothing in it can steer a terminal."""
    typer.echo(json.dumps(result, allow_nan=False) if as_json else visible_lines(text))


def table(rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Columns of equal width under a heading (the first row): ``names`` columns of text, then numbers to the right."""
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        texts = [cell.ljust(width) for cell, width in zip(row[:names], widths[:names], strict=True)]
        numbers = [cell.rjust(width) for cell, width in zip(row[names:], widths[names:], strict=True)]
        lines.append("  ".join(texts + numbers).rstrip())
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([lines[0], rule, *lines[1:]])


def facts(pairs: Mapping[str, str]) -> str:
    """One named value a line."""
    shown = {visible(name): visible(value) for name, value in pairs.items()}
    width = max(len(name) for name in shown)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown.items())


def spread(scores: Mapping[str, Any] | None, digits: int = 1) -> str:
    """Mean ± standard deviation of ``{"mean", "std", "values"}``; the mean alone for a single value."""
    if scores is None:
        return "-"
    mean = f"{scores['mean']:.{digits}f}"
    return mean if len(scores["values"]) == 1 else f"{mean} ± {scores['std']:.{digits}f}"


def size(count: int | None) -> str:
    """Bytes in a unit that gives three digits or so."""
    if count is None:
        return "-"
    value, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while value >= 999.5 and len(units) > 1:
        value, units = value / 1000, units[1:]
    return f"{value:.3g} {units[0]}"


def seconds(value: float | None) -> str:
    """A time in seconds, with a decimal where it is short."""
    return "-" if value is None else f"{value:.1f} s" if value < 100 else f"{value:.0f} s"


def seen_text(seen: Seen) -> str:
    """What a condensation saw of the graph, in brackets; nothing where it saw everything."""
    if seen.nodes == "train":
        return " (training nodes only)"
    return f" (training edges only, edge seed {seen.edge_seed})" if seen.edges == "train" else ""


def derived_text(mark: Mapping[str, Any]) -> str:
    """How features were derived, and the options that do it again."""
    from plgc.graphs.derive import mark_option

    return f"derived from the edges ({mark_option(mark)})"


def partition_text(partition: Mapping[str, Any]) -> str:
    """How one graph was cut into sources."""
    halo = f", halo of {partition['halo']} hop(s)" if partition["halo"] else ""
    cut = "the number of cut edges is not published, as the files are private, clipped or noisy"
    if "edges" in partition:
        share = 100 * partition["edges_cut"] / max(1, partition["edges"])
        cut = f"{partition['edges_cut']} of {partition['edges']} edges cut ({share:.1f} %)"
    return f"{partition['graph']} in {partition['parts']} {partition['how']} parts{halo}: {cut}"


def file_result(
    path: Path, graph: str, condensed: CondensedGraph, seconds: float, peak_memory_bytes: int | None
) -> dict[str, Any]:
    """The JSON result of one condensed file."""
    from plgc.artifact.degenerate import warnings_of

    explained = condensed.curves.get("explained", [])
    return {
        "artifact": str(path),
        "graph": graph,
        "method": condensed.method,
        "nodes": condensed.num_nodes,
        "nodes_requested": condensed.nodes_requested,
        "ratio": condensed.num_nodes / nodes if (nodes := condensed.source.get("nodes")) else None,
        "seen": condensed.seen.to_dict(),
        "seed": condensed.seed,
        "preset": condensed.settings.get("preset"),
        "threads": condensed.threads,
        "seconds": seconds,
        "peak_memory_bytes": peak_memory_bytes,
        "bytes": path.stat().st_size,
        "explained_variance": explained[-1] if explained else None,
        "rounds": len(explained),
        "channels": sorted(set(condensed.channels)),
        "batch_nodes": condensed.chosen.get("batch_nodes"),
        "warnings": warnings_of(condensed),
    }
