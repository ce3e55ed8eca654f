"""Replay: applies the master's entries to a replica, one by one (R-SYNC-12, R-TXN-26).

* An LN joins the transaction that it names, which begins with its first LN; a Commit or Abort ends it. The entry in the
  replica's log has the same VLSN, type, transaction, key, data and expiration as the master's, but LSNs and abort
  information of the replica.
* Replay transactions are importunate: a reader with a conflicting lock loses it.
* Entries must come in VLSN order without a gap, and must fit the local records: the deletion of a missing record means
  that the nodes have diverged. That is damage and is never skipped.
* Masters log *null transactions*: a Commit without an LN, which carries the DTVLSN. A Commit of an unknown transaction
  is a null transaction: all earlier VLSNs were received, and no LN named that transaction. An Abort of an unknown
  transaction is only logged: after a transfer a node of JE may have open transactions that exist on no other node, and
  it aborts them when it is master again.
* A range of records discarded by the master is discarded here when its transaction commits (R-CLN-53).
* Commits are made durable in batches by ``sync``; only then may they be acknowledged.

Example: ``INS_LN_TX VLSN 28 txn -23 key 1`` makes transaction -23 here too and logs the LN at this node's next LSN;
``Commit VLSN 30 txn -23 master 1 dtvlsn 27`` logs the same Commit with the LSN of the last LN here.
"""

from __future__ import annotations

import threading
import time
from typing import Final, NamedTuple

from engine.catalog.name_replay import replay_name
from engine.db.engine import Engine
from engine.errors import DamageError
from engine.format.codecs import Record, encode_body
from engine.format.entry.ln import BEFORE_IMAGE, LN, TOMBSTONE
from engine.format.entry.ln_content import NameLN
from engine.format.entry.txn_end import LAST_TERM, PRE_TERM, TxnEnd
from engine.format.entry_types import (
    BY_NUMBER,
    COMMIT,
    EXTINCT_SCAN_LNS,
    MATCHPOINT,
    STREAM_RECORDS,
    TXN_ENDS,
    plain_type,
    type_name,
)
from engine.format.lsn import NULL_LSN
from engine.format.versions import BEFORE_IMAGES, LN_KEY_FIRST
from engine.format.vlsn import NULL_VLSN
from engine.tree.bin_node import times_from
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import find_bin
from engine.txn.payload import EntryMarks, LeafKind, Payload, PutMode
from engine.txn.txn import Durability, StreamEnd, Txn

_LOCK_TIMEOUT_MS: Final = 500
_KINDS: Final = {
    n: LeafKind(insert=n, insert_tx=n, update=n, update_tx=n, delete=n, delete_tx=n, embeds=n in STREAM_RECORDS)
    for n in BY_NUMBER
}


class StreamRecord(NamedTuple):
    """An entry of the stream, of any log version; the record is empty if it is malformed."""

    vlsn: int
    type_number: int
    record: Record


