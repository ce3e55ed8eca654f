"""Extinction: removing data without a deletion for each record (R-REC-61, R-CLN-53, je-log-format.md 10.4).

``_jeExtinctScansDb`` holds a record for each task that is not finished. Since JE 18 there are two kinds.

**Databases** that JE removes lose their name at once, and their MapLN when a background scan has counted their entries
as obsolete. If the process stops in between, the next process that opens the environment finishes the removal: this
program deletes the MapLN and the task.

Example: ``NameLN_TX (deleted) | Commit | ExtinctScanLN_TX 80: database 7 | Commit | CkptStart .. CkptEnd``, crash. The
deletion of the name precedes the checkpoint, so recovery does not see it; the task leads to database 7.

**Ranges of records** (JE's discardExtinctRecords): the application promises never to use these keys again. Only the
task is logged, in a transaction of the caller: databases, the first key and the key after the last. When it has
committed:

1. The size of the records is counted as obsolete, by file, without offsets. The counters are logged first and the task
   is marked as counted second: a crash in between counts twice, which costs some work; the reverse order would lose
   space for ever.
2. Their slots are marked known deleted, and removed when their nodes are compressed. Slots of locked records wait.
3. The next checkpoint logs the nodes. When it has ended the task is deleted.

A process that opens an environment with tasks, from this program or from JE, continues them, at step 2 if step 1 was
done. A task of JE may have a filter, a serialized Java object that selects keys of the range;
``EnvironmentConfig.extinction_filters`` maps the name of its class to an equivalent. A task with an unknown filter is
left for JE, and its records can be read until then.

**In a replication group** the task of a range is an entry of the stream, with a negative id. Every node discards its
own records when it has replayed the Commit. Later changes of the task's record are local to the node, as is everything
about the removal of a database.

Example: ``ExtinctScanLN_TX 3: database 5 [a, c) | Commit | FileSummaryLN | ExtinctScanLN_TX 3: counted | Commit |
CkptStart .. BIN .. CkptEnd | ExtinctScanLN_TX 3 (deleted) | Commit``.
"""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import DatabaseOptions, NamingOperations
from engine.checkpoint.checkpointer import Checkpointer
from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import ExtinctionStatus
from engine.errors import DamageError, FormatError
from engine.format.bytecursor import PREFIX_ONLY, sorted_pack, sorted_unpack, split_two_part_key
from engine.format.entry.internal_db import (
    DatabaseExtinction,
    RecordExtinction,
    decode_extinct_scan,
    encode_extinct_scan,
)
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import EXTINCT_SCAN_LN, EXTINCT_SCAN_LN_TX
from engine.format.lsn import file_of, is_null
from engine.tree.apply import covering
from engine.tree.bin_node import BIN
from engine.tree.compress import tidy
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key, comparator_name
from engine.tree.tree import bins, child_of, root_of, slot_data
from engine.txn.locks import LockTable
from engine.txn.manager import TxnManager
from engine.txn.payload import LeafKind, Payload, PutMode
from engine.txn.records import Records
from engine.txn.txn import Durability, Txn

DATABASE_NAME: Final = "_jeExtinctScansDb"
EXTINCT_SCAN: Final = LeafKind(
    insert=EXTINCT_SCAN_LN,
    insert_tx=EXTINCT_SCAN_LN_TX,
    update=EXTINCT_SCAN_LN,
    update_tx=EXTINCT_SCAN_LN_TX,
    delete=EXTINCT_SCAN_LN,
    delete_tx=EXTINCT_SCAN_LN_TX,
    embeds=False,
)

# Called with the serialized filter and a key (in an index: the primary key); returns whether the record is discarded.
ScanFilter = Callable[[bytes, bytes], bool]
_Work = Callable[[BIN, list[int]], None]


class ExtinctionParts(NamedTuple):
    """The parts that tasks use; ``between`` is called when no node is in use."""

    ctx: TreeContext
    catalog: Catalog
    naming: NamingOperations
    records: Records
    txns: TxnManager
    locks: LockTable
    utilization: UtilizationTracker
    checkpointer: Checkpointer
    filters: Mapping[str, ScanFilter]
    between: Callable[[], None]


