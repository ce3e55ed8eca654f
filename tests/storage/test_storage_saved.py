"""Saved bytes: every kind of change is taken back; torn journals and damaged manifests are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import DamageError
from engine.storage import journal
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.storage.saved_bytes import SavingStorage
from engine.storage.undo import undo
from tests.support.environments.workload import Workload, open_env


def test_every_kind_of_change_is_taken_back() -> None:
    start = {"a/one": b"x" * 10_000, "a/two": b"two", "a/three": b"", "a/four": b"4" * 5}
    base, backup = MemoryStorage(dict(start)), MemoryStorage()
    saving = SavingStorage(base, backup, "test")
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
    saving.finish({})
    assert base.contents()["a/two"] == b"other"
    undo(base, backup)
    assert base.contents() == start


def test_torn_entry_at_the_end_is_ignored() -> None:
    base, backup = MemoryStorage({"f": b"a" * 9000}), MemoryStorage()
    saving = SavingStorage(base, backup, "test")
    saving.open_rw("f").write(0, b"b")
    whole = backup.contents()["saved.journal"]
    saving.open_rw("f").write(8500, b"b")
    assert [place.offset for place in journal.places_of(backup) if place.kind == journal.BYTES] == [0, 8192]
    for length in (len(whole) + 1, len(whole) + 40, len(whole) + 800):
        cut = MemoryStorage({"saved.journal": backup.contents()["saved.journal"][:length]})
        assert [place.kind for place in journal.places_of(cut)] == [journal.BYTES, journal.WRITTEN]


def test_blocks_are_saved_once() -> None:
    base, backup = MemoryStorage({"f": b"a" * 9000}), MemoryStorage()
    saving = SavingStorage(base, backup, "test")
    file = saving.open_rw("f")
    for at in range(0, 4096, 64):
        file.write(at, b"b")
    assert sum(place.kind == journal.BYTES for place in journal.places_of(backup)) == 1
    assert saving.saved_bytes < 4200 + 64 * 40
    assert file.size() == 9000


def test_damaged_manifest_is_reported() -> None:
    with pytest.raises(DamageError, match="manifest"):
        undo(MemoryStorage(), MemoryStorage({"manifest.json": b"{", "saved.journal": b""}))


def test_a_writer_that_begins_files_saves_no_bytes(tmp_path: Path) -> None:
    """New files get their names when they are whole; nothing that was there before goes with that."""
    (tmp_path / "env").mkdir()
    storage = DiskStorage(tmp_path / "env")
    with open_env(storage) as env:
        workload = Workload(3)
        workload.start(env)
    (tmp_path / "saved").mkdir()
    saving = SavingStorage(storage, DiskStorage(tmp_path / "saved"), "open for writing", undoable=False)
    with open_env(saving) as env:
        workload.run(env, 20)
        assert env.engine.stats().file_flips > 0
    assert not saving.touched
    assert not list((tmp_path / "saved").iterdir())
