"""Extinction tasks that JE left unfinished (R-REC-61, je-log-format.md 10.4).

Since JE 18 a database that is removed loses its name at once, and its MapLN when a scan in the background has counted
what it held; a record of ``_jeExtinctScansDb`` says so until then. When the process stops in between, whoever opens the
environment next finishes the task: here the MapLN goes, and the record.

Tasks of the other kind, ranges of records that the application has declared extinct, are those of
``record_extinction``. The record of a replicated task belongs to the stream of its group, and stays too.

Example: ``NameLN_TX (deleted) | Commit | ExtinctScanLN_TX 80: database 7 | Commit | CkptStart .. CkptEnd``, crash. The
deleted name is in front of the checkpoint, so that recovery does not see it; the task leads to database 7.
"""

from __future__ import annotations

from engine.db.parts import EnvironmentParts
from engine.db.record_extinction import DATABASE_NAME, EXTINCT_SCAN
from engine.errors import FormatError
from engine.format.entry.db_tree import ENV_REPLICATED
from engine.format.entry.internal_db import DatabaseExtinction, decode_extinct_scan
from engine.tree.database_state import DatabaseState
from engine.tree.tree import bins, slot_data
from engine.txn.records import Payload
from engine.txn.txn import Durability


def finish_extinctions(parts: EnvironmentParts) -> None:
    """Finish the removal of databases that have lost their name already."""
    if parts.catalog.flags & ENV_REPLICATED:
        return
    with parts.ctx.latch:
        scans = parts.catalog.by_name(DATABASE_NAME)
        found = [] if scans is None else _databases(parts, scans)
    for key, db_id in found:
        # Still named: the removal has not committed, and the database stays.
        if scans is None or parts.naming.names_of(db_id):
            continue
        db = parts.catalog.by_id(db_id)
        if db is not None:
            # The MapLN before the task: a crash in between leaves the task, which finds nothing left to do.
            parts.naming.finish_removal(db)
        txn = parts.txns.begin(durability=Durability.NO_SYNC)
        parts.records.delete(scans, key, txn, Payload(None, EXTINCT_SCAN))
        parts.txns.commit(txn)


def _databases(parts: EnvironmentParts, scans: DatabaseState) -> list[tuple[bytes, int]]:
    """Key of the task and id of each database that is to go."""
    found = []
    for node in bins(parts.ctx, scans):
        for index in range(len(node)):
            data = slot_data(parts.ctx, node, index) if node.is_live(index) else None
            try:
                task = decode_extinct_scan(data or b"")
            except (FormatError, IndexError):
                continue
            if isinstance(task, DatabaseExtinction):
                found.append((node.keys[index], task.db_id))
    return found
