"""The top of the results page: how often ours is above, level and below, and where the main claims do not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plgc.experiments.differences import ONE_SEED, VERDICTS, verdict
from publish_words import MAIN, Compared, Results, is_rival, not_above, ways

RULE = """## In short

All of this is made from the records by one rule. **Above** means that the 95 % interval of the paired difference lies
above 0, **below** that it lies below 0, **level** that it contains 0; *one seed* has no interval. A difference is
`plgc` (the default preset, as shipped) less the other, on the same seeds and label draws, its interval in brackets.

Methods are scored in up to three ways. *As published* is the evaluation of a method's authors. *Our head* is our head
on its embedding alone; ours is then the learned part of the file alone. *Our head + plain parts* has X, ÂX and Â²X
beside the embedding, as ours has when it is shipped.

How often `plgc` is above, level and below, over all graphs, sizes and levels of an experiment; each has its sentences
and every number further down.
"""
CLAIMED = ("ctgc", "gecc", "gcond", "gcond-x")
LEAST_NOISE = 0.3
BESIDE = ("never", "new-part", "old")  # files that are there to be compared with


def overview(found: Sequence[Results]) -> str:
    """The rule, the table of counts, and the main claims."""
    head = ["experiment", "`plgc` less", "cells", *VERDICTS, ONE_SEED]
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for results in found:
        for name, compared in _comparisons(results):
            words = [verdict(one.found) for one in compared]
            cells = [str(words.count(word) or "–") for word in (*VERDICTS, ONE_SEED)]
            lines.append("| " + " | ".join([f"`{results.experiment.name}`", name, str(len(words)), *cells]) + " |")
    return "\n".join([RULE, *lines, "", *_claims(found)])


def _comparisons(results: Results) -> Iterator[tuple[str, list[Compared]]]:
    """The best control, networks trained on the whole graph, and all methods that condense, in each way."""
    ours = [row for row in results.ours() if row.level("history") not in BESIDE]
    groups = [("best control", results.compared(ours, lambda row: row.less_control))]
    for method in ("whole", "whole_mlp"):
        own = [row for row in results.rows if row.method == method and row.way == ""]
        groups.append((f"`{method}`", results.compared(own, lambda row: row.ours_less)))
    others = [row for row in results.rows if is_rival(row.method) and row.nodes is not None]
    for name, of in ways(results).items():
        groups.append((f"methods that condense, {name}", results.compared(others, of)))
    yield from ((name, compared) for name, compared in groups if compared)


def _claims(found: Sequence[Results]) -> Iterator[str]:
    """Ours against four rivals with three labels per class and with wrong labels, on the graphs that have them all."""
    names = ", ".join(f"`{method}`" for method in CLAIMED)
    yield f"Against {names} on Cora and Citeseer, every cell that is not above:\n"
    cases = {
        "table4": ("three labels per class", lambda row: True),
        "fig4": (f"wrong labels, from {LEAST_NOISE} on", lambda row: (row.level("noise") or 0) >= LEAST_NOISE),
    }
    for results in found:
        words, chosen = cases.get(results.experiment.name, ("", lambda row: False))
        rows = [row for row in results.rows if row.method in CLAIMED and row.graph in MAIN and chosen(row)]
        for name, of in ways(results).items():
            compared = [
                one._replace(where=f"`{row.method}` {one.where}") for row in rows for one in results.compared([row], of)
            ]
            if compared:
                yield f"- {words} (`{results.experiment.name}`), {name}: {not_above(compared)}."
    yield ""
