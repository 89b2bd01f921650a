"""The report in a real browser: it opens without complaints, the map answers mouse, fingers and keys, and it fits.

Skipped where no Chromium is found, unless PLGC_REQUIRE_BROWSER is set. PLGC_SCREENSHOTS names a folder that keeps the
pictures for the documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from headless import NAMES, Headless, find_chromium

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headless]:
    program = find_chromium()
    if program is None:
        words = f"no Chromium is found ({', '.join(NAMES)}): the report is not tried in a browser"
        if os.environ.get("PLGC_REQUIRE_BROWSER"):
            pytest.fail(words)
        pytest.skip(words)
    with Headless(program, tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def file(page: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page, encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Headless, file: Path) -> Headless:
    """The report in a desktop's window, scrolled to the map."""
    browser.events.clear()
    browser.open(file, 1200, 900)
    browser.evaluate("document.getElementById('stage').scrollIntoView({block: 'center', behavior: 'instant'})")
    browser.settle()
    return browser


def node_place(browser: Headless, index: int = 0) -> tuple[float, float]:
    """Where a synthetic node is drawn, in the window."""
    script = (
        "(() => { const box = document.getElementById('map').getBoundingClientRect(); "
        f"const [x, y] = plgcMap.find({index}); return [box.left + x, box.top + y]; }})()"
    )
    x, y = browser.evaluate(script)
    return x, y


def view(browser: Headless) -> dict[str, Any]:
    return browser.evaluate("plgcMap.view()")


def tip(browser: Headless) -> str | None:
    return browser.evaluate(
        "(() => { const t = document.getElementById('tip'); return t.hidden ? null : t.innerText; })()"
    )


def test_opens_without_complaints(opened: Headless) -> None:
    assert opened.complaints() == []
    assert opened.evaluate("document.title") == "small, condensed"
    assert opened.evaluate("plgcMap.nodes") == 300
    drawn = """(() => {
      const canvas = document.getElementById('map'), seen = new Set();
      const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
      for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
      return seen.size;
    })()"""
    assert opened.evaluate(drawn) > 8


def test_hovering_tells(opened: Headless) -> None:
    assert tip(opened) is None
    opened.mouse("mouseMoved", *node_place(opened, 0))
    told = tip(opened)
    assert told is not None
    assert "ynthetic node " in told
    assert "Represents " in told
    assert "Features that stand out" in told
    assert "Classes: " in told
    opened.mouse("mouseMoved", 5, 5)
    assert tip(opened) is None
    assert opened.complaints() == []


def test_a_tap_tells(opened: Headless) -> None:
    x, y = node_place(opened, 0)
    opened.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    opened.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    opened.settle()
    told = tip(opened)
    assert told is not None
    assert "Represents " in told


def test_two_fingers_zoom(opened: Headless) -> None:
    x, y = node_place(opened, 0)
    for kind, apart in (("touchStart", 20), ("touchMove", 40), ("touchMove", 80)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        opened.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
    opened.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    opened.settle()
    assert view(opened)["scale"] > 2


def test_zooming_and_moving(opened: Headless) -> None:
    start = view(opened)
    assert start == {"scale": 1, "x": 0, "y": 0}
    x, y = node_place(opened, 1)
    opened.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300)
    closer = view(opened)
    assert closer["scale"] > 1.3
    assert node_place(opened, 1) == pytest.approx((x, y), abs=0.5)  # what is under the pointer stays there
    opened.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
    opened.mouse("mouseMoved", x + 40, y + 25, button="left", buttons=1)
    opened.mouse("mouseReleased", x + 40, y + 25, button="left", clickCount=1)
    assert node_place(opened, 1) == pytest.approx((x + 40, y + 25), abs=0.5)
    opened.evaluate("document.querySelector('[data-do=reset]').click()")
    assert view(opened) == start
    for name, grows in (("in", True), ("out", False)):
        before = view(opened)["scale"]
        opened.evaluate(f"document.querySelector('[data-do={name}]').click()")
        assert (view(opened)["scale"] > before) is grows
    assert opened.complaints() == []


def test_keys(opened: Headless) -> None:
    opened.evaluate("document.getElementById('map').focus({preventScroll: true})")
    opened.press("n")
    first = tip(opened)
    opened.press("n")
    second = tip(opened)
    opened.press("p")
    assert first is not None
    assert second is not None
    assert first.startswith("Synthetic node 0")
    assert second.startswith("Synthetic node 1")
    assert tip(opened) == first
    opened.press("+")
    assert view(opened)["scale"] == pytest.approx(1.4)
    before = view(opened)["x"]
    opened.press("ArrowLeft")
    assert view(opened)["x"] == before + 60
    opened.press("0")
    assert view(opened)["scale"] == 1
    opened.press("Escape")
    assert tip(opened) is None


def test_colour_by_class(opened: Headless) -> None:
    shown = "[...document.querySelectorAll('.legend[data-for]')].map((one) => [one.dataset.for, one.hidden])"
    assert opened.evaluate(shown) == [["label", True]]
    choose = "const s = document.getElementById('map-colour'); s.value = 'label'; s.dispatchEvent(new Event('change'));"
    opened.evaluate(f"(() => {{ {choose} }})()")
    opened.settle()
    assert opened.evaluate(shown) == [["label", False]]
    assert opened.complaints() == []


@pytest.mark.parametrize(
    ("name", "width", "height", "dark", "phone"),
    [("desktop", 1200, 900, False, False), ("dark", 1200, 900, True, False), ("phone", 390, 844, False, True)],
)
def test_fits(
    browser: Headless, file: Path, tmp_path: Path, name: str, width: int, height: int, dark: bool, phone: bool
) -> None:
    browser.events.clear()
    browser.open(file, width, height, dark=dark, phone=phone)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width  # nothing sticks out
    paper = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark
    folder = Path(os.environ.get("PLGC_SCREENSHOTS") or tmp_path)
    folder.mkdir(parents=True, exist_ok=True)
    picture = browser.screenshot(folder / f"report-{name}.png", whole=phone).read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
    assert browser.complaints() == []


def test_prints(browser: Headless, file: Path) -> None:
    browser.open(file, 1200, 900, dark=True)
    answer = browser.call("Page.printToPDF", printBackground=True)
    assert answer["data"].startswith("JVBERi")  # %PDF
    browser.call("Emulation.setEmulatedMedia", media="print")
    fit = browser.evaluate("getComputedStyle(document.getElementById('map')).objectFit")
    browser.call("Emulation.setEmulatedMedia", media="")
    assert fit == "contain"  # rings stay round on a page of another shape
    assert browser.complaints() == []
