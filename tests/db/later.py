"""Logs of later versions, and a workload that knows when each record was written."""

from __future__ import annotations

from typing import Any

from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry.trace import Trace, encode_trace
from engine.format.entry_types import BY_NAME
from engine.log.access import LogAccess
from engine.log.files import list_log_files
from engine.log.tail import find_end
from engine.log.writer import LogWriter
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins, read_ln, slot_data
from tests.support.environments.workload import Workload, open_env

FIRST_MS = 1_700_000_000_000


def later_log(version: int) -> dict[str, bytes]:
    """An environment of version 17 in which a later JE has begun a file: what is written next is of its version."""
    storage = MemoryStorage()
    open_env(storage).close()
    files = list_log_files(storage)
    tail = find_end(storage, files)
    access = LogAccess(storage, files.files)
    writer = LogWriter(access, tail.end_lsn, tail.last_lsn, new_file=True, version=version)
    writer.log(BY_NAME["trace"].number, encode_trace(Trace(FIRST_MS, "upgraded"), version))
    writer.close()
    access.close()
    return storage.contents()


def timed_contents(env: Environment) -> dict[str, dict[Any, Any]]:
    """Every record of every database: its data and when it was written."""
    found: dict[str, dict[Any, Any]] = {}
    for name in env.database_names():
        state = env.engine.catalog.by_name(name)
        assert state is not None
        records = found[name] = {}
        for node in bins(env.engine.ctx, state):
            for index, key in enumerate(node.keys):
                if node.is_live(index):
                    embedded = node.states[index] & SLOT_EMBEDDED
                    modified = (
                        node.times_of(index).modified
                        if embedded
                        else read_ln(env.engine.ctx, state, node.lsns[index]).modification_time
                    )
                    data = key[1] if state.duplicates else slot_data(env.engine.ctx, node, index)
                    records[key] = (data, modified)
    return found


class TimedWorkload(Workload):
    """Random transactions of one seed, whose clock goes on by one with each write."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, keys=30)
        self.now_ms = FIRST_MS

    def clock(self) -> int:
        """The time of the write that is going on."""
        return self.now_ms

    def _write(self, db: Database, records: dict[Any, Any], txn: Transaction) -> None:
        self.now_ms += 1
        super()._write(db, records, txn)
        for key, data in records.items():
            if isinstance(data, bytes):
                records[key] = (data, 0 if db.duplicates else self.now_ms)

    def _naming(self, env: Environment) -> None:
        """Nothing: what the other operations write has no times in the model."""
