from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from tests.artifact.test_condensed import changed, condensed, load

from plgc.artifact.ancestry import Ancestor, Parent
from plgc.artifact.condensed import CondensedGraph
from plgc.runtime.errors import ArtifactError

MERGED = Ancestor("merge", (Parent("ab" * 32, 7), Parent("cd" * 32, 3, 90, 400, 5, 0.2, 1.5, 0.25)))
UPDATED = Ancestor("update", (Parent("ef" * 32, 10, 90),))


def test_ancestry_is_saved_and_loaded(tmp_path: Path) -> None:
    content = condensed(ancestry=(MERGED, UPDATED)).to_bytes()
    assert load(tmp_path, content).ancestry == (MERGED, UPDATED)
    assert load(tmp_path, content).to_bytes() == content
    assert condensed().ancestry == ()


def test_a_parent_is_named_by_the_checksum_of_its_file(tmp_path: Path) -> None:
    graph = condensed(settings={"min_cluster": 5, "max_share": 0.2, "clip": 1.0, "noise": 0.5, "rate": 0.1})
    path = graph.save(tmp_path / "parent.safetensors")
    checksum = hashlib.sha256(path.read_bytes()).hexdigest()
    assert CondensedGraph.load(path).as_parent() == Parent(checksum, 5, 100, 400, 5, 0.2, 1.0, 0.5)
    assert replace(graph, settings={}, source={}).as_parent().nodes is None


@pytest.mark.parametrize(
    ("ancestry", "message"),
    [
        ([{"how": "steal", "parents": [{"checksum": "ab" * 32, "rows": 7}]}], "choose update, update-only-new"),
        ([{"how": "merge", "parents": []}], "merge names 0 parent"),
        ([{"how": "merge", "parents": [{"checksum": "x", "rows": 7}]}], "hexadecimal"),
        ([{"how": "merge", "parents": [{"checksum": "ab" * 32, "rows": 0}]}], "at least 1"),
        ([{"how": "merge", "parents": [{"checksum": "ab" * 32, "rows": 1, "clip": 1.0}]}], "go together"),
        ([{"how": "merge", "parents": [{"checksum": "ab" * 32, "rows": 1, "path": "/home"}]}], "unknown"),
    ],
)
def test_an_ancestry_that_makes_no_sense_is_refused(tmp_path: Path, ancestry: list, message: str) -> None:
    with pytest.raises(ArtifactError, match=f"is damaged: .*{message}"):
        load(tmp_path, changed(ancestry=ancestry))
