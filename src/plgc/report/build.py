"""Build the report: open the inputs, compute the facts, make the sections, fill the templates."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from plgc._version import __version__
from plgc.report import formatting
from plgc.report.facts import STEPS, ReportFacts, collect_facts
from plgc.report.inputs import ReportOptions, open_inputs
from plgc.report.sections.accuracy import accuracy_section
from plgc.report.sections.headline import headline
from plgc.report.sections.health import health_section
from plgc.report.sections.members import members_section
from plgc.report.sections.node_map import map_section
from plgc.report.sections.provenance import provenance_section
from plgc.report.sections.sources import sources_section
from plgc.runtime.files import check_writable, write_atomically
from plgc.runtime.options import accepts
from plgc.runtime.progress import Progress, silent
from plgc.runtime.text import visible_lines

VERSIONS = f"plgc {__version__}, torch {torch.__version__}, Python {platform.python_version()}"


@accepts(options=ReportOptions)
def write_report(
    files: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    options: ReportOptions,
    progress: Progress | None = None,
) -> Path:
    """Write a report as one HTML file, whole or not at all; arguments as in :func:`build_report`.

    Example:
        >>> import plgc
        >>> from plgc.graphs import citation_graph
        >>> from plgc.report import write_report
        >>> graph = plgc.load_graph(citation_graph(nodes=300, classes=3, features=100))
        >>> path = plgc.condense(graph, nodes=15).save("small.safetensors")
        >>> write_report([path], "small.html", graph=graph, seeds=0).name  # more seeds: accuracy, beside the controls
        'small.html'
    """
    check_writable(out)
    return write_page(report_facts(files, options, progress), out)


def write_page(facts: ReportFacts, out: str | os.PathLike[str]) -> Path:
    """Write the page of these facts, whole or not at all."""
    return write_atomically(out, render_page(facts).encode())


@accepts(options=ReportOptions)
def build_report(
    files: Sequence[str | os.PathLike[str]], *, options: ReportOptions, progress: Progress | None = None
) -> str:
    """Make the report's HTML. On a CPU the same files, graph, seeds and number of threads give the same text.

    Args:
        files: condensed files, folders of them with a manifest, and folders of runs, in any mix. Several condensed
            graphs are compared.
        options: every field of :class:`~plgc.report.inputs.ReportOptions` as a keyword of its own.
        progress: called with a message, the steps done and the steps in all.

    Raises:
        ArtifactError: a file is missing, damaged or not a condensed graph.
        GraphError: features differ between the files, or between them and the graph.
        SettingError: there is nothing to report on.
    """
    return render_page(report_facts(files, options, progress))


def report_facts(
    files: Sequence[str | os.PathLike[str]], options: ReportOptions, progress: Progress | None = None
) -> ReportFacts:
    """Open the inputs and compute everything that the page shows; arguments and errors as in :func:`build_report`."""
    report = progress or silent
    report("opening", 0, STEPS)
    facts = collect_facts(open_inputs(files, options), options, progress)
    report("done", STEPS, STEPS)
    return facts


def render_page(facts: ReportFacts) -> str:
    """The page of these facts."""
    files, partition, graph = facts.files, facts.inputs.partition, facts.inputs.graph
    sections = {"works": ("Does it work?", "accuracy.html", accuracy_section(facts))}
    if len(files) > 1:
        sections = {"sources": ("What is in the files?", "sources.html", sources_section(files, partition)), **sections}
    if facts.node_map is not None:
        sections["looks"] = ("What does it look like?", "node_map.html", map_section(facts.node_map))
    if files:
        made = provenance_section(files, partition, graph and graph.argument)
        sections["health"] = ("Is it healthy?", "health.html", health_section(files, facts.scores))
        sections["members"] = ("Who was in the graph?", "members.html", members_section(files))
        sections["made"] = ("How was it made?", "provenance.html", made)
    return templates().get_template("page.html").render(top=headline(facts), sections=sections, versions=VERSIONS)


def templates() -> Environment:
    """The templates in ``page/``. What is put into them is text and is escaped, unless it is :class:`Markup`."""
    loader = PackageLoader("plgc.report", "page")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.finalize = _shown
    found.filters |= {name: getattr(formatting, name) for name in ("counted", "number", "percent", "plain", "whole")}
    found.filters["px"] = "{:.1f}".format
    found.globals["file"] = lambda name: Markup(loader.get_source(found, name)[0].strip())
    found.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":"), "sort_keys": True}
    return found


def _shown(value: Any) -> Any:
    """What is put into a template: text from files and tables without characters that steer how it is shown."""
    return visible_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value
