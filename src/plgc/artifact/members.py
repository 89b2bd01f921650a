"""What a condensed graph tells about who was in the original graph, as far as it has been measured.

A default file tells: X' is nearly (Â²Q)ᵀX, a linear image of the data, and non-negative least squares of its rows on
candidate rows finds the members. Clusters of a minimum size change nothing about that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plgc.artifact.condensed import CondensedGraph

REVIEW = "measured in a review, not yet one of our experiments"
CAREFUL = "take it that the file tells who was in the graph"
# What is known of files, by how they were made: a word for programs, the least and largest AUC seen, and a sentence.
EXPOSED = (
    "exposed",
    (0.993, 0.998),
    "the file tells who was in the graph: by fitting the rows of such files, members were told from other nodes with "
    f"an AUC of .998 on Cora and .993 on Citeseer (.5 is guessing; {REVIEW})",
)
SHARED = (
    "reduced",
    (0.56, 0.646),
    "no value comes from one node by more than a fifth: that left an AUC of .56 to .61 (.5 is guessing) to the attack "
    f"that has .998 on a default file of Cora ({REVIEW}), and up to .646 to those of the experiment membership. It is "
    "no guarantee",
)
FREE = (
    "reduced",
    (0.534, 0.599),
    "X' was trained away from the data, as in the paper: that left an AUC of .599 on Citeseer (.5 is guessing) to the "
    f"attack that has .993 on a default file (one seed, {REVIEW}), and up to .567 to those of the experiment "
    "membership. It is no guarantee",
)
PRIVATE = (
    "reduced",
    (0.591, 0.594),
    "the file holds only what differs by more than chance: that left an AUC of .59 on Cora and on Citeseer (.5 is "
    "guessing) to attacks that find nearly all members of a default file (three seeds, not yet one of our "
    "experiments). It is no guarantee",
)
NOISY = (
    "unmeasured",
    None,
    "noise was measured against the attacks of the experiment membership, not against the stronger one that finds the "
    f"members of a default file: {CAREFUL}",
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
        return FREE if (minimum, share) == (1, 1) else UNKNOWN
    if share is None or share == 1:
        return EXPOSED
    return SHARED if share <= 0.2 and minimum is not None and minimum >= 5 else UNKNOWN
