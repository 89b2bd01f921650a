"""``make soak``: the tests that kill, damage, forge, fill and race, at full counts, and one line for each at the end.

The usual test run has the same tests with a few tries each. ``python tests/soak/run.py --share 0.05`` takes a twentieth
of the full counts; a variable of :data:`COUNTS` that is set in the environment is taken as it is.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TESTS = Path(__file__).parents[1]
JOBS = (  # the longest first: two run side by side
    ("cli/test_forged_commands.py", "-k", "evaluate or condense"),
    ("cli/test_forged_commands.py", "-k", "not evaluate and not condense"),
    ("runtime/test_forged_files.py",),
    ("test_extreme_graphs.py",),
    ("runtime/test_nothing_lost.py",),
    ("runtime/test_damaged_files.py",),
    ("graphs/formats/test_tables_fuzz.py",),
    ("sources/engine/test_engine_ray.py", "-k", "driver"),
    ("runtime/test_safe_to_open.py",),
    ("runtime/test_files.py",),
    ("method/test_resume.py",),
    ("runtime/test_checkpoint.py",),
)
COUNTS = {
    "PLGC_FUZZ": 28_000,  # damaged files of ours, and as many tables
    "PLGC_FORGED": 20_000,  # files that are well-formed and wrong on purpose, over all readers
    "PLGC_COMMANDS": 200,  # of them in each command
    "PLGC_EXTREME": 2_000,  # graphs at the edge of what numbers can hold
    "PLGC_KILLS": 50,  # of each method
}
TABLES = 5  # kinds of tables that graphs/formats/test_tables_fuzz.py shares its count among


def main() -> int:
    """Run everything, two files at a time, show what each printed, and sum it up."""
    parser = argparse.ArgumentParser(description="Kill, damage, forge, fill and race.")
    parser.add_argument("--share", type=float, default=1.0, help="how much of the full counts")
    share = parser.parse_args().share
    counts = {name: str(max(1, round(share * count))) for name, count in COUNTS.items()}
    environment = {**counts, "OMP_NUM_THREADS": "1", **os.environ}
    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        done = list(pool.map(lambda job: run(job, environment), JOBS))
    failed = [" ".join(job) for job, (code, _) in zip(JOBS, done, strict=True) if code]
    if failed:
        print(f"\nsoak: FAILED in {'; '.join(failed)}")
        return 1
    output = "".join(text for _, text in done)
    print("\n" + "\n".join(summary(output, int(environment["PLGC_FUZZ"]), time.monotonic() - start)))
    return 0


def run(job: tuple[str, ...], environment: dict[str, str]) -> tuple[int, str]:
    """The exit code and the output of one file of tests."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", str(TESTS / job[0]), *job[1:]]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(f"== {' '.join(job)}\n{done.stdout}", flush=True)
    return done.returncode, done.stdout


def summary(output: str, fuzz: int, seconds: float) -> list[str]:
    """What was done and what came of it, a line each."""
    found = [
        (kind, *map(int, numbers))
        for kind, *numbers in re.findall(
            r"fuzz: ([\w ]+): (\d+) mutations, (\d+) loaded as valid, (\d+) refused", output
        )
    ]
    forged = re.findall(r"(forged|commands): (.+): (\d+) files, (\d+) (?:taken as valid|worked), (\d+) refused", output)
    extreme = re.findall(r"extreme: (\d+) graphs, (\d+) work, (\d+) refused", output)
    kills = [json.loads(text) for text in re.findall(r"kills: (\{.*\})", output)]
    ours = sum(row[1] for row in found if row[0] != "npz")
    archives = sum(row[1] for row in found if row[0] == "npz")
    tables = TABLES * (fuzz // TABLES + 1)
    rows = [
        f"{kind:<24} {tried:>7} mutations  {loaded:>6} valid  {refused:>7} refused"
        for kind, tried, loaded, refused in found
    ]
    rows += [
        f"{name:<24} {tried:>7} forged     {good:>6} {'valid' if way == 'forged' else 'worked'}  {refused:>7} refused"
        for way, name, tried, good, refused in forged
    ]
    rows += [
        f"{'extreme graphs':<24} {tried:>7} tried      {good:>6} worked  {refused:>7} refused"
        for tried, good, refused in extreme
    ]
    rows += [
        f"{run['what']:<24} {run['kills']:>7} kills      {run['within_writing']:>6} within the writing of a file, "
        f"{run['resumed']} times gone on from a checkpoint; byte-identical: {run['identical']} of {run['runs']} runs"
        for run in kills
    ]
    total, given = sum(run["kills"] for run in kills), {"forged": 0, "commands": 0}
    for way, _, tried, *_ in forged:
        given[way] += int(tried)
    last = (
        f"{ours} mutations of our own files, {archives} of npz, {tables} of tables and GraphML, {given['forged']} "
        f"forged files in readers and {given['commands']} in commands: each worked or was refused with a message of "
        f"ours; {total} kills, no byte different; {seconds / 60:.0f} minutes"
    )
    return ["soak: passed", *rows, last]


if __name__ == "__main__":
    sys.exit(main())
