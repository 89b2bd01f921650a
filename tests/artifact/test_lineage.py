"""The ancestry of a file in words, and where it is shown."""

from __future__ import annotations

from plgc.artifact.ancestry import Ancestor, Parent
from plgc.artifact.lineage import lineage

OLD = Parent("ab" * 32, rows=124, nodes=46_000, edges=10)


def test_a_file_of_a_graph_has_none() -> None:
    assert lineage(()) is None


def test_every_step_is_told_oldest_first() -> None:
    again = Ancestor("update-only-new", (Parent("cd" * 32, rows=130, nodes=50_000),))
    assert lineage((Ancestor("update", (OLD,)), again)) == (
        "updated from a file of 46,000 nodes, 124 rows (checksum abababababab); then updated, with what was new alone, "
        "from a file of 50,000 nodes, 130 rows (checksum cdcdcdcdcdcd)"
    )
    assert (lineage((again,) * 5) or "").startswith("2 earlier steps; then updated")


def test_merged_files_are_counted() -> None:
    unknown = Parent("ef" * 32, rows=100)
    assert lineage((Ancestor("merge", (OLD, OLD)),)) == (
        "merged from 2 files of 92,000 nodes, 248 rows in all (checksums abababababab, abababababab)"
    )
    assert lineage((Ancestor("merge", (OLD, OLD, unknown, OLD)),)) == (
        "merged from 4 files of 472 rows in all (checksums abababababab, abababababab, efefefefefef and 1 more)"
    )


def test_forgetting_names_nobody() -> None:
    assert lineage((Ancestor("forget", ()),)) == "made to forget some nodes of a file that it does not name"
