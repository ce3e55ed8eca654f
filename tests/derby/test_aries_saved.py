"""Saved bytes: a recovery can be taken back, whole or interrupted; foreign changes stop it."""

from __future__ import annotations

import json

import pytest

from engine.derby.recovery.manager import recover, take_back
from engine.errors import NotFoundError, RefusedError
from engine.storage import journal
from engine.storage.memory import MemoryStorage
from engine.storage.undo import undo
from tests.derby.derby_fixtures import NAMES, storage_of

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
    assert manifest["command"] == "recover"
    assert take_back(storage, backup) > 3
    assert storage.contents() == before
    assert journal.read_manifest(backup)["state"] == journal.UNDONE


def test_undo_refuses_when_something_was_changed_since() -> None:
    storage, backup = storage_of(FIVE), MemoryStorage()
    recover(storage, backup=backup)
    file = storage.open_rw("seg0/c490.dat")
    file.write(5000, b"new")
    with pytest.raises(RefusedError, match="changed since"):
        undo(storage, backup)
    assert undo(storage, backup, force=True) > 0


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
        undo(storage_of(FIVE), MemoryStorage())


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
