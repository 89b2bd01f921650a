"""What a user has to know of a condensed graph that holds next to nothing: sentences, found from the file itself."""

from __future__ import annotations

from plgc.artifact.condensed import CondensedGraph


def warnings_of(condensed: CondensedGraph) -> list[str]:
    """A sentence on everything that makes a condensed graph useless; none for a sound one."""
    found, explained = [], condensed.curves.get("explained", ())
    if explained and explained[-1] <= 0:
        found.append(
            f"the pseudo-labels explain nothing of the embeddings' variance ({100 * explained[-1]:.0f} %): one mean "
            "for all nodes would do as well"
        )
    if condensed.num_nodes < 2 <= condensed.nodes_requested:
        found.append(f"there is one synthetic node, {condensed.nodes_requested} were asked for")
    empty = int((condensed.features == 0).all(dim=1).sum())
    if empty:
        found.append(f"{empty} of {condensed.num_nodes} synthetic nodes have features of zeros alone")
    return found
