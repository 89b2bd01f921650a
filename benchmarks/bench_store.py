"""Memory and time of ``plgc data store`` on a generated graph, in a process of its own.

``python benchmarks/bench_store.py --nodes 1000000 --edges 10000000 --memory 512MiB FOLDER`` writes tables into FOLDER,
stores them, and prints one JSON object: CPU seconds a million entries, and the peak of anonymous memory (``RssAnon`` of
/proc, looked at fifty times a second), beside that of an interpreter that has only imported the package.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

PARTS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--edges", type=int, default=10_000_000, help="rows of the edge list: half of the entries")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--memory", default="512MiB")
    parser.add_argument("--words", action="store_true", help="ids are words")
    parser.add_argument("--weights", action="store_true")
    parser.add_argument("--csv", action="store_true")
    given = parser.parse_args()
    write_tables(given)
    output = given.folder / "stored"
    shutil.rmtree(output, ignore_errors=True)
    store = ["data", "store", str(given.folder / "edges"), "--nodes-table", str(given.folder / "nodes")]
    command = [sys.executable, "-m", "plgc", *store, "--memory", given.memory, "-o", str(output), "--json", "-q"]
    base, *_ = watched([sys.executable, "-c", "import plgc.graphs, time; time.sleep(1)"])
    peak, spent, busy, out = watched(command)
    found = json.loads(out)
    entries = {key: found[key] for key in ("nodes", "edges", "features", "bytes")}
    read = sum(path.stat().st_size for path in given.folder.glob("*/part-*"))
    kind = {key: getattr(given, key) for key in ("memory", "words", "weights", "csv")}
    cost = {"seconds": round(spent, 1), "cpu_seconds": round(busy, 1)}
    cost["cpu_seconds_a_million_entries"] = round(1e6 * busy / found["edges"], 3)
    memory = {"anonymous_mib": round(peak / 2**20), "of_that_the_interpreter_mib": round(base / 2**20)}
    print(json.dumps({**kind, **entries, "input_bytes": read, **cost, **memory}))


def write_tables(given: argparse.Namespace) -> None:
    """An edge list whose nodes have degrees of a power law, and a node table, in parts."""
    draw = np.random.default_rng(0)
    for name in ("nodes", "edges"):
        shutil.rmtree(given.folder / name, ignore_errors=True)
        (given.folder / name).mkdir(parents=True)
    ids = pa.array(draw.permutation(given.nodes))
    ids = pa.array([f"node-{number}" for number in ids.to_pylist()]) if given.words else ids
    for part, rows in enumerate(np.array_split(np.arange(given.nodes), PARTS)):
        columns = {"id": ids.take(pa.array(rows))}
        columns |= {f"f{place}": draw.normal(size=len(rows)).round(4) for place in range(given.features)}
        columns["label"] = draw.choice(["a", "b", "c", "d"], len(rows))
        save(pa.table(columns), given.folder / "nodes" / f"part-{part}", given.csv)
    for part in range(PARTS):
        rows = given.edges // PARTS
        ends = (given.nodes * draw.random((2, rows)) ** 2).astype(np.int64)
        columns = {"source": ids.take(pa.array(ends[0])), "target": ids.take(pa.array(ends[1]))}
        columns |= {"weight": draw.random(rows).round(3)} if given.weights else {}
        save(pa.table(columns), given.folder / "edges" / f"part-{part}", given.csv)


def save(table: pa.Table, path: Path, text: bool) -> None:
    if text:
        csv.write_csv(table, path.with_suffix(".csv"))
    else:
        parquet.write_table(table, path.with_suffix(".parquet"))


def watched(command: list[str]) -> tuple[int, float, float, str]:
    """Run a command; its peak of anonymous memory in bytes, seconds, those of the CPU, and what it printed."""
    start, before, peak = time.perf_counter(), os.times(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as running:
        while running.poll() is None:
            try:
                lines = Path(f"/proc/{running.pid}/status").read_text().splitlines()
                peak = max([peak, *(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))])
            except OSError:
                pass
            time.sleep(0.02)
        assert running.stdout is not None
        out = running.stdout.read()
    assert running.returncode == 0, out
    after = os.times()
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return peak, time.perf_counter() - start, busy, out


if __name__ == "__main__":
    main()
