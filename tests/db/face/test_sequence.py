"""Sequences: the numbers and the bytes that JE 18.3.20 gave for the same calls."""

from __future__ import annotations

import threading

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.sequence import Sequence, SequenceConfig
from engine.errors import FormatError, NotFoundError, RefusedError, UsageError
from engine.format.sequence_record import SequenceRecord, decode_sequence, encode_sequence
from engine.storage.memory import MemoryStorage

USED_UP = "used up"


def make() -> tuple[Environment, Database]:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    return env, env.create_database("db")


def taken(sequence: Sequence, blocks: list[int]) -> list[int | str]:
    found: list[int | str] = []
    for delta in blocks:
        try:
            found.append(sequence.next(delta))
        except RefusedError:
            found.append(USED_UP)
    return found


# Calls, what JE's Sequence.get returned for them, and the record that it left.
JE = [
    (
        SequenceConfig(create=True, range_min=1, range_max=10, initial=1),
        [1, 1, 3, 5, 1],
        [1, 2, 3, 6, USED_UP],
        "0105010a06",
    ),
    (
        SequenceConfig(create=True, range_min=-5, range_max=5, initial=-5, cache_size=4),
        [1, 2, 1, 1, 5, 3],
        [-5, -4, -2, -1, 3, USED_UP],
        "0105fb0503",
    ),
    (
        SequenceConfig(create=True, range_min=0, range_max=5, initial=4, cache_size=2, wrap=True),
        [1, 1, 1, 2, 3, 3],
        [4, 0, 1, 2, 0, 0],
        "0103000503",
    ),
    (
        SequenceConfig(create=True, range_min=0, range_max=100, initial=100, cache_size=10, descending=True),
        [1, 5, 20, 60, 14, 1, 1],
        [100, 99, 90, 70, 10, USED_UP, USED_UP],
        "010400640a",
    ),
    (
        SequenceConfig(create=True, cache_size=1000),
        [1, 1, 2000, 1],
        [0, 1, 1000, 3000],
        "01018189ffffffffffff7f7f88ffffffffffff7f79290f",
    ),
]


@pytest.mark.parametrize(("config", "blocks", "numbers", "record"), JE)
def test_numbers_and_records_are_those_of_je(
    config: SequenceConfig, blocks: list[int], numbers: list[int | str], record: str
) -> None:
    _, db = make()
    assert taken(db.sequence(b"s", config), blocks) == numbers
    assert db.get(b"s") == bytes.fromhex(record)


@pytest.mark.parametrize("record", [line[3] for line in JE])
def test_a_record_is_what_it_was(record: str) -> None:
    data = bytes.fromhex(record)
    assert encode_sequence(decode_sequence(data)) == data


def test_the_first_version_has_whole_longs() -> None:
    """As JE's first release wrote it; what follows is of the version that is written."""
    _, db = make()
    db.put(b"s", b"\0\1" + b"".join(value.to_bytes(8, "little", signed=True) for value in (-3, 300, 7)))
    assert db.sequence(b"s").next() == 7
    assert db.get(b"s") == bytes.fromhex("0101fd78b508")


@pytest.mark.parametrize("data", [b"", b"\1", b"\2\1\0\0\0", b"\1\1\0\0", b"\1\1\0\0\0\0", b"\0\1\0\0\0"])
def test_a_record_of_something_else_is_refused(data: bytes) -> None:
    _, db = make()
    db.put(b"s", data)
    with pytest.raises(FormatError):
        db.sequence(b"s")


def test_handles_share_the_record() -> None:
    env, db = make()
    config = SequenceConfig(create=True, cache_size=10)
    first, second = db.sequence(b"s", config), db.sequence(b"s", config)
    assert [first.next(), second.next(), first.next(), second.next(9), second.next()] == [0, 10, 1, 11, 20]
    assert (first.gets, first.cached_gets) == (2, 1)
    env.close()


def test_threads_get_different_numbers() -> None:
    _, db = make()
    shared = db.sequence(b"s", SequenceConfig(create=True, cache_size=7, no_sync=True))
    found: list[int] = []

    def work() -> None:
        own = db.sequence(b"s", SequenceConfig(cache_size=3, no_sync=True))
        for _ in range(50):
            found.extend((shared.next(), own.next()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 400


def test_an_aborted_transaction_gives_its_numbers_back() -> None:
    env, db = make()
    sequence = db.sequence(b"s", SequenceConfig(create=True))
    txn = env.begin()
    assert sequence.next(5, txn) == 0
    txn.abort()
    assert sequence.next() == 0


def test_it_goes_on_after_a_crash() -> None:
    env, db = make()
    assert db.sequence(b"s", SequenceConfig(create=True, cache_size=5)).next() == 0
    env.engine.crash()
    with Environment(env.engine.storage) as again, again.open_database("db") as found:
        # What the lost handle had taken is lost with it.
        assert found.sequence(b"s").next() == 5


def test_what_is_refused() -> None:
    env, db = make()
    with pytest.raises(NotFoundError):
        db.sequence(b"s")
    sequence = db.sequence(b"s", SequenceConfig(create=True, range_min=0, range_max=9))
    with pytest.raises(RefusedError, match="already"):
        db.sequence(b"s", SequenceConfig(create=True, exclusive=True))
    for delta in (0, -1, 10):
        with pytest.raises(UsageError):
            sequence.next(delta)
    wrong = [
        SequenceConfig(create=True, range_min=1, range_max=1),
        SequenceConfig(create=True, range_min=1),
        SequenceConfig(create=True, range_max=9, range_min=0, cache_size=10),
    ]
    for config in wrong:
        with pytest.raises(UsageError):
            db.sequence(b"t", config)
    db.delete(b"s")
    with pytest.raises(RefusedError, match="deleted"):
        sequence.next()
    duplicates = env.create_database("dups", DatabaseOptions(duplicates=True))
    with pytest.raises(UsageError, match="duplicates"):
        duplicates.sequence(b"s", SequenceConfig(create=True))
    db.close()
    with pytest.raises(RefusedError, match="closed"):
        sequence.next()


def test_what_a_handle_says_of_its_record() -> None:
    _, db = make()
    sequence = db.sequence(b"s", SequenceConfig(create=True, range_min=0, range_max=50, cache_size=20, wrap=True))
    sequence.next()
    assert sequence.key == b"s"
    assert sequence.state == SequenceRecord(
        range_min=0, range_max=50, stored=20, ascends=True, wraps=True, exhausted=False
    )
