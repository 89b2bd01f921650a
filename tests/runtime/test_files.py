from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import plgc
from plgc.runtime.errors import PLGCError, SettingError
from plgc.runtime.files import WriteError, check_writable, remove_leftovers, same_file, write_atomically


@pytest.fixture(params=[None, b"old content"], ids=["new file", "old file"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, bytes | None]:
    """A file to write, and what it held before."""
    path = tmp_path / "folder" / "condensed.safetensors"
    path.parent.mkdir()
    if request.param is not None:
        path.write_bytes(request.param)
    return path, request.param


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def assert_untouched(path: Path, before: bytes | None) -> None:
    assert [entry.name for entry in path.parent.iterdir()] == ([] if before is None else [path.name])
    assert before is None or path.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"\x00new\r\n", bytes(range(256)) * 5000])
def test_what_was_written_is_there_and_nothing_else(target: tuple[Path, bytes | None], content: bytes) -> None:
    path, _ = target
    assert write_atomically(str(path), content) == path
    assert path.read_bytes() == content
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_missing_folders_are_made(tmp_path: Path) -> None:
    path = write_atomically(tmp_path / "a" / "b" / "c.bin", b"x")
    assert path.read_bytes() == b"x"


def test_a_bare_name_goes_into_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_atomically("c.bin", b"x")
    assert (tmp_path / "c.bin").read_bytes() == b"x"


