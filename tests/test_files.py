from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from plgc.errors import SettingError
from plgc.files import check_writable, write_atomically


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
    with pytest.raises(type(error)):
        write_atomically(path, b"new content")
    assert reached == [step]
    assert_untouched(path, before)


def test_a_disk_that_fills_up_halfway_leaves_no_trace(
    target: tuple[Path, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = target
    real = os.fdopen

    class Full:
        def __init__(self, handle: int, mode: str):
            self.file = real(handle, mode)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, content: bytes) -> None:
            self.file.write(content[: len(content) // 2])
            self.file.flush()
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fdopen", Full)
    with pytest.raises(OSError, match="No space left"):
        write_atomically(path, b"new content")
    assert_untouched(path, before)


def test_the_file_is_complete_and_on_disk_before_it_gets_its_name(
    target: tuple[Path, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, before = target
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def recording_fsync(handle: int) -> None:
        assert os.fstat(handle).st_size == len(b"new content")
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
    assert steps[:2] == ["fsync", "replace"]
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


# Permissions


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
@pytest.mark.usefixtures("umask")
def test_permissions_are_those_of_any_new_file(target: tuple[Path, bytes | None], mask: int, mode: int) -> None:
    path, _ = target
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