class Extinctions:
    """The tasks of one environment that is open for writing; a checkpoint participant."""

    def __init__(self, parts: ExtinctionParts) -> None:
        self._parts = parts
        self._running = threading.Lock()
        # Tasks whose records are discarded in memory; the next checkpoint makes that durable.
        self._discarded: set[int] = set()
        self._handed_over: set[int] = set()

    def finish_removals(self) -> None:
        """Finish the removal of databases that have already lost their name."""
        parts = self._parts
        for task_id, task in self._all():
            # If the database still has a name, its removal has not committed, and the database stays.
            if isinstance(task, RecordExtinction) or parts.naming.names_of(task.db_id):
                continue
            db = parts.catalog.by_id(task.db_id)
            if db is not None:
                # Delete the MapLN before the task: after a crash in between, only the task is left to delete.
                parts.naming.finish_removal(db)
            self._write(task_id, Payload(None, EXTINCT_SCAN))

    def add(self, task: RecordExtinction, locker: Txn) -> int:
        """Write a task; ``run`` finds it once its transaction has committed. Returns its id."""
        parts = self._parts
        with parts.ctx.latch:
            ids = parts.checkpointer.ids
            if locker.id < 0:
                task_id = min([ids.replicated_extinction, *self.tasks()]) - 1
            else:
                task_id = max([ids.extinction, *self.tasks()]) + 1
            self.note(task_id)
        payload = Payload(encode_extinct_scan(task), EXTINCT_SCAN)
        parts.records.put(self._database(), sorted_pack(task_id), payload, locker, PutMode.INSERT_ONLY)
        return task_id

    def note(self, task_id: int) -> None:
        """Note that an id is in use: new tasks here get other ids, even if this node becomes the master later."""
        parts, checkpointer = self._parts, self._parts.checkpointer
        with parts.ctx.latch:
            ids = checkpointer.ids
            checkpointer.ids = ids._replace(
                extinction=max(ids.extinction, task_id), replicated_extinction=min(ids.replicated_extinction, task_id)
            )

    def tasks(self) -> dict[int, RecordExtinction]:
        """The ranges by task id whose tasks have committed and are not finished."""
        return {task_id: task for task_id, task in self._all() if isinstance(task, RecordExtinction)}

    def run(self) -> None:
        """Discard the unlocked records of all tasks; only one thread does this at a time."""
        if not self._running.acquire(blocking=False):
            return
        try:
            for task_id, task in self.tasks().items():
                if task_id in self._discarded or not self._is_known(task):
                    continue
                if not task.count_complete:
                    self._count(task)
                    counted = Payload(encode_extinct_scan(task._replace(count_complete=True)), EXTINCT_SCAN)
                    self._write(task_id, counted)
                if self._discard(task):
                    self._discarded.add(task_id)
        finally:
            self._running.release()

    # The methods of a checkpoint participant.

    def checkpoint_begins(self) -> bool:
        """Discard records that were locked at the last attempt. Returns False: this participant releases no file."""
        self.run()
        self._handed_over = set(self._discarded)
        return False

    def checkpoint_started(self) -> None:
        """Nothing has to be made consistent."""

    def before_checkpoint_end(self) -> None:
        """The tasks are needed until CkptEnd is durable."""

    def checkpoint_ended(self) -> None:
        """Delete the tasks whose changed nodes are in the log now."""
        for task_id in sorted(self._handed_over):
            self._write(task_id, Payload(None, EXTINCT_SCAN))
            self._discarded.discard(task_id)
        self._handed_over = set()

    def _all(self) -> list[tuple[int, RecordExtinction | DatabaseExtinction]]:
        parts = self._parts
        with parts.ctx.latch:
            # Locked task records have not committed.
            return _tasks(parts.ctx, parts.catalog, parts.locks.is_free)

    def _is_known(self, task: RecordExtinction) -> bool:
        """Whether the filter and the orders of keys are known, and so the records that the task covers."""
        if task.filter is not None and comparator_name(task.filter) not in self._parts.filters:
            return False
        with self._parts.ctx.latch:
            dbs = [self._parts.catalog.by_id(db_id) for db_id in task.db_ids]
        # Without an order of keys there are no ranges.
        return all(db is None or db.order.learned is None for db in dbs)

    def _goes(self, task: RecordExtinction, node: BIN, index: int) -> bool:
        """Whether the record of a slot in the range is discarded."""
        if task.filter is None:
            return True
        key = _primary_key(node.db, node.keys[index])
        return self._parts.filters[comparator_name(task.filter) or ""](task.filter, key)

    def _count(self, task: RecordExtinction) -> None:
        sizes: Counter[tuple[int, int]] = Counter()

        def work(node: BIN, indexes: list[int]) -> None:
            # Embedded records, and records that are only a key, were obsolete from the start (R-CLN-5).
            if not node.db.duplicates:
                for index in indexes:
                    if not node.states[index] & SLOT_EMBEDDED and not is_null(node.lsns[index]):
                        sizes[file_of(node.lsns[index]), node.sizes[index]] += 1

        self._walk(task, work)
        utilization = self._parts.utilization
        with self._parts.ctx.latch:
            for (number, size), records in sizes.items():
                if utilization.counts(number):
                    for _ in range(records):
                        utilization.counters(number).count_obsolete_ln(size, None)
        for number in sorted({number for number, _ in sizes}):
            if utilization.counts(number):
                utilization.log_if_changed(number)

    def _discard(self, task: RecordExtinction) -> bool:
        """Mark the slots known deleted; returns whether no slot is left to mark."""
        parts, locked = self._parts, 0

        def work(node: BIN, indexes: list[int]) -> None:
            nonlocal locked
            for index in indexes:
                if parts.locks.is_free(node.lsns[index]):
                    node.set_known_deleted(index)
                    # A delta would keep them in the log (R-TREE-32).
                    node.no_delta = True
                else:
                    locked += 1
            if not node.pins:
                tidy(parts.ctx, node)

        self._walk(task, work)
        return not locked

    def _walk(self, task: RecordExtinction, work: _Work) -> None:
        """Apply work to the chosen slots of each bottom node, holding the latch for one node at a time."""
        ctx = self._parts.ctx
        for db_id in task.db_ids:
            with ctx.latch:
                db = self._parts.catalog.by_id(db_id)
            # The database has been removed meanwhile.
            if db is None:
                continue
            at = None if task.begin_key is None else _first_of(db, task.begin_key)
            end = None if task.end_key is None else _first_of(db, task.end_key)
            more = True
            while more:
                with ctx.latch:
                    node, bound = _leaf(ctx, db, at) if not db.deleted else (None, None)
                    if node is not None:
                        first = 0 if at is None else bisect_left(node.keys, at)
                        last = len(node) if end is None else bisect_left(node.keys, end)
                        indexes = [i for i in range(first, last) if node.is_live(i) and self._goes(task, node, i)]
                        if indexes:
                            work(node, indexes)
                more = bound is not None and (end is None or bound < end) and (at is None or at < bound)
                at = bound
                self._parts.between()

    def _write(self, task_id: int, payload: Payload) -> None:
        """Change or delete the record of a task, outside the stream of a group."""
        parts, state, key = self._parts, self._database(), sorted_pack(task_id)
        txn = parts.txns.begin(durability=Durability.NO_SYNC)
        if payload.data is None:
            parts.records.delete(state, key, txn, payload)
        else:
            parts.records.put(state, key, payload, txn, PutMode.UPDATE_ONLY)
        parts.txns.commit(txn)

    def _database(self) -> DatabaseState:
        """The database of tasks. It is created if it is missing, as in environments of JE releases without such tasks;
        in a group the master has created it.
        """
        parts = self._parts
        with parts.ctx.latch:
            state = parts.catalog.by_name(DATABASE_NAME)
        if state is None:
            txn = parts.txns.begin(durability=Durability.NO_SYNC)
            state = parts.naming.create(DATABASE_NAME, DatabaseOptions(), txn, internal=True)
            parts.txns.commit(txn)
        return state


