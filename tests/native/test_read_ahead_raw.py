"""Bytes that a thread reads ahead are those that ``os.pread`` reads."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

SIZE = 1_000_000


def made(directory: Path) -> int:
    path = directory / "file"
    path.write_bytes(Random(5).randbytes(SIZE))
    return os.open(path, os.O_RDONLY)


def test_as_pread_reads(tmp_path: Path) -> None:
    rng, handle, ahead = Random(6), made(tmp_path), core.ReadAhead()
    for length in (1, 100, 4096, 200_000):
        offsets = [*(rng.randrange(SIZE) for _ in range(16)), SIZE - 1, SIZE, SIZE + 7]
        assert ahead.begin_raw([handle] * len(offsets), offsets, length)
        assert ahead.finish_raw() == [os.pread(handle, length, offset) for offset in offsets]
        # What was taken is gone.
        assert ahead.finish_raw() == []
    os.close(handle)


def test_a_read_that_fails_is_left_to_the_caller(tmp_path: Path) -> None:
    handle, ahead = made(tmp_path), core.ReadAhead()
    directory = os.open(tmp_path, os.O_RDONLY)
    assert ahead.begin_raw([handle, directory, handle], [0, 0, 9], 4)
    first, failed, last = ahead.finish_raw()
    assert (first, failed, last) == (os.pread(handle, 4, 0), None, os.pread(handle, 4, 9))
    os.close(directory)
    os.close(handle)


def test_a_new_batch_takes_the_place_of_one_that_was_not_taken(tmp_path: Path) -> None:
    handle, ahead = made(tmp_path), core.ReadAhead()
    for offset in range(200):
        assert ahead.begin_raw([handle], [offset], 50)
    assert ahead.finish_raw() == [os.pread(handle, 50, 199)]
    assert ahead.begin_raw([], [], 50)
    assert ahead.finish_raw() == []
    # Objects end while their threads read.
    for _ in range(50):
        assert core.ReadAhead().begin_raw([handle], [0], 4096)
    os.close(handle)


@pytest.mark.parametrize(
    "arguments",
    [
        ([1], [], 4), ([1], [0], 0), ([1], [0], -1), ([-1], [0], 4), ([1 << 40], [0], 4), ([1], [-1], 4),
        ([1] * 5, [0] * 5, 1 << 20), ([1], [0], 1 << 62), (["1"], [0], 4), ([1], [None], 4), ((1,), (0,), 4),
        ([1], [0]), ([1 << 70], [0], 4),
    ],
)  # fmt: skip
def test_arguments_are_checked(arguments: tuple[object, ...]) -> None:
    ahead = core.ReadAhead()
    with pytest.raises((TypeError, ValueError, OverflowError)):
        ahead.begin_raw(*arguments)  # type: ignore[arg-type]
    assert ahead.finish_raw() == []


def test_a_forked_process_reads_nothing_ahead(tmp_path: Path) -> None:
    handle, ahead = made(tmp_path), core.ReadAhead()
    expected = [os.pread(handle, 4096, 0)]
    assert ahead.begin_raw([handle], [0], 4096)
    child = os.fork()
    if child == 0:
        try:
            is_right = ahead.finish_raw() in (expected, [None])
            is_right = is_right and not ahead.begin_raw([handle], [0], 4096) and ahead.finish_raw() == []
            del ahead
            os._exit(0 if is_right else 1)
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert ahead.finish_raw() == expected
    os.close(handle)
