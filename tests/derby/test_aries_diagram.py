"""The diagram of Derby's design document, transaction by transaction, and the checkpoint, step by step."""

from __future__ import annotations

import functools
from typing import NamedTuple

import pytest

from engine.derby.checkpoint import STEPS
from engine.derby.database import DerbyDatabase
from engine.derby.explain import RecordExplanation, explain
from engine.derby.format import control, instant, page, row
from engine.derby.format.operations.transaction import INTERNAL, Begin, CheckpointRecord, End
from engine.derby.log import DerbyLogFiles
from engine.derby.recovery.manager import recover
from engine.derby.store.page_store import PageStore
from engine.derby.store.transaction import StoreTransaction
from engine.storage.crash import COUNTED, CrashMode, CrashStorage, SimulatedCrashError
from tests.derby.derby_fixtures import storage_of
from tests.derby.store_workload import SMALL

FIVE = "crash-five-transactions"
UNDO_LWM, REDO_LWM = "(1,40674)", "(1,41652)"


class Life(NamedTuple):
    """A transaction as the redo pass sees it: its records' actions by instant, and its rows after recovery."""

    actions: dict[str, str]
    undone: set[str]


@functools.cache
def explained() -> tuple[RecordExplanation, ...]:
    return tuple(explain(storage_of(FIVE)))


@functools.cache
def rows_after() -> frozenset[int]:
    """The keys of the table in container 0x490 that are there after recovery."""
    storage = storage_of(FIVE)
    recover(storage)
    data = storage.contents()["seg0/c490.dat"]
    found = set()
    for start in range(4096, len(data), 4096):
        for stored in page.decode(data[start : start + 4096]).rows[1 if start == 4096 else 0 :]:
            one = row.decode_row(stored.record)
            if not one.header.deleted:
                found.add(int.from_bytes(one.fields[0].data or b"", "big", signed=True))
    return frozenset(found)


def life(number: int) -> Life:
    mine = [one for one in explained() if one.record.transaction == number]
    return Life(
        {instant.show(one.record.instant): one.action for one in mine},
        {instant.show(one.record.instant) for one in mine if one.undone},
    )


def test_transaction_1_begins_in_front_of_undo_lwm_and_ends_in_front_of_redo_lwm() -> None:
    """Its begin is not read, its end belongs to nobody; rows 10 and 11 are on disk."""
    found = life(193).actions
    assert found["(1,40512)"] == "unread"
    assert found["(1,41286)"] == "bookkeeping"
    assert set(found.values()) == {"unread", "bookkeeping", "in front"}
    assert {10, 11} <= rows_after()


def test_transaction_2_begins_at_undo_lwm_and_ends_behind_redo_lwm() -> None:
    found = life(194).actions
    assert next(iter(found)) == UNDO_LWM
    assert (found["(1,40710)"], found["(1,40777)"]) == ("in front", "in front")
    assert (found["(1,41924)"], found["(1,41991)"]) == ("redo", "redo")
    assert found["(1,42251)"] == "bookkeeping"
    assert {20, 21} <= rows_after()


def test_transaction_3_begins_and_ends_between_the_marks() -> None:
    found = life(195).actions
    assert [at for at, action in found.items() if action == "bookkeeping"] == ["(1,40836)", "(1,41482)"]
    assert "redo" not in found.values()
    assert {30, 31} <= rows_after()


def test_transaction_4_never_ends() -> None:
    """Its records after redoLWM are redone and then undone with all others: nine CLRs."""
    found = life(196)
    assert next(iter(found.actions)) == "(1,40998)"
    assert {"redo", "in front"} <= set(found.actions.values())
    assert len(found.undone) == 9
    result = recover(storage_of(FIVE))
    assert [(one.transaction, one.clrs) for one in result.undone] == [(196, 9)]
    assert instant.show(result.undo_from) == "(1,42645)"
    assert not {40, 41, 42} & rows_after()
    assert {0, 1} <= rows_after()


