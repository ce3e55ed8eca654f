"""Values that are not in memory are read as they were written, one by one or many at once, and damage is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError
from engine.format.lsn import file_of, offset_of
from engine.storage.memory import MemoryStorage
from engine.tree.tree import bins, read_ln, slot_data, slot_values
from engine.txn.txn import Durability

KEY = st.integers(0, 40).map(lambda number: b"%02d" % number)
VALUE = st.sampled_from((b"", b"small", b"v" * 17, b"w" * 200, b"x" * 5000))
# What a round does: with a transaction or without, what it puts, and what happens then.
ROUND = st.tuples(st.booleans(), st.lists(st.tuples(KEY, VALUE), max_size=8), st.sampled_from(("", "evict", "ckpt")))


def made(*, transactional: bool) -> Environment:
    # Files so small that neighbours are in different ones, and a buffer that holds the last few entries.
    config = EnvironmentConfig(
        create=True, checkpoint_bytes=0, file_max_bytes=20_000, buffer_bytes=3000, transactional=transactional
    )
    env = Environment(MemoryStorage(), config)
    env.create_database("db", DatabaseOptions(max_entries=8)).close()
    return env


@settings(deadline=None, max_examples=60)
@given(rounds=st.lists(ROUND, min_size=1, max_size=6), in_txns=st.booleans(), low=KEY, high=KEY)
def test_all_ways_to_read_agree(
    rounds: list[tuple[bool, list[tuple[bytes, bytes]], str]], in_txns: bool, low: bytes, high: bytes
) -> None:
    env, model = made(transactional=in_txns), dict[bytes, bytes]()
    with env, env.open_database("db") as db:
        for with_txn, puts, then in rounds:
            txn = env.begin(durability=Durability.NO_SYNC) if with_txn and in_txns else None
            for key, value in puts:
                db.put(key, value, txn)
                model[key] = value
            if txn is not None:
                txn.commit()
            if then == "ckpt":
                env.checkpoint(force=True)
            if then:
                env.engine.evict()
        for node in bins(env.engine.ctx, db.state):
            live = [at for at in range(len(node)) if node.is_live(at)]
            each = [slot_data(env.engine.ctx, node, at) for at in live]
            assert slot_values(env.engine.ctx, node, live) == each == [model[node.keys[at]] for at in live]
            assert slot_values(env.engine.ctx, node, live[::-2]) == each[::-2]
            read = [at for at in live if node.values[at] is None and len(model[node.keys[at]]) > 16]
            assert [read_ln(env.engine.ctx, db.state, node.lsns[at]).data for at in read] == [
                model[node.keys[at]] for at in read
            ]
        inside = sorted(item for item in model.items() if low <= item[0] < high)
        assert list(db.items(low, high)) == inside
        assert list(db.items(low, high, reverse=True)) == inside[::-1]
        assert list(db.items()) == sorted(model.items())
        # Under locks a scan goes record by record.
        if in_txns:
            with env.begin() as reader:
                assert list(db.items(low, high, txn=reader)) == inside
                assert list(db.items(low, high, reverse=True, txn=reader)) == inside[::-1]


def test_a_scan_tells_of_a_damaged_value() -> None:
    env = made(transactional=True)
    storage = env.engine.storage
    assert isinstance(storage, MemoryStorage)
    with env, env.open_database("db") as db:
        for number in range(8):
            db.put(b"%02d" % number, b"v" * 100)
        env.engine.evict()
        node = next(bins(env.engine.ctx, db.state))
        lsn, size = node.lsns[5], node.sizes[5]
        file = storage.open_rw(f"{file_of(lsn):08x}.jdb")
        last = offset_of(lsn) + size - 1
        file.write(last, bytes((file.read(last, 1)[0] ^ 1,)))
        with pytest.raises(DamageError, match="checksum"):
            list(db.items())
        assert db.get(b"04") == b"v" * 100
        with pytest.raises(DamageError, match="checksum"):
            db.get(b"05")


def test_values_close_together_are_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A BIN that was filled in one go is read back in one go."""
    env = made(transactional=True)
    with env, env.open_database("db") as db:
        for number in range(7):
            db.put(b"%02d" % number, b"v" * 100)
        env.sync()
        env.engine.evict()
        node = next(bins(env.engine.ctx, db.state))
        handle = env.engine.access.handle(file_of(node.lsns[0]))
        counted: list[int] = []

        read = type(handle).read

        def counting(file: Any, offset: int, length: int) -> bytes:
            counted.append(length)
            return read(file, offset, length)

        monkeypatch.setattr(type(handle), "read", counting)
        assert slot_values(env.engine.ctx, node, list(range(7))) == [b"v" * 100] * 7
        assert len(counted) == 1
