"""What every storage promises (engine.storage.base), run against each implementation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import NotFoundError, RefusedError
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage

Make = Callable[[dict[str, bytes]], Storage]


@pytest.fixture(params=["disk", "memory"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    def on_disk(files: dict[str, bytes]) -> Storage:
        for path, data in files.items():
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(data)
        return DiskStorage(tmp_path)

    return on_disk if request.param == "disk" else MemoryStorage


def content(storage: Storage, path: str) -> bytes:
    file = storage.open(path)
    try:
        return file.read(0, file.size() + 100)
    finally:
        file.close()


def test_names_are_sorted_and_of_one_level(make: Make) -> None:
    storage = make({"b": b"", "a": b"1", "data001/00000000.jdb": b"2", "B": b""})
    assert storage.names() == ["B", "a", "b", "data001"]
    assert storage.names("data001") == ["00000000.jdb"]


def test_names_of_no_directory(make: Make) -> None:
    storage = make({"a": b""})
    for path in ("absent", "a"):
        with pytest.raises(NotFoundError) as caught:
            storage.names(path)
        assert caught.value.file == f"{storage.root}/{path}"


def test_stat(make: Make) -> None:
    storage = make({"a": b"12345", "data001/x": b""})
    found = storage.stat("a")
    assert found is not None
    assert (found.size_bytes, found.is_directory) == (5, False)
    for directory in ("", "data001"):
        found = storage.stat(directory)
        assert found is not None
        assert found.is_directory
    assert storage.stat("absent") is None
    assert storage.stat("a/below-a-file") is None


def test_reads_are_short_only_at_the_end(make: Make) -> None:
    file = make({"a": bytes(range(100))}).open("a")
    assert file.path == "a"
    assert file.size() == 100
    assert file.read(10, 5) == bytes(range(10, 15))
    assert file.read(95, 50) == bytes(range(95, 100))
    assert file.read(100, 1) == b""
    assert file.read(1 << 40, 10) == b""
    assert file.read(0, 0) == b""
    file.close()
    file.close()


@pytest.mark.parametrize("path", ["absent", "absent/file"])
def test_open_absent_file(make: Make, path: str) -> None:
    storage = make({"a": b""})
    for attempt in (storage.open, storage.open_rw):
        with pytest.raises(NotFoundError) as caught:
            attempt(path)
        assert path in str(caught.value)
    assert storage.names() == ["a"], "a failed open creates nothing"


def test_create_needs_the_directory(make: Make) -> None:
    storage = make({})
    with pytest.raises(NotFoundError):
        storage.open_rw("data001/00000000.jdb", create=True)
    with pytest.raises(NotFoundError):
        storage.make_directory("data001/deeper")
    storage.make_directory("data001")
    storage.make_directory("data001")
    storage.open_rw("data001/00000000.jdb", create=True).close()
    assert storage.names("data001") == ["00000000.jdb"]


def test_write_extends_with_zeros(make: Make) -> None:
    storage = make({"a": b"abc"})
    file = storage.open_rw("a")
    file.write(1, b"X")
    file.write(6, b"YZ")
    file.write(100, b"")
    assert file.read(0, 100) == b"aXc\0\0\0YZ"
    assert file.size() == 8
    file.sync()
    file.close()
    storage.sync_directory()
    assert content(storage, "a") == b"aXc\0\0\0YZ"


def test_truncate_cuts_and_extends(make: Make) -> None:
    file = make({"a": b"abcdef"}).open_rw("a")
    file.truncate(2)
    assert file.read(0, 10) == b"ab"
    file.truncate(4)
    assert file.read(0, 10) == b"ab\0\0"
    file.close()


def test_open_rw_with_create_keeps_what_is_there(make: Make) -> None:
    storage = make({"a": b"abc"})
    storage.open_rw("a", create=True).close()
    storage.open_rw("new", create=True).close()
    assert content(storage, "a") == b"abc"
    assert content(storage, "new") == b""


def test_a_reader_sees_what_a_writer_adds(make: Make) -> None:
    storage = make({"a": b"abc"})
    reader, writer = storage.open("a"), storage.open_rw("a")
    writer.write(3, b"def")
    assert (reader.size(), reader.read(2, 10)) == (6, b"cdef")
    writer.close()
    reader.close()


def test_rename_replaces(make: Make) -> None:
    storage = make({"a": b"new", "b": b"old"})
    storage.rename("a", "b")
    assert storage.names() == ["b"]
    assert content(storage, "b") == b"new"
    with pytest.raises(NotFoundError):
        storage.rename("a", "c")


def test_rename_into_an_absent_directory(make: Make) -> None:
    storage = make({"a": b"1"})
    with pytest.raises(NotFoundError):
        storage.rename("a", "absent/a")
    assert content(storage, "a") == b"1"


def test_remove(make: Make) -> None:
    storage = make({"a": b"1", "data001/x": b""})
    storage.remove("a")
    storage.remove("data001/x")
    assert storage.names() == ["data001"], "a directory stays when its last file goes"
    with pytest.raises(NotFoundError):
        storage.remove("a")


def test_an_open_file_survives_its_removal(make: Make) -> None:
    storage = make({"a": b"abc"})
    file = storage.open("a")
    storage.remove("a")
    assert file.read(0, 10) == b"abc"
    file.close()


@pytest.mark.parametrize(
    ("held", "asked", "refused"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_locks_on_one_byte(make: Make, held: bool, asked: bool, refused: bool) -> None:
    storage = make({"je.lck": b""})
    first = storage.lock("je.lck", 0, exclusive=held)
    if refused:
        with pytest.raises(RefusedError) as caught:
            storage.lock("je.lck", 0, exclusive=asked)
        assert caught.value.file == f"{storage.root}/je.lck"
    else:
        storage.lock("je.lck", 0, exclusive=asked).release()
    first.release()
    first.release()
    storage.lock("je.lck", 0, exclusive=True).release()


def test_locks_on_two_bytes_are_apart(make: Make) -> None:
    storage = make({"je.lck": b""})
    writer = storage.lock("je.lck", 0, exclusive=True)
    readers = storage.lock("je.lck", 1, exclusive=True)
    readers.release()
    with pytest.raises(RefusedError):
        storage.lock("je.lck", 0, exclusive=True)
    writer.release()


def test_lock_of_an_absent_file(make: Make) -> None:
    storage = make({})
    with pytest.raises(NotFoundError):
        storage.lock("je.lck", 0, exclusive=True)
    assert storage.lock_holder("je.lck", 0) is None
    assert storage.names() == []
