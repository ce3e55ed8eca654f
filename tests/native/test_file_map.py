"""Small reads through a map of the file answer as ``pread`` does, or not at all."""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from engine.storage.disk import DiskStorage, allow_maps, maps_shared_by
from tests.support.native_core import native_core
from tests.support.tools import needs

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

_CHUNK: Final = 64 << 10
_CONTENT: Final = random.Random(1).randbytes(10 * _CHUNK + 1234)


@pytest.fixture(autouse=True)
def bound() -> Iterator[None]:
    """What an environment allows when it is open."""
    before = core.most_bytes()
    core.keep_at_most(64 << 20)
    yield
    core.keep_at_most(before)


def test_a_higher_limit_stays() -> None:
    needs("native build")
    allow_maps(32 << 20)
    assert core.most_bytes() == 64 << 20
    allow_maps(96 << 20)
    assert core.most_bytes() == 96 << 20


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of eleven chunks."""
    made = tmp_path / "00000000.jdb"
    made.write_bytes(_CONTENT)
    return made


@pytest.fixture
def mapped(path: Path) -> Iterator[core.FileMap]:
    """A map of it, of which each chunk has been read once."""
    handle = os.open(path, os.O_RDONLY)
    made = core.FileMap(handle)
    # The map needs the descriptor no longer.
    os.close(handle)
    for chunk in range(0, len(_CONTENT), _CHUNK):
        assert made.read(chunk, 1) is None
    yield made
    made.close()


def test_it_reads_what_pread_reads(mapped: core.FileMap) -> None:
    places = random.Random(2)
    for _ in range(2000):
        length = places.randrange(1, 40_000)
        offset = places.randrange(len(_CONTENT) - length)
        assert mapped.read(offset, length) == _CONTENT[offset : offset + length]
    assert mapped.read(len(_CONTENT) - 3, 3) == _CONTENT[-3:]


@pytest.mark.parametrize(
    ("offset", "length"),
    [(len(_CONTENT) - 3, 4), (len(_CONTENT), 1), (-1, 3), (0, -1), (3, 0), (1 << 60, 1 << 60), (1, 1 << 62)],
)
def test_what_is_not_in_the_file_is_left_to_pread(mapped: core.FileMap, offset: int, length: int) -> None:
    assert mapped.read(offset, length) is None


def test_a_chunk_is_read_from_the_file_first(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    made = core.FileMap(handle)
    assert made.read(_CHUNK - 2, 4) is None
    assert made.read(_CHUNK - 2, 4) == _CONTENT[_CHUNK - 2 : _CHUNK + 2]
    # Of the chunk after those two nobody has read yet.
    assert made.read(2 * _CHUNK - 2, 4) is None
    made.close()
    os.close(handle)


def test_a_file_that_shrinks_ends_nothing(path: Path, mapped: core.FileMap) -> None:
    os.truncate(path, 2 * _CHUNK)
    for _ in range(3):
        assert mapped.read(5 * _CHUNK, 100) is None
        assert mapped.read(_CHUNK, 100) == _CONTENT[_CHUNK : _CHUNK + 100]


def test_a_file_that_grows_again_has_what_it_has_now(path: Path, mapped: core.FileMap) -> None:
    os.truncate(path, 0)
    assert mapped.read(0, 10) is None
    path.write_bytes(_CONTENT[::-1])
    assert mapped.read(0, 10) == _CONTENT[:-11:-1]


def test_memory_is_bounded(mapped: core.FileMap) -> None:
    held = core.kept_bytes()
    assert held >= 11 * _CHUNK
    core.keep_at_most(4 * _CHUNK)
    assert core.kept_bytes() == 0
    for chunk in range(0, len(_CONTENT), _CHUNK):
        assert mapped.read(chunk, 1) is None
        assert core.kept_bytes() <= 4 * _CHUNK
    # The first ones are still held, for a read of another chunk is refused.
    assert mapped.read(4 * _CHUNK - 1, 1) == _CONTENT[4 * _CHUNK - 1 : 4 * _CHUNK]
    assert mapped.read(4 * _CHUNK, 1) is None


def test_processes_share_the_limit(mapped: core.FileMap) -> None:
    needs("native build")
    core.keep_at_most(4 * _CHUNK)
    assert mapped.read(0, 1) is None
    with maps_shared_by(2):
        assert core.most_bytes() == 2 * _CHUNK
        # A page that fits is kept.
        assert mapped.read(0, 1) == _CONTENT[:1]
    assert core.most_bytes() == 4 * _CHUNK


def test_after_many_refusals_other_chunks_are_held(mapped: core.FileMap) -> None:
    core.keep_at_most(4 * _CHUNK)
    for chunk in range(4):
        assert mapped.read(chunk * _CHUNK, 1) is None
    tries = 0
    while mapped.read(7 * _CHUNK, 1) is None:
        tries += 1
        assert core.kept_bytes() <= 4 * _CHUNK
        assert tries < 1000
    assert tries > 4
    assert core.kept_bytes() == _CHUNK
    assert mapped.read(0, 1) is None


def test_a_closed_map_answers_nothing(mapped: core.FileMap) -> None:
    held = core.kept_bytes()
    mapped.close()
    assert held - core.kept_bytes() == 11 * _CHUNK
    mapped.close()
    assert mapped.read(0, 1) is None


def test_an_empty_file_and_no_file(tmp_path: Path) -> None:
    handle = os.open(tmp_path / "empty", os.O_RDWR | os.O_CREAT)
    empty = core.FileMap(handle)
    assert empty.size == 0
    assert empty.read(0, 1) is None
    os.close(handle)
    with pytest.raises(OSError, match="descriptor"):
        core.FileMap(handle)


def test_a_child_of_a_fork_reads_on(path: Path, mapped: core.FileMap) -> None:
    os.truncate(path, _CHUNK)
    child = os.fork()
    if child == 0:
        good = mapped.read(0, 9) == _CONTENT[:9] and mapped.read(3 * _CHUNK, 9) is None
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_nobody_has_allowed_for_it(path: Path, tmp_path: Path) -> None:
    core.keep_at_most(0)
    file = DiskStorage(tmp_path).open(path.name)
    for offset in range(500):
        assert file.read(offset, 9) == _CONTENT[offset : offset + 9]
    assert core.kept_bytes() == 0
    file.close()


def test_a_file_of_the_storage(path: Path, tmp_path: Path) -> None:
    """Reads, growth, cuts and writes through the seam, so often that the file is mapped, and mapped anew."""
    needs("native build")
    allow_maps(64 << 20)
    content = bytearray(_CONTENT)
    places = random.Random(3)
    file = DiskStorage(tmp_path).open_rw(path.name)
    held = core.kept_bytes()
    for number in range(4000):
        offset, length = places.randrange(len(content) + 50), places.randrange(300)
        assert file.read(offset, length) == content[offset : offset + length]
        if number % 500 == 499:
            more = places.randbytes(2 * mmap.PAGESIZE + 11)
            file.write(len(content), more)
            content += more
        elif number % 700 == 699:
            file.truncate(len(content) - 6000)
            del content[-6000:]
        elif number % 100 == 99:
            file.write(offset % 1000, b"written")
            content[offset % 1000 : offset % 1000 + 7] = b"written"
    assert core.kept_bytes() > held
    file.close()
    assert core.kept_bytes() == held
