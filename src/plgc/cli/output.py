"""How results are shown: one JSON object for programs, plain tables for people, sizes and times in readable units."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Print the result on stdout, as JSON or as text."""
    typer.echo(json.dumps(result, allow_nan=False) if as_json else text)


def table(rows: Sequence[Sequence[str]], names: int = 1) -> str:
    """Columns of equal width under a heading (the first row): ``names`` columns of text, then numbers to the right."""
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
    width = max(len(name) for name in pairs)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs.items())


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


def view_text(seen: Mapping[str, Any]) -> str:
    """What of the graph a condensation saw, as an aside; nothing where it saw everything."""
    if seen.get("nodes") == "train":
        return " (training nodes only)"
    return f" (training edges only, edge seed {seen['edge_seed']})" if seen.get("edges") == "train" else ""


def derived_text(mark: Mapping[str, Any]) -> str:
    """How features were derived, and the options that do it again."""
    from plgc.graphs.derive import mark_option

    return f"derived from the edges ({mark_option(mark)})"


def partition_text(partition: Mapping[str, Any]) -> str:
    """How one graph was cut into sources."""
    halo = f", halo of {partition['halo']} hop(s)" if partition["halo"] else ""
    cut = "how many edges were cut is not told, as the files are clipped or noisy"
    if "edges" in partition:
        share = 100 * partition["edges_cut"] / max(1, partition["edges"])
        cut = f"{partition['edges_cut']} of {partition['edges']} edges cut ({share:.1f} %)"
    return f"{partition['graph']} in {partition['parts']} {partition['how']} parts{halo}: {cut}"
