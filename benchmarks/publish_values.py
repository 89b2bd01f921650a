"""Measured numbers in pages that are written by hand: filled in from the records.

A block of such a page has its sentence twice, with fields as a comment and with numbers below it:

    <!-- measured
    With three labels per class `plgc` has {every_graph cora plgc shots=3} % on Cora.
    -->
    With three labels per class `plgc` has 75.9 % on Cora.
    <!-- /measured -->

A field names the experiment, the graph and the method, then levels, ``nodes``, ``preset`` or ``way`` where several rows
would fit, and what of the row: its mean, ``std``, or a paired difference with its interval: ``less=control``,
``less=paper``, ``less=METHOD``, or ``less=LEVEL:VALUE`` for the same method elsewhere. ``{NAME version}`` says which
version the records are of, where it is not this one; ``{batches}`` and ``{streamed}`` stand for the lines of
``publish_batches`` and ``publish_streamed``.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from plgc._version import __version__
from plgc.experiments.differences import Difference, less_best
from plgc.experiments.numbers import mean_std, unit, with_interval
from plgc.experiments.rows import ANY, PROTOCOL, PUBLISHED, SummaryRow
from plgc.runtime.errors import SettingError
from publish_words import Results

BLOCK = re.compile(r"<!-- measured\n(.*?)\n-->\n.*?<!-- /measured -->", re.DOTALL)
FIELD = re.compile(r"\{([^{}]+)\}")
WIDTH = 120
OWN = ("nodes", "preset", "way")


def filled(page: str, found: Mapping[str, Results], texts: Mapping[str, str]) -> str:
    """A page with all its blocks made anew; ``texts`` are fields that stand for lines made elsewhere."""

    def block(match: re.Match[str]) -> str:
        return f"<!-- measured\n{match[1]}\n-->\n{sentences(match[1], found, texts)}\n<!-- /measured -->"

    return BLOCK.sub(block, page)


def sentences(template: str, found: Mapping[str, Results], texts: Mapping[str, str]) -> str:
    """A block's text with its numbers; paragraphs are wrapped, lists are not."""
    text = FIELD.sub(lambda match: texts[match[1]] if match[1] in texts else value(match[1], found), template)
    parts = [part if part.startswith("- ") else _wrapped(part) for part in text.split("\n\n")]
    return "\n\n".join(parts)


def _wrapped(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)


def value(field: str, found: Mapping[str, Results]) -> str:
    """What a field stands for."""
    name, *words = field.split()
    if name not in found:
        raise SettingError(f"{{{field}}}: there are no records of {name!r}")
    if words == ["version"]:
        return older(found[name].records)
    if len(words) < 2:
        raise SettingError(f"{{{field}}}: an experiment, a graph and a method are needed")
    options = dict(word.split("=", 1) for word in words[2:] if "=" in word)
    row = _row(found[name], field, words[0], words[1], options)
    form = unit(found[name].experiment, row.metric)
    if "less" in options:
        return with_interval(_difference(found[name], field, row, options), form)
    number = mean_std(row.values.values())[1 if "std" in words else 0]
    return f"{form.factor * (number or 0.0):.{form.digits}f}"


def older(records: Sequence[Mapping[str, Any]]) -> str:
    """Which version our own records are of, as the rest of a sentence; nothing where it is this one."""
    ours = [record for record in records if record["cell"]["method"] == "plgc"]
    versions = sorted({str(record.get("version")) for record in ours} - {__version__})
    return f", version {', '.join(versions)}" if versions else ""


def _row(results: Results, field: str, graph: str, method: str, options: Mapping[str, str]) -> SummaryRow:
    """The one row that a field names."""
    rows = [row for row in results.rows if (row.graph, row.method) == (graph, method)]
    rows = [row for row in rows if row.way == options.get("way", PUBLISHED)]
    if method == "plgc":
        rows = [row for row in rows if row.preset == options.get("preset", "default")]
    if "nodes" in options:
        rows = [row for row in rows if str(row.nodes) == options["nodes"]]
    for level in PROTOCOL:
        if level in options:
            rows = [row for row in rows if _is(level, row.level(level), options[level])]
    if len(rows) != 1:
        raise SettingError(f"{{{field}}}: {len(rows)} rows of the records fit, one is needed")
    return rows[0]


def _is(level: str, own: Any, asked: str) -> bool:
    if own is None:
        return asked == "all" if level == "shots" else level in ANY
    return own == asked if isinstance(own, str) else float(own) == float(asked) if asked != "all" else False


def _difference(results: Results, field: str, row: SummaryRow, options: Mapping[str, str]) -> Difference:
    other = options["less"]
    if other == "control":
        found = row.less_control
    elif other == "paper":
        found = row.less_paper
    elif ":" in other:
        level, _, elsewhere = other.partition(":")
        theirs = _row(results, field, row.graph, row.method, {**options, level: elsewhere})
        found = less_best(row.values, {other: theirs.values})
    else:
        rest = {key: asked for key, asked in options.items() if key not in ("less", *OWN)}
        theirs = _row(results, field, row.graph, other, rest)
        found = less_best(row.values, {other: theirs.values})
    if found is None:
        raise SettingError(f"{{{field}}}: there is no such difference in the records")
    return found
