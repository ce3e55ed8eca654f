"""Cleaning one file: what is logged again, what waits, what stays (R-CLN-25 to R-CLN-45; T-84 to T-86)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.cleaner.cleaner import Cleaner
from engine.cleaner.disk_limits import DiskLimitError, DiskLimits, DiskUse, available, needed, violation
from engine.cleaner.file_report import FileReport
from engine.cleaner.file_states import FileState
from engine.cleaner.selection import Choice, CleaningLimits
from engine.db.environment import Environment
from engine.errors import NotFoundError
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.ln import LN
from engine.format.entry_types import UPD_LN
from engine.format.lsn import file_of
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.support.environments.workload import open_env
from tests.support.logs.decoded import record_of

ANY = CleaningLimits(min_utilization=90, min_file_utilization=50, min_age=1)
VALUE = b"v" * 60


def make(storage: MemoryStorage | DiskStorage | None = None, **changes: Any) -> Environment:
    return open_env(storage or MemoryStorage(), cleaner_min_age=1, **changes)


def cleaner_of(env: Environment) -> Cleaner:
    assert env.engine.cleaner is not None
    return env.engine.cleaner


def fill(env: Environment, rounds: int, keys: int = 20) -> dict[bytes, bytes]:
    """Update the same keys again and again; what they hold in the end."""
    if "d" not in env.database_names():
        env.create_database("d").close()
    records = {}
    with env.open_database("d") as db:
        for number in range(rounds):
            with env.begin() as txn:
                for key in range(keys):
                    records[b"%04d" % key] = b"%06d" % number + VALUE
                    db.put(b"%04d" % key, records[b"%04d" % key], txn)
    return records


def clean_one(env: Environment, number: int) -> FileReport:
    report = cleaner_of(env).clean_file(Choice(number, None, "test"))
    assert report is not None
    return report


def records_of(env: Environment) -> dict[bytes, bytes]:
    with env.open_database("d") as db:
        return dict(db.items())


def numbers(env: Environment) -> list[int]:
    return [file.number for file in env.engine.log_files()]


def assert_whole(storage: MemoryStorage) -> None:
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    assert [found.message for found in report.findings if found.severity != NOTE] == []


def test_growth_is_bounded() -> None:
    storage = MemoryStorage()
    env = make(storage)
    most = 0
    for _ in range(12):
        expected = fill(env, 8)
        env.clean_log()
        env.checkpoint(force=True)
        most = max(most, len(numbers(env)))
    assert most < 8
    assert numbers(env)[0] > 5
    assert records_of(env) == expected
    env.close()
    assert_whole(storage)
    with make(storage) as env:
        assert records_of(env) == expected


def test_a_file_goes_with_the_next_checkpoint() -> None:
    env = make()
    expected = fill(env, 10)
    report = clean_one(env, 1)
    assert report.total_bytes > report.live_bytes
    assert cleaner_of(env).states.in_progress() == {1: FileState.CLEANED}
    assert 1 in numbers(env)
    taken = env.checkpoint(force=True)
    assert taken is not None
    assert 1 not in numbers(env)
    assert cleaner_of(env).states.in_progress() == {}
    assert records_of(env) == expected


def test_a_checkpoint_says_that_files_go() -> None:
    """R-CLN-34."""
    env = make()
    fill(env, 10)
    flags = []
    for clean in (False, True, False):
        if clean:
            clean_one(env, 1)
        taken = env.checkpoint(force=True)
        assert taken is not None
        flags.append(record_of(env.engine.access.read(taken.ckpt_end_lsn), CkptEnd).flags & 2)
    assert [bool(flag) for flag in flags] == [False, True, False]


def test_live_records_are_logged_again_as_updates() -> None:
    env = make()
    fill(env, 1, keys=5)
    old = cold_lsns(env)
    fill(env, 12, keys=3)
    moved = [lsn for key, lsn in cold_lsns(env).items() if key >= b"0003"]
    report = clean_one(env, file_of(moved[0]))
    assert report.lns_migrated >= 2
    for key, lsn in cold_lsns(env).items():
        if key >= b"0003":
            assert lsn > old[key]
            entry = env.engine.access.read(lsn)
            assert entry.type_number == UPD_LN
            record = record_of(entry, LN)
            assert (record.txn_id, record.prior_file) == (None, file_of(old[key]))


def cold_lsns(env: Environment) -> dict[bytes, int]:
    from engine.tree.tree import bins

    with env.open_database("d") as db, env.engine.latch:
        return {
            key: lsn
            for node in bins(env.engine.ctx, db.state)
            for key, lsn, live in zip(node.keys, node.lsns, node.states, strict=True)
        }


def test_a_locked_record_keeps_its_file() -> None:
    """T-84 Retry: the file waits until the transaction has ended, whichever way."""
    env = make()
    fill(env, 1, keys=5)
    home = file_of(cold_lsns(env)[b"0004"])
    fill(env, 12, keys=3)
    txn = env.begin()
    with env.open_database("d") as db:
        db.put(b"0004", b"changed" + VALUE, txn)
        report = clean_one(env, home)
        assert report.lns_locked == 1
        env.checkpoint(force=True)
        assert home in numbers(env)
        assert "locked" in next(kept.reason for kept in cleaner_of(env).kept() if kept.file.number == home)
        txn.abort()
        env.checkpoint(force=True)
        assert home not in numbers(env)
        assert db.get(b"0004") == b"000000" + VALUE


def test_readers_keep_their_locks_on_what_is_migrated() -> None:
    """R-TXN-1: a record that a transaction has read cannot be changed by another one because it moved."""
    env = make(lock_timeout_ms=20)
    fill(env, 1, keys=5)
    home = file_of(cold_lsns(env)[b"0004"])
    fill(env, 12, keys=3)
    txn = env.begin()
    with env.open_database("d") as db:
        assert db.get(b"0004", txn) is not None
        assert clean_one(env, home).lns_locked == 0
        with pytest.raises(Exception, match="lock"):
            db.put(b"0004", b"other")
        txn.commit()
        db.put(b"0004", b"other")


def test_an_open_transaction_protects_what_came_after_its_first_entry() -> None:
    """R-CLN-18."""
    env = make()
    fill(env, 3)
    txn = env.begin()
    with env.open_database("d") as db:
        db.put(b"open", VALUE, txn)
        began = file_of(txn.inner.first_lsn)
        fill(env, 12)
        newest = cleaner_of(env).newest(cleaner_of(env).facts(), ANY)
        assert newest == began - 1
        txn.abort()
    assert cleaner_of(env).newest(cleaner_of(env).facts(), ANY) == numbers(env)[-1] - 1


def test_internal_nodes_move() -> None:
    """T-85 testCleanInternalNodes: nothing but nodes is needed of the file."""
    storage = MemoryStorage()
    env = make(storage)
    with env.create_database("d", DatabaseOptions(duplicates=True, max_entries=6)) as db, env.begin() as txn:
        for number in range(200):
            db.put(b"%04d" % number, VALUE, txn)
    env.checkpoint(force=True, minimize=True)
    for _ in range(3):
        fill_other(env)
    before = records_of(env)
    for number in numbers(env)[:-2]:
        clean_one(env, number)
    env.checkpoint(force=True)
    assert numbers(env)[0] > 5
    env.engine.evict()
    assert records_of(env) == before
    env.close()
    assert_whole(storage)


def fill_other(env: Environment) -> None:
    if "other" not in env.database_names():
        env.create_database("other").close()
    with env.open_database("other") as db, env.begin() as txn:
        for number in range(60):
            db.put(b"%04d" % (number % 4), VALUE, txn)


def test_records_of_removed_databases_are_dead() -> None:
    env = make()
    fill(env, 4)
    env.remove_database("d")
    fill_other(env)
    fill_other(env)
    for number in numbers(env)[:-2]:
        clean_one(env, number)
    env.checkpoint(force=True)
    assert env.database_names() == ["other"]
    assert len(numbers(env)) <= 5


def test_expired_records_go() -> None:
    """T-87: hidden when they expire, let go when the purge delay is over."""
    now = [1_700_000_000_000]
    storage = MemoryStorage()
    env = make(storage, clock=lambda: now[0])
    hour = now[0] // 3_600_000 + 2
    with env.create_database("d") as db, env.begin() as txn:
        for key in range(60):
            db.put(b"%04d" % key, VALUE, txn, expiration=-hour)
    fill_other(env)
    fill_other(env)
    home = numbers(env)[0]
    now[0] += 3 * 3_600_000
    assert records_of(env) == {}
    facts = cleaner_of(env).facts()
    env.checkpoint(force=True)
    facts = cleaner_of(env).facts()
    assert facts[0].expired > 0
    with env.open_database("d") as db:
        assert db.stats().bins > 1
        assert sum(clean_one(env, number).lns_expired for number in (home, home + 1)) == 60
        # Empty nodes go too, or a log of nothing but records that expire would keep one for every few of them.
        assert (db.stats().bins, db.stats().records, db.stats().deleted) == (1, 0, 0)
    env.checkpoint(force=True)
    assert home not in numbers(env)
    env.close()
    assert_whole(storage)


def test_damage_keeps_the_file_and_the_rest_goes_on() -> None:
    storage = MemoryStorage()
    env = make(storage)
    expected = fill(env, 12)
    env.sync()
    file = storage.open_rw("00000001.jdb")
    file.write(200, b"\xff\xff\xff")
    assert cleaner_of(env).clean_file(Choice(1, None, "test")) is None
    assert "damaged" in cleaner_of(env).states.unusable[1]
    assert cleaner_of(env).clean(limits=ANY) > 0
    env.checkpoint(force=True)
    assert numbers(env)[0] == 1
    assert records_of(env) == expected


def test_a_file_that_has_vanished_is_forgotten() -> None:
    storage = MemoryStorage()
    env = make(storage)
    fill(env, 12)
    env.engine.access.close()
    storage.remove("00000002.jdb")
    assert cleaner_of(env).clean_file(Choice(2, None, "test")) is None
    assert 2 not in numbers(env)
    with pytest.raises(NotFoundError):
        storage.open("00000002.jdb")


def test_a_protected_file_stays() -> None:
    """T-86 FileProtector."""
    env = make()
    fill(env, 10)
    cleaner = cleaner_of(env)
    with cleaner.protector.protect("a backup", [1]):
        clean_one(env, 1)
        clean_one(env, 2)
        env.checkpoint(force=True)
        assert 1 in numbers(env)
        assert 2 not in numbers(env)
        assert cleaner.states.is_reserved(1)
        assert cleaner.deletion.why_kept(1) == "needed by a backup"
    assert cleaner.deletion.manage() == [1]


def test_a_reader_in_another_process_keeps_all_of_them() -> None:
    """R-LOG-28, R-CLN-42: byte 1 of je.lck is held."""
    storage = MemoryStorage()
    env = make(storage)
    fill(env, 10)
    reader = storage.lock("je.lck", 1, exclusive=False)
    clean_one(env, 1)
    env.checkpoint(force=True)
    assert 1 in numbers(env)
    assert cleaner_of(env).deletion.refused is not None
    reader.release()
    assert cleaner_of(env).deletion.manage() == [1]


READER = """
import sys
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
config = EnvironmentConfig(read_only=True, cache_bytes=100_000)
with Environment(sys.argv[1], config) as env, env.open_database("d") as db:
    print("open", flush=True)
    for line in sys.stdin:
        print(len([value for _, value in db.items()]), flush=True)
