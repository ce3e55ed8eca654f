"""Fates of transactions and versions of keys, on logs of our own and of JE."""

from __future__ import annotations

import json

import pytest

from engine.catalog.naming import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.inspect import Outcome, history, transactions
from engine.errors import NotFoundError
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.recovery.test_real_environments import FIXTURES


def test_fates_and_versions() -> None:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("db")
    with env.begin() as first:
        db.put(b"k", b"one", first)
    second = env.begin()
    db.put(b"k", b"two", second)
    second.abort()
    third = env.begin()
    db.delete(b"k", third)
    third.prepare(1, b"g", b"b")
    fourth = env.begin()
    db.put(b"other", b"x", fourth)
    fates = {fate.txn_id: fate for fate in transactions(env)}
    assert fates[first.id].outcome is Outcome.COMMITTED
    assert fates[first.id].records == 1
    assert fates[first.id].databases == (db.state.id,)
    assert fates[second.id].outcome is Outcome.ABORTED
    assert fates[third.id].outcome is Outcome.PREPARED
    assert fates[fourth.id].outcome is Outcome.OPEN
    versions = history(env, "db", b"k")
    assert [(v.type_name, v.data, v.outcome) for v in versions] == [
        ("INS_LN_TX", b"one", Outcome.COMMITTED),
        ("UPD_LN_TX", b"two", Outcome.ABORTED),
        ("DEL_LN_TX", None, Outcome.PREPARED),
    ]
    with pytest.raises(NotFoundError):
        history(env, "none", b"k")
    fourth.abort()


def test_history_of_a_duplicates_key() -> None:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("db", DatabaseOptions(duplicates=True))
    for item in (b"1", b"2"):
        db.put(b"a", item)
    db.put(b"ab", b"3")
    assert len(history(env, "db", b"a")) == 2


def test_counts_of_real_logs() -> None:
    """As many committed, aborted and open transactions as JE's own counts of entries say."""
    case = FIXTURES / "je-18.3.20" / "txn-crash"
    counts = json.loads((case / "manifest.json").read_text())["counts"]["byType"]
    with Environment(DiskStorage(case / "env"), EnvironmentConfig(read_only=True)) as env:
        outcomes = [fate.outcome for fate in transactions(env)]
    assert outcomes.count(Outcome.COMMITTED) == counts["Commit"]
    assert outcomes.count(Outcome.ABORTED) == counts["Abort"]
    assert outcomes.count(Outcome.OPEN) == 3
