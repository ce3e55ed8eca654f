"""Where Derby differs from textbook ARIES (section I of the behaviour document), one test each, with its instants."""

from __future__ import annotations

from typing import Any

import pytest

from engine.derby import explain
from engine.derby.cache import PageCache
from engine.derby.containers import Containers
from engine.derby.database import DerbyDatabase
from engine.derby.format import describe, instant, page, record
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import page as operations
from engine.derby.format.operations import registry
from engine.derby.format.operations.transaction import CheckpointRecord, Checksum
from engine.derby.format.record import Record
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.loggable import raised_by
from engine.derby.recovery.manager import recover
from engine.derby.recovery.redo import Redo
from engine.errors import DamageError
from engine.storage.memory import MemoryStorage
from tests.derby.derby_compare import assert_as_derby
from tests.derby.derby_fixtures import cut_of, files_of, json_of, records_of, storage_of

FIVE = "crash-five-transactions"


class NoLog:
    def before_pages(self) -> None:
        """Nothing is written to the log here."""


def at(text: str) -> int:
    return instant.parse(text)


def record_at(name: str, text: str) -> Record:
    return DerbyLogFiles(DerbyDatabase(storage_of(name))).record(at(text))


def redo_of(storage: MemoryStorage) -> tuple[Redo, PageCache, DerbyLogFiles]:
    database = DerbyDatabase(storage)
    log = DerbyLogFiles(database)
    cache = PageCache(Containers(database), NoLog())
    return Redo(log, cache), cache, log


def test_1_page_version_against_page_lsn() -> None:
    """Equal version: redo. Greater: skip. Less: a record is lost, which a page LSN would not show."""
    redo, cache, log = redo_of(storage_of(FIVE))
    home = cache.containers.find(ContainerKey(0, 0x490))
    assert home is not None
    target = cache.get(home, 1)
    assert target is not None
    assert target.version == 14
    redo.redo(log.record(at("(1,41609)")))
    assert (redo.skipped, target.version) == (1, 14)
    with pytest.raises(DamageError, match="has version 14, the record is for 15"):
        redo.redo(next(r for r in records_of(FIVE) if _on(r, 0x490, 1) and _version(r) == 15))
    redo.redo(log.record(at("(1,41924)")))
    assert (redo.applied, target.version) == (1, 15)


def _on(one: Record, container: int, number: int) -> bool:
    operation = one.operation
    return registry.is_page_operation(operation) and (operation.container, operation.page) == (container, number)


def _version(one: Record) -> int:
    assert registry.is_page_operation(one.operation)
    return one.operation.version


def test_1_versions_go_on_when_a_page_is_reused() -> None:
    """The init record of a reused page carries the version that the page had."""
    reused = [
        one
        for one in records_of("crash-log-files")
        if isinstance(one.operation, operations.InitPage) and one.operation.flags & operations.INIT_REUSE
    ]
    assert instant.show(reused[0].instant) == "(2,75261)"
    assert all(_version(one) > 0 for one in reused)


def test_2_no_dirty_page_table_no_analysis_pass() -> None:
    """The checkpoint wrote every page, so redo starts at redoLWM; the transaction table is never read."""
    one = record_at(FIVE, "(1,41725)")
    assert isinstance(one.operation, CheckpointRecord)
    assert one.operation._fields == ("redo_lwm", "undo_lwm", "truncation_points", "table")
    decided = {e.record.instant: e.action for e in explain.explain(storage_of(FIVE))}
    page_records = [r for r in records_of(FIVE) if registry.is_page_operation(r.operation)]
    assert {decided[r.instant] for r in page_records if r.instant < one.operation.redo_lwm} == {"unread", "in front"}


def test_2_the_transaction_table_in_the_record_is_not_read() -> None:
    """With other transactions in the table, and the group's checksum made to fit, recovery is the same."""
    one = record_at(FIVE, "(1,41725)")
    assert isinstance(one.operation, CheckpointRecord)
    assert one.operation.table is not None
    assert {entry.transaction for entry in one.operation.table} == {194, 196, 198}
    table = tuple(entry._replace(transaction=entry.transaction + 1000) for entry in one.operation.table)
    changed = record.encode(one._replace(operation=one.operation._replace(table=table)))
    assert len(changed) == one.end - one.instant
    files = dict(files_of(FIVE))
    log = bytearray(files["log/log1.dat"])
    log[41725 : 41725 + len(changed)] = changed
    guard = next(r for r in records_of(FIVE) if r.transaction is None and r.instant <= one.instant < _covered(r))
    start, end = instant.position_of(guard.end), instant.position_of(_covered(guard))
    log[start - 37 : start] = record.encode_checksum(guard.instant, bytes(log[start:end]))
    storage = MemoryStorage({**files, "log/log1.dat": bytes(log)})
    result = recover(storage)
    assert_as_derby(storage, result, json_of(FIVE, "manifest.json")["recovery"])