def test_transaction_5_takes_the_checkpoint() -> None:
    """Its record is written when everything is clean, though the action began at redoLWM."""
    found = life(198).actions
    assert list(found) == ["(1,41689)", "(1,41725)", "(1,41891)"]
    record = DerbyLogFiles(DerbyDatabase(storage_of(FIVE))).record(instant.parse("(1,41725)"))
    assert isinstance(record.operation, CheckpointRecord)
    marks = record.operation
    assert (instant.show(marks.undo_lwm), instant.show(marks.redo_lwm)) == (UNDO_LWM, REDO_LWM)
    assert len(rows_after()) == 12


class Seen(NamedTuple):
    """A counted operation of a checkpoint, the step that it belongs to, and where the log ended then."""

    what: str
    step: str
    end: int


class Watch:
    """Notes the operations of a checkpoint by its steps."""

    def __init__(self) -> None:
        self.now = ""
        self.seen: list[Seen] = []
        self.store: PageStore | None = None

    def step(self, name: str, done: int, total: int) -> None:
        assert done == STEPS.index(name)
        assert total == len(STEPS) == 8
        self.now = name

    def note(self, kind: str, path: str) -> None:
        assert kind in COUNTED
        if self.now and self.store is not None:
            self.seen.append(Seen(f"{kind} {path}", self.now.removeprefix("checkpoint."), self.store.end))

    def of(self, step: str) -> list[str]:
        return [one.what for one in self.seen if one.step == step]


class Taken(NamedTuple):
    """A store that has taken a checkpoint with a transaction open, and what was seen of it."""

    storage: CrashStorage
    store: PageStore
    watch: Watch
    first: int
    open_one: StoreTransaction


@pytest.fixture
def taken() -> Taken:
    watch = Watch()
    storage = CrashStorage(listener=watch.note)
    store = PageStore.create(storage, SMALL, log_file_bytes=100_000, listener=watch)
    store.create_table("t")
    open_one = store.begin()
    open_one.put("t", b"open", b"1")
    first = open_one.last_instant
    for number in range(11):
        store.put("t", b"%d" % number, b"x" * 9000)
    watch.now, watch.store = "", store
    store.checkpoint()
    watch.store = None
    return Taken(storage, store, watch, first, open_one)


def checkpoint_of(taken: Taken) -> tuple[int, CheckpointRecord]:
    database = DerbyDatabase(taken.storage.image(CrashMode.NO_FSYNC))
    at = database.controls().checkpoint
    operation = DerbyLogFiles(database).record(at).operation
    assert isinstance(operation, CheckpointRecord)
    return at, operation


def test_step_1_switches_the_log_when_it_is_long(taken: Taken) -> None:
    """New file, header, sync; end marker in the old one, sync; preallocation (R-DRB-11). Here a flush has done it."""
    assert taken.watch.of("switch") == []
    watch = Watch()
    storage = CrashStorage(listener=watch.note)
    store = watch.store = PageStore.create(storage, SMALL, log_file_bytes=100_000)
    store.create_table("t")
    with store.begin() as txn:
        txn.put("t", b"k", b"x" * 120_000)
    switched = [number for number in DerbyLogFiles(DerbyDatabase(storage)).numbers() if number > 1]
    assert switched == [2]
    assert DerbyLogFiles(DerbyDatabase(storage)).header(2).previous_end >> 32 == 1


def test_step_2_takes_a_number_and_logs_nothing(taken: Taken) -> None:
    at, _ = checkpoint_of(taken)
    assert taken.watch.of("transaction") == []
    log = DerbyLogFiles(DerbyDatabase(taken.storage.image(CrashMode.NO_FSYNC)))
    begin = log.record(at - 36)
    assert isinstance(begin.operation, Begin)
    assert begin.operation.status == INTERNAL


