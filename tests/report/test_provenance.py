"""The command that makes a file again: it has every option that differs from its default, and is safe to paste."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import plgc
from plgc.artifact.ancestry import Ancestor
from plgc.cli.options import Condenser
from plgc.graphs.attributes import Seen
from plgc.report.facts.files import Balance
from plgc.report.sections.provenance import command
from plgc.rivals.methods import CONDENSERS


def words(condensed: plgc.CondensedGraph, graph: str = "my graph.npz") -> list[str]:
    return shlex.split(command(condensed, shlex.quote(graph), "x")[0])


def test_default_settings(condensed: plgc.CondensedGraph) -> None:
    start = ["plgc", "condense", "my graph.npz", "--nodes", "12", "--seed", "3", "--threads"]
    assert words(condensed) == [*start, str(condensed.threads), "-o", "x.safetensors"]
    assert command(condensed, "cora", "x")[1] == []
    assert "GRAPH is the graph" in command(condensed, None, "x")[1][0]


def test_every_other_option(condensed: plgc.CondensedGraph) -> None:
    settings = {**condensed.settings, "preset": "paper", "min_cluster": 5, "max_share": 0.5}
    seen = Seen(edges="train", edge_seed=4)
    made = " ".join(words(replace(condensed, settings=settings, seen=seen, fingerprint=None)))
    for part in ("--preset paper", "--min-cluster 5", "--max-share 0.5", "--edges train --edge-seed 4", "--no-finger"):
        assert part in made
    seen = Seen(nodes="train", training_nodes="", split=2, split_seed=0)
    made = " ".join(words(replace(condensed, seen=seen, method="gecc", settings={"clip": 1.0, "noise": 0.5})))
    for part in ("--inductive", "--split 2", "--method gecc", "--clip 1 --noise 0.5"):
        assert part in made
    assert {one.value for one in Condenser} == set(CONDENSERS)


def test_notes_on_other_settings(condensed: plgc.CondensedGraph) -> None:
    notes = command(replace(condensed, settings={**condensed.settings, "plain": None}), "g", "x")[1]
    assert any("not the preset's own" in note for note in notes)
    assert any("halo" in note for note in command(replace(condensed, source={"nodes": 9, "halo": 2}), "g", "x")[1])


def test_the_command_makes_the_same_file(ours: Path, graph: Path, tmp_path: Path) -> None:
    from plgc.cli import main

    made = words(plgc.CondensedGraph.load(ours), str(graph))
    made[-1] = str(tmp_path / "again.safetensors")
    assert main(made[1:]) == 0
    assert (tmp_path / "again.safetensors").read_bytes() == ours.read_bytes()


@pytest.mark.parametrize(
    ("how", "start", "note"),
    [
        ("update", "plgc update OLD --graph 'my graph.npz' --nodes 12 --seed 3", "checksums are below"),
        ("update-only-new", "plgc update OLD --graph 'my graph.npz' --only-new --nodes 12", "checksums are below"),
        ("merge", "plgc merge FILES --nodes 12 -o x.safetensors", "checksums are below"),
        ("forget", "plgc forget OLD --graph 'my graph.npz' --ids IDS --nodes 12", "not say which nodes"),
    ],
)
def test_a_file_made_from_others_is_not_made_again_by_condensing(
    condensed: plgc.CondensedGraph, how: Any, start: str, note: str
) -> None:
    step = Ancestor(how, () if how == "forget" else (condensed.as_parent(),))
    text, notes = command(replace(condensed, ancestry=(step,)), "'my graph.npz'", "x")
    assert text.startswith(start)
    assert note in notes[0]


def test_balance() -> None:
    assert Balance([5, 5, 5, 5]).effective == 4
    assert Balance([20, 0, 0, 0]).effective == 1
    assert Balance([20, 0, 0, 0]).empty == 3
    assert Balance([1, 2, 9]).median == 2
