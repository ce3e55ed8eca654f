"""A SpillFile that several processes append to."""

from __future__ import annotations

import os
import tempfile
from itertools import permutations

import pytest

from engine.workers.spill_file import SpillFile


def test_bytes_of_all_processes_are_found() -> None:
    spill = SpillFile()
    spill.waiting[-3] = bytearray(b"ab")
    assert spill.share()
    children = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            spill.waiting.clear()
            spill.waiting[7] = bytearray([number] * 2)
            spill.waiting[number] = bytearray(b"\xff")
            os._exit(0 if spill.flush() else 1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    assert spill.flush()
    spill.waiting[-3] = bytearray(b"c")
    assert spill.names() == [-3, 0, 1, 2, 7]
    assert spill.take(-3) == b"abc"
    assert spill.take(7) in {bytes([a, a, b, b, c, c]) for a, b, c in permutations(range(3))}
    assert spill.take(2) == b"\xff"
    spill.clear()
    assert spill.names() == []
    spill.close()


def test_what_never_needs_a_file_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    spill = SpillFile()
    spill.waiting[1] = bytearray(b"b")
    assert spill.names() == [1]
    assert spill.take(1) == b"b"
    spill.close()


def test_without_a_place_for_a_file_nothing_is_put(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(prefix: str) -> None:
        raise OSError(28, "no room")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    spill = SpillFile()
    spill.waiting[1] = bytearray(b"b")
    assert not spill.share()
    assert not spill.flush()
