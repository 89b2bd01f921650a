"""The top of the page: what was condensed to what, in one sentence and a few figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plgc.report.facts import ReportFacts
from plgc.report.facts.files import FileFacts
from plgc.report.facts.scores import Scores
from plgc.report.formatting import counted, percent, size, spread, whole
from plgc.report.inputs import ReportGraph
from plgc.report.sections.health import ATTENTION, GOOD, checks


def headline(facts: ReportFacts) -> dict[str, Any]:
    """The page's title, its first sentence, and tiles of a figure with its meaning."""
    title = facts.options.title or _title(facts)
    if not facts.files:
        return {"title": title, "lead": "Results as they were recorded, over their seeds.", "tiles": []}
    several = len(facts.files) > 1
    found = [kind for file in facts.files for kind, _ in checks(file, [] if several else facts.scores)]
    good, attention = found.count(GOOD), found.count(ATTENTION)
    advice = "; see “Is it healthy?”" if attention else ""
    tiles = _size_tiles(facts.files, facts.inputs.graph)
    tiles += [_score_tile(scores, several) for scores in facts.scores[:2]]
    tiles.append((f"{good} of {good + attention}", f"checks are good{advice}"))
    return {"title": title, "lead": _lead(facts.files, facts.inputs.graph), "tiles": tiles}


def _title(facts: ReportFacts) -> str:
    files, graph, partition = facts.files, facts.inputs.graph, facts.inputs.partition
    if not files:
        return "Recorded runs"
    methods = list(dict.fromkeys(file.condensed.method for file in files))
    by = "" if methods == ["plgc"] else f" by {' and '.join(methods)}"
    if len(files) == 1:
        return f"{files[0].name}, a graph condensed{by}" if graph is None else f"{graph.name}, condensed{by}"
    if partition is not None:
        return f"{partition['graph']}, condensed in {len(files)} parts"
    return f"{len(files)} condensed graphs" + ("" if graph is None else f" on {graph.name}")


def _original_nodes(files: Sequence[FileFacts]) -> int | None:
    """The nodes of all originals; None where a file does not say. One graph condensed several times counts once."""
    known = {
        file.condensed.fingerprint or place: file.condensed.source.get("nodes") for place, file in enumerate(files)
    }
    counts = [value for value in known.values() if value is not None]
    return sum(counts) if len(counts) == len(known) else None


def _alternatives(files: Sequence[FileFacts]) -> bool:
    """Whether several files are of one graph, by their fingerprints: then their sizes are not added up."""
    fingerprints = {file.condensed.fingerprint for file in files}
    return len(files) > 1 and len(fingerprints) == 1 and None not in fingerprints


def _lead(files: Sequence[FileFacts], graph: ReportGraph | None) -> str:
    total, bytes_made = _original_nodes(files), [file.bytes for file in files]
    beside = (
        "" if graph is None else f"; the features and edges of {graph.name} take {size(graph.bytes)} as an npz file"
    )
    if _alternatives(files):
        nodes = "" if total is None else f" of {counted(total, 'node')}"
        made = _range([file.condensed.num_nodes for file in files], whole)
        sizes = _range(bytes_made, size)
        return f"One graph{nodes}, condensed {len(files)} times to {made} synthetic nodes: {sizes}{beside}."
    made = counted(sum(file.condensed.num_nodes for file in files), "synthetic node")
    about = "about " if any("edges" not in file.condensed.source for file in files) else ""
    origin = "A graph" if total is None else f"{about}{counted(total, 'node')}".capitalize()
    where = f" in {len(files)} files" if len(files) > 1 else ""
    return f"{origin} became {made}{where}: {size(sum(bytes_made))}{beside}."


def _range(values: Sequence[int], text: Callable[[int], str]) -> str:
    return " to ".join(dict.fromkeys([text(min(values)), text(max(values))]))


def _size_tiles(files: Sequence[FileFacts], graph: ReportGraph | None) -> list[tuple[str, str]]:
    made, bytes_made = [file.condensed.num_nodes for file in files], [file.bytes for file in files]
    if _alternatives(files):
        return [(_range(made, whole), "synthetic nodes a file"), (_range(bytes_made, size), "a file on disk")]
    total = _original_nodes(files)
    share = "" if total is None else f", {percent(sum(made) / total)} of {whole(total)}"
    ratio = "" if graph is None else f", {percent(sum(bytes_made) / graph.bytes)} of the graph as an npz file"
    return [(whole(sum(made)), f"synthetic nodes{share}"), (size(sum(bytes_made)), f"on disk{ratio}")]


def _score_tile(scores: Scores, several: bool) -> tuple[str, str]:
    best, digits = scores.best, scores.digits
    unit = "\u202f%" if scores.metric == "accuracy" else ""
    what = "AUROC of links" if scores.task == "link" else "accuracy"
    what += f" of {best.name}" if several else ""
    what += f" with {scores.few_labels}" if scores.few_labels else ""
    what += "" if scores.answers is None else f" on {counted(scores.answers['nodes'], 'test node')}"
    others = ", ".join(f"{row.name} {row.mean:.{digits}f}" for row in [*scores.of("whole"), scores.control])
    return f"{spread(best.mean, best.deviation, digits)}{unit}", f"{what}; {others}"
