"""``make soak``: the tests that kill, damage, fill and race, at full counts, and one line for each at the end.

The usual test run has the same tests with a few tries each; ``PLGC_KILLS`` and ``PLGC_FUZZ`` set how many.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = (
    "runtime/test_damaged_files.py",
    "graphs/formats/test_tables_fuzz.py",
    "runtime/test_safe_to_open.py",
    "runtime/test_files.py",
    "method/test_resume.py",
    "runtime/test_checkpoint.py",
    "runtime/test_nothing_lost.py",
)
COUNTS = {"PLGC_FUZZ": "28000", "PLGC_KILLS": "50"}
TABLES = 5  # kinds of tables that graphs/formats/test_tables_fuzz.py shares its count among


def main() -> int:
    """Run everything, show it as it comes, and sum it up."""
    environment = {**COUNTS, **os.environ}
    start, lines = time.monotonic(), []
    for name in FILES:
        command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(TESTS / name)]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                print(line, end="", flush=True)
                lines.append(line)
        if process.returncode:
            print(f"\nsoak: FAILED in {name}")
            return 1
    print("\n" + "\n".join(summary("".join(lines), int(environment["PLGC_FUZZ"]), time.monotonic() - start)))
    return 0


def summary(output: str, fuzz: int, seconds: float) -> list[str]:
    """What was done and what came of it, a line each."""
    found = [
        (kind, *map(int, numbers))
        for kind, *numbers in re.findall(
            r"fuzz: ([\w ]+): (\d+) mutations, (\d+) loaded as valid, (\d+) refused", output
        )
    ]
    kills = [json.loads(text) for text in re.findall(r"kills: (\{.*\})", output)]
    ours = sum(row[1] for row in found if row[0] != "npz")
    archives = sum(row[1] for row in found if row[0] == "npz")
    tables = TABLES * (fuzz // TABLES + 1)
    rows = [
        f"{kind:<12} {tried:>7} mutations  {loaded:>6} valid  {refused:>7} refused"
        for kind, tried, loaded, refused in found
    ]
    rows += [
        f"{run['what']:<12} {run['kills']:>7} kills      {run['within_writing']:>6} within the writing of a file, "
        f"{run['resumed']} times gone on from a checkpoint; byte-identical: {run['identical']} of {run['runs']} runs"
        for run in kills
    ]
    total = sum(run["kills"] for run in kills)
    last = (
        f"{ours} mutations of our own files, {archives} of npz, {tables} of tables and GraphML: each loaded as valid "
        f"or was refused with an error of ours; {total} kills, no byte different; {seconds / 60:.0f} minutes"
    )
    return ["soak: passed", *rows, last]


if __name__ == "__main__":
    sys.exit(main())
