"""Packages import only from those before them, and CONTRIBUTING.md shows the packages and modules that there are."""

from __future__ import annotations

from graphlib import CycleError

import plgc
from layout import END, PACKAGES, ROOT, SOURCE, START, imports, in_order, known_module, modules, package_of, picture
from plgc._moved import MOVED

FOUND = modules()
ENTRY_POINTS = {"plgc", "plgc.__main__", "plgc._moved"}  # they know every package


def test_every_package_has_its_place_in_the_order() -> None:
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == set(PACKAGES), "tests/layout.py has the order of the packages"


def test_no_package_imports_from_one_after_it() -> None:
    """``plgc`` itself knows every package: only the command line, which is last, may import it whole."""
    wrong = []
    for name, path in FOUND.items():
        if name in ENTRY_POINTS:
            continue
        for line, imported in imports(path):
            target = known_module(home(imported), FOUND)
            own = package_of(name)
            if target in (None, "plgc._version") or (target == "plgc" and own == PACKAGES[-1]):
                continue
            other = package_of(target)
            if not other or PACKAGES.index(other) > PACKAGES.index(own):
                wrong.append(f"{path.relative_to(ROOT)}, line {line}: {own} imports {imported}")
    assert not wrong, "\n" + "\n".join(wrong)


def home(imported: str) -> str:
    """Where one of the names of ``plgc`` itself is from; other names as they are."""
    first, _, name = imported.partition(".")
    return f"{plgc._HOME[name]}.{name}" if first == "plgc" and name in plgc._HOME else imported


def test_nothing_is_imported_by_a_name_it_had_before() -> None:
    old = {f"plgc.{name}" for name in MOVED}
    for name, path in FOUND.items():
        for line, imported in imports(path):
            parts = imported.split(".")
            ways = {".".join(parts[:end]) for end in range(2, len(parts) + 1)}
            assert name == "plgc._moved" or not ways & old, f"{path}, line {line}: {imported} has moved"


def test_modules_of_a_package_can_be_read_one_after_the_other() -> None:
    for package in PACKAGES:
        try:
            assert in_order(package, FOUND) or package
        except CycleError as error:
            raise AssertionError(f"{package} imports in a circle: {' -> '.join(error.args[1])}") from error


def test_contributing_shows_the_layout() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert text.count(START) == text.count(END) == 1, f"CONTRIBUTING.md needs the lines {START!r} and {END!r}"
    shown = text.split(START)[1].split(END)[0].splitlines()
    wanted = picture().splitlines()
    missing = [line for line in wanted if line not in shown]
    extra = [line for line in shown if line not in wanted]
    assert shown == wanted, "\n".join(
        ["run: python tests/layout.py --write", "missing:", *missing, "no longer so:", *extra]
    )


def test_old_names_lead_to_modules() -> None:
    """Every import path that was documented before the packages had their order still answers."""
    for old, new in MOVED.items():
        assert f"plgc.{new}" in FOUND, f"_moved.py sends plgc.{old} to plgc.{new}, which is not there"
        assert f"plgc.{old}" not in FOUND, f"plgc.{old} is there and in _moved.py"
