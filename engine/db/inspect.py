"""What the log tells of transactions and of single records: the fate of each transaction, all versions of one key.

Both read the log forward, every file that is there, and nothing else; they work on an environment that is open for
reading beside a live writer.

Example: ``100 INS_LN_TX K (T1) | 150 Commit T1 | 200 UPD_LN_TX K (T2) | 250 Abort T2``. Fates: T1 committed at 150, one
record; T2 aborted at 250. History of K: version 100 (committed), version 200 (aborted).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from engine.db.environment import Environment
from engine.errors import NotFoundError
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import (
    ABORT,
    BY_NUMBER,
    COMMIT,
    LNS,
    TXN_FATES,
    decode_body,
    type_name,
)
from engine.format.header import is_invisible
from engine.format.lsn import NULL_LSN
from engine.format.packed import split_two_part_key
from engine.log.files import list_log_files
from engine.log.passes import LogRange, RawEntry, forward
from engine.log.tail import find_end


class Outcome(Enum):
    """How a transaction ended, as far as the log says."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    PREPARED = "prepared"
    OPEN = "open"
    ROLLED_BACK = "rolled back"


class Fate(NamedTuple):
    """One transaction of the log.

    Attributes:
        first_lsn, last_lsn: its first and last record.
        end_lsn: its Commit, Abort or Prepare; NULL_LSN when there is none.
        time: of the end, ms since 1970; 0 without one.
        records: how many LNs it wrote that are visible; ``hidden`` counts those that a rollback made invisible.
        databases: ids of the databases that it wrote to.
    """

    txn_id: int
    outcome: Outcome
    first_lsn: int
    last_lsn: int
    end_lsn: int
    time: int
    records: int
    hidden: int
    databases: tuple[int, ...]


class KeyVersion(NamedTuple):
    """One version of a record.

    Attributes:
        txn_id: None when it was written without a transaction.
        outcome: of its transaction; COMMITTED without one; ROLLED_BACK when the entry is invisible.
        data: None for a deletion.
    """

    lsn: int
    type_name: str
    txn_id: int | None
    outcome: Outcome
    data: bytes | None
    vlsn: int
    abort_lsn: int
    expiration: int


class _Seen:
    """What has been seen of one transaction."""

    __slots__ = ("databases", "end", "first", "hidden", "last", "outcome", "records", "time")

    def __init__(self) -> None:
        self.first = self.last = self.end = NULL_LSN
        self.records = self.hidden = self.time = 0
        self.outcome = Outcome.OPEN
        self.databases: set[int] = set()


def transactions(env: Environment) -> list[Fate]:
    """Every transaction of the log, in the order of its first entry."""
    seen: dict[int, _Seen] = {}
    for raw in _walk(env):
        if raw.type_number in TXN_FATES:
            _end(seen, raw)
        elif BY_NUMBER[raw.type_number].transactional:
            record = decode_body(raw.type_number, raw.version, raw.body)
            if isinstance(record, LN) and record.txn_id is not None:
                _ln(seen.setdefault(record.txn_id, _Seen()), raw, record)
    return [_fate(txn_id, found) for txn_id, found in seen.items()]


def history(env: Environment, name: str, key: bytes) -> list[KeyVersion]:
    """All versions of a key, oldest first; with duplicates of all data items of the key.

    Raises:
        NotFoundError: there is no such database.
    """
    with env.ctx.latch:
        state = env.catalog.by_name(name)
    if state is None:
        raise NotFoundError(f"no database of the name {name!r}", hint="jetool dbs lists them")
    found: list[tuple[RawEntry, LN]] = []
    ends: dict[int, Outcome] = {}
    for raw in _walk(env):
        if raw.type_number in TXN_FATES:
            record = decode_body(raw.type_number, raw.version, raw.body)
            if isinstance(record, (TxnEnd, Prepare)):
                ends[record.id] = _outcome(raw)
            continue
        record = decode_body(raw.type_number, raw.version, raw.body)
        if isinstance(record, LN) and record.db_id == state.id and _is_key(state.duplicates, record, key):
            found.append((raw, record))
    return [_version(raw, record, ends) for raw, record in found]


def _walk(env: Environment) -> Iterator[RawEntry]:
    """LNs and ends of transactions of every file, up to the end of the log."""
    if env.writer is not None:
        env.writer.flush(sync=False)
    files = list_log_files(env.storage)
    tail = find_end(env.storage, files)
    for file in files.files:
        if file.number > tail.last_file.number:
            return
        # File by file, since cleaning leaves gaps.
        end = tail.end_lsn if file.number == tail.last_file.number else (file.number << 32) | file.size_bytes
        yield from forward(env.ctx.access, LogRange(file.number << 32, end), LNS | TXN_FATES)


def _is_key(duplicates: bool, record: LN, key: bytes) -> bool:
    if record.key == key:
        return True
    if not duplicates:
        return False
    return split_two_part_key(record.key)[0] == key


def _ln(found: _Seen, raw: RawEntry, record: LN) -> None:
    if found.first == NULL_LSN:
        found.first = raw.lsn
    found.last = raw.lsn
    found.databases.add(record.db_id)
    if is_invisible(raw.flags, raw.version):
        found.hidden += 1
    else:
        found.records += 1


def _end(seen: dict[int, _Seen], raw: RawEntry) -> None:
    record = decode_body(raw.type_number, raw.version, raw.body)
    if isinstance(record, (TxnEnd, Prepare)):
        found = seen.setdefault(record.id, _Seen())
        found.outcome, found.end, found.time = _outcome(raw), raw.lsn, record.time


def _outcome(raw: RawEntry) -> Outcome:
    if raw.type_number == COMMIT:
        return Outcome.COMMITTED
    return Outcome.ABORTED if raw.type_number == ABORT else Outcome.PREPARED


def _fate(txn_id: int, found: _Seen) -> Fate:
    outcome = found.outcome
    if outcome is Outcome.OPEN and found.hidden and not found.records:
        outcome = Outcome.ROLLED_BACK
    return Fate(
        txn_id, outcome, found.first, found.last, found.end, found.time, found.records, found.hidden,
        tuple(sorted(found.databases)),
    )  # fmt: skip


def _version(raw: RawEntry, record: LN, ends: dict[int, Outcome]) -> KeyVersion:
    outcome = Outcome.COMMITTED if record.txn_id is None else ends.get(record.txn_id, Outcome.OPEN)
    if is_invisible(raw.flags, raw.version):
        outcome = Outcome.ROLLED_BACK
    return KeyVersion(
        raw.lsn, type_name(raw.type_number), record.txn_id, outcome, record.data, raw.vlsn,
        record.abort_lsn, record.expiration,
    )  # fmt: skip