"""


def test_a_reader_of_ours_misses_no_file(tmp_path: Path) -> None:
    """The files that a reader has found when it opened stay until it closes; a second one finds them, too."""
    env = make(DiskStorage(tmp_path / "env"))
    expected = fill(env, 10)
    env.sync()
    words = [sys.executable, "-c", READER, str(tmp_path / "env")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdin is not None
        assert reader.stdout.readline() == "open\n"
        clean_one(env, 1)
        env.checkpoint(force=True)
        assert cleaner_of(env).states.is_reserved(1)
        assert 1 in numbers(env)
        assert f"another process reads the environment (a lock held by process {reader.pid}" in str(
            cleaner_of(env).deletion.refused
        )
        reader.stdin.write("read\n")
        reader.stdin.flush()
        assert int(reader.stdout.readline()) == len(expected)
        reader.stdin.close()
    assert cleaner_of(env).deletion.manage() == [1]
    assert records_of(env) == expected
    env.close()


def test_reserved_files_are_known_when_the_environment_is_opened_again() -> None:
    storage = MemoryStorage()
    env = make(storage)
    expected = fill(env, 10)
    reader = storage.lock("je.lck", 1, exclusive=False)
    clean_one(env, 1)
    env.checkpoint(force=True)
    env.close()
    assert storage.stat("00000001.jdb") is not None
    reader.release()
    env = make(storage)
    assert cleaner_of(env).states.is_reserved(1)
    assert [one.number for one in cleaner_of(env).facts()][:2] == [0, 2]
    env.checkpoint(force=True)
    assert storage.stat("00000001.jdb") is None
    assert records_of(env) == expected
    env.close()
    assert_whole(storage)


def test_expunge_off_renames() -> None:
    """R-CLN-44."""
    storage = MemoryStorage()
    env = make(storage, cleaner_expunge=False)
    fill(env, 10)
    clean_one(env, 1)
    env.checkpoint(force=True)
    assert storage.stat("00000001.jdb") is None
    assert storage.stat("00000001.del") is not None


def test_disk_limits() -> None:
    """T-86 DiskLimit, the example of the module."""
    use = DiskUse(active=75, reserved=20, protected=15, free=1000)
    limits = DiskLimits(max_disk=100)
    assert available(use, limits) == 10
    assert violation(use, limits) is None
    assert needed(use, limits, 0) == 95 - 100 + (1 << 20)
    assert isinstance(violation(use._replace(active=90), limits), DiskLimitError)
    assert available(use, DiskLimits()) is None
    assert available(use, DiskLimits(free_disk=2000)) == -1000 + 5


def test_writes_are_refused_while_a_limit_is_violated() -> None:
    """R-CLN-43: nothing is written, everything can be read, and it ends when there is room."""
    env = make(max_disk=60_000)
    expected = fill(env, 10)
    cleaner = cleaner_of(env)
    feeder = cleaner.protector.protect_from("a feeder", 0)
    assert cleaner.clean(limits=ANY) > 1
    env.checkpoint(force=True)
    assert cleaner.states.reserved()
    with pytest.raises(DiskLimitError):
        fill(env, 100)
    assert set(records_of(env)) == set(expected)
    with env.open_database("d") as db, pytest.raises(DiskLimitError):
        db.put(b"more", VALUE)
    feeder.release()
    with env.open_database("d") as db:
        assert db.put(b"more", VALUE)
    assert not cleaner.states.reserved()


def test_stale_summaries_are_removed() -> None:
    """R-CLN-14: a crash after the deletion has left the records of a file that is gone."""
    storage = MemoryStorage()
    env = make(storage)
    fill(env, 10)
    env.checkpoint(force=True)
    env.engine.crash()
    with make(storage) as env:
        records, copied = cleaner_of(env).records, MemoryStorage(storage.contents())
        clean_one(env, 1)
        env.checkpoint(force=True)
        assert 1 not in records.summarized()
    # As before the cleaning, but for the file.
    with make(copied) as env:
        assert 1 in cleaner_of(env).records.summarized()
        env.engine.access.close()
        copied.remove("00000001.jdb")
        env.engine.access.forget(1)
        env.checkpoint(force=True)
        assert 1 not in cleaner_of(env).records.summarized()


class Between:
    """Does something in a checkpoint: after CkptStart, and before CkptEnd."""

    def __init__(self, started: Callable[[], object], ending: Callable[[], object]) -> None:
        self._started = started
        self._ending = ending

    def checkpoint_begins(self) -> bool:
        return False

    def checkpoint_started(self) -> None:
        self._started()

    def before_checkpoint_end(self) -> None:
        self._ending()

    def checkpoint_ended(self) -> None:
        pass


def test_holes_in_the_numbers() -> None:
    """T-85 testFileHole: files in the middle go first; neither the cleaner nor recovery misses them."""
    storage = MemoryStorage()
    env = make(storage)
    expected = fill(env, 30)
    for number in (2, 4):
        clean_one(env, number)
    env.checkpoint(force=True)
    assert numbers(env)[:3] == [0, 1, 3]
    env.engine.crash()
    with make(storage) as env:
        assert numbers(env)[:3] == [0, 1, 3]
        assert cleaner_of(env).clean(limits=ANY) > 2
        env.checkpoint(force=True)
        assert records_of(env) == expected
    assert_whole(storage)


@pytest.mark.parametrize("crashes", [False, True])
def test_what_happens_during_a_checkpoint(crashes: bool) -> None:
    """T-85 UtilizationDuringCheckpoint, EvictionDuringCheckpoint: updates are counted, and evicted nodes reach the log.

    The checkpoint lets a cleaned file go: nothing that it logs, or that is evicted meanwhile, may lead there.
    """
    storage = MemoryStorage()
    env = make(storage)
    expected = fill(env, 14, keys=60)
    done: list[str] = []
    wanted = Between(
        started=lambda: done.append(f"evicted {env.engine.parts.evictor.run(0)}"),
        ending=lambda: expected.update(fill(env, 2, keys=30)),
    )
    report = clean_one(env, 1)
    assert report.nodes_dirtied + report.lns_migrated > 0
    env.engine.checkpointer.participants.insert(0, wanted)
    env.checkpoint(force=True)
    env.engine.checkpointer.participants.remove(wanted)
    assert done != ["evicted 0"]
    assert 1 not in numbers(env)
    env.sync()
    if crashes:
        env.engine.crash()
    else:
        env.close()
    assert_whole(storage)
    with make(storage) as env:
        assert records_of(env) == expected
    assert_whole(storage)
