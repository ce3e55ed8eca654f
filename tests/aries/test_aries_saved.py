"""Saved bytes: a recovery can be taken back, whole or interrupted; foreign changes stop it."""

from __future__ import annotations

import json

import pytest

from engine.aries import journal
from engine.aries.recovery import recover, take_back
from engine.aries.saved import SavingStorage
from engine.errors import DamageError, NotFoundError, RefusedError
from engine.storage.memory import MemoryStorage
from tests.aries.derby_fixtures import NAMES, storage_of

FIVE = "crash-five-transactions"


@pytest.mark.parametrize("name", NAMES)
def test_undo_brings_every_byte_back(name: str) -> None:
    storage, backup = storage_of(name), MemoryStorage()
    before = storage.contents()
    recover(storage, backup=backup)
    if name == "clean-shutdown":
        assert backup.contents() == {}
        return
    manifest = journal.read_manifest(backup)
    assert manifest["state"] == journal.DONE
    assert manifest["operation"] == "recover"
    assert take_back(storage, backup) > 3
    assert storage.contents() == before
    assert journal.read_manifest(backup)["state"] == journal.UNDONE


def test_undo_refuses_when_something_was_changed_since() -> None:
    storage, backup = storage_of(FIVE), MemoryStorage()
    recover(storage, backup=backup)
    file = storage.open_rw("seg0/c490.dat")
    file.write(5000, b"new")
    with pytest.raises(RefusedError, match="changed since"):
        journal.undo(storage, backup)
    assert journal.undo(storage, backup, force=True) > 0


def test_used_backup_directory_is_refused() -> None:
    storage, backup = storage_of(FIVE), MemoryStorage()
    recover(storage, backup=backup)
    with pytest.raises(RefusedError, match="saved bytes of another run"):
        recover(storage_of(FIVE), backup=backup)


def test_a_database_in_use_is_not_taken_back() -> None:
    storage, backup = storage_of(FIVE), MemoryStorage()
    recover(storage, backup=backup)
    storage.open_rw("dbex.lck", create=True)
    storage.lock("dbex.lck", 0, exclusive=True)
    with pytest.raises(RefusedError, match="in use"):
        take_back(storage, backup)


def test_other_directories_hold_no_saved_bytes() -> None:
    with pytest.raises(NotFoundError, match="no saved bytes"):
        journal.undo(storage_of(FIVE), MemoryStorage())
    with pytest.raises(DamageError, match="manifest"):
        journal.undo(storage_of(FIVE), MemoryStorage({"manifest.json": b"{", "saved.journal": b""}))


def test_every_kind_of_change_is_taken_back() -> None:
    start = {"a/one": b"x" * 10_000, "a/two": b"two", "a/three": b"", "a/four": b"4" * 5}
    base, backup = MemoryStorage(dict(start)), MemoryStorage()
    saving = SavingStorage(base, backup)
    one = saving.open_rw("a/one")
    one.write(4000, b"yyyy" * 200)
    one.write(4100, b"z")
    one.write(9_990, b"w" * 100)
    one.truncate(50)
    one.truncate(20_000)
    saving.remove("a/two")
    saving.open_rw("a/two", create=True).write(0, b"other")
    saving.rename("a/four", "a/five")
    saving.remove("a/three")
    saving.open_rw("a/six", create=True).write(3, b"six")
    saving.finish({"operation": "test"})
    assert base.contents()["a/two"] == b"other"
    journal.undo(base, backup)
    assert base.contents() == start


def test_torn_entry_at_the_end_is_ignored() -> None:
    base, backup = MemoryStorage({"f": b"a" * 9000}), MemoryStorage()
    saving = SavingStorage(base, backup)
    saving.open_rw("f").write(0, b"b")
    whole = backup.contents()["saved.journal"]
    saving.open_rw("f").write(8500, b"b")
    assert len(journal.entries_of(backup)) == 2
    for length in (len(whole) + 1, len(whole) + 40, len(backup.contents()["saved.journal"]) - 1):
        cut = MemoryStorage({"saved.journal": backup.contents()["saved.journal"][:length]})
        assert [entry.offset for entry in journal.entries_of(cut)] == [0]


def test_blocks_are_saved_once() -> None:
    base, backup = MemoryStorage({"f": b"a" * 9000}), MemoryStorage()
    saving = SavingStorage(base, backup)
    file = saving.open_rw("f")
    for at in range(0, 4096, 64):
        file.write(at, b"b")
    assert len(journal.entries_of(backup)) == 1
    assert saving.saved_bytes < 4200
    assert file.size() == 9000


def test_manifest_names_digests() -> None:
    storage, backup = storage_of(FIVE), MemoryStorage()
    recover(storage, backup=backup)
    manifest = json.loads(backup.contents()["manifest.json"])
    assert manifest["files"]["log/log.ctrl"] == journal.digest_of(storage, "log/log.ctrl")
    assert set(manifest["files"]) >= {"log/log1.dat", "seg0/c490.dat", "seg0/c4a1.dat"}


def test_a_run_that_changes_nothing_leaves_nothing() -> None:
    backup = MemoryStorage()
    assert recover(storage_of("clean-shutdown"), backup=backup).clean
    assert backup.contents() == {}
