"""What a condensed graph tells about who was in the original graph, as far as it has been measured.

A default file tells: X' is nearly (Â²Q)ᵀX, a linear image of the data, and non-negative least squares of its rows on
candidate rows finds the members. Clusters of a minimum size change nothing about that. The figures are those of the
attacks in :mod:`plgc.evaluation.membership` on random halves of five graphs (experiment ``membership``); ``plgc audit``
measures the same on the owner's graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plgc.artifact.condensed import CondensedGraph

CAREFUL = "take it that the file tells who was in the graph, or measure it: plgc audit"
NO_PROMISE = "It is no guarantee; 'plgc audit' measures it on your graph"
# What is known of files, by how they were made: a word for programs, the least and largest AUC seen, and a sentence.
EXPOSED = (
    "exposed",
    (0.854, 1.0),
    "the file tells who was in the graph: by fitting the rows of such files with rows of candidates, members were told "
    "from other nodes with an AUC of 1.000 on Cora, .998 on Citeseer and .854 on Pubmed (.5 is guessing), and on the "
    "first two more than half of the hidden words of a known member were read off",
)
SHARED = (
    "exposed",
    (0.599, 0.906),
    "no value comes from one node by more than a fifth: that left an AUC of .599 on Cora, but .906 on Photo (.5 is "
    f"guessing) to the strongest attack. {NO_PROMISE}",
)
PAPER = (
    "exposed",
    (0.593, 0.997),
    "the file tells who was in the graph: X' of the paper preset stays close to sums of the members' rows, and members "
    "were told from other nodes with an AUC of .990 on Cora and .997 on Citeseer (.5 is guessing; .593 on Photo)",
)
PRIVATE = (
    "reduced",
    (0.554, 0.587),
    "the file holds sums over many nodes, with noise: that left an AUC of .564 on Cora, .587 on Citeseer and .569 on "
    "social_flickr (.5 is guessing) to attacks that find nearly all members of a default file, and less than 3 % of "
    f"the members at 1 % false alarms. {NO_PROMISE}",
)
NOISY = (
    "unmeasured",
    None,
    "how much noise hides depends on the graph: of 0.05 on rows clipped to 0.1 it left an AUC of .775 on Cora and .521 "
    f"on Photo (.5 is guessing) to the strongest attack: {CAREFUL}",
)
UNKNOWN = (
    "unmeasured",
    None,
    f"whether members can be found in files that are made like this one was not measured: {CAREFUL}",
)


def told_of_members(condensed: CondensedGraph) -> dict[str, Any]:
    """What a file tells of who was in the graph, as far as it is known.

    Returns:
        ``members``: ``exposed`` where files made so were seen to tell, ``reduced`` where they were seen to tell less,
        ``unmeasured``; ``auc``: how well members of such files were told from other nodes, the least and the largest
        that was measured, or None; ``text``: the same in words.
    """
    members, auc, text = _known_of(condensed.method, condensed.settings)
    return {"members": members, "auc": None if auc is None else list(auc), "text": text}


def _known_of(method: str, settings: Mapping[str, Any]) -> tuple[str, tuple[float, float] | None, str]:
    minimum, share, preset = (settings.get(name) for name in ("min_cluster", "max_share", "preset"))
    if method != "plgc":
        return UNKNOWN
    if settings.get("noise"):
        return NOISY
    if settings.get("private"):
        return PRIVATE
    if preset == "paper":
        return PAPER if (minimum, share) == (1, 1) else UNKNOWN
    if share is None or share == 1:
        return EXPOSED
    return SHARED if share <= 0.2 and minimum is not None and minimum >= 5 else UNKNOWN
