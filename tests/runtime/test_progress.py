from __future__ import annotations

import contextlib
import io
import re
import time

import pytest

from plgc.runtime import progress
from plgc.runtime.progress import bar_line, duration, nested, pace, progress_line, shown, silent
from processes import wait_until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if every job were a long one."""
    for name, seconds in {"DELAY": 0.0, "TERMINAL_PAUSE": 0.0, "TICK": 0.01, "LOG_PAUSE": 0.0}.items():
        monkeypatch.setattr(progress, name, seconds)


def test_bar_line_shows_the_share() -> None:
    assert bar_line("stage I", 3, 4) == "[##################      ]  75 %  stage I"
    assert bar_line("start", 0, 0).endswith("  0 %  start")
    assert "100 %" in bar_line("more than all", 5, 4)


@pytest.mark.usefixtures("hurried")
def test_a_terminal_gets_one_line_that_is_wiped() -> None:
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


def test_a_short_job_leaves_nothing() -> None:
    stream = Terminal()
    with progress_line(stream) as show:
        show("quick", 1, 2)
    assert stream.getvalue() == ""


@pytest.mark.usefixtures("hurried")
def test_the_clock_moves_while_nothing_is_reported() -> None:
    stream = Terminal()
    with progress_line(stream) as show:
        show("waiting", 0, 1)
        wait_until(lambda: stream.getvalue().count("waiting") >= 3)
    assert "s so far  waiting" in stream.getvalue()


def test_rate_and_time_left() -> None:
    assert pace(25, 10, 10) == "2.5 %/s, 30 s left"
    assert pace(25, 10, 15) == "2.5 %/s, 25 s left"
    assert pace(25, 10, 100) == "2.5 %/s, 0 s left"  # later than was expected
    assert pace(0, 5, 7) == "7 s so far"
    assert pace(1, 10, 10) == "0.1 %/s, 16 min left"
    assert bar_line("stage I", 1, 4, pace(25, 10, 10)).endswith("]  25 %  2.5 %/s, 30 s left  stage I")
    assert [duration(seconds) for seconds in (0, 99, 100, 5969, 7200)] == ["0 s", "99 s", "2 min", "99 min", "2.0 h"]


@pytest.mark.usefixtures("hurried")
def test_the_line_is_wiped_after_an_error() -> None:
    stream = Terminal()
    with contextlib.suppress(KeyboardInterrupt), progress_line(stream) as show:
        show("working", 1, 2)
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r")


def test_a_log_of_a_short_job_stays_quiet() -> None:
    log = io.StringIO()
    with progress_line(log, in_logs=True) as show:
        show("short", 1, 2)
    assert log.getvalue() == ""


@pytest.mark.usefixtures("hurried")
def test_a_log_stays_quiet_unless_lines_are_asked_for() -> None:
    quiet, log = io.StringIO(), io.StringIO()
    with progress_line(quiet) as show:
        show("long", 1, 2)
    assert quiet.getvalue() == ""
    with progress_line(log, in_logs=True) as show:
        show("long", 1, 2)
    assert re.fullmatch(r"50 %  .* %/s, 0 s left  long\n", log.getvalue())


def test_nested_progress_is_a_share_of_the_whole() -> None:
    seen: list[tuple[str, float]] = []
    outer = nested(lambda message, done, total: seen.append((message, done / total)), "second step", 1, 4)
    assert outer is not None
    outer("half", 5, 10)
    outer("done", 10, 10)
    assert seen == [("second step: half", 0.375), ("second step: done", 0.5)]
    assert nested(None, "anything", 0, 1) is None


# The bar of a call in Python


@pytest.mark.usefixtures("hurried")
def test_a_call_shows_a_bar_by_default_that_moves_and_is_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr("tqdm.std.tqdm.monitor_interval", 0)  # no thread that outlives the test
    with shown(True) as show:
        for done in range(5):
            show("stage I\x1b[2J", done, 4)
            time.sleep(0.11)  # tqdm's own pause between two drawings
    text = stream.getvalue()
    assert re.search(r" 25 %.*\\x1b\[2J.* 75 %", text, re.DOTALL)
    assert "\x1b[2J" not in text
    assert text.split("\r")[-2].strip() == ""


def test_a_log_gets_no_bar_and_a_notebook_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with shown(True) as show:
        assert show is silent
    notebook = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    assert progress.is_watched(notebook())
    assert not progress.is_watched(None)


@pytest.mark.parametrize("quiet", [False, None])
def test_one_argument_makes_it_quiet(quiet: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Terminal())
    with shown(quiet) as show:
        assert show is silent


def test_a_function_is_called_as_it_is() -> None:
    def mine(message: str, done: int, total: int) -> None: ...

    with shown(mine) as show:
        assert show is mine
