"""One command passes through few modules, few frames and no work twice; ``benchmarks/walk.py`` measures it."""

from __future__ import annotations

from pathlib import Path

import pytest

from plgc.graphs import citation_graph, save_npz
from walk import measure, table


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    graph = citation_graph(nodes=150, classes=3, features=40)
    return measure(str(save_npz(graph, tmp_path_factory.mktemp("walk") / "small.npz")), nodes=9)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("modules_called", 52),
        ("frames_above_an_epoch", 5),
        ("brought_to_one_form", 1),
        ("structure_checked", 1),
        ("adjacencies_of_one_seed", 1),
        ("adjacencies_of_every_further_seed", 1),
        ("steps_to_add_a_method", 3),
        ("modules_beside_packages", 5),
    ],
)
def test_no_more_than(name: str, most: int, found: dict[str, object]) -> None:
    assert 0 < found[name] <= most, table(found)  # pyright: ignore[reportOperatorIssue]


def test_the_table_has_every_number(found: dict[str, object]) -> None:
    text = table(found)
    assert f"{found['lines']}" in text
    assert "cli.__init__.main" in text  # where the way to an epoch begins
    assert Path(__file__).parents[1].joinpath("benchmarks", "walk.py").is_file()
