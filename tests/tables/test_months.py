"""From a first table to next month's predictions: as good as if the same graph had come as a clean matrix."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from torch_geometric.data import Data

import plgc
from plgc.evaluation.over_seeds import evaluate
from plgc.graphs import TableColumns, load_graph
from tables.generators import CASES, Case

NODES, SEEDS, SHOTS = 12, 2, 5
WITHIN, EACH = 1.0, 3.0  # points: on average, and of one table, where 240 test nodes cannot tell one point from none


def scores(january: Data, february: Data) -> tuple[float, float, float]:
    """Accuracy in January, of the file and of its learned part alone, and next month's, in %."""
    condensed = plgc.condense(january, nodes=NODES)
    result = evaluate([condensed], january, seeds=SEEDS, shots=SHOTS)
    model = plgc.finetune(plgc.reconstruct(condensed), january)
    later = 100 * float((model.predict(february) == february.y).float().mean())
    return result["accuracy"]["mean"], result["learned"]["accuracy"]["mean"], later


def from_tables(case: Case, folder: Path) -> tuple[Data, Data]:
    """Both months from their tables, the second read by what was learned from the first."""
    files = case.write(folder)
    roles = {"node_id" if role == "id" else role: name for role, name in case.columns.items()}
    first = TableColumns(**roles)  # pyright: ignore[reportArgumentType]
    january = load_graph(files["january_edges"], nodes_table=files["january"], columns=first)
    later = TableColumns(preprocessing=january.seen.preprocessing, classes=january.class_names)
    february = load_graph(files["february_edges"], nodes_table=files["february"], columns=later)
    return january, february


def clean(case: Case, like: Data) -> tuple[Data, Data]:
    """Both months as matrices of the signals, their classes numbered as those of the table."""
    order = np.array([like.class_names.index(name) for name in _words(case)])
    months = []
    for month in (case.january, case.february):
        graph = month.clean()
        graph.y = graph.y.new_tensor(order[month.y])
        months.append(load_graph(graph))
    return months[0], months[1]


def _words(case: Case) -> list[str]:
    """The names of the classes by their numbers."""
    labels = case.january.nodes[case.columns["label"]]
    return [str(labels[int(np.flatnonzero(case.january.y == number)[0])]) for number in range(case.january.y.max() + 1)]


@pytest.mark.slow
def test_tables_are_as_good_as_clean_matrices(tmp_path: Path) -> None:
    found = {}
    for name, make in CASES.items():
        case = make()
        january, february = from_tables(case, tmp_path)
        found[name] = np.array([scores(january, february), scores(*clean(case, january))])
        print(name, found[name].round(1).tolist())
    lost = np.array([clean - table for table, clean in found.values()])
    assert (lost.mean(axis=0) <= WITHIN).all(), lost.mean(axis=0)
    assert (lost <= EACH).all(), dict(zip(found, lost.round(1).tolist(), strict=True))


def test_next_month_is_classified(tmp_path: Path) -> None:
    january, february = from_tables(CASES["transactions"](), tmp_path)
    model = plgc.finetune(plgc.reconstruct(plgc.condense(january, nodes=NODES)), january)
    assert float((model.predict(february) == february.y).float().mean()) > 0.75  # a third by chance
