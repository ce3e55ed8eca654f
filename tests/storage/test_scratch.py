"""The scratch file: what is put is found, blocks are used again, nothing is left behind."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import StorageError
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import OverlayStorage
from engine.storage.scratch import ScratchFile

STEPS = st.lists(st.one_of(st.binary(max_size=3000), st.integers(0, 50)), max_size=60)


@settings(max_examples=100, deadline=None)
@given(STEPS)
def test_what_is_put_is_found(steps: list[bytes | int]) -> None:
    scratch = ScratchFile()
    kept: dict[int, bytes] = {}
    for step in steps:
        if isinstance(step, bytes):
            kept[scratch.put(step)] = step
        elif kept:
            offset = sorted(kept)[step % len(kept)]
            scratch.free(offset, len(kept.pop(offset)))
        assert {offset: scratch.get(offset) for offset in kept} == kept
    assert scratch.size <= sum(isinstance(step, bytes) for step in steps) * 4096
    scratch.close()


def test_a_block_that_is_given_back_is_used_again() -> None:
    scratch = ScratchFile()
    first, second = scratch.put(b"a" * 3000), scratch.put(b"b" * 600)
    assert (first, second, scratch.size) == (0, 4096, 5120)
    scratch.free(first, 3000)
    assert scratch.put(b"c" * 2500) == first
    assert scratch.size == 5120
    assert scratch.put(b"d" * 2500) == 5120
    scratch.close()


def test_the_file_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = ScratchFile()
    offset = scratch.put(b"kept")
    assert list(tmp_path.iterdir()) == []
    assert scratch.get(offset) == b"kept"
    scratch.close()


def test_what_the_system_refuses_is_said_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = ScratchFile()
    offset = scratch.put(b"kept")

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)
    monkeypatch.setattr(os, "pread", refuse)
    for refused in (lambda: scratch.get(offset), lambda: scratch.put(b"more")):
        with pytest.raises(StorageError, match="No space left") as raised:
            refused()
        assert "TMPDIR" in (raised.value.hint or "")
    scratch.close()


def test_an_overlay_shows_changes_through_files_that_were_opened_before() -> None:
    base = MemoryStorage({"f": b"old"})
    overlay = OverlayStorage(base)
    reading = overlay.open("f")
    assert (reading.read(0, 9), reading.size()) == (b"old", 3)
    overlay.open_rw("f").write(1, b"ther")
    assert (reading.read(0, 9), reading.size()) == (b"other", 5)
    assert base.contents() == {"f": b"old"}
