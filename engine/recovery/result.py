"""State and result of recovery."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from engine.errors import DamageError, RefusedError
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry.txn_end import Prepare
from engine.format.lsn import NULL_LSN
from engine.recovery.rollback_tracker import FIRST_REPLICATED_TXN_ID, RollbackPeriod

_REMOVE, _TRUNCATE, _RENAME = 2, 3, 4
# Number of lowest bits of a transaction id that index its chunk.
TXN_BITS: Final = 8
_CHUNK: Final = 1 << TXN_BITS
_NONE: Final = array("q", [NULL_LSN]) * _CHUNK


class TxnLsns:
    """A mapping of transaction ids to LSNs, for every transaction of the recovery range; iterates over the ids.

    Ids are allocated in sequence, so they are stored in arrays of neighbouring ids, eight bytes each; a dictionary
    would take a hundred bytes each, and a recovery can meet millions.
    """

    __slots__ = ("_chunks", "_count")

    def __init__(self) -> None:
        self._chunks: dict[int, array[int]] = {}
        self._count = 0

    def chunks(self) -> dict[int, array[int]]:
        """The arrays by ``id >> TXN_BITS``; NULL_LSN marks an id without an LSN. The caller must not change them."""
        return self._chunks

    def setdefault(self, txn_id: int, lsn: int) -> None:
        """Set the LSN of a transaction that has no LSN yet."""
        chunk = self._chunks.get(txn_id >> TXN_BITS)
        if chunk is None:
            chunk = self._chunks[txn_id >> TXN_BITS] = _NONE[:]
        # This is right for negative ids too, since shift and mask both round towards minus infinity.
        at = txn_id & _CHUNK - 1
        if chunk[at] == NULL_LSN:
            chunk[at] = lsn
            self._count += 1

    def note_latest(self, txn_ids: Sequence[int], lsns: Sequence[int], types: bytes, wanted: int) -> None:
        """Set the LSNs of all entries of a type, in log order: the last one of a transaction counts."""
        number, chunk = 0, self._chunks.get(0)
        for at in range(len(types)):
            if types[at] != wanted:
                continue
            txn_id = txn_ids[at]
            # Neighbouring entries in the log usually have ids in the same chunk.
            if chunk is None or txn_id >> TXN_BITS != number:
                number = txn_id >> TXN_BITS
                chunk = self._chunks.get(number)
                if chunk is None:
                    chunk = self._chunks[number] = _NONE[:]
            place = txn_id & _CHUNK - 1
            if chunk[place] == NULL_LSN:
                self._count += 1
            chunk[place] = lsns[at]

    def get(self, txn_id: int, default: int = NULL_LSN) -> int:
        """The LSN of a transaction."""
        chunk = self._chunks.get(txn_id >> TXN_BITS)
        lsn = NULL_LSN if chunk is None else chunk[txn_id & _CHUNK - 1]
        return default if lsn == NULL_LSN else lsn

    def __contains__(self, txn_id: int) -> bool:
        chunk = self._chunks.get(txn_id >> TXN_BITS)
        return chunk is not None and chunk[txn_id & _CHUNK - 1] != NULL_LSN

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        for number in sorted(self._chunks):
            chunk = self._chunks[number]
            yield from ((number << TXN_BITS) + at for at, lsn in enumerate(chunk) if lsn != NULL_LSN)


FIRST_REPLICATED_NODE_ID = -9
FIRST_REPLICATED_DB_ID = -256


class IdSequences:
    """The extremes of every id sequence (R-REC-15): local ids ascend, replicated ones descend."""

    __slots__ = ("db", "extinction", "node", "replicated_db", "replicated_extinction", "replicated_node",
                 "replicated_txn", "txn")  # fmt: skip

    def __init__(self) -> None:
        self.node = self.txn = self.extinction = self.replicated_extinction = 0
        self.db = 1
        self.replicated_node = FIRST_REPLICATED_NODE_ID
        self.replicated_db = FIRST_REPLICATED_DB_ID
        self.replicated_txn = FIRST_REPLICATED_TXN_ID

    def take(self, end: CkptEnd) -> None:
        """Start with the values of a checkpoint."""
        self.saw_node(end.last_local_node_id)
        self.saw_node(end.last_replicated_node_id)
        self.saw_db(end.last_local_db_id)
        self.saw_db(end.last_replicated_db_id)
        self.saw_txn(end.last_local_txn_id)
        self.saw_txn(end.last_replicated_txn_id)
        self.saw_extinction(end.last_local_extinction_id)
        self.saw_extinction(end.last_replicated_extinction_id)

    def saw_node(self, node_id: int) -> None:
        """Note a node id that is in use."""
        self.node = max(self.node, node_id)
        self.replicated_node = min(self.replicated_node, node_id)

    def saw_db(self, db_id: int) -> None:
        """Note a database id that is in use."""
        self.db = max(self.db, db_id)
        self.replicated_db = min(self.replicated_db, db_id)

    def saw_extinction(self, task_id: int) -> None:
        """Note the id of an extinction task that is in use."""
        self.extinction = max(self.extinction, task_id)
        self.replicated_extinction = min(self.replicated_extinction, task_id)

    def saw_txn(self, txn_id: int) -> None:
        """Note a transaction id that is in use."""
        self.txn = max(self.txn, txn_id)
        self.replicated_txn = min(self.replicated_txn, txn_id)


class PassCount:
    """Counters of one pass (R-REC-1)."""

    __slots__ = ("auxiliary", "deleted", "end", "name", "processed", "read", "start")

    def __init__(self, name: str, start: int, end: int) -> None:
        self.name = name
        self.start = start
        self.end = end
        self.read = self.processed = self.auxiliary = self.deleted = 0

    def fields(self) -> dict[str, int | str]:
        """The counters as plain values."""
        return {
            "auxiliary": self.auxiliary,
            "deleted": self.deleted,
            "end": self.end,
            "name": self.name,
            "processed": self.processed,
            "read": self.read,
            "start": self.start,
        }


class TxnFate(NamedTuple):
    """The outcome of the transactions in the recovery range.

    Attributes:
        committed: id to LSN of the Commit.
        aborted: id to LSN of the Abort.
        prepared: id to the Prepare, for transactions that neither committed nor aborted.
    """

    committed: TxnLsns
    aborted: TxnLsns
    prepared: dict[int, Prepare]


class ResurrectedTxn:
    """A transaction that recovery leaves open: prepared, or replicated and without an end in the log (R-REC-47).

    Attributes:
        lns: LSNs of its records, latest first, for relocking.
    """

    __slots__ = ("first_lsn", "last_lsn", "lns", "prepare", "txn_id")

    def __init__(self, txn_id: int, prepare: Prepare | None) -> None:
        self.txn_id = txn_id
        self.prepare = prepare
        self.first_lsn = NULL_LSN
        self.last_lsn = NULL_LSN
        self.lns: list[int] = []


class RecoveryResult:
    """The result of recovery.

    Attributes:
        end_lsn: the end of the log.
        cut_bytes: number of bytes after the end.
        ckpt_end_lsn, ckpt_start_lsn, first_active_lsn, root_lsn: the entries where recovery began; NULL_LSN if missing.
        checkpoint_id: of that checkpoint.
        passes: counters by pass.
        undone: transactions whose records were undone.
        resurrected: transactions left open.
        rolled_back: LSNs of the entries in open rollback periods that must become invisible.
        databases_removed: ids of databases that a committed removal or truncation left behind.
        temporary: ids of the temporary databases.
        renamed: id to name, of committed renames.
        new_environment: whether there was no log.
        last_entry_is_ckpt_end: whether nothing was logged after the last checkpoint.
        periods: top-level rollback periods, latest first.
        changed: entries before the last file that were read although their checksum is wrong (D-16).
    """

    def __init__(self) -> None:
        self.end_lsn = self.last_lsn = NULL_LSN
        self.cut_bytes = 0
        self.ckpt_end_lsn = self.ckpt_start_lsn = self.first_active_lsn = self.root_lsn = NULL_LSN
        self.partial_ckpt_start = NULL_LSN
        self.checkpoint_id = 0
        self.ids = IdSequences()
        self.fate = TxnFate(TxnLsns(), TxnLsns(), {})
        self.passes: list[PassCount] = []
        self.undone: set[int] = set()
        self.resurrected: dict[int, ResurrectedTxn] = {}
        self.rolled_back: list[int] = []
        self.databases_removed: set[int] = set()
        self.temporary: set[int] = set()
        self.renamed: dict[int, str] = {}
        self.new_environment = False
        self.last_entry_is_ckpt_end = False
        self.periods: list[RollbackPeriod] = []
        self.changed: list[DamageError] = []

    def note_naming(self, record: LN, content: NameLN) -> None:
        """Note what remains to be done for a committed naming operation (R-REC-56)."""
        operation = getattr(record.tail, "operation", 0)
        if operation == _REMOVE:
            self.databases_removed.add(content.db_id)
        elif operation == _TRUNCATE:
            old = getattr(record.tail, "truncated_db_id", None)
            if old is not None:
                # The name now leads to the new, empty database; the old one has to be removed.
                self.databases_removed.add(old)
        elif operation == _RENAME:
            self.renamed[content.db_id] = record.key.decode("utf-8", "surrogateescape")


def changed_entries(env: str, changed: Sequence[DamageError]) -> RefusedError:
    """The error for entries whose bytes have changed (D-16)."""
    first = changed[0]
    return RefusedError(
        "a file before the last one is damaged, and no checkpoint follows",
        file=first.file,
        lsn=first.lsn,
        expected=first.expected,
        found=first.found,
        consequence="recovery would read it as it is, as JE does without a word, and committed records may be lost; "
        "nothing was changed",
        hint=f"restore the file from a copy, or go on all the same: jetool recover {env} --accept-loss; "
        f"jetool salvage {env} --out NEW saves what can be read",
        figures={"changed_entries": len(changed)},
    )
