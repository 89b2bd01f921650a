"""The documentation site: it builds without a warning, needs nothing from elsewhere, and says what the code says."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import subprocess
import sys
from functools import reduce
from html import unescape
from pathlib import Path
from typing import Any

import pytest
import typer
from headless import NAMES, Headless, find_chromium

import plgc
from plgc.cli import app
from plgc.experiments.spec import list_experiments
from processes import wait_until

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
WRITTEN = ("index", "few_labels", "noisy_labels", "links", "choosing_k", "faq")  # by hand, with numbers of experiments
FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href|srcset)=["']?((?:https?:)?//[^"' >]*)"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` builds it."""
    for needed in ("mkdocs", "material", "mkdocstrings_handlers.python", "matplotlib"):
        pytest.importorskip(needed, reason="make docs needs plgc[docs]")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 15
    for path in pages:
        assert not FETCHED.findall(path.read_text(encoding="utf-8")), path.name
    for path in site.rglob("*.css"):
        assert not re.search(r"""(?:url\(|@import )["']?(?:https?:)?//""", path.read_text(encoding="utf-8")), path.name


@pytest.mark.slow
def test_the_reference_has_every_public_name_and_every_command(site: Path) -> None:
    reference = "".join(path.read_text(encoding="utf-8") for path in sorted((site / "api").glob("*.html")))
    assert ":func:" not in reference
    assert ":class:" not in reference
    for name in set(plgc.__all__) - {"__version__"}:
        home = getattr(plgc, name).__module__
        assert f'id="{home}.{name}"' in reference, f"{home}.{name}"
    commands = unescape((site / "commands.html").read_text(encoding="utf-8"))
    for path in command_names(typer.main.get_command(app), "plgc"):
        assert f"<code>{path}</code>" in commands, path


@pytest.mark.slow
@pytest.mark.parametrize("start", ["index.html", "notebooks/own_table.html"])
def test_the_search_works_in_pages_opened_from_disk(site: Path, start: str, tmp_path: Path) -> None:
    program = find_chromium()
    if program is None:
        pytest.skip(f"no Chromium is found ({', '.join(NAMES)}): the search is not tried in a browser")
    with Headless(program, tmp_path) as browser:
        browser.open(site / start, 1200, 900)
        browser.evaluate(
            "(() => { const box = document.querySelector('.md-search__input'); box.focus(); box.value = 'Sinkhorn';"
            " box.dispatchEvent(new Event('input', {bubbles: true}));"
            " box.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
        )
        page = (site / "method.html").as_uri()
        found = f"document.querySelector('.md-search-result__link[href^=\"{page}\"]') !== null"
        wait_until(lambda: browser.evaluate(found), seconds=60)
        assert not browser.complaints()


def command_names(command: Any, path: str) -> list[str]:
    below = getattr(command, "commands", {})
    return [found for name, sub in below.items() for found in [f"{path} {name}", *command_names(sub, f"{path} {name}")]]


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_are_those_of_the_experiment_that_is_named(name: str) -> None:
    """A paragraph with a decimal number names its experiment, and the number is in that section of the results."""
    known = {experiment.name for experiment in list_experiments()}
    sections = {text.split(":")[0]: text for text in page("results").split("\n## ")}
    prose = re.sub(r"^```.*?^```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"<!-- measured\n.*?<!-- /measured -->", "", prose, flags=re.DOTALL)  # filled in from the records
    prose = re.sub(r"\bPy\w+\s\d\.\d+", "", prose)  # versions
    for paragraph in prose.split("\n\n"):
        numbers = re.findall(r"(?<![\w.])\d+\.\d+(?![\w.]*\d)", paragraph)
        named = [word for word in re.findall(r"`(\w+)`", paragraph) if word in known]
        if numbers:
            assert named, f"which experiment? {paragraph}"
        for number in numbers:
            found = [where for where in named if re.search(rf"(?<![\d.]){re.escape(number)}(?!\d)", sections[where])]
            assert found, f"{number} is not in {', '.join(named)}: {paragraph}"


@pytest.mark.filterwarnings("ignore:plgc.* is plgc.* now:DeprecationWarning")
def test_the_method_page_names_code_that_exists() -> None:
    rows = [line.split("|") for line in page("method").splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 20
    for _, symbol, names, *_ in rows:
        found = re.findall(r"`([\w.]+)`", names)
        assert found, symbol
        for name in found:
            assert exists(name), f"{symbol.strip()}: plgc.{name}"


def exists(name: str) -> bool:
    """Whether a dotted name is something in plgc: a module's member, or a member or field of a class."""
    owner: Any
    owner, module, rest = plgc, "plgc", name.split(".")
    while hasattr(owner, "__path__") and importlib.util.find_spec(f"{module}.{rest[0]}") is not None:
        module = f"{module}.{rest.pop(0)}"
        owner = importlib.import_module(module)
    *way, last = rest
    owner = reduce(getattr, way, owner)
    return hasattr(owner, last) or last in getattr(owner, "__annotations__", {})


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md"])
def test_links_of_pages_outside_the_site(name: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in text.splitlines()}
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" not in link:
            assert not path or ((ROOT / name).parent / path).exists(), link
            assert path or anchor in headings, link