class ExtinctRecords:
    """Determines which records are gone, or may be, although slots still lead to them.

    JE's cleaner drops records of a discarded range as soon as the application's filter names them; their slots stay
    until the scan reaches them. If the process ends in between, these slots lead into missing files.

    Arguments:
        ctx, catalog: the environment.
        status: the answer of the application (``EnvironmentConfig.extinction_status``).
    """

    def __init__(
        self, ctx: TreeContext, catalog: Catalog, status: Callable[[str, bytes], ExtinctionStatus] | None = None
    ) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._status = status
        self._ranges: dict[int, list[RecordExtinction]] | None = None

    def are_gone(self, db: DatabaseState, key: Key) -> bool:
        """Whether the application reports a record as extinct."""
        return self._ask(db, key) is ExtinctionStatus.EXTINCT

    def may_be_gone(self, db: DatabaseState, key: Key) -> bool:
        """Whether a record may be extinct: the application does not deny it, or an unfinished task covers it.

        A task with a filter of JE covers its whole range.
        """
        if self._ask(db, key) is not ExtinctionStatus.NOT_EXTINCT:
            return True
        if self._ranges is None:
            self._ranges = self._unfinished()
        return db.order.learned is None and any(
            (task.begin_key is None or _first_of(db, task.begin_key) <= key)
            and (task.end_key is None or key < _first_of(db, task.end_key))
            for task in self._ranges.get(db.id, ())
        )

    def _ask(self, db: DatabaseState, key: Key) -> ExtinctionStatus:
        if self._status is None or db.internal:
            return ExtinctionStatus.NOT_EXTINCT
        return self._status(db.name or "", _primary_key(db, key))

    def _unfinished(self) -> dict[int, list[RecordExtinction]]:
        found: dict[int, list[RecordExtinction]] = {}
        # A task that cannot be read covers nothing.
        with self._ctx.latch, contextlib.suppress(DamageError):
            for _, task in _tasks(self._ctx, self._catalog, lambda _: True):
                if isinstance(task, RecordExtinction):
                    for db_id in task.db_ids:
                        found.setdefault(db_id, []).append(task)
        return found


