"""Reading what an environment has written, for tests that look at the log itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.db.environment import Environment
from engine.format.entry.node import NodeRecord
from engine.format.header import Provisional
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.base import Storage


def entries(env: Environment, after: int = -1) -> Iterator[LogEntry]:
    """Every entry after an LSN; what is still in the buffer is written out first."""
    assert env.engine.writer is not None
    env.engine.writer.flush(sync=False)
    return (entry for entry in stored_entries(env.engine.storage) if entry.lsn > after)


def stored_entries(storage: Storage) -> Iterator[LogEntry]:
    """Every entry of the files of an environment."""
    files = list_log_files(storage).files
    for file in files:
        with FileReader(storage, file, is_last=file is files[-1]) as reader:
            for entry in reader.entries():
                assert isinstance(entry, LogEntry), entry
                yield entry


def node_flags(env: Environment, after: int, db_id: int) -> list[tuple[str, int, Provisional]]:
    """Type, normalised level and flag of the nodes of a database after an LSN, in log order."""
    found = []
    for entry in entries(env, after):
        record: Any = entry.record()
        if isinstance(record, NodeRecord) and record.db_id == db_id:
            found.append((entry.type_name, record.height, entry.provisional))
    return found
