"""The top of the page: what was condensed to what, in one sentence and a few figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from plgc.report.charts import spread_text
from plgc.report.health import GOOD, LOOK, checks
from plgc.report.html import Html, join, tag
from plgc.report.opened import OpenGraph
from plgc.report.scores import DIGITS, Scores
from plgc.report.study import Study
from plgc.report.text import counted, percent, size, whole


def title_of(studies: Sequence[Study], graph: OpenGraph | None, partition: Mapping[str, Any] | None = None) -> str:
    """What the page is called."""
    if not studies:
        return "Recorded runs"
    methods = list(dict.fromkeys(one.condensed.method for one in studies))
    by = "" if methods == ["plgc"] else f" by {' and '.join(methods)}"
    if len(studies) == 1:
        return f"{studies[0].name}, a graph condensed{by}" if graph is None else f"{graph.name}, condensed{by}"
    if partition is not None:
        return f"{partition['graph']}, condensed in {len(studies)} parts"
    return f"{len(studies)} condensed graphs" + ("" if graph is None else f" on {graph.name}")


def headline(studies: Sequence[Study], graph: OpenGraph | None, scores: Sequence[Scores]) -> Html:
    """The sentence and the figures."""
    if not studies:
        return tag("p", "Results as they were recorded, over their seeds.", class_="lead")
    return join(
        [tag("p", lead(studies, graph), class_="lead"), tag("ul", *_tiles(studies, graph, scores), class_="tiles")]
    )


def original_nodes(studies: Sequence[Study]) -> int | None:
    """The nodes of all originals; None where a file does not say. One graph condensed several times counts once."""
    known = {one.condensed.fingerprint or place: one.condensed.source.get("nodes") for place, one in enumerate(studies)}
    counts = [value for value in known.values() if value is not None]
    return sum(counts) if len(counts) == len(known) else None


def alternatives(studies: Sequence[Study]) -> bool:
    """Whether several files are of one graph, by their fingerprints: then they do not add up."""
    return (
        len(studies) > 1 and None not in (marks := {one.condensed.fingerprint for one in studies}) and len(marks) == 1
    )


def lead(studies: Sequence[Study], graph: OpenGraph | None) -> str:
    """What was condensed to what."""
    total = original_nodes(studies)
    beside = "" if graph is None else f"; the features and edges of {graph.name} take {size(graph.bytes)} in memory"
    if alternatives(studies):
        nodes = "" if total is None else f" of {counted(total, 'node')}"
        ends = _range([one.condensed.num_nodes for one in studies]), _sizes([one.bytes for one in studies])
        return f"One graph{nodes}, condensed {len(studies)} times to {ends[0]} synthetic nodes: {ends[1]}{beside}."
    made = sum(one.condensed.num_nodes for one in studies)
    about = "about " if any("edges" not in one.condensed.source for one in studies) else ""
    origin = "A graph" if total is None else f"{about}{counted(total, 'node')}".capitalize()
    files = f" in {len(studies)} files" if len(studies) > 1 else ""
    bytes_made = size(sum(one.bytes for one in studies))
    return f"{origin} became {counted(made, 'synthetic node')}{files}: {bytes_made}{beside}."


def _range(values: Sequence[int]) -> str:
    return whole(values[0]) if len(set(values)) == 1 else f"{whole(min(values))} to {whole(max(values))}"


def _sizes(values: Sequence[int]) -> str:
    return size(values[0]) if len(set(map(size, values))) == 1 else f"{size(min(values))} to {size(max(values))}"


def _tiles(studies: Sequence[Study], graph: OpenGraph | None, scores: Sequence[Scores]) -> list[Html]:
    made, total = [one.condensed.num_nodes for one in studies], original_nodes(studies)
    bytes_made = [one.bytes for one in studies]
    if alternatives(studies):
        tiles = [_tile(_range(made), "synthetic nodes a file"), _tile(_sizes(bytes_made), "a file on disk")]
    else:
        of = "synthetic nodes" if total is None else f"synthetic nodes, {percent(sum(made) / total)} of {whole(total)}"
        ratio = "" if graph is None else f", {percent(sum(bytes_made) / graph.bytes)} of the graph in memory"
        tiles = [_tile(whole(sum(made)), of), _tile(size(sum(bytes_made)), f"on disk{ratio}")]
    for one in scores[:2]:
        best, digits = one.best, DIGITS[one.metric]
        unit = "\u202f%" if one.metric == "accuracy" else ""
        beside = [*one.of("whole"), one.control]
        words = ", ".join(f"{row.name} {row.mean:.{digits}f}" for row in beside)
        what = "AUROC of links" if one.task == "link" else "accuracy"
        what += f" of {best.name}" if len(studies) > 1 else ""
        few = f" with {counted(one.shots, 'label')} per class" if one.shots else ""
        tiles.append(_tile(f"{spread_text(best.mean, best.deviation, digits)}{unit}", f"{what}{few}; {words}"))
    found = [kind for study in studies for kind, _ in checks(study, list(scores) if len(studies) == 1 else [])]
    good, looks = found.count(GOOD), found.count(LOOK)
    tiles.append(
        _tile(f"{good} of {good + looks}", "checks are good" + ("" if not looks else "; see “Is it healthy?”"))
    )
    return tiles


def _tile(value: str, words: str) -> Html:
    return tag("li", tag("strong", value), tag("span", words))
