"""Records that are appended in the order of their keys: a database as that of puts."""

from __future__ import annotations

import random

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.errors import RefusedError
from engine.storage.memory import MemoryStorage
from engine.txn.bulk_append import append, can_append
from tests.support.environments.models import findings_of
from tests.support.environments.workload import open_env

Record = tuple[bytes, bytes, int]
_DAYS = 40_000


def records(seed: int, count: int) -> list[Record]:
    """Some that a BIN embeds, some that it does not, some that expire."""
    chance = random.Random(seed)
    keys = sorted({chance.randbytes(chance.randint(1, 9)) for _ in range(count)})
    return [(key, chance.randbytes(chance.choice((0, 3, 16, 17, 60))), chance.choice((0, 0, _DAYS))) for key in keys]


def expirations(env: Environment, name: str) -> list[int]:
    from engine.tree.tree import bins

    with env.open_database(name) as db:
        nodes = list(bins(env.engine.ctx, db.state))
        return [node.expirations[at] for node in nodes for at in range(len(node)) if node.is_live(at)]


@pytest.mark.parametrize("prefixing", [False, True])
def test_what_puts_would_have_made(prefixing: bool) -> None:
    given = records(7, 400)
    storage = MemoryStorage()
    with open_env(storage) as env, env.create_database("db", DatabaseOptions(key_prefixing=prefixing)) as db:
        for at in range(0, len(given), 33):
            append(env.engine.ctx, db.state, given[at : at + 33])
            env.engine.keep_budget()
        assert db.count() == len(given)
        # Life goes on in it.
        db.put(given[5][0], b"another")
        db.delete(given[6][0])
    given[5:7] = [(given[5][0], b"another", given[5][2])]
    with open_env(storage) as env:
        with env.open_database("db") as db:
            assert list(db) == [(key, data) for key, data, _ in given]
        assert expirations(env, "db") == [expiration for _, _, expiration in given]
    assert findings_of(storage) == []


def test_a_crash_leaves_a_beginning() -> None:
    """Whole records, the first so many of them; no database without its name."""
    given = records(8, 300)
    storage = MemoryStorage()
    env = open_env(storage)
    db = env.create_database("db")
    append(env.engine.ctx, db.state, given)
    env.engine.crash()
    with open_env(storage) as env:
        with env.open_database("db") as db:
            found = list(db)
        assert found == [(key, data) for key, data, _ in given[: len(found)]]
    assert findings_of(storage) == []


def test_keys_out_of_order() -> None:
    with open_env(MemoryStorage()) as env, env.create_database("db") as db:
        append(env.engine.ctx, db.state, [(b"b", b"1", 0)])
        with pytest.raises(RefusedError, match="order"):
            append(env.engine.ctx, db.state, [(b"b", b"2", 0)])
        assert list(db) == [(b"b", b"1")]


def test_who_cannot() -> None:
    with open_env(MemoryStorage()) as env:
        for options, can in ((DatabaseOptions(), True), (DatabaseOptions(duplicates=True), False)):
            with env.create_database(f"db {can}", options) as db:
                assert can_append(env.engine.ctx, db.state) is can