def test_step_3_gathers_the_marks(taken: Taken) -> None:
    """redoLWM is the end of the log, undoLWM the begin of the oldest open transaction; nothing is written."""
    _, marks = checkpoint_of(taken)
    assert taken.watch.of("gather") == []
    assert marks.undo_lwm < taken.first < marks.redo_lwm
    assert marks.redo_lwm == next(one.end for one in taken.watch.seen if one.step == "clean")


def test_step_4_cleans_the_cache(taken: Taken) -> None:
    """Copies first, then pages, then one sync for each container (R-DRB-21)."""
    done = taken.watch.of("clean")
    writes = [number for number, what in enumerate(done) if what.startswith("write seg0/")]
    syncs = [number for number, what in enumerate(done) if what.startswith("sync seg0/")]
    assert done.index("sync jetool.pages") < writes[0]
    assert writes[-1] < syncs[0]
    assert {what.split()[1] for what in done if "seg0" in what} >= {"seg0/c30.dat", "seg0/c31.dat"}


def test_step_5_logs_the_record_and_flushes(taken: Taken) -> None:
    at, marks = checkpoint_of(taken)
    assert [what.split("/")[0] for what in taken.watch.of("log")] == ["write log", "sync log"]
    assert at > marks.redo_lwm
    assert marks.table is not None
    assert len(marks.table) == 2


def test_step_6_writes_the_control_files_one_after_the_other(taken: Taken) -> None:
    """R-DRB-40: at any moment one of them is whole."""
    paths = ("log/log.ctrl", "log/logmirror.ctrl")
    assert taken.watch.of("control")[:4] == [f"{kind} {path}" for path in paths for kind in ("write", "sync")]
    data = taken.storage.image(CrashMode.NO_FSYNC).contents()
    assert control.decode(data[paths[0]]) == control.decode(data[paths[1]])


def test_step_7_writes_the_end_record_only(taken: Taken) -> None:
    """The checkpoint counts already; a crash here leaves an internal loser without work (R-DRB-25)."""
    at, _ = checkpoint_of(taken)
    log = DerbyLogFiles(DerbyDatabase(taken.storage.image(CrashMode.LOST_TAIL, 1)))
    record = log.record(at)
    # A group of its own: its checksum record, then the end.
    end = log.record(record.end + 37)
    assert isinstance(end.operation, End)
    assert end.transaction == record.transaction


def test_step_8_truncates_the_log(taken: Taken) -> None:
    """Files in front of the file of undoLWM go, once the transaction that held them has ended (R-DRB-24)."""
    assert DerbyLogFiles(DerbyDatabase(taken.storage)).numbers()[0] == taken.first >> 32 == 1
    assert not any(what.startswith("remove") for what in taken.watch.of("truncate"))
    taken.watch.store = taken.store
    taken.open_one.abort()
    removed = taken.store.checkpoint().log_files_removed
    assert removed[0] == 1
    assert [f"remove log/log{number}.dat" for number in removed] == [
        what for what in taken.watch.of("truncate") if what.startswith("remove")
    ]


@pytest.mark.parametrize("step", STEPS)
def test_a_stop_in_each_step_leaves_one_checkpoint_or_the_other(step: str) -> None:
    class Stop(Watch):
        armed = False

        def step(self, name: str, done: int, total: int) -> None:
            if self.armed and name == step:
                raise SimulatedCrashError(f"stopped at {step}")

    stop = Stop()
    storage = CrashStorage()
    store = PageStore.create(storage, SMALL, listener=stop)
    store.create_table("t")
    store.put("t", b"k", b"v")
    before = DerbyDatabase(storage).controls().checkpoint
    stop.armed = True
    with pytest.raises(SimulatedCrashError):
        store.checkpoint()
    image = storage.image(CrashMode.NO_FSYNC)
    after = DerbyDatabase(image).controls().checkpoint
    assert (after > before) == (STEPS.index(step) > STEPS.index("checkpoint.control"))
    with PageStore(image) as again:
        assert dict(again.scan("t")) == {b"k": b"v"}
