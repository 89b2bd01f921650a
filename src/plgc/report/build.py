"""The report: everything that was found out, on one page that needs nothing else."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template

from plgc.report.atlas import draw_atlas
from plgc.report.compare import compared_health, compared_making, side_by_side
from plgc.report.headline import headline, title_of
from plgc.report.health import health
from plgc.report.html import Html, escape, join, tag
from plgc.report.looks import looks
from plgc.report.making import making, versions
from plgc.report.members import members
from plgc.report.opened import GraphSource, Opened, open_all
from plgc.report.scores import score_files
from plgc.report.study import study
from plgc.report.works import works
from plgc.runtime.files import check_writable, write_atomically
from plgc.runtime.progress import Progress, nested, silent

STEPS = 4


def write_report(
    files: Sequence[str | os.PathLike[str]],
    out: str | os.PathLike[str],
    *,
    graph: GraphSource | None = None,
    graph_name: str | None = None,
    nodes_table: str | os.PathLike[str] | None = None,
    graph_options: Sequence[str] = (),
    runs: Sequence[str | os.PathLike[str]] = (),
    seed: int = 0,
    seeds: int = 3,
    shots: int | None = None,
    device: str = "cpu",
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
    page = build_report(
        files,
        graph=graph,
        graph_name=graph_name,
        nodes_table=nodes_table,
        graph_options=graph_options,
        runs=runs,
        seed=seed,
        seeds=seeds,
        shots=shots,
        device=device,
        progress=progress,
    )
    return write_atomically(out, page.encode())


def build_report(
    files: Sequence[str | os.PathLike[str]],
    *,
    graph: GraphSource | None = None,
    graph_name: str | None = None,
    nodes_table: str | os.PathLike[str] | None = None,
    graph_options: Sequence[str] = (),
    runs: Sequence[str | os.PathLike[str]] = (),
    seed: int = 0,
    seeds: int = 3,
    shots: int | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
) -> str:
    """Make the report's HTML. On a CPU the same files, graph, seeds and number of threads give the same text.

    Args:
        files: condensed files, folders of them with a manifest, and folders of runs, in any mix. Several condensed
            graphs are compared.
        graph: the graph that was condensed, or one with the same features: brings the map, the bounds and, where it
            has labels, accuracy.
        graph_name: what the graph is called in the command that repeats the file; by default its name, or its file's.
        nodes_table: for an edge list, the table of its nodes.
        graph_options: options of the command line by which a graph given as ``Data`` was read, for the same command.
        runs: further folders with records of ``plgc experiment run``.
        seed: of every random choice, and the first of the seeds below.
        seeds: how often accuracy is measured; 0 leaves it out, which saves most of the time.
        shots: labels per class for a second comparison of accuracy.
        device: where to compute, such as ``cpu`` or ``cuda``.
        progress: called with a message, the steps done and the steps in all.

    Raises:
        ArtifactError: a file is missing, damaged or not a condensed graph.
        GraphError: features differ between the files, or between them and the graph.
        SettingError: there is nothing to report on.
    """
    report = progress or silent
    report("opening", 0, STEPS)
    given = open_all(files, runs, graph, graph_name, nodes_table, graph_options)
    report("looking at the files", 1, STEPS)
    studies = [study(source, given.graph, seed, device) for source in given.sources]
    scores, atlas = [], None
    if given.graph is not None and given.sources:
        if seeds:
            inner = nested(progress, "scoring", 2, STEPS)
            scores = score_files(
                given.sources, given.graph, seed=seed, seeds=seeds, shots=shots, device=device, progress=inner
            )
        report("drawing the map", 3, STEPS)
        names, parts = [one.name for one in given.sources], [one.condensed for one in given.sources]
        atlas = draw_atlas(names, parts, given.graph.data, seed, device)
    name, repeat = (None, None) if given.graph is None else (given.graph.name, given.graph.given)
    several = len(studies) > 1
    sections: list[tuple[str, str, Html]] = []
    if several:
        sections.append(("sources", "What is in the files?", side_by_side(studies, given.partition)))
    sections.append(("works", "Does it work?", works(scores, given.records, name, _why_unscored(given, seeds))))
    if atlas is not None:
        sections.append(("looks", "What does it look like?", looks(atlas)))
    if studies:
        well = compared_health(studies) if several else health(studies[0], scores)
        made = compared_making(studies, given.partition, repeat) if several else making(studies[0], repeat)
        sections += [("health", "Is it healthy?", well), ("members", "Who was in the graph?", members(studies))]
        sections.append(("made", "How was it made?", made))
    report("done", STEPS, STEPS)
    return _page(title_of(studies, given.graph, given.partition), headline(studies, given.graph, scores), sections)


def _why_unscored(given: Opened, seeds: int) -> str | None:
    """What to say where no accuracy is measured; nothing where there is no file to measure."""
    if not given.sources:
        return None
    if given.graph is None:
        return "Give the report --graph, a graph with labels, to see how well models from this file do."
    if not given.graph.labelled:
        return "The graph has no labels: accuracy cannot be measured on it."
    return None if seeds else "Accuracy was not measured: the report was asked for 0 seeds."


def _page(title: str, top: Html, sections: Sequence[tuple[str, str, Html]]) -> str:
    body = [
        tag(
            "section",
            tag("h2", heading, id=f"{identity}-heading"),
            content,
            id=identity,
            aria_labelledby=f"{identity}-heading",
        )
        for identity, heading, content in sections
    ]
    links = [tag("li", tag("a", heading, href=f"#{identity}")) for identity, heading, _ in sections]
    return Template(_part("page.html")).substitute(
        title=escape(title),
        style=_part("page.css"),
        script=_part("page.js"),
        head=top,
        links=join(links),
        sections=join(body, "\n"),
        versions=escape(versions()),
    )


def _part(name: str) -> str:
    return resources.files("plgc.report").joinpath("page", name).read_text(encoding="utf-8").strip()
