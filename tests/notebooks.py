"""Run the notebooks of the docs in a kernel: ``python tests/notebooks.py --write`` stores what they print."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def run(path: Path, folder: Path) -> Any:
    """The notebook with the outputs of a run in a new kernel, whose working folder is ``folder``."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(notebook, timeout=300, coalesce_streams=True, record_timing=False)
    client.execute(cwd=str(folder))
    for cell in notebook.cells:
        if cell.cell_type == "code":  # a progress bar that was wiped has left blanks
            cell.outputs = [output for output in cell.outputs if output.get("text", "-").strip()]
    return notebook


def write() -> None:
    """Run every notebook and store its outputs."""
    import tempfile

    import nbformat

    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            notebook = run(path, Path(folder))
        notebook.metadata.pop("language_info", None)  # it names the version of Python
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: python tests/notebooks.py --write")
    write()
