"""The section "What does it look like?": the map, its controls, its legends and its numbers."""

from __future__ import annotations

from typing import Any

from plgc.report.charts import NumberTable
from plgc.report.facts.node_map import COLOURS, NodeMap
from plgc.report.formatting import counted, percent, whole

LISTED = 300  # synthetic nodes in the table
LEGEND = 3 * COLOURS  # names in a legend: with more, a colour has too many meanings


def map_section(found: NodeMap) -> dict[str, Any]:
    """The map's data, what is shown in a sentence, legends and table."""
    made, shown = len(found.made), len(found.nodes)
    sample = counted(shown, "node") if shown == found.total else f"{whole(shown)} of {counted(found.total, 'node')}"
    return {
        "label": f"Map of {sample} (dots) around {counted(made, 'synthetic node')} (rings).",
        "by": found.by,
        "labelled": found.labels is not None,
        "legends": {kind: entries for kind, entries in _legends(found).items() if len(entries) <= LEGEND},
        "table": _table(found),
        "data": found.packed(),
    }


def _legends(found: NodeMap) -> dict[str, list[tuple[int | None, str]]]:
    """Colours and names by way of colouring: ``own`` (as the synthetic nodes) and ``label`` (by class).

    Nodes without a class are grey, which has no number.
    """
    classes: dict[str, set[int]] = {}
    if found.by == "class":
        classes["own"] = {fact["class"] for fact in found.facts}
    if found.labels is not None:
        classes["label"] = set(found.labels.tolist())
    legends: dict[str, list[tuple[int | None, str]]] = {}
    if found.sources:
        legends["own"] = [(place % COLOURS, name) for place, name in enumerate(found.sources)]
    for kind, indices in classes.items():
        legends[kind] = [(index % COLOURS, found.class_name(index)) for index in sorted(indices) if index >= 0]
        legends[kind] += [(None, "unlabelled")] if -1 in indices else []
    return legends


def _table(found: NodeMap) -> NumberTable:
    facts = sorted(found.facts, key=lambda fact: (-fact["size"], fact.get("source", 0), fact["k"]))
    names = ["synthetic node", *(["source"] if found.sources else [])]
    head = [*names, "represents", "nearest on the graph", "features that stand out"]
    head += ["class mix"] if "mix" in facts[0] else []
    rows = [_row(fact, found) for fact in facts[:LISTED]]
    caption = "Synthetic nodes" if len(facts) <= LISTED else f"The largest {LISTED} of {len(facts)} synthetic nodes"
    return NumberTable(caption, head, rows, len(names))


def _row(fact: dict[str, Any], found: NodeMap) -> list[str]:
    row = [f"{fact['k']}" + (f" ({found.class_name(fact['class'])})" if fact.get("class", -1) >= 0 else "")]
    row += [found.sources[fact["source"]]] if found.sources else []
    row += [whole(fact["size"]), whole(fact["near"]), ", ".join(map(str, fact["f"]))]
    if "mix" in fact:
        names = [str(index) if found.classes is None else found.classes[index] for index, _ in fact["mix"]]
        shares = [percent(nodes / fact["known"]) for _, nodes in fact["mix"]]
        row.append(", ".join(f"{name}: {share}" for name, share in zip(names, shares, strict=True)))
    return row
