"""Recovery interrupted at every counted change, then run again: the same database."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.database_info import gather
from engine.derby.format import instant
from engine.derby.recovery.manager import recover, take_back
from engine.errors import RefusedError, StorageError
from engine.storage import journal
from engine.storage.memory import MemoryStorage
from tests.derby.derby_compare import assert_as_derby, log_part, logged_content
from tests.derby.derby_fixtures import NAMES, cut_of, json_of, storage_of
from tests.support.damage.stopping_storage import StoppingStorage

pytestmark = pytest.mark.exhaustive

CRASHED = NAMES[1:]


def whole(start: MemoryStorage) -> tuple[MemoryStorage, int]:
    """The result of a run without interruption, and how many changes it makes."""
    counted = StoppingStorage(start)
    recover(counted)
    return start, counted.changes


def interrupted(start: MemoryStorage, at: int, torn_bytes: int = 0, backup: MemoryStorage | None = None) -> None:
    with pytest.raises(StorageError, match="fault injected"):
        recover(StoppingStorage(start, at, torn_bytes), backup=backup)


def assert_same(again: MemoryStorage, reference: MemoryStorage, expected: dict[str, Any]) -> None:
    assert logged_content(again) == logged_content(reference)
    assert log_part(again, expected["undo_part"]) == expected["undo_part"]["sha256"]
    analysis = gather(DerbyDatabase(again)).analysis
    assert analysis is not None
    assert analysis.clean


class Watched(StoppingStorage):
    """Shows what a crash in front of each change would leave."""

    def __init__(self, base: MemoryStorage, look: Callable[[MemoryStorage], None]) -> None:
        super().__init__(base)
        self._memory = base
        self._look = look

    def count(self, what: str) -> None:
        self._look(MemoryStorage(self._memory.contents(), root=self._memory.root))
        super().count(what)


def assert_recovers_from_every_image(start: Callable[[], MemoryStorage], expected: dict[str, Any]) -> int:
    """One run, and a recovery from what is there in front of each of its changes; how many there were."""
    reference, changes = whole(start())

    def again(image: MemoryStorage) -> None:
        recover(image)
        assert_same(image, reference, expected)

    recover(Watched(start(), again))
    return changes


@pytest.mark.parametrize("name", [n for n in CRASHED if n != "crash-log-files"])
def test_interrupted_at_every_change(name: str) -> None:
    expected = json_of(name, "manifest.json")["recovery"]
    assert assert_recovers_from_every_image(lambda: storage_of(name), expected) >= 8


@pytest.mark.slow
def test_interrupted_at_every_change_of_the_largest() -> None:
    name = "crash-log-files"
    expected = json_of(name, "manifest.json")["recovery"]
    assert assert_recovers_from_every_image(lambda: storage_of(name), expected) > 50


@pytest.mark.slow
@pytest.mark.parametrize("name", ["crash-ddl", "crash-five-transactions", "crash-mixed", "crash-log-files"])
def test_cuts_interrupted_at_every_change(name: str) -> None:
    for cut in json_of(name, "cuts.json")["cuts"]:
        assert assert_recovers_from_every_image(partial(cut_of, name, cut), cut["expected"]) >= 8


@pytest.mark.parametrize("torn_bytes", [pytest.param(1, marks=pytest.mark.slow), 1000])
@pytest.mark.parametrize("name", [n for n in CRASHED if n != "crash-log-files"])
def test_torn_writes_with_saved_bytes(name: str, torn_bytes: int) -> None:
    """The interrupted run is taken back, then every file ends byte for byte as without interruption."""
    reference, changes = whole(storage_of(name))
    for at in range(changes):
        storage, backup = storage_of(name), MemoryStorage()
        interrupted(storage, at, torn_bytes, backup)
        # Without a manifest nothing was changed; once it says "done" only the lock file was left to remove.
        if journal.read_manifest(backup).get("state") == journal.RUNNING:
            if journal.pending_in(storage) is None:
                with pytest.raises(RefusedError, match="before it changed anything"):
                    take_back(storage, backup)
            else:
                take_back(storage, backup)
            assert storage.contents() == storage_of(name).contents()
        recover(storage)
        assert storage.contents() == reference.contents()


@pytest.mark.parametrize("name", [n for n in CRASHED if n != "crash-log-files"])
def test_torn_log_writes_without_saved_bytes(name: str) -> None:
    """A torn group fails its checksum, and the next recovery writes it again."""
    expected = json_of(name, "manifest.json")["recovery"]
    reference, changes = whole(storage_of(name))
    for at in range(changes):
        storage = storage_of(name)
        before = storage.contents()
        interrupted(storage, at, 30)
        torn = {path for path, data in storage.contents().items() if before.get(path) != data}
        if not any(path.startswith("seg0/") for path in torn):
            recover(storage)
            assert_same(storage, reference, expected)


def test_undo_order_after_an_interruption_skips_what_is_done() -> None:
    """R-DRB-57: a loser that was rolled back completely is not a loser any more."""
    storage = storage_of("crash-mixed")
    interrupted(storage, 2)
    result = recover(storage)
    left = [one.transaction for one in result.undone]
    assert left in ([251, 207], [207], [])
    expected = json_of("crash-mixed", "manifest.json")["recovery"]
    assert log_part(storage, expected["undo_part"]) == expected["undo_part"]["sha256"]


def test_checkpoint_without_its_control_file_is_an_internal_loser() -> None:
    """R-DRB-25: stopped between steps 5 and 6."""
    name = "crash-five-transactions"
    reference, changes = whole(storage_of(name))
    orders = set()
    for at in range(changes):
        storage = storage_of(name)
        interrupted(storage, at)
        orders.add(tuple((one.transaction, one.internal) for one in recover(storage).undone))
    assert ((201, True),) in orders
    assert instant.show(gather(DerbyDatabase(reference)).controls.checkpoint) == "(1,43174)"
    assert_as_derby(reference, recover(reference, dry_run=True)._replace(undone=()), {"undo_order": []})
