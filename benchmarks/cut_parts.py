"""Cut the graphs of an experiment by METIS and keep the cuts in its store, for a machine that has no pymetis.

PLGC_DATA=… python benchmarks/cut_parts.py merging --store store
"""

from __future__ import annotations

import argparse
from pathlib import Path

from plgc.experiments.calls import cut_once
from plgc.experiments.grid import cells
from plgc.experiments.shared import shared_graph
from plgc.experiments.spec import load_experiment
from plgc.graphs.views.protocol import draw_case


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment")
    parser.add_argument("--store", type=Path, default=Path("store"))
    chosen = parser.parse_args()
    done = set()
    for cell in cells(load_experiment(chosen.experiment)):
        place = cell.graph, cell.parts, cell.seed
        if cell.partition == "metis" and cell.parts and place not in done:
            done.add(place)
            case = draw_case(shared_graph(cell.graph, cell.seed).graph, cell.protocol, cell.seed)
            cut_once(chosen.store, case.seen, cell.parts, cell.seed)
            print(f"{cell.graph}, {cell.parts} parts, seed {cell.seed}")


if __name__ == "__main__":
    main()
