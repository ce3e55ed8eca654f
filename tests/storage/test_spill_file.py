"""Piles of numbers that several processes make."""

from __future__ import annotations

import os
import tempfile
from array import array

import pytest

from engine.storage.spill_file import Piles


def test_numbers_of_all_processes_are_found() -> None:
    piles = Piles()
    piles.waiting[-3] = [1, -1]
    assert piles.share()
    children = []
    for number in range(3):
        pid = os.fork()
        if pid == 0:
            piles.waiting.clear()
            piles.waiting[7] = [number] * 2
            piles.waiting[number] = [1 << 62]
            os._exit(0 if piles.put() else 1)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
    assert piles.put()
    piles.waiting[-3] = [5]
    assert piles.names() == [-3, 0, 1, 2, 7]
    assert piles.take(-3) == array("q", [1, -1, 5])
    assert sorted(piles.take(7)) == [0, 0, 1, 1, 2, 2]
    assert piles.take(2) == array("q", [1 << 62])
    piles.clear()
    assert piles.names() == []
    piles.close()


def test_what_never_needs_a_file_makes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    piles = Piles()
    piles.waiting[1] = [2]
    assert piles.names() == [1]
    assert piles.take(1) == array("q", [2])
    piles.close()


def test_without_a_place_for_a_file_nothing_is_put(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(prefix: str) -> None:
        raise OSError(28, "no room")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    piles = Piles()
    piles.waiting[1] = [2]
    assert not piles.share()
    assert not piles.put()
