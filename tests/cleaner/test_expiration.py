"""The expiration profile: what a file's record says is what its entries say (R-CLN-51, je-log-format.md 10.2)."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from engine.cleaner.expiration import DATABASE_NAME, decode_histogram, encode_histogram, hours_in
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.bytecursor import sorted_unpack
from engine.format.entry.ln import LN
from engine.format.entry.node import EXPIRES_IN_HOURS, NodeRecord
from engine.log.access import LogAccess
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile, list_log_files
from engine.log.reader import FileReader
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.txn.payload import PutMode
from tests.support import corpus

CONFIG = EnvironmentConfig(create=True, node_max_entries=16, file_max_bytes=10_000, checkpoint_bytes=0)
DAYS, HOURS = 20_000, 480_007


def histogram(storage: Storage, number: int) -> dict[int, int]:
    """Expiring bytes of a file by hour, from its entries: user LNs whole, BINs and deltas by slot."""
    file = next(file for file in list_log_files(storage).files if file.number == number)
    found: Counter[int] = Counter()
    with FileReader(storage, file, is_last=False) as reader:
        for entry in reader.entries():
            assert isinstance(entry, LogEntry)
            record = entry.record()
            if isinstance(record, LN) and record.expiration:
                found[_hour(record.expiration)] += entry.total_bytes
            elif isinstance(record, NodeRecord) and record.expiration_base != -1:
                for slot in record.slots:
                    if slot.expiration:
                        value = record.expiration_base + slot.expiration - 1
                        hour = value if record.flags & EXPIRES_IN_HOURS else value * 24
                        found[hour] += entry.total_bytes // record.n_entries
    return dict(found)


def _hour(expiration: int) -> int:
    return expiration * 24 if expiration > 0 else -expiration


def stored(storage: Storage) -> dict[int, bytes]:
    """The records of the profile by file."""
    with Environment(storage, EnvironmentConfig(read_only=True)) as env, env.open_database(DATABASE_NAME) as db:
        return {sorted_unpack(key)[0]: data for key, data in db.items()}


def written(*, expirations: tuple[int, ...]) -> MemoryStorage:
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env, env.create_database("d") as db:
        for i in range(600):
            data = b"v" * (60 if i % 3 else 5)
            db.put(b"%04d" % (i % 300), data, expiration=expirations[i % len(expirations)])
            if i % 97 == 0:
                env.checkpoint(force=True)
    return storage


def test_every_finished_file_has_the_record_of_its_entries() -> None:
    storage = written(expirations=(0, DAYS, DAYS + 3, -HOURS))
    records = stored(storage)
    last = list_log_files(storage).files[-1].number
    # The checkpoint of the close can finish one more file.
    assert set(records) >= set(range(last - 1))
    assert last > 5
    for number, data in records.items():
        assert decode_histogram(data) == histogram(storage, number), number
    assert any(data[:1] == b"\x01" for data in records.values())
    # The same where the record is missing, and the file is read.
    with closing(LogAccess(storage, list_log_files(storage).files)) as access:
        assert {number: hours_in(access, number) for number in records} == {
            number: decode_histogram(data) for number, data in records.items()
        }


def test_logs_of_all_versions_are_read_as_entry_by_entry() -> None:
    """The flags alone say of most entries that they do not expire."""
    versions, expiring = set(), set()
    for env in sorted({path.parent for path in (corpus.path() / "je").rglob("*.jdb")}):
        storage = DiskStorage(env)
        files = list_log_files(storage)
        with closing(LogAccess(storage, files.files)) as access:
            for file in files.files:
                if is_damaged(storage, file):
                    continue
                expected, version = histogram(storage, file.number), access.version_of(file.number)
                assert hours_in(access, file.number) == expected, (env, file)
                versions.add(version)
                expiring |= {version} if expected else set()
    assert {6, 15, 17, 26} <= versions
    assert {15, 17, 26} <= expiring


def is_damaged(storage: Storage, file: LogFile) -> bool:
    with FileReader(storage, file, is_last=False) as reader:
        return any(isinstance(item, Damage) for item in reader.entries())


def test_whole_days_are_stored_as_days() -> None:
    storage = written(expirations=(DAYS, DAYS + 1))
    for number, data in stored(storage).items():
        assert data[:1] == b"\x00"
        assert decode_histogram(data) == histogram(storage, number)


def test_where_nothing_expires_records_are_empty() -> None:
    records = stored(written(expirations=(0,)))
    assert len(records) > 3
    assert set(records.values()) == {b""}


def test_a_file_that_was_begun_before_is_read_when_the_cleaner_asks() -> None:
    """What was in the last file before it was opened was not counted, so that file gets no record until then."""
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env, env.create_database("d") as db:
        db.put(b"k", b"v", expiration=DAYS)
    with Environment(storage, CONFIG) as env, env.open_database("d") as db:
        for i in range(400):
            db.put(b"%04d" % i, b"." * 60, expiration=DAYS)
    records = stored(storage)
    assert 0 not in records
    assert len(records) > 1
    with Environment(storage, CONFIG) as env:
        assert env.engine.cleaner is not None
        facts = {one.number: one for one in env.engine.cleaner.facts()}
        env.checkpoint(force=True)
    assert facts[0].expired == sum(histogram(storage, 0).values()) > 0
    records = stored(storage)
    assert 0 in records
    for number, data in records.items():
        assert decode_histogram(data) == histogram(storage, number)


@given(st.dictionaries(st.integers(1, 1_000_000), st.integers(1, 1 << 30)))
def test_histograms_come_back(hours: dict[int, int]) -> None:
    assert decode_histogram(encode_histogram(hours)) == hours
    days = {hour * 24: size for hour, size in hours.items()}
    assert decode_histogram(encode_histogram(days)) == days


def test_an_example() -> None:
    assert encode_histogram({20_000 * 24: 90, 20_001 * 24: 80}) == bytes.fromhex("00 79a94d 5a 01 50")


def test_an_expired_record_is_not_read_since_its_file_may_be_gone() -> None:
    """JE's cleaner deletes files with expired records and leaves the slots (R-CLN-26)."""
    storage, hour = MemoryStorage(), 480_000
    now = replace(CONFIG, clock=lambda: (hour + 2) * 3_600_000, run_cleaner=False)
    with Environment(storage, replace(now, clock=lambda: hour * 3_600_000)) as env, env.create_database("d") as db:
        for round_ in range(2):
            for i in range(400):
                db.put(b"%04d" % i, b"." * 60)
                if i == 200 and round_ == 0:
                    db.put(b"gone", b"." * 60, expiration=-hour - 1)
                    number = env.end_lsn >> 32
            env.checkpoint(force=True)
    storage.remove(f"{number:08x}.jdb")
    with Environment(storage, now) as env, env.open_database("d") as db, env.begin() as txn:
        assert db.get(b"gone", txn) is None
        assert db.get(b"0200", txn) == b"." * 60
        assert db.put(b"gone", b"new", txn, mode=PutMode.UPDATE_ONLY) is False
        assert db.put(b"gone", b"new", txn, mode=PutMode.INSERT_ONLY) is True
        assert db.get(b"gone", txn) == b"new"


