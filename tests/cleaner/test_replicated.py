"""Cleaning the log of a member of a replication group: the head of the VLSN index goes with the files (T-25)."""

from __future__ import annotations

from typing import Any

from engine.cleaner.cleaner import Cleaner
from engine.cleaner.selection import Choice
from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.support.environments.workload import contents
from tests.support.groups.streams import check_index, open_alone

VALUE = b"v" * 60


def cleaner_of(env: Environment) -> Cleaner:
    assert env.engine.cleaner is not None
    return env.engine.cleaner


def fill(env: Environment, rounds: int = 40) -> None:
    if "d" not in env.database_names():
        env.create_database("d").close()
    with env.open_database("d") as db:
        for number in range(rounds):
            with env.begin() as txn:
                for key in range(15):
                    db.put(b"%04d" % key, b"%06d" % number + VALUE, txn)


def opened(storage: MemoryStorage, **changes: Any) -> Environment:
    return open_alone(storage, cleaner_min_age=1, **changes)


def clean_all(env: Environment) -> None:
    cleaner = cleaner_of(env)
    facts = cleaner.facts()
    for one in facts:
        if one.number <= cleaner.newest(facts, cleaner.limits):
            cleaner.clean_file(Choice(one.number, None, "test"))
    env.checkpoint(force=True)


def first_vlsn(env: Environment) -> int:
    return env.engine.stream_range.first


def assert_whole(storage: MemoryStorage) -> None:
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    assert [f"{found.code} {found.message}" for found in report.findings if found.severity != NOTE] == []


def test_files_are_kept_for_replicas_until_a_limit_is_touched() -> None:
    """R-CLN-40."""
    storage = MemoryStorage()
    env = opened(storage, vlsn_min_size=10)
    fill(env)
    before = len(env.engine.log_files())
    clean_all(env)
    cleaner = cleaner_of(env)
    assert len(cleaner.states.reserved()) > 3
    assert len(env.engine.log_files()) >= before
    assert first_vlsn(env) == 1
    check_index(env)
    env.close()
    assert_whole(storage)


def test_the_index_lets_go_before_the_files_do() -> None:
    storage = MemoryStorage()
    env = opened(storage, vlsn_min_size=10, reserved_disk=1)
    fill(env)
    expected = contents(env)
    clean_all(env)
    assert first_vlsn(env) > 20
    check_index(env)
    assert contents(env) == expected
    env.close()
    assert_whole(storage)
    with opened(storage) as env:
        assert contents(env) == expected
        check_index(env)


def test_the_last_vlsns_stay() -> None:
    """R-VLSN-52: never past the last matchpoint, nor below the least size of the index."""
    storage = MemoryStorage()
    env = opened(storage, vlsn_min_size=120, reserved_disk=1)
    fill(env)
    clean_all(env)
    cleaner, found = cleaner_of(env), env.engine.stream_range
    assert found.last - found.first >= 120
    assert found.first > 1
    kept = [number for number, one in cleaner.states.reserved().items() if one.last_vlsn >= found.first]
    assert kept
    assert cleaner.deletion.why_kept(kept[0]) == "the VLSN index has to keep its VLSNs"
    env.close()
    assert_whole(storage)


def test_a_feeder_keeps_what_it_has_not_sent() -> None:
    storage = MemoryStorage()
    env = opened(storage, vlsn_min_size=10, reserved_disk=1)
    fill(env)
    cleaner = cleaner_of(env)
    feeder = cleaner.protector.protect_from("the feeder of node2", 2)
    clean_all(env)
    assert {2, 3} <= set(cleaner.states.reserved())
    assert first_vlsn(env) > 1
    feeder.move_to(4)
    cleaner.deletion.manage()
    assert 3 not in cleaner.states.reserved()
    assert 4 in cleaner.states.reserved()
    check_index(env)
    feeder.release()


def test_a_live_file_between_reserved_ones() -> None:
    """The stream begins after the last deleted file, whatever live files before it hold."""
    storage = MemoryStorage()
    env = opened(storage, vlsn_min_size=10, reserved_disk=1)
    fill(env)
    cleaner = cleaner_of(env)
    for number in (1, 3):
        cleaner.clean_file(Choice(number, None, "test"))
    env.checkpoint(force=True)
    assert [n for n in (0, 1, 2, 3) if env.engine.access.has_file(n)] == [0, 2]
    env.close()
    assert_whole(storage)
    with opened(storage) as env:
        fill(env, 2)