# Failures


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failed_write_leaves_no_trace(
    target: tuple[Path, bytes | None], monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path, before = target
    reached = []

    def fail(*_: object) -> None:
        reached.append(step)
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(WriteError if isinstance(error, OSError) else KeyboardInterrupt) as caught:
        write_atomically(path, b"new content")
    assert reached == [step]
    assert_untouched(path, before)
    if isinstance(caught.value, PLGCError):
        assert caught.value.kind == "cannot-write"
        assert "(11 bytes): No space left on device; " in str(caught.value)


def test_the_file_is_complete_and_on_disk_before_it_gets_its_name(
    target: tuple[Path, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = target
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(handle: int) -> None:
        found = os.fstat(handle)
        if stat.S_ISDIR(found.st_mode):
            steps.append("fsync of the folder")
        else:
            assert found.st_size == len(b"new content")
            steps.append("fsync")
        fsync(handle)

    def recording_replace(source: str, destination: Path) -> None:
        steps.append("replace")
        assert Path(source).parent == path.parent  # the same disk: a rename, not a copy
        assert Path(source).read_bytes() == b"new content"
        assert path.exists() == (before is not None)
        assert before is None or path.read_bytes() == before
        replace(source, destination)

    monkeypatch.setattr(os, "fsync", recording_fsync)
    monkeypatch.setattr(os, "replace", recording_replace)
    write_atomically(path, b"new content")
    assert steps == ["fsync", "replace", "fsync of the folder"]
    assert path.read_bytes() == b"new content"


def test_a_reader_never_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "file"
    size = 200_000
    write_atomically(path, b"a" * size)
    seen: list[bytes] = []
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.append(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(12):
        write_atomically(path, b"ab"[number % 2 : number % 2 + 1] * size)
    done.set()
    reader.join()
    assert seen
    assert {(len(content), len(set(content))) for content in seen} == {(size, 1)}


ALONE = f"""
import sys, types
package = sys.modules["plgc"] = types.ModuleType("plgc")  # instead of all of it, and torch
package.__path__ = [{str(Path(plgc.__file__).parent)!r}]
"""


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    """Another process, with this plgc.runtime.files."""
    command = [sys.executable, "-c", ALONE + code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


LIMITED = """
import resource, signal, sys
from plgc.runtime.files import WriteError, write_atomically
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    write_atomically(sys.argv[1], b"n" * 300_000)
except WriteError as error:
    print(error)
write_atomically(sys.argv[1] + ".small", b"s")
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs limits on file sizes")
def test_a_file_that_finds_no_room_is_reported_and_the_old_one_stays(target: tuple[Path, bytes | None]) -> None:
    path, before = target
    said, _ = python(LIMITED, path).communicate(timeout=300)
    kept = "nothing is left of it" if before is None else "the file that was there is unchanged"
    assert f"cannot write {path} (300,000 bytes): File too large; {kept}. Make room" in said
    (path.parent / f"{path.name}.small").unlink()
    assert_untouched(path, before)


def test_a_name_that_is_too_long_is_one_of_our_errors(tmp_path: Path) -> None:
    with pytest.raises(PLGCError):
        write_atomically(tmp_path / ("x" * 300), b"x")


def test_room_is_looked_for_before_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable(tmp_path / "c.bin", 1000)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=999))
    message = rf"c\.bin needs at least 1,000 bytes, the disk of {tmp_path} has 999 left: make room"
    with pytest.raises(SettingError, match=message):
        check_writable(tmp_path / "c.bin", 1000)
    check_writable(tmp_path / "c.bin", 999)


def test_what_killed_processes_have_left_is_removed_when_it_is_old(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in (".plgc-1.part", ".plgc-2.part", "notes.part"))
    for path in (old, new, other):
        path.write_bytes(b"half")
    yesterday = time.time() - 25 * 3600
    for path in (old, other):
        os.utime(path, (yesterday, yesterday))
    write_atomically(tmp_path / "c.bin", b"x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".plgc-2.part", "c.bin", "notes.part"]
    remove_leftovers(tmp_path, age=0.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.bin", "notes.part"]


WRITER = """
import sys
from plgc.runtime.files import write_atomically
for number in range(int(sys.argv[3])):
    write_atomically(sys.argv[1], sys.argv[2].encode() * 300_000)
"""
WRITES = max(25, int(os.environ.get("PLGC_FUZZ", "0")) // 20)  # by each of the processes; more in `make soak`


def test_processes_that_write_one_file_leave_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "file"
    writers = [python(WRITER, path, letter, WRITES) for letter in "abc"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            content = path.read_bytes()
            seen.add((len(content), content.count(content[:1])))
    for writer in writers:
        writer.communicate()
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert seen == {(300_000, 300_000)}
    assert path.read_bytes() in {letter * 300_000 for letter in (b"a", b"b", b"c")}
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


# Permissions


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
@pytest.mark.usefixtures("umask")
def test_permissions_are_those_of_any_new_file_or_stay(target: tuple[Path, bytes | None], mask: int, mode: int) -> None:
    path, _ = target
    if path.exists():
        mode = 0o640
        path.chmod(mode)
    os.umask(mask)
    write_atomically(path, b"x")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert os.umask(mask) == mask  # asking for the mask did not change it


# Refusals


@pytest.mark.parametrize("function", [check_writable, lambda path: write_atomically(path, b"x")])
def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path, function) -> None:
    with pytest.raises(SettingError, match=rf"{tmp_path} is a folder: name a file in it"):
        function(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("function", [check_writable, lambda path: write_atomically(path, b"x")])
@pytest.mark.parametrize("below", ["c.bin", "deeper/c.bin"])
def test_a_file_where_a_folder_is_needed_is_refused(tmp_path: Path, function, below: str) -> None:
    (tmp_path / "file").write_bytes(b"kept")
    with pytest.raises(SettingError, match=r"cannot create the folder .*file.* for c\.bin"):
        function(tmp_path / "file" / below)
    assert (tmp_path / "file").read_bytes() == b"kept"


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked through os.access, which is what differs between users: root may write anywhere."""
    monkeypatch.setattr(os, "access", lambda path, mode: not (Path(path) == tmp_path and mode & os.W_OK))
    with pytest.raises(SettingError, match=rf"cannot write into {tmp_path}: choose another place for c\.bin"):
        write_atomically(tmp_path / "c.bin", b"x")
    assert list(tmp_path.iterdir()) == []


def test_checking_writes_nothing(target: tuple[Path, bytes | None]) -> None:
    path, before = target
    check_writable(path)
    assert_untouched(path, before)


def test_the_same_file_by_links_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one, other = tmp_path / "one", tmp_path / "other"
    one.write_bytes(b"same")
    other.write_bytes(b"same")
    Path("soft").symlink_to(one)
    Path("hard").hardlink_to(one)
    for name in ("one", "soft", "hard", f"../{tmp_path.name}/one"):
        assert same_file(name, one)
        assert not same_file(name, other)
    Path("dangling").symlink_to("not-yet")  # what is not there yet
    assert same_file("dangling", tmp_path / "not-yet")
    assert not same_file("not-yet", one)
