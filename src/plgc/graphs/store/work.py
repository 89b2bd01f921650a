"""The work folder of a run, beside the folder that is to be written: finished steps are kept, and not done again.

A step belongs to a key, a digest of its inputs; where these have changed it is done anew, and so are those after it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plgc.runtime.files import folder_lock, write_atomically

ENDING = ".storing"
STATE = "finished.json"


@dataclass(frozen=True)
class Work:
    """A work folder.

    Attributes:
        folder: it holds a folder for every step, and ``graph`` while all is put together.
        finished: by step, its key and what it found, as plain values.
    """

    folder: Path
    finished: dict[str, Any] = field(default_factory=dict)

    @property
    def graph(self) -> Path:
        """The folder that is renamed at the end."""
        return self.folder / "graph"

    def step(self, name: str, key: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """What a step found: before, where it has been done with this key; else ``make`` is called with its folder."""
        if (before := self.finished.get(name, {})).get("key") == key:
            return before["found"]
        self.forget(name)
        if self.graph.exists():  # files of all steps have been moved there: none is left
            for other in [*self.finished]:
                self.forget(other)
            shutil.rmtree(self.graph)
        (self.folder / name).mkdir()
        try:
            found = make(self.folder / name)
        except BaseException:
            self.forget(name)
            raise
        self.finished[name] = {"key": key, "found": found}
        self._save()
        return found

    def done(self, name: str, key: str) -> bool:
        """Whether a step has been done with this key."""
        return self.finished.get(name, {}).get("key") == key

    def forget(self, name: str) -> None:
        """Remove what a step has written."""
        if self.finished.pop(name, None) is not None:
            self._save()
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def collect(self, *names: str) -> Path:
        """Move the npy files of these steps into one folder."""
        self.graph.mkdir(exist_ok=True)
        for name in names:
            for path in (self.folder / name).glob("*.npy"):
                os.replace(path, self.graph / path.name)
        return self.graph

    def _save(self) -> None:
        write_atomically(self.folder / STATE, json.dumps(self.finished).encode())


@contextlib.contextmanager
def work_folder(target: Path) -> Iterator[Work]:
    """The work folder of a target, made where there is none; removed where no step was finished, or all were.

    Raises:
        SettingError: another run is writing the same target.
    """
    folder = target.absolute().parent / f"{target.name}{ENDING}"
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        work = Work(folder, _finished(folder / STATE))
        try:
            yield work
        finally:
            if not work.finished or os.path.lexists(target):
                shutil.rmtree(folder, ignore_errors=True)


def _finished(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    steps = found if isinstance(found, dict) else {}
    return {name: step for name, step in steps.items() if isinstance(step, dict) and "found" in step}
