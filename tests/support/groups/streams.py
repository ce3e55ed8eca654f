"""Replicated environments in memory and on disk, and what their logs and indexes must look like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.db.environment import Environment
from engine.db.scan import RecordWalker
from engine.format.header import is_invisible
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.rep.group import form_group, lead_alone, may_form
from engine.storage.base import Storage
from engine.vlsn.scanner import ForwardScanner
from tests.support.environments.workload import SMALL, State


def open_replicated(storage: Storage | Path, **changes: Any) -> Environment:
    """Open or make a replicated environment, detached."""
    return Environment(storage, replace(SMALL, replicated=True, **changes))


def open_alone(storage: Storage | Path, **changes: Any) -> Environment:
    """Open or make a group of one, and lead it."""
    env = open_replicated(storage, **changes)
    if may_form(env.engine, "node1"):
        form_group(env, "GROUP", "node1", "localhost", 5001)
    else:
        lead_alone(env.engine)
    return env


def visible_stream(storage: Storage) -> dict[int, LogEntry]:
    """The visible replicated entries by VLSN; asserts that they ascend with their LSNs."""
    found: dict[int, LogEntry] = {}
    last = 0
    files = list_log_files(storage).files
    for file in files:
        with FileReader(storage, file, is_last=file is files[-1]) as reader:
            for entry in reader.entries():
                if not isinstance(entry, LogEntry) or not entry.replicated or is_invisible(entry.flags, entry.version):
                    continue
                assert entry.vlsn == (last or entry.vlsn - 1) + 1, entry
                last = entry.vlsn
                found[entry.vlsn] = entry
    return found


def check_index(env: Environment) -> None:
    """The index agrees with the log: same range, every look-up at or before its entry, every kept mapping exact."""
    index, writer = env.engine.vlsn_index, env.engine.writer
    assert index is not None
    assert writer is not None
    assert index.verify() == []
    writer.flush(sync=False)
    stream = visible_stream(env.engine.storage)
    assert (index.range.first, index.range.last) == (min(stream, default=-1), max(stream, default=-1))
    ends = [vlsn for vlsn, entry in stream.items() if entry.type_name in ("Commit", "Abort")]
    assert index.range.last_txn_end == max(ends, default=-1)
    for vlsn, lsn in index.mappings():
        assert stream[vlsn].lsn == lsn
    for vlsn in stream:
        assert ForwardScanner(index).start(vlsn) <= stream[vlsn].lsn


def states(env: Environment) -> tuple[int, frozenset[int], State]:
    """What must be that before or that after: last VLSN, open transactions, records without locks."""
    assert env.engine.vlsn_index is not None
    found: State = {}
    for name in env.database_names():
        with env.open_database(name) as db:
            found[name] = {}
            walker = RecordWalker(env.engine, db.state, None, None, backward=False)
            while records := walker.step(max(found[name], default=None), inclusive=not found[name], limit=1 << 20):
                found[name].update((record.key, record.data) for record in records)
    return env.engine.vlsn_index.range.last, frozenset(t for t in env.engine.txns.registered if t < 0), found
