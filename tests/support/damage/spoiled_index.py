"""Environments whose VLSN index was spoiled on purpose, by writing to its database after the index's back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.vlsn_index.store import StoredIndex
from engine.format.entry.internal_db import (
    RANGE_KEY,
    VLSNBucketRecord,
    VLSNRangeRecord,
    decode_vlsn_bucket,
    decode_vlsn_range,
    encode_vlsn_bucket,
    encode_vlsn_range,
)
from engine.format.lsn import file_of, offset_of
from engine.format.tuples import long_key, parse_long_key
from engine.rep.group import form_group, lead_alone
from engine.vlsn.database import DATABASE_NAME
from engine.vlsn.memory_index import records_of

Records = dict[bytes, bytes]
Spoil = Callable[[Records], None]


def spoil(path: Path, change: Spoil, *, then: Callable[[Environment], None] | None = None) -> None:
    """Change the records of an index, and close; with ``then`` take a checkpoint, go on, and crash instead."""
    env = Environment(path, EnvironmentConfig())
    change_records(env, change)
    if then is None:
        env.close()
        return
    env.checkpoint(force=True)
    then(env)
    env.sync()
    env.engine.crash()


def change_records(env: Environment, change: Spoil) -> None:
    state = env.engine.catalog.by_name(DATABASE_NAME)
    assert state is not None
    stored = StoredIndex(env.engine.parts, state)
    before = records_of(stored)
    after = dict(before)
    change(after)
    txn = stored.begin()
    for key in before.keys() - after.keys():
        txn.delete(key)
    for key, data in after.items():
        if before.get(key) != data:
            txn.put(key, data)
    txn.commit(sync=True)


def forget_file(path: Path, number: int) -> None:
    """Remove a reserved log file, and the record that says so."""
    with Environment(path, EnvironmentConfig()) as env:
        cleaner = env.engine.parts.cleaner
        assert cleaner is not None
        cleaner.records.remove_reserved(number)
    (path / f"{number:08x}.jdb").unlink()


def make_master(path: Path, vlsns: int = 0) -> None:
    """A group of one with a stream up to about so many VLSNs, closed."""
    with Environment(path, EnvironmentConfig(create=True, replicated=True)) as env:
        form_group(env, "GROUP", "node1", "localhost", 5001)
        write_to(env, vlsns)


def write_to(env: Environment, vlsns: int) -> None:
    """Write until the stream is that long; leads the group if need be."""
    if not env.engine.leads:
        lead_alone(env.engine)
    if "records" not in env.database_names():
        env.create_database("records").close()
    assert env.engine.vlsn_index is not None
    with env.open_database("records") as db:
        while env.engine.vlsn_index.range.last < vlsns:
            number = env.engine.vlsn_index.range.last
            db.put(b"%04d" % (number % 50), b"value %06d" % number)


def range_of(records: Records) -> VLSNRangeRecord:
    return decode_vlsn_range(records[long_key(RANGE_KEY)])


def set_range(records: Records, **values: int) -> None:
    records[long_key(RANGE_KEY)] = encode_vlsn_range(range_of(records)._replace(**values))


def buckets_of(records: Records) -> list[VLSNBucketRecord]:
    found = [decode_vlsn_bucket(data) for key, data in sorted(records.items()) if parse_long_key(key) != RANGE_KEY]
    return [bucket for bucket in found if isinstance(bucket, VLSNBucketRecord)]


def put(records: Records, bucket: VLSNBucketRecord) -> None:
    records[long_key(bucket.first_vlsn)] = encode_vlsn_bucket(bucket)


def cut_at(last: int) -> Spoil:
    """The index as if it had been stored when the stream ended there, one mapping in its last bucket."""

    def change(records: Records) -> None:
        for bucket in buckets_of(records):
            if bucket.first_vlsn > last:
                del records[long_key(bucket.first_vlsn)]
            elif bucket.last_vlsn > last:
                count = (last - bucket.first_vlsn) // bucket.stride + 1
                end = bucket.first_vlsn + (count - 1) * bucket.stride
                lsn = (bucket.file_number << 32) | bucket.offsets[count - 1]
                put(records, bucket._replace(last_vlsn=end, last_lsn=lsn, offsets=bucket.offsets[:count]))
        ends = [bucket.last_vlsn for bucket in buckets_of(records)]
        set_range(records, last=ends[-1], last_sync=ends[-1], last_txn_end=ends[-1])

    return change


def point(vlsn: int, lsn: int) -> Spoil:
    """Let the index say that a VLSN, one that it maps, is at an LSN of the same file."""

    def change(records: Records) -> None:
        for bucket in buckets_of(records):
            at, off = divmod(vlsn - bucket.first_vlsn, bucket.stride)
            if bucket.file_number == file_of(lsn) and not off and 0 <= at < len(bucket.offsets):
                offsets = (*bucket.offsets[:at], offset_of(lsn), *bucket.offsets[at + 1 :])
                put(records, bucket._replace(offsets=offsets))
                return
        raise AssertionError(f"{vlsn} is not mapped")

    return change
