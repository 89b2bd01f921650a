"""Do two versions make the same files? Each condenses the same graphs on this machine; tensors are compared bit by bit.

    python benchmarks/same_files.py OLD NEW [--keep FOLDER] [--cases demo-default,rival-gcond] [--threads 1]

OLD and NEW are commits, or folders with a ``src/plgc`` in them. What is made: the embedded graph, Cora and Citeseer
(where ``PLGC_DATA`` has them) with both presets, within a memory limit, and in three parts; graphs on disk, training
edges, training nodes, derived features and what leaves an owner; one file per rival, its loops made short; models,
their answers, and what ``plgc evaluate`` prints. With ``--keep`` the files of a commit are made once and kept there.

Prints a line for every case; the exit code is 1 where tensors, answers or scores differ. Files whose tensors are the
same and whose descriptions differ are named, and do not count as different; nor do scores that are only added.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from safetensors import safe_open

ROOT = Path(__file__).parents[1]
CHILD = Path(__file__).with_name("same_cases.py")
REAL = ("cora", "citeseer")


def git(*words: str, at: Path = ROOT) -> str:
    return subprocess.run(["git", "-C", str(at), *words], check=True, capture_output=True, text=True).stdout.strip()


def source_of(version: str, work: Path) -> tuple[Path, str]:
    """The folder with a version's source, and a name for what it makes: with a ``+`` where it is not a commit.

    A folder that is in no checkout has its own name.
    """
    folder = Path(version)
    if (folder / "src" / "plgc").is_dir():
        folder = folder.resolve()
        try:
            changed = git("status", "--porcelain", "--", "src", at=folder)
            return folder, git("rev-parse", "--short=12", "HEAD", at=folder) + ("+" if changed else "")
        except (OSError, subprocess.CalledProcessError):
            return folder, folder.name
    commit = git("rev-parse", "--short=12", f"{version}^{{commit}}")
    folder = work / commit
    if not folder.is_dir():
        git("worktree", "add", "--detach", str(folder), commit)
    return folder, commit


def case_names() -> list[str]:
    """All cases, in the order they are run; those on real graphs only where the graphs are."""
    text = "import same_cases; print(*same_cases.CASES)"
    path = os.pathsep.join([str(CHILD.parent), str(ROOT / "src")])
    listed = subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, "PYTHONPATH": path}, check=True, capture_output=True, text=True
    )
    data = Path(os.environ.get("PLGC_DATA", "/nowhere"))
    missing = tuple(name for name in REAL if not (data / f"{name}.npz").is_file())
    return [name for name in listed.stdout.split() if not name.startswith(missing or ("-",))]


def make(source: Path, into: Path, graphs: Path, threads: int, cases: list[str]) -> None:
    """Have one version make what is not there yet."""
    left = [name for name in cases if not (into / name).is_dir() or (into / name / "error.txt").is_file()]
    if left:
        print(f"{into.name}: {len(left)} cases to make", file=sys.stderr)
        environment = {**os.environ, "PYTHONPATH": str(source / "src"), "OMP_NUM_THREADS": str(threads)}
        environment.pop("PLGC_CACHE", None)
        command = [sys.executable, str(CHILD), str(into), str(graphs), str(threads), *left]
        subprocess.run(command, env=environment, check=True, stdout=sys.stderr, cwd=into.parent)


def tensors(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def same_tensors(one: Path, other: Path) -> list[str]:
    """The names of the tensors of two files that are not the same, bit for bit."""
    first, second = tensors(one), tensors(other)
    differ = sorted(set(first) ^ set(second))
    for name in sorted(set(first) & set(second)):
        a, b = first[name], second[name]
        if a.dtype != b.dtype or a.shape != b.shape or a.numpy().tobytes() != b.numpy().tobytes():
            differ.append(name)
    return differ


def compare(one: Path, other: Path) -> tuple[bool, str]:
    """Whether two folders of one case hold the same, and what is to be said of it."""
    for folder, which in ((one, "old"), (other, "new")):
        if (folder / "error.txt").is_file():
            return False, f"the {which} one fails: {(folder / 'error.txt').read_text().strip().splitlines()[-1]}"
    files, others = ({path.name for path in folder.iterdir()} for folder in (one, other))
    if files != others:
        return False, f"other files: {', '.join(sorted(files ^ others))}"
    different, described = [], []
    for name in sorted(files):
        if (one / name).read_bytes() == (other / name).read_bytes():
            continue
        if name.endswith(".safetensors"):
            wrong = same_tensors(one / name, other / name)
            different += [f"{name}: {', '.join(wrong)}"] if wrong else []
            described += [] if wrong else [name]
        elif name == "manifest.json":
            described.append(name)  # it has the checksums of the files, which are compared by themselves
        elif name.endswith(".json") and _has_all_of(*(json.loads((at / name).read_text()) for at in (one, other))):
            described.append(f"{name} with more in it")
        else:
            different.append(name)
    if different:
        return False, "; ".join(different)
    return True, f"other bytes around the same values: {', '.join(described)}" if described else "every byte"


def _has_all_of(old: Any, new: Any) -> bool:
    """Whether everything that the old version said is in what the new one says, unchanged."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and _has_all_of(value, new[key]) for key, value in old.items())
    return old == new


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", help="a commit, or a folder with src/plgc")
    parser.add_argument("new", help="the same")
    parser.add_argument("--keep", type=Path, help="a folder to keep what commits make in")
    parser.add_argument("--cases", help="only these, with commas; a word stands for all that begin with it")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    cases = case_names()
    if given.cases:
        cases = [name for name in cases if name.startswith(tuple(given.cases.split(",")))]
    made_by = hashlib.sha256(CHILD.read_bytes()).hexdigest()[:8]  # what is kept belongs to these very cases
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        keep = (given.keep or work / "made").resolve()
        made = []
        for number, version in enumerate((given.old, given.new)):
            source, name = source_of(version, work)
            temporarily = not given.keep or name.endswith("+") or any(made_name == name for made_name, _ in made)
            into = (work / f"{number}-{name}") if temporarily else keep / f"{name}-{given.threads}-{made_by}"
            into.mkdir(parents=True, exist_ok=True)
            make(source, into, keep / "graphs", given.threads, cases)
            made.append((name, into))
        (old, one), (new, other) = made
        found = {name: compare(one / name, other / name) for name in cases}
    git("worktree", "prune")
    width = max(map(len, found))
    print(f"{'case':<{width}}  {old} and {new}")
    for name, (same, words) in found.items():
        print(f"{name:<{width}}  {'same' if same else 'DIFFERENT'}  {words}")
    wrong = sum(not same for same, _ in found.values())
    print(f"{len(found)} cases, {wrong} different")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