def test_a_transaction_goes_on_seeing_what_it_has_locked() -> None:
    """As JE does (R-CLN-50); what had expired when it asked first is gone for it, however often it asks."""
    hour = [480_000]
    with Environment(MemoryStorage(), replace(CONFIG, clock=lambda: hour[0] * 3_600_000)) as env:
        db = env.create_database("d")
        for key in (b"read", b"unread", b"updated"):
            db.put(key, b"1", expiration=-hour[0] - 1)
        with env.begin() as txn, db.cursor(txn) as cursor:
            assert db.get(b"read", txn) == b"1"
            db.put(b"updated", b"2", txn)
            hour[0] += 2
            assert (db.get(b"read", txn), db.get(b"unread", txn), db.get(b"updated", txn)) == (b"1", None, b"2")
            assert db.put(b"read", b"3", txn, mode=PutMode.NEW_KEY) is False
            assert db.delete(b"unread", txn) == 0
            assert db.get(b"unread", txn) is None
            assert [cursor.next(), cursor.next(), cursor.next()] == [(b"read", b"1"), (b"updated", b"2"), None]
            assert cursor.reread() == (b"updated", b"2")
        assert list(db.items()) == []


def test_an_update_leaves_the_expiration_alone_unless_it_is_told_to() -> None:
    """Also that of a record that never expires."""
    hour = [480_000]
    with Environment(MemoryStorage(), replace(CONFIG, clock=lambda: hour[0] * 3_600_000)) as env:
        db = env.create_database("d")
        for key, told in ((b"kept", False), (b"set", True)):
            db.put(key, b"1")
            db.put(key, b"2", expiration=-hour[0] - 1, update_expiration=told)
        hour[0] += 2
        assert list(db.items()) == [(b"kept", b"2")]
