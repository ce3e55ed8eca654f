"""An overlay keeps the latest changed blocks in memory and the others in a nameless file; reads are the same."""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path
from typing import Final

import pytest

from engine.errors import StorageError
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import BLOCK, OverlayStorage

OLD: Final = random.Random(1).randbytes(20 * BLOCK + 77)
FEW: Final = 3 * BLOCK


@pytest.mark.parametrize("seed", range(4))
def test_a_small_overlay_reads_as_a_large_one(seed: int) -> None:
    overlays = [OverlayStorage(MemoryStorage({"a": OLD}), most_bytes) for most_bytes in (FEW, 1 << 30)]
    draw = random.Random(seed)
    for _ in range(400):
        path, offset = draw.choice("ab"), draw.randrange(30 * BLOCK)
        step, data = draw.choice(("write", "write", "write", "read", "truncate")), draw.randbytes(draw.randrange(9000))
        files = [overlay.open_rw(path, create=True) for overlay in overlays]
        if step == "write":
            for file in files:
                file.write(offset, data)
        elif step == "truncate" and draw.random() < 0.2:
            for file in files:
                file.truncate(offset)
        assert files[0].size() == files[1].size()
        assert files[0].read(offset, 20_000) == files[1].read(offset, 20_000)
    assert overlays[0].changed() == overlays[1].changed()


def test_a_file_that_was_removed_is_still_read_by_its_openers() -> None:
    overlay = OverlayStorage(MemoryStorage({}), FEW)
    file = overlay.open_rw("a", create=True)
    file.write(0, OLD)
    overlay.remove("a")
    overlay.open_rw("b", create=True).write(0, OLD[::-1])
    assert file.read(0, len(OLD)) == OLD
    assert overlay.open("b").read(0, len(OLD)) == OLD[::-1]


@pytest.mark.parametrize("fault", ["an error", "lost bytes"])
def test_a_block_that_cannot_be_read_is_an_error_of_the_storage(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OverlayStorage(MemoryStorage({}), FEW).open_rw("a", create=True)
    file.write(0, OLD)

    def fail(*_: object) -> bytes:
        if fault == "an error":
            raise OSError(5, "Input/output error")
        return b"short"

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(StorageError, match="Input/output error" if fault == "an error" else "lost bytes"):
        file.read(0, len(OLD))


def test_a_forked_process_reads_what_it_knew() -> None:
    overlay = OverlayStorage(MemoryStorage({}), FEW)
    file = overlay.open_rw("a", create=True)
    file.write(0, OLD)
    (ready, go), child = os.pipe(), os.fork()
    if child == 0:
        os.read(ready, 1)
        good = file.read(0, len(OLD)) == OLD
        file.write(0, OLD[::-1])
        os._exit(0 if good and file.read(0, len(OLD)) == OLD[::-1] else 1)
    file.write(0, bytes(len(OLD)))
    file.write(0, bytes(len(OLD)))
    os.write(go, b"x")
    assert os.waitpid(child, 0)[1] == 0
    assert file.read(0, len(OLD)) == bytes(len(OLD))
    os.close(ready)
    os.close(go)


def test_without_a_temporary_directory_blocks_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    file = OverlayStorage(MemoryStorage({}), FEW).open_rw("a", create=True)
    file.write(0, OLD)
    assert file.read(0, len(OLD)) == OLD
