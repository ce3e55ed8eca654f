"""Finds where a stream continues after a copy of a node: exactly the changes in the copy are skipped.

A copy shows the changes of transactions up to its last Commit. A transaction that was open then may commit later; its
records are in the log of the copy, but not visible in it. So the stream begins at the first of these records, and
yields transactions that commit after the last Commit of the copy (je-ha-protocol.md 10.3).

Example: a copy ends ``VLSN 7 INS T2 | 8 Commit T1 | 9 INS T3``. It shows T1. The stream is read from VLSN 7, T1 is
skipped, and T2 and T3 are yielded in full when they commit.
"""

from __future__ import annotations

from typing import Final

from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.events import SILENT, Listener
from engine.format.entry.txn_end import TxnEnd
from engine.format.fast.fate_table import AFTER_END, lsn_of
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.inspect.fates import COMMITTED, OPEN, PREPARED, read_fates, record_of
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.rep.changes.database_names import NamedDatabase
from engine.rep.changes.position import CommitPoint, Position, Torn
from engine.rep.group import committed_members
from engine.storage.base import Storage

# A stream that begins at this VLSN has no transactions that began before it.
_WHOLE: Final = 1


def position_after(environment: Environment, storage: Storage, listener: Listener = SILENT) -> Position:
    """The position after the last commit of an environment.

    Arguments:
        environment: the copy, recovered in memory.
        storage: the files of the environment.
        listener: receives progress of the single pass over the log.

    Raises:
        NotFoundError: the environment belongs to no group, or its log has no commit of the group.
        RefusedError: recovery does not show all commits in its log.
        DamageError: a record of the group database is malformed.
        UnsupportedError, StorageError: a file cannot be read.
    """
    found = committed_members(environment.engine)
    if found is None:
        raise NotFoundError(
            "the environment belongs to no replication group", file=environment.home, hint="jetool info says what it is"
        )
    if environment.unseen:
        raise RefusedError(
            "the environment does not show all that its log has committed",
            file=environment.home,
            found=environment.unseen,
            consequence="a stream after it would leave records out",
            hint=f"jetool verify {environment.home}",
        )
    files = list_log_files(storage)
    txns = read_fates(storage, files, listener).txns
    last_end = first_open = NULL_LSN
    table = txns.table
    for row in range(len(txns)):
        if table.ids.get(row) >= 0:
            continue  # Of this node alone.
        fate = txns.fate_at(row)
        if fate == COMMITTED and not table.states[row] & AFTER_END:
            end_lsn = lsn_of(table.end.get(row))
            last_end = end_lsn if last_end == NULL_LSN else max(last_end, end_lsn)
        elif fate in (OPEN, PREPARED):
            first_lsn = lsn_of(table.first.get(row))
            first_open = first_lsn if first_open == NULL_LSN else min(first_open, first_lsn)
    log = scan_log(storage, files, marker=True)
    commit = log.entry_at(last_end)
    end = record_of(commit) if commit is not None else None
    if commit is None or not isinstance(end, TxnEnd):
        raise NotFoundError(
            "the log holds no commit of the group", file=environment.home, hint="add --from begin for all of the stream"
        )
    restart = commit.vlsn + 1
    if first_open != NULL_LSN and first_open < last_end:
        restart = next(entry.vlsn for entry in log.between(first_open).good_entries() if entry.vlsn != NULL_VLSN)
    point = CommitPoint(commit.vlsn, end.id, end.master_id, end.dtvlsn, min(restart, commit.vlsn + 1))
    group = found.group
    return Position(str(group.name), (group.uuid_high, group.uuid_low), Torn(_WHOLE), [point], _names(environment), [])


def _names(environment: Environment) -> dict[int, NamedDatabase]:
    engine = environment.engine
    with engine.latch:
        found = {db_id: (name, engine.catalog.by_id(db_id)) for name, db_id in engine.catalog.names(internal=True)}
    return {
        db_id: NamedDatabase(name, state.duplicates)
        for db_id, (name, state) in found.items()
        if db_id < 0 and state is not None
    }
