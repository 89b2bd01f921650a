"""How figures draw each method: a colour and a marker of its own, so that it can be told apart in grey, too."""

from __future__ import annotations

from typing import Any

# What an axis along a level says.
AXES = {
    "shots": "labels per class",
    "noise": "share of wrong labels",
    "imbalance": "labels of the largest class to one of the smallest",
    "backbone": "kind of GNN",
    "partition": "how the graph is cut",
    "sources": "whose files",
    "combine": "how sources are combined",
    "release": "what is handed over",
    "variant": "what is changed",
    "history": "how the file came about",
    "year": "papers up to",
    "share": "share of the nodes that leave",
}
# Of methods, and of the ways in which a file came about: colour, marker and line. Most colours are Okabe and Ito's and
# Tol's, which the colour-blind can tell apart. Markers are filled but for those with a w behind; a preset other than
# the default is drawn hollow and dashed.
_METHODS = {
    "plgc": ("#d55e00", "o", "-"),
    "ssl": ("#0072b2", "s", "-"),
    "random": ("#56b4e9", "v", "-"),
    "herding": ("#009e73", "^", "-"),
    "herding-labelfree": ("#44bb99", "^w", "--"),
    "kcenter": ("#cc79a7", "D", "-"),
    "kcenter-labelfree": ("#ee99bb", "Dw", "--"),
    "coarsening": ("#e69f00", "P", "-"),
    "ctgc": ("#117733", "h", "-"),
    "gecc": ("#882255", "*", "-"),
    "cgc-x": ("#aa4499", "*w", "--"),
    "gcdm-x": ("#999933", "<", "-"),
    "dc-graph": ("#aa7744", ">", "-"),
    "gcond-x": ("#332288", "d", "-"),
    "gcond": ("#6655cc", "dw", "--"),
    "sfgc": ("#661100", "X", "-"),
    "geom": ("#994433", "Xw", "--"),
    "whole": ("#000000", "x", "-"),
    "whole_mlp": ("#333333", "+", "--"),
    "propagated_features": ("#555555", "2", "--"),
    "random_encoder": ("#777777", "3", ":"),
    "raw_features": ("#999999", "1", "-."),
    "plain_parts": ("#666666", "4", "-"),
}
_HISTORIES = {
    "anew": ("#0072b2", "s", "-"),
    "updated": ("#d55e00", "o", "-"),
    "only-new": ("#009e73", "^", "-"),
    "never": ("#882255", "X", "--"),
    "new-part": ("#cc79a7", "Dw", ":"),
    "forgotten": ("#d55e00", "o", "-"),
    "old": ("#882255", "X", "--"),
}
METHODS = tuple(_METHODS)
ORDER = (*METHODS, *_HISTORIES)  # of a legend
_OTHER = ("#dd5566", "p", "-")


def line_style(method: str, other_preset: bool = False) -> dict[str, Any]:
    """What matplotlib needs to draw a method's line."""
    colour, marker, line = (_METHODS | _HISTORIES).get(method, _OTHER)
    hollow = other_preset or marker.endswith("w")
    style = {"color": colour, "marker": marker[0], "linestyle": "--" if other_preset else line}
    return style | {"markerfacecolor": "white" if hollow else colour}
