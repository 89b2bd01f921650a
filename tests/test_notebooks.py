"""The notebooks of the docs: they run in a kernel, print what they show, and have a page of the site each."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from notebooks import FOLDER, NOTEBOOKS, run

ROOT = Path(__file__).parents[1]
NAMES = [path.stem for path in NOTEBOOKS]


def read(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def printed(notebook: dict[str, Any]) -> list[str]:
    """What each cell shows, apart from numbers, which differ from machine to machine."""
    found = []
    for cell in notebook["cells"]:
        texts = [
            output["text"] if "text" in output else output["data"]["text/plain"] for output in cell.get("outputs", ())
        ]
        found.append(re.sub(r"\d[\d.,]*", "#", "".join("".join(text) for text in texts)).strip())
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    for needed in ("nbclient", "ipykernel"):
        pytest.importorskip(needed, reason="notebooks run with plgc[dev]")
    again = run(FOLDER / f"{name}.ipynb", tmp_path)
    assert printed(again) == printed(read(name))


@pytest.mark.parametrize("name", NAMES)
def test_it_has_been_run_from_top_to_bottom(name: str) -> None:
    cells = [cell for cell in read(name)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert {output["output_type"] for output in outputs} <= {"stream", "execute_result"}
    assert "\\r" not in json.dumps(outputs), "a progress bar was stored"
    assert str(Path.home()) not in json.dumps(outputs)


@pytest.mark.parametrize("name", NAMES)
def test_its_page_has_every_cell(name: str) -> None:
    assert f"notebooks/{name}.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    hook, notebook = load_hook(), read(name)
    page = hook.page(notebook, f"{name}.ipynb")
    assert page.startswith("# ")
    assert f"({name}.ipynb)" in page
    for cell in notebook["cells"]:
        assert "".join(cell["source"]) in page
    blocks = sum(1 for cell in notebook["cells"] if cell.get("outputs"))
    assert page.count("```text\n") == blocks


def test_a_block_in_a_block_stays_one() -> None:
    assert load_hook().fenced("a\n```\nb", "text") == "````text\na\n```\nb\n````"


def load_hook() -> Any:
    pytest.importorskip("mkdocs", reason="the site needs plgc[docs]")
    spec = importlib.util.spec_from_file_location("notebook_pages", ROOT / "docs" / "hooks" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