def _covered(guard: Record) -> int:
    """Instant after the group of a checksum record."""
    assert isinstance(guard.operation, Checksum)
    return guard.end + guard.operation.length


def test_3_undo_instant_against_undo_next() -> None:
    """A CLR names the record that it undid; what comes in front of that is undone next."""
    pairs = [("(1,211019)", "(1,210823)"), ("(1,211063)", "(1,210761)"), ("(1,211500)", "(1,204939)")]
    for clr, undone in pairs:
        found = record_at("crash-mixed", clr)
        assert found.undo_instant == at(undone)
    storage = storage_of("crash-mixed")
    recover(storage)
    log = DerbyLogFiles(DerbyDatabase(storage))
    mine = [r for r in ForwardScan(log, at("(1,212082)")) if r.transaction == 207 and r.undo_instant is not None]
    undone_now = [instant.show(r.undo_instant or 0) for r in mine[:5]]
    assert undone_now == ["(1,211755)", "(1,211683)", "(1,211621)", "(1,211543)", "(1,83758)"]
    # One of the two documented examples of a moved row: CLR (1,213865) for (1,82042).
    moved = log.record(at("(1,213865)"))
    assert moved.undo_instant == at("(1,82042)")
    assert moved.operation == operations.LogicalUndo(0, 1201, 7, 22, 24)
    assert log.record(at("(1,213995)")).operation == operations.LogicalUndo(0, 1201, 2, 205, 57)


def test_4_internal_transactions_against_nested_top_actions() -> None:
    """The split inside transaction 207 is transaction 208, with 209 for the new page; it stays when 207 is undone."""
    part = [r for r in records_of("crash-mixed") if at("(1,77507)") <= r.instant <= at("(1,82042)")]
    numbers = [r.transaction for r in part if r.transaction is not None]
    assert numbers[0] == 207
    assert numbers[-1] == 207
    assert set(numbers) == {207, 208, 209}
    split = [r for r in part if r.transaction == 208]
    assert instant.show(split[0].instant) == "(1,77727)"
    assert all(not getattr(r.operation, "logical", False) for r in split)
    storage = storage_of("crash-mixed")
    result = recover(storage)
    assert 208 not in [one.transaction for one in result.undone]
    assert any(isinstance(r.operation, operations.CopyRows) for r in split)


def test_5_internal_losers_are_undone_first() -> None:
    """crash-log-files cut at (4,11331): 417 is internal and goes before the younger 418."""
    cuts: list[dict[str, Any]] = json_of("crash-log-files", "cuts.json")["cuts"]
    cut = next(c for c in cuts if c["first_lost_record"] == "(4,11331)")
    result = recover(cut_of("crash-log-files", cut))
    assert [(one.transaction, one.internal) for one in result.undone] == [
        (417, True),
        (418, False),
        (414, False),
        (404, False),
        (392, False),
    ]


def test_6_the_end_of_the_log_is_found_not_known() -> None:
    """Any byte of the last group decides where the log ends."""
    files = dict(files_of(FIVE))
    for position in range(42284, 42645, 19):
        log = bytearray(files["log/log1.dat"])
        log[position] ^= 0x10
        database = DerbyDatabase(MemoryStorage({**files, "log/log1.dat": bytes(log)}))
        end = ForwardScan(DerbyLogFiles(database), at("(1,40674)")).run()
        assert instant.show(end.append) == "(1,42284)"
        assert end.fuzzy


def test_7_records_are_logical_within_a_page() -> None:
    """Slots and record ids, whole row images; an update carries the changed columns only."""
    one = record_at(FIVE, "(1,42176)")
    assert isinstance(one.operation, operations.Update)
    images = [part for part in _rows(one) if hasattr(part, "fields")]
    changed = [[not field.unchanged for field in image.fields] for image in images]
    assert changed == [[False, True, False], [False, True, False]]
    purge = next(r for r in records_of("crash-mixed") if isinstance(r.operation, operations.Purge))
    assert isinstance(purge.operation, operations.Purge)
    assert raised_by(purge.operation) == len(purge.operation.record_ids) > 1


def _rows(one: Record) -> list[Any]:
    return list(describe.images(one))


def test_pages_of_the_fixture_are_what_the_examples_say() -> None:
    image = files_of(FIVE)["seg0/c490.dat"][4096:8192]
    assert page.decode(image).header.version == 14
