"""Facts: everything that is computed for a report, as plain dataclasses. They know nothing of charts or HTML."""

from __future__ import annotations

from dataclasses import dataclass, field

from plgc.report.facts.files import FileFacts, file_facts
from plgc.report.facts.node_map import NodeMap, make_node_map
from plgc.report.facts.rebuilt import Rebuilt
from plgc.report.facts.scores import Scores, score_files
from plgc.report.inputs import ReportInputs, ReportOptions
from plgc.runtime.progress import Progress, nested, silent

STEPS = 4


@dataclass(frozen=True)
class ReportFacts:
    """All facts of one report.

    ``unscored`` says why a task has no scores; ``node_map`` is None without a graph, or where the files have no common
    embedding.
    """

    inputs: ReportInputs
    options: ReportOptions
    files: list[FileFacts]
    scores: list[Scores] = field(default_factory=list)
    unscored: list[str] = field(default_factory=list)
    node_map: NodeMap | None = None


def collect_facts(inputs: ReportInputs, options: ReportOptions, progress: Progress | None = None) -> ReportFacts:
    """Compute the facts about every file, the scores and the map."""
    report, graph, sources = progress or silent, inputs.graph, inputs.sources
    report("examining the files", 1, STEPS)
    rebuilt = Rebuilt(graph, options)
    files = [file_facts(source, rebuilt) for source in sources]
    if graph is None or not sources:
        return ReportFacts(inputs, options, files)
    inner = nested(progress, "scoring", 2, STEPS)
    scores, unscored = score_files(sources, graph, options, inner) if options.seeds else ([], [])
    report("drawing the map", 3, STEPS)
    condensed = {source.name: source.condensed for source in sources}
    node_map = make_node_map(condensed, rebuilt)
    return ReportFacts(inputs, options, files, scores, unscored, node_map)