class Replay:
    """Applies the stream to one environment; used by one thread.

    Arguments:
        engine: detached, recovered, its VLSN index at the matchpoint.

    Attributes:
        master_vlsn: the last known VLSN of the master.
        dtvlsn: the highest DTVLSN seen.
        master_term: the term in the last Commit or Abort; 0 before.
    """

    def __init__(self, engine: Engine) -> None:
        assert engine.vlsn_index is not None
        assert engine.writer is not None
        self._engine = engine
        self._version = engine.writer.version
        self._index = engine.vlsn_index
        self._arrived = threading.Condition()
        self.applied = self._index.range.last
        self.master_vlsn = self.dtvlsn = NULL_VLSN
        self.master_term = 0
        self._unsynced = False
        for txn in engine.open_transactions():
            if txn.id < 0:
                engine.ends.restore(txn)

    @property
    def next_vlsn(self) -> int:
        """The expected next VLSN."""
        return 1 if self._index.range.is_empty else self._index.range.last + 1

    def redo(self, entry: StreamRecord) -> None:
        """Do one record again.

        Raises:
            DamageError: the entry is not the next one, or does not fit the local records.
            StorageError: the log cannot be written.
        """
        if entry.vlsn != self.next_vlsn:
            raise self._parted(entry, f"VLSN {self.next_vlsn} has to come next")
        record = entry.record
        if isinstance(record, TxnEnd):
            self._end(entry, record)
        elif isinstance(record, LN) and record.txn_id is not None and record.txn_id < 0 and entry.type_number in _KINDS:
            self._write(entry, record)
        elif entry.type_number == MATCHPOINT:
            self._log(entry)
        else:
            raise self._parted(entry, "an entry of this type is no part of a stream")
        self._unsynced = True
        self._engine.after_write()

    def sync(self) -> int:
        """Make everything durable and wake waiting readers; returns the last VLSN."""
        if self._unsynced:
            # Sync before readers are woken: entries that readers see must survive a crash.
            self._engine.sync()
            self._unsynced = False
        with self._arrived:
            self.applied = self._index.range.last
            self._arrived.notify_all()
        return self.applied

    def await_vlsn(self, vlsn: int, timeout_s: float) -> bool:
        """Wait until a VLSN has been replayed, for readers that must see a certain commit.

        Returns:
            False after ``timeout_s`` seconds.
        """
        deadline = time.monotonic() + timeout_s
        with self._arrived:
            while self.applied < vlsn:
                left = deadline - time.monotonic()
                if left <= 0 or not self._arrived.wait(left):
                    return self.applied >= vlsn
        return True

    def _write(self, entry: StreamRecord, record: LN) -> None:
        engine, txn = self._engine, self._txn(record)
        txn.vlsn = entry.vlsn
        kind = _KINDS[plain_type(entry.type_number) if self._version < BEFORE_IMAGES else entry.type_number]
        if isinstance(record.content, NameLN):
            self._check_unlocked(entry, engine.catalog.naming, record.key, txn)
            applied = replay_name(engine.naming, record, record.content, txn, engine.ends.at_end)
        else:
            with engine.latch:
                state = engine.catalog.by_id(record.db_id)
            if state is None:
                raise self._parted(entry, f"there is no database {record.db_id}")
            key = state.order.wrap(record.key)
            self._check_unlocked(entry, state, key, txn)
            times = times_from(record.modification_time, record.creation_time)
            shared = record.flags2 & (TOMBSTONE | BEFORE_IMAGE)
            marks = EntryMarks(times, shared) if self._version >= LN_KEY_FIRST else None
            # The tail of a before-image entry goes with its type.
            tail = record.tail if kind.update_tx == entry.type_number else None
            payload = Payload(record.data, kind, record.expiration, record.content, tail, marks=marks)
            if record.data is None:
                applied = engine.records.delete(state, key, txn, payload)
            else:
                applied = engine.records.put(state, key, payload, txn, PutMode.OVERWRITE)
            if entry.type_number in EXTINCT_SCAN_LNS:
                engine.ends.await_discard(record.key, txn)
        if not applied:
            raise self._parted(entry, "the record that it changes is not there, or is there already")

    def _check_unlocked(self, entry: StreamRecord, state: DatabaseState, key: Key, txn: Txn) -> None:
        """Refuse a record that another transaction of the stream has locked.

        The master's locks make such a conflict impossible. Only this thread could end the other transaction, so waiting
        for its lock would never end.
        """
        engine = self._engine
        # This lock can only conflict with readers, which lose theirs (R-TXN-26).
        if len(engine.open_transactions()) < 2:
            return
        with engine.latch:
            node = find_bin(engine.ctx, state, key)
            index, exact = node.find(key) if node is not None else (0, False)
            lsn = node.lsns[index] if node is not None and exact else NULL_LSN
        for owner, _ in engine.locks.owners(lsn) if lsn != NULL_LSN else ():
            if owner.id < 0 and owner is not txn:
                raise self._parted(entry, f"transaction {owner.id} has the record locked")

    def _end(self, entry: StreamRecord, record: TxnEnd) -> None:
        engine = self._engine
        # A master of a version without terms gives none; a value outside of the range would stop JE at this log.
        term = record.master_term or PRE_TERM
        if record.id < 0 and not PRE_TERM <= term <= LAST_TERM:
            raise self._parted(entry, f"no master has the term {term}")
        txn = engine.open_transaction(record.id)
        if txn is None and entry.type_number in TXN_ENDS and record.id < 0:
            engine.txns.note_replicated(record.id)
            self._ended(record, term)
            self._log(entry._replace(record=record._replace(last_lsn=NULL_LSN, master_term=term)))
            return
        if txn is None or txn.last_lsn == NULL_LSN or entry.type_number not in TXN_ENDS:
            raise self._parted(entry, f"no entry of transaction {record.id} is here")
        txn.vlsn = entry.vlsn
        txn.end = StreamEnd(record.time, record.master_id, record.dtvlsn, term)
        self._ended(record, term)
        if entry.type_number == COMMIT:
            # ``sync`` makes the whole batch durable before it is acknowledged.
            engine.commit(txn, Durability.NO_SYNC)
        else:
            engine.abort(txn)

    def _ended(self, record: TxnEnd, term: int) -> None:
        self.dtvlsn = max(self.dtvlsn, record.dtvlsn)
        self.master_term = term

    def _log(self, entry: StreamRecord) -> None:
        """Log an entry that belongs to no transaction open here."""
        writer = self._engine.writer
        assert writer is not None
        writer.log_in_stream(
            entry.type_number, encode_body(entry.type_number, writer.version, entry.record), entry.vlsn
        )

    def _txn(self, record: LN) -> Txn:
        assert record.txn_id is not None
        txn = self._engine.open_transaction(record.txn_id)
        if txn is None:
            txn = Txn(record.txn_id, durability=Durability.NO_SYNC, lock_timeout_ms=_LOCK_TIMEOUT_MS)
            self._engine.txns.adopt(txn)
        return txn

    def _parted(self, entry: StreamRecord, found: str) -> DamageError:
        return DamageError(
            f"the stream does not fit this node: VLSN {entry.vlsn} {type_name(entry.type_number)}",
            file=self._engine.home,
            found=found,
            consequence="the node has parted from its master, and replays nothing more",
            hint="compare the nodes with jetool diff; jetool node run --restore copies the master's files again",
        )
