from __future__ import annotations

import contextlib
import io

import pytest

from plgc import progress
from plgc.progress import bar_line, nested, progress_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_bar_line_shows_the_share() -> None:
    assert bar_line("stage I", 3, 4) == "[##################      ]  75 %  stage I"
    assert bar_line("start", 0, 0).endswith("  0 %  start")
    assert "100 %" in bar_line("more than all", 5, 4)


def test_a_terminal_gets_one_line_that_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TERMINAL_PAUSE", 0.0)
    stream = Terminal()
    with progress_line(stream) as show:
        show("first", 1, 2)
        show("second", 2, 2)
    shown = stream.getvalue()
    assert "first" in shown
    assert "second" in shown
    assert "\n" not in shown
    assert shown.endswith("\r")
    assert shown.split("\r")[-2].strip() == ""


def test_the_line_is_wiped_after_an_error() -> None:
    stream = Terminal()
    with contextlib.suppress(KeyboardInterrupt), progress_line(stream) as show:
        show("working", 1, 2)
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r")


def test_a_log_stays_quiet_in_a_short_job_and_gets_lines_in_a_long_one(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = io.StringIO()
    with progress_line(quiet) as show:
        show("short", 1, 2)
    assert quiet.getvalue() == ""
    monkeypatch.setattr(progress, "LOG_PAUSE", 0.0)
    log = io.StringIO()
    with progress_line(log) as show:
        show("long", 1, 2)
    assert log.getvalue() == "50 %  long\n"


def test_nested_progress_is_a_share_of_the_whole() -> None:
    seen: list[tuple[str, float]] = []
    outer = nested(lambda message, done, total: seen.append((message, done / total)), "second step", 1, 4)
    assert outer is not None
    outer("half", 5, 10)
    outer("done", 10, 10)
    assert seen == [("second step: half", 0.375), ("second step: done", 0.5)]
    assert nested(None, "anything", 0, 1) is None
