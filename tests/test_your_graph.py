"""Every Python block of the guide "your own graph" runs by itself, and what it says of its output is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

GUIDE = Path(__file__).parents[1] / "docs" / "your_graph.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PYTHON = [code for language, code in BLOCKS if language == "python"]
TEXT = [code for language, code in BLOCKS if language == "text"]
EXTRAS = ("pandas", "networkx", "sklearn")


def block(number: int) -> Any:
    """The block of this number; those that train for long are not part of the quick run."""
    code = PYTHON[number]
    long = "CondensedDataset" in code or "ParameterGrid" in code
    return pytest.param(number, marks=pytest.mark.slow if long else ())


@pytest.mark.parametrize("number", [block(number) for number in range(len(PYTHON))])
def test_block_runs(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for extra in EXTRAS:
        if re.search(rf"\b{extra}\b", PYTHON[number]):
            pytest.importorskip(extra)
    names: dict[str, object] = {}
    exec(compile(PYTHON[number], f"{GUIDE.name}, block {number + 1}", "exec"), names)
    printed = capsys.readouterr().out
    if number == 0:
        assert printed.startswith(TEXT[0])
        assert re.search(r"^p000 (sales|research)$", printed, re.MULTILINE)
    for expected in re.findall(r"^print\(.*\)  # ((?:\d|\[).*)$", PYTHON[number], re.MULTILINE):
        assert expected in printed
    if "trained" in names:
        assert float(names["trained"]) > float(names["untrained"]) + 0.05  # pyright: ignore[reportArgumentType]


def test_the_training_example_is_ten_lines() -> None:
    [code] = [code for code in PYTHON if "CondensedDataset" in code]
    loop = code[code.index("data = CondensedDataset") : code.index("print(")]
    assert len(loop.strip().splitlines()) <= 10