def _tasks(
    ctx: TreeContext, catalog: Catalog, is_free: Callable[[int], bool]
) -> list[tuple[int, RecordExtinction | DatabaseExtinction]]:
    """The tasks by id whose record version is not locked; the caller holds the latch."""
    found, state = [], catalog.by_name(DATABASE_NAME)
    for node in () if state is None else bins(ctx, state):
        for index in range(len(node)):
            if not node.is_live(index) or not is_free(node.lsns[index]):
                continue
            try:
                task = decode_extinct_scan(slot_data(ctx, node, index) or b"")
            except (FormatError, IndexError):
                continue
            found.append((sorted_unpack(node.keys[index])[0], task))
    return found


def _primary_key(db: DatabaseState, key: Key) -> bytes:
    """The key by which an application knows a record; in an index the key of the primary record."""
    stored = db.order.unwrap(key)
    return split_two_part_key(stored)[1] if db.duplicates else stored


def _first_of(db: DatabaseState, key: bytes) -> Key:
    """The smallest comparable key of the records of a key."""
    return db.order.wrap(key + PREFIX_ONLY)[:1] if db.duplicates else db.order.wrap(key)


def _leaf(ctx: TreeContext, db: DatabaseState, key: Key | None) -> tuple[BIN | None, Key | None]:
    """The bottom node of a key, or the first one, and the key at which the next node begins."""
    if key is not None:
        return covering(ctx, db, key)
    node, bound = root_of(ctx, db), None
    while node is not None and not isinstance(node, BIN):
        if len(node.keys) > 1:
            bound = node.keys[1]
        node = child_of(ctx, node, 0)
    return node, bound
