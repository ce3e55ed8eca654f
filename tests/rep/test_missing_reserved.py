"""A copy without the reserved files of its original: the index begins after them (R-VLSN-76)."""

from __future__ import annotations

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.cleaner.file_records import RESERVED_FILES
from engine.db.environment import Environment
from engine.db.vlsn_index.view import read_index
from engine.format.entry.internal_db import ReservedFile, encode_reserved_file
from engine.format.tuples import long_key
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.txn.payload import USER, Payload, PutMode
from engine.txn.txn import Durability
from engine.vlsn.vlsn_range import VLSNRange
from tests.support.groups.streams import open_alone, open_replicated


def made(last_vlsn: int) -> MemoryStorage:
    """A log whose file 1 was reserved with VLSNs up to ``last_vlsn``, and is missing; nothing else was in it."""
    storage = MemoryStorage()
    with open_alone(storage) as env:
        with env.create_database("users") as db:
            for number in range(30):
                db.put(b"k%d" % number, b"v")
        assert env.engine.writer is not None
        for _ in range(2):
            env.engine.writer.force_new_file()
            env.checkpoint(force=True)
        _reserve(env, 1, ReservedFile(0, 1, last_vlsn, ()))
        env.checkpoint(force=True)
    return storage


def _reserve(env: Environment, number: int, record: ReservedFile) -> None:
    parts = env.engine.parts
    txn = parts.txns.begin(durability=Durability.NO_SYNC)
    state = parts.catalog.by_name(RESERVED_FILES)
    if state is None:
        state = parts.naming.create(RESERVED_FILES, DatabaseOptions(), txn, internal=True)
    parts.records.put(state, long_key(number), Payload(encode_reserved_file(record), USER), txn, PutMode.OVERWRITE)
    parts.txns.commit(txn, Durability.SYNC)


def range_of(storage: MemoryStorage) -> VLSNRange:
    with open_replicated(storage, read_only=True) as env:
        merged = read_index(env.engine.parts).merged
        assert merged is not None
        return merged.range


@pytest.mark.parametrize("writing", [False, True])
def test_the_index_begins_after_the_missing_file(writing: bool) -> None:
    storage = made(20)
    whole = range_of(storage)
    assert (whole.first, whole.last > 30) == (1, True)
    storage.remove("00000001.jdb")
    if writing:
        with open_replicated(storage) as env:
            assert env.engine.vlsn_index is not None
            assert env.engine.vlsn_index.range.first == 21
            assert env.engine.vlsn_index.verify() == []
    cut = range_of(storage)
    assert (cut.first, cut.last, cut.last_sync) == (21, whole.last, whole.last_sync)
    assert [file.number for file in list_log_files(storage).files][:2] == [0, 2]


@pytest.mark.parametrize("last_vlsn", [-1, 1_000_000])
def test_what_says_nothing(last_vlsn: int) -> None:
    """A file without VLSNs, and a record that would take the last matchpoint away."""
    storage = made(last_vlsn)
    whole = range_of(storage)
    storage.remove("00000001.jdb")
    assert range_of(storage) == whole
