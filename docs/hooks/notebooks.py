"""Notebooks as pages of the site: text, code, and what the cells printed when they were last run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).parents[1] / "notebooks"


def on_files(files: Files, config: Any) -> Files:
    """Add a page for each notebook; the notebook itself is there as a file to download."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        content = page(json.loads(path.read_text(encoding="utf-8")), path.name)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=content))
    return files


def page(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown."""
    first, *cells = notebook["cells"]
    parts = ["".join(first["source"]), f"[Download this notebook]({name})"]
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else fenced(source, "python"))
        printed = "".join(map(output_text, cell.get("outputs", ()))).rstrip("\n")
        parts += [fenced(printed, "text")] if printed else []
    return "\n\n".join(parts) + "\n"


def output_text(output: dict[str, Any]) -> str:
    """What a cell printed, or its last value, as text."""
    return "".join(output["text"] if "text" in output else output["data"]["text/plain"])


def fenced(text: str, language: str) -> str:
    """A block of code or of output, whatever is in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
