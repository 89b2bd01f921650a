"""The section "What does it look like?": the map, its controls, its legend and its numbers."""

from __future__ import annotations

from typing import Any

from plgc.report.atlas import COLOURS, Atlas
from plgc.report.html import Html, details, join, script_json, table, tag
from plgc.report.text import counted, percent, whole

LISTED = 300  # synthetic nodes in the table
KEYS = "Drag or arrow keys move, wheel, pinch or + and − zoom, 0 resets; N and P step through the synthetic nodes."


def looks(atlas: Atlas) -> Html:
    """The section's content."""
    made, shown = len(atlas.synthetic), len(atlas.shown)
    sample = counted(shown, "node") if shown == atlas.total else f"{whole(shown)} of {counted(atlas.total, 'node')}"
    label = f"Map of {sample} (dots) around {counted(made, 'synthetic node')} (rings)."
    buttons = [
        tag("button", sign, type="button", data_do=name, aria_label=words)
        for sign, name, words in (
            ("+", "in", "Zoom in"),
            ("−", "out", "Zoom out"),
            ("Reset", "reset", "Reset the view"),
        )
    ]
    canvas = tag(
        "canvas",
        f"{label} The table below has the same numbers.",
        id="map",
        tabindex="0",
        role="img",
        aria_label=f"{label} {KEYS}",
        aria_describedby="map-help",
    )
    stage = tag(
        "div", canvas, tag("div", id="tip", role="status", aria_live="polite", hidden=True), class_="stage", id="stage"
    )
    return join(
        [
            tag("p", f"{label} {_meaning(atlas)}"),
            tag("div", _colouring(atlas), tag("div", *buttons, class_="buttons"), class_="tools"),
            tag("figure", stage, tag("figcaption", KEYS, id="map-help"), class_="map"),
            _legends(atlas),
            tag("noscript", tag("p", "The map is drawn by a script; the table below has its numbers.")),
            details("The synthetic nodes as a table", _table(atlas)),
            script_json("map-data", atlas.packed()),
        ]
    )


def _meaning(atlas: Atlas) -> str:
    colour = {
        "cluster": "Every dot has the colour of its pseudo-label; colours repeat, but near clusters differ.",
        "source": "Every dot has the colour of the source whose synthetic node is nearest.",
        "class": "Every dot has the colour of the nearest synthetic node's class.",
    }[atlas.by]
    return (
        f"{colour} Dots that the rebuilt model finds alike lie near each other; a ring's size says how many original "
        "nodes it stands for. Distances between far groups mean little."
    )


def _colouring(atlas: Atlas) -> Html:
    if atlas.labels is None:
        return tag("span")
    name = {"cluster": "pseudo-label", "source": "source", "class": "synthetic node"}[atlas.by]
    options = [tag("option", name, value="own"), tag("option", "class of the node", value="label")]
    return tag("label", "Colour by ", tag("select", *options, id="map-colour"))


def _legends(atlas: Atlas) -> Html | None:
    own = None
    if atlas.by == "source":
        own = _legend(atlas.sources, "own")
    elif atlas.by == "class":
        classes = sorted({fact["class"] for fact in atlas.facts if fact["class"] >= 0})
        own = _legend([atlas.class_name(index) for index in classes], "own", classes)
    if atlas.labels is None:
        return own
    classes = sorted(set(atlas.labels[atlas.labels >= 0].tolist()))
    return join([own, _legend([atlas.class_name(index) for index in classes], "label", classes, hidden=True)])


def _legend(names: list[str], kind: str, colours: list[int] | None = None, hidden: bool = False) -> Html | None:
    places = colours or list(range(len(names)))
    if len(names) > 3 * COLOURS:
        return None
    keys = [tag("li", tag("i", class_=f"b{p % COLOURS}"), name) for p, name in zip(places, names, strict=True)]
    return tag("ul", *keys, class_="legend", data_for=kind, hidden=hidden)


def _table(atlas: Atlas) -> Html:
    facts = sorted(atlas.facts, key=lambda fact: (-fact["size"], fact.get("source", 0), fact["k"]))
    head = ["synthetic node", *(["source"] if atlas.sources else [])]
    names = len(head)
    head += ["stands for", "nearest on the graph", "features that stand out"]
    mixed = any("mix" in fact for fact in facts)
    head += ["class mix"] if mixed else []
    rows = [_row(fact, atlas, mixed) for fact in facts[:LISTED]]
    caption = "Synthetic nodes" if len(facts) <= LISTED else f"The largest {LISTED} of {len(facts)} synthetic nodes"
    return table(head, rows, caption, names)


def _row(fact: dict[str, Any], atlas: Atlas, mixed: bool) -> list[str]:
    name = f"{fact['k']}" + (f" ({atlas.class_name(fact['class'])})" if fact.get("class", -1) >= 0 else "")
    row = [name, *([atlas.sources[fact["source"]]] if atlas.sources else [])]
    row += [whole(fact["size"]), whole(fact["near"]), ", ".join(map(str, fact["f"]))]
    if mixed:
        called = [str(index) if atlas.classes is None else atlas.classes[index] for index, _ in fact["mix"]]
        shares = [percent(nodes / fact["known"]) for _, nodes in fact["mix"]]
        row.append(", ".join(f"{name}: {share}" for name, share in zip(called, shares, strict=True)))
    return row
