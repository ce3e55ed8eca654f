"""Records that the log holds but recovery does not read, because they come after damage in its last file (D-5).

The log ends at its first bad entry; intact entries after it no longer belong to the environment. Opening the
environment for writing cuts them off. These records are therefore read from the log itself, by transaction.

Example: ``INS k1 txn 7 | bad entry | INS k2 txn 8 | Commit 8 | INS k3 txn 9``. The record k2 is *committed* and unread:
its Commit comes after the damage. k3 is left out, since nothing committed it. k1 is a *suspect*: it comes before the
damage and has neither Commit nor Abort, so the bad bytes may have been its Commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from engine.db.environment import Environment
from engine.errors import FormatError
from engine.format.codecs import Record
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT, NAME_LNS, TXN_ENDS, USER_LNS
from engine.format.lsn import NULL_LSN
from engine.log.entry import Damage, LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log

_WANTED: Final = USER_LNS | NAME_LNS | TXN_ENDS
# From the name of its database ("" if that is not known) and its key and data: whether a record is kept.
Wanted = Callable[[str, LN], bool]


class UnreadRecord(NamedTuple):
    """A record that recovery does not read.

    Attributes:
        database: its name; empty if neither the trees nor the log have it.
        key: as the log has it; in a database with sorted duplicates both key and data.
        vlsn: NULL_VLSN outside a stream.
        txn: its transaction; None for a record outside transactions.
        time_ms: commit time; None if its Commit is not in the log.
        deleted: the record was deleted.
    """

    db_id: int
    database: str
    key: bytes
    lsn: int
    vlsn: int
    txn: int | None
    time_ms: int | None
    deleted: bool


class UnreadRecords(NamedTuple):
    """The records that recovery does not read.

    Attributes:
        damage_lsn: where the log ends for recovery.
        committed: records whose Commit comes after the damage, or outside transactions, in the order of the Commits.
        suspects: records before the damage with neither Commit nor Abort.
        broken_txns: number of transactions whose Commit comes after the damage and that have a bad entry.
    """

    damage_lsn: int
    committed: tuple[UnreadRecord, ...]
    suspects: tuple[UnreadRecord, ...]
    broken_txns: int


def read_unread(env: Environment, wanted: Wanted) -> UnreadRecords | None:
    """The unread records; None if neither a Commit nor a record outside transactions follows damage.

    Raises:
        StorageError: a log file cannot be read.
    """
    engine = env.engine
    tail, recovery = engine.tail, engine.recovery
    if tail is None or not (tail.commits_at_risk or engine.records_after_damage):
        return None
    storage = engine.storage
    log = scan_log(storage, list_log_files(storage), types=_WANTED, marker=True)
    walk = _Walk(env, wanted, tail.end_lsn)
    # Begin at firstActive: a transaction that spans the damage may have begun before the last checkpoint, but not
    # before its firstActive.
    first = recovery.first_active_lsn
    for item in log.between(log.place_after(first) if first != NULL_LSN else NULL_LSN).entries():
        walk.take(item)
    return UnreadRecords(tail.end_lsn, tuple(walk.committed), walk.suspects(), walk.broken)


class _Walk:
    """Collects records by transaction while the log is read from before the damage to its last byte."""

    def __init__(self, env: Environment, wanted: Wanted, end_lsn: int) -> None:
        self._wanted = wanted
        self._end_lsn = end_lsn
        catalog = env.engine.catalog
        self._names = {db_id: name for name, db_id in catalog.names()}
        self._open: dict[int, list[UnreadRecord]] = {}
        self._broken_open: set[int] = set()
        self._damages: list[tuple[int, int]] = []
        self.committed: list[UnreadRecord] = []
        self.broken = 0

    def take(self, item: LogEntry | Damage) -> None:
        """Add the next entry or damage of the log."""
        if isinstance(item, Damage):
            if item.lsn >= self._end_lsn:
                self._damages.append((item.lsn, item.end_lsn))
            return
        record = None if item.invisible else _record(item)
        if isinstance(record, TxnEnd):
            self._end(item, record)
        elif isinstance(record, LN) and isinstance(record.content, NameLN):
            # Take the name from the log: a database that was created after the damage is in no tree.
            self._names.setdefault(record.content.db_id, record.key.decode("utf-8", "replace"))
        elif isinstance(record, LN):
            self._ln(item, record)

    def suspects(self) -> tuple[UnreadRecord, ...]:
        """Records of open transactions before the damage. After it, a record without a Commit was uncommitted."""
        return tuple(one for records in self._open.values() for one in records if one.lsn < self._end_lsn)

    def _ln(self, entry: LogEntry, record: LN) -> None:
        if record.txn_id is not None and self._is_bad(record.last_lsn):
            self._broken_open.add(record.txn_id)
        name = self._names.get(record.db_id, "")
        if not self._wanted(name, record):
            return
        one = UnreadRecord(
            db_id=record.db_id,
            database=name,
            key=record.key,
            lsn=entry.lsn,
            vlsn=entry.vlsn,
            txn=record.txn_id,
            time_ms=None,
            deleted=record.data is None,
        )
        if record.txn_id is not None:
            self._open.setdefault(record.txn_id, []).append(one)
        elif entry.lsn >= self._end_lsn:
            self.committed.append(one)

    def _end(self, entry: LogEntry, record: TxnEnd) -> None:
        records = self._open.pop(record.id, [])
        broken = self._is_bad(record.last_lsn) or record.id in self._broken_open
        self._broken_open.discard(record.id)
        if entry.lsn < self._end_lsn or entry.type_number != COMMIT:
            return
        self.broken += broken
        self.committed += [one._replace(time_ms=record.time) for one in records]

    def _is_bad(self, lsn: int) -> bool:
        return any(first <= lsn < end for first, end in self._damages)


def _record(entry: LogEntry) -> Record | None:
    try:
        return entry.record()
    except FormatError:
        return None
