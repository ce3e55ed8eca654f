"""Repairs and undos that stop at every counted change, whole and torn: the journal brings both to an end.

The backup directory and the files stop together, as the death of a process stops them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engine.errors import RefusedError, StorageError
from engine.storage import journal
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from engine.storage.saved_bytes import SavingStorage
from engine.storage.undo import undo
from tests.support.damage.stopping_storage import StoppingStorage

START = {
    "00000000.jdb": bytes(range(256)) * 40,
    "00000001.jdb": b"1" * 5000,
    "data001/00000002.jdb": b"",
    "data001/x": b"keep",
}


class Stopping:
    """Files and a backup directory that share one count of changes."""

    def __init__(self, base: MemoryStorage, backup: MemoryStorage, fail_at: int, torn_bytes: int) -> None:
        self.base = StoppingStorage(base, fail_at, torn_bytes)
        self.backup = StoppingStorage(backup, fail_at, torn_bytes)
        both = self.base, self.backup
        for one, other in (both, both[::-1]):
            vars(one)["count"] = _shared(one.count, one, other)


def _shared(count: Callable[[str], None], one: StoppingStorage, other: StoppingStorage) -> Callable[[str], None]:
    def counted(what: str) -> None:
        try:
            count(what)
        finally:
            other.changes, other.failed = one.changes, one.failed

    return counted


def repair(base: Storage, backup: Storage) -> None:
    """Every kind of change."""
    saving = SavingStorage(base, backup, "repair")
    first = saving.open_rw("00000000.jdb")
    first.write(100, b"bit")
    first.write(4090, b"across the block")
    first.truncate(7000)
    first.write(7000, b"appended" * 600)
    first.truncate(20_000)
    saving.remove("00000001.jdb")
    saving.open_rw("00000001.jdb", create=True).write(0, b"another")
    saving.rename("data001/00000002.jdb", "data001/00000002.bad")
    saving.open_rw("00000003.jdb", create=True).write(0, b"new")
    saving.remove("00000003.jdb")
    saving.finish({})


def images(
    work: Callable[[Storage, Storage], object], files: dict[str, bytes], saved: dict[str, bytes], torn: int
) -> Iterator[tuple[MemoryStorage, MemoryStorage]]:
    """What is left when the work stops at each of its changes; the last is the work done."""
    at = 0
    while True:
        base, backup = MemoryStorage(files, root="/env"), MemoryStorage(saved, root="/backup")
        stopping = Stopping(base, backup, at, torn)
        try:
            work(stopping.base, stopping.backup)
        except StorageError:
            yield base, backup
            at += 1
            continue
        yield base, backup
        return


@pytest.mark.parametrize("torn", [0, 1, 30])
def test_a_repair_that_stops_anywhere_is_taken_back(torn: int) -> None:
    stopped = 0
    for base, backup in images(repair, START, {}, torn):
        stopped += 1
        pending = journal.pending_in(base)
        left = {path: data for path, data in base.contents().items() if path != journal.MARKER}
        if pending is None and left != START:
            assert journal.read_manifest(backup)["state"] == journal.DONE
        elif pending is None:
            continue
        undo(base, backup)
        assert base.contents() == START
        assert journal.read_manifest(backup)["state"] == journal.UNDONE
    assert stopped > 40


@pytest.mark.exhaustive
@pytest.mark.parametrize("torn", [0, 1, 30])
def test_an_undo_that_stops_anywhere_is_finished(torn: int) -> None:
    base, backup = MemoryStorage(START, root="/env"), MemoryStorage(root="/backup")
    repair(base, backup)
    stopped = 0
    for left, saved in images(undo, base.contents(), backup.contents(), torn):
        for again, once_more in images(undo, left.contents(), saved.contents(), torn):
            stopped += 1
            if journal.pending_in(again) is None and again.contents() == START:
                continue
            undo(again, once_more)
            assert again.contents() == START
    assert stopped > 200


def test_the_state_of_another_writer_is_not_explained() -> None:
    """One byte in a block that the repair wrote to, one after its end, a new log file, a longer one."""
    for base, backup in images(repair, START, {}, 0):
        if journal.pending_in(base) is None:
            continue
        files, saved = base.contents(), backup.contents()
        for path, data in (
            ("00000000.jdb", files["00000000.jdb"] + bytes(20_000) + b"x"), ("00000009.jdb", b"new"),
            ("00000000.jdb", files["00000000.jdb"][:101] + b"\xee" + files["00000000.jdb"][102:]),
        ):  # fmt: skip
            if path == "00000000.jdb" and not _wrote(backup, path):
                continue
            theirs = MemoryStorage({**files, path: data}, root="/env")
            with pytest.raises(RefusedError, match="changed since"):
                undo(theirs, MemoryStorage(saved, root="/backup"))
            assert theirs.contents() == {**files, path: data}


def _wrote(backup: Storage, path: str) -> bool:
    return any(place.path == path for place in journal.places_of(backup))


def test_nothing_is_undone_while_another_repair_is_interrupted() -> None:
    base, first, second = MemoryStorage(START, root="/env"), MemoryStorage(root="/one"), MemoryStorage(root="/two")
    repair(base, first)
    with pytest.raises(StorageError):
        repair(StoppingStorage(base, 6), second)
    assert journal.pending_in(base) is not None
    with pytest.raises(RefusedError, match="another repair"):
        undo(base, first, force=True)
    undo(base, second)
    undo(base, first)
    assert base.contents() == START
