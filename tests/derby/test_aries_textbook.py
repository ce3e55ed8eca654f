"""Textbook ARIES on the same log: which records it would not read, would redo or skip, and why."""

from __future__ import annotations

import pytest

from engine.derby import explain, textbook
from engine.derby.database import DerbyDatabase
from engine.derby.format import instant
from engine.derby.store.page_store import PageStore
from engine.derby.textbook import TextbookComparison, compare
from engine.errors import UnsupportedError
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import NAMES, files_of, storage_of
from tests.derby.store_workload import SMALL

FIVE = "crash-five-transactions"


def by_instant(storage: MemoryStorage) -> dict[str, TextbookComparison]:
    return {instant.show(one.derby.record.instant): one for one in compare(storage)}


def test_the_documents_instants() -> None:
    found = by_instant(storage_of(FIVE))
    shown = {at: (found[at].derby.action, found[at].textbook, found[at].undo) for at in found}
    # T2 before the checkpoint: Derby reads it, textbook ARIES does not; after it both redo.
    assert shown["(1,40674)"] == ("bookkeeping", "unread", None)
    assert shown["(1,40710)"] == ("in front", "unread", None)
    assert shown["(1,41924)"] == ("redo", "redo", None)
    assert found["(1,41924)"].page_lsn == instant.parse("(1,41609)")
    # T4 is a loser: undo comes back to its records by prevLSN.
    assert shown["(1,41034)"] == ("in front", "unread", "undone")
    assert "by prevLSN" in found["(1,41034)"].reason
    assert shown["(1,42388)"] == ("redo", "redo", "undone")


def test_undo_jumps_over_what_is_compensated() -> None:
    """R-DRB-57: (1,211500) leads past the inserts (1,204939) to (1,210823) and their CLRs."""
    found = by_instant(storage_of("crash-mixed"))
    for at in ("(1,204939)", "(1,210823)", "(1,211019)", "(1,211500)"):
        assert found[at].undo == textbook.JUMPED
    assert found["(1,211543)"].undo == textbook.UNDONE
    assert found["(1,83758)"].undo == textbook.UNDONE


def test_a_page_that_was_written_early_is_skipped_by_its_lsn() -> None:
    """A small cache writes pages after the checkpoint; page LSN and page version say the same."""
    storage = CrashStorage()
    store = PageStore.create(storage, SMALL._replace(cache_pages=40))
    store.create_table("t")
    store.checkpoint()
    with store.begin() as txn:
        for number in range(300):
            txn.put("t", b"%d" % number, b"x" * 1500)
    found = list(compare(storage.image(CrashMode.LOST_TAIL, 3)))
    skipped = [one for one in found if one.textbook == textbook.SKIP]
    assert len(skipped) > 20
    assert all(one.derby.record.instant <= one.page_lsn for one in skipped)
    assert {one.derby.action for one in skipped} == {explain.SKIP}
    assert any(one.textbook == textbook.REDO for one in found)


@pytest.mark.parametrize("name", NAMES)
def test_both_redo_the_same_page_records(name: str) -> None:
    """Versions and LSNs differ in what they notice, not in what they redo."""
    for one in compare(storage_of(name)):
        if one.textbook in (textbook.REDO, textbook.SKIP):
            assert one.derby.action == one.textbook, instant.show(one.derby.record.instant)


def test_internal_transactions_would_be_nested_top_actions() -> None:
    storage = CrashStorage()
    store = PageStore.create(storage, SMALL)
    store.create_table("t")
    with store.begin() as txn:
        for number in range(200):
            txn.put("t", b"%03d" % number, b"x")
    found = list(compare(storage.image(CrashMode.NO_FSYNC)))
    assert any("dummy CLR" in one.reason for one in found)


def test_an_encrypted_database_is_named() -> None:
    files = dict(files_of(FIVE))
    files["service.properties"] += b"dataEncryption=true\n"
    with pytest.raises(UnsupportedError, match="encrypted"):
        list(compare(MemoryStorage(files)))
    assert DerbyDatabase(MemoryStorage(files)).encrypted
