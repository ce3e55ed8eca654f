"""Fates of transactions and versions of keys, on logs of our own and of JE."""

from __future__ import annotations

import json

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.inspect.fates import ABORTED, COMMITTED, OPEN, PREPARED, LogFates, read_fates, read_history
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.support import corpus


def fates_of(env: Environment) -> LogFates:
    """The fates as a reader beside the writer sees them."""
    env.sync()
    return read_fates(env.engine.storage, list_log_files(env.engine.storage))


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
    found = fates_of(env)
    outcomes = [found.txns[txn.id].fate for txn in (first, second, third, fourth)]
    assert outcomes == [COMMITTED, ABORTED, PREPARED, OPEN]
    assert found.txns[first.id].lns == 1
    assert found.txns[first.id].dbs == {db.state.id}
    storage = env.engine.storage
    files = list_log_files(storage)
    seen = [
        version for key in (b"k", b"other") for version in read_history(storage, files, ("db",), key).versions
    ]  # fmt: skip
    assert [(entry.type_name, record.data, found.fate_of(entry, record)) for entry, record in seen] == [
        ("INS_LN_TX", b"one", COMMITTED),
        ("UPD_LN_TX", b"two", ABORTED),
        ("DEL_LN_TX", None, PREPARED),
        ("INS_LN_TX", b"x", OPEN),
    ]
    fates = read_history(storage, files, (f"id:{db.state.id}",), b"k").fates
    assert [fates.txns[txn.id].fate for txn in (first, second, third)] == [COMMITTED, ABORTED, PREPARED]
    fourth.abort()


def test_versions_of_duplicates() -> None:
    """Every data item of a key is a record."""
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    db = env.create_database("db", DatabaseOptions(duplicates=True))
    for item in (b"1", b"2"):
        db.put(b"a", item)
    env.sync()
    storage = env.engine.storage
    assert len(read_history(storage, list_log_files(storage), ("db",), b"a").versions) == 2


def test_counts_of_real_logs() -> None:
    """As many committed, aborted and open transactions as JE's own counts of entries say."""
    case = corpus.path() / "je" / "je-18.3.20" / "txn-crash"
    if not case.exists():
        pytest.skip("needs the fixtures")
    counts = json.loads((case / "manifest.json").read_text())["counts"]["byType"]
    storage = DiskStorage(case / "env")
    outcomes = [txn.fate for txn in read_fates(storage, list_log_files(storage)).txns.values()]
    assert outcomes.count(COMMITTED) == counts["Commit"]
    assert outcomes.count(ABORTED) == counts["Abort"]
    assert outcomes.count(OPEN) == 3
