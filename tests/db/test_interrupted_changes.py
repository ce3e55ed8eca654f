"""An exception at a statement of a change, any of them: every commit that was acknowledged is there after a restart.

A trace function raises at the n-th statement of the engine. Where the environment goes on it must be whole; where a
change may have ended half way it refuses everything from then on, and recovery makes good what was acknowledged before.
A ``with`` statement is no place for it: an exception between the end of its block and the release of its lock is none
that Python itself could raise there; nor is a ``try``, which does nothing.
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from types import FrameType
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.verify.environment import verify_environment
from engine.verify.report import NOTE
from tests.support.samples import part

pytestmark = pytest.mark.exhaustive

Content = dict[str, list[tuple[bytes, bytes]]]
Change = Callable[[Environment, Database], object]
CONFIG = EnvironmentConfig(
    create=True, node_max_entries=4, file_max_bytes=4000, checkpoint_bytes=0, cleaner_min_utilization=90,
    cleaner_min_file_utilization=50, cleaner_min_age=1, lock_timeout_ms=50,
)  # fmt: skip
STEPS = 24


class UnforeseenError(Exception):
    """What no code expects."""


def change_in_transaction(env: Environment, db: Database) -> None:
    with env.begin() as txn:
        db.put(b"t1", b"1", txn)
        db.put(b"t2", b"2", txn)
        db.delete(b"014", txn)


def abort(env: Environment, db: Database) -> None:
    txn = env.begin()
    db.put(b"t1", b"1", txn)
    db.delete(b"014", txn)
    db.put(b"021", b"changed", txn)
    txn.abort()


def abort_naming(env: Environment, db: Database) -> None:
    txn = env.begin()
    env.rename_database("other", "renamed", txn)
    env.create_database("new", txn=txn).close()
    txn.abort()


def change_at_cursor(env: Environment, db: Database) -> None:
    with env.begin() as txn, db.cursor(txn) as cursor:
        cursor.search(b"021")
        cursor.put_current(b"by cursor")
        cursor.next()
        cursor.delete()


def evict(env: Environment, db: Database) -> None:
    db.put(b"ev", b"1")
    env.engine.evict()
    db.get(b"007")


def checkpoint(env: Environment, db: Database) -> None:
    db.put(b"ck", b"1")
    env.checkpoint(force=True)


def compress(env: Environment, db: Database) -> None:
    db.delete(b"007")
    env.engine.compress()


def clean(env: Environment, db: Database) -> None:
    for number in range(40):
        db.put(b"%03d" % (number * 7 % 100), b"w%d" % number)
    env.engine.clean()
    env.checkpoint(force=True)


def split(env: Environment, db: Database) -> None:
    for key in (b"04051", b"04052", b"04053", b"04054"):
        db.put(key, b"x" * 40)


CHANGES: Mapping[str, Change] = {
    "put": lambda env, db: db.put(b"0405", b"new"),
    "split": split,
    "update": lambda env, db: db.put(b"007", b"updated"),
    "delete": lambda env, db: db.delete(b"007"),
    "transaction": change_in_transaction,
    "abort": abort,
    "abort naming": abort_naming,
    "cursor": change_at_cursor,
    "checkpoint": checkpoint,
    "evict": evict,
    "clean": clean,
    "compress": compress,
    "create": lambda env, db: env.create_database("new"),
    "rename": lambda env, db: env.rename_database("other", "renamed"),
    "remove": lambda env, db: env.remove_database("other"),
    "truncate": lambda env, db: env.truncate_database("other"),
}
# What changes nodes in memory, ends transactions and takes locks; the names of functions.
CRITICAL = ("insert_child", "remove_slot", "put", "_move", "_divide", "write_slot", "commit", "_finish", "release_all")
# Several commits: what is there after an interruption is anything between before and after.
SEVERAL = ("split", "clean", "compress")


class Statements:
    """Counts the statements of the engine, or of some of its functions, and raises at one of them."""

    def __init__(self, at: int, functions: Collection[str] = ()) -> None:
        self.at = at
        self.functions = functions
        self.count = 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        if self.functions and frame.f_code.co_name not in self.functions:
            return None
        return self._statement if "/engine/" in name and "/engine/storage/" not in name else None

    def _statement(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).lstrip()
            if not line.startswith(("with ", "finally", "try:")):
                self.count += 1
                if self.count == self.at:
                    sys.settrace(None)
                    raise UnforeseenError(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self._statement


@cache
def files() -> dict[str, bytes]:
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env:
        db = env.create_database("db", DatabaseOptions(max_entries=4))
        for number in range(40):
            db.put(b"%03d" % (number * 7 % 100), b"v%d" % number + b"." * 30)
        env.create_database("other").put(b"a", b"1")
    return storage.contents()


def content(storage: MemoryStorage) -> Content:
    found = {}
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        for name in env.database_names():
            with env.open_database(name) as db:
                found[name] = list(db)
    return found


@cache
def whole(name: str, functions: tuple[str, ...] = ()) -> tuple[int, Content]:
    """The statements of a change, and what is there after it."""
    storage, counted = MemoryStorage(files()), Statements(-1, functions)
    with Environment(storage, CONFIG) as env, env.open_database("db") as db:
        sys.settrace(counted)
        try:
            CHANGES[name](env, db)
        finally:
            sys.settrace(None)
    return counted.count, content(storage)


def check_interruption(name: str, at: int, functions: tuple[str, ...] = ()) -> None:
    storage = MemoryStorage(files())
    env = Environment(storage, CONFIG)
    db = env.open_database("db")
    sys.settrace(Statements(at, functions))
    try:
        with contextlib.suppress(UnforeseenError):
            CHANGES[name](env, db)
    finally:
        sys.settrace(None)
    after = dict(whole(name)[1]["db"])
    for key, data in content(MemoryStorage(files()))["db"]:
        with contextlib.suppress(JetoolError):
            # No search goes through a tree that is half made.
            assert db.get(key) in (data, after.get(key))
    acknowledged = []
    for number in range(6):
        with contextlib.suppress(JetoolError):
            db.put(b"after%d" % number, b"1")
            acknowledged.append((b"after%d" % number, b"1"))
    with contextlib.suppress(JetoolError):
        env.checkpoint(force=True)
    with contextlib.suppress(JetoolError):
        if at % 2:
            env.close()
        else:
            env.engine.crash()
    found = content(storage)
    assert [record for record in acknowledged if record not in found["db"]] == []
    found["db"] = [(key, data) for key, data in found["db"] if not key.startswith(b"after")]
    if name not in SEVERAL:
        assert found in (content(MemoryStorage(files())), whole(name)[1])
    report = verify_environment(storage, list_log_files(storage), ("log", "tree", "refs", "data"))
    assert [finding for finding in report.findings if finding.severity != NOTE] == []


@pytest.mark.parametrize("step", part(range(STEPS)))
@pytest.mark.parametrize("name", CHANGES)
def test_interrupted_at_a_statement(name: str, step: int) -> None:
    count, _ = whole(name)
    check_interruption(name, 1 + step * count // STEPS)


@pytest.mark.parametrize("name", ["put", "split", "delete", "transaction", "abort", "rename"])
def test_interrupted_in_a_critical_function(name: str) -> None:
    for at in part(range(1, whole(name, CRITICAL)[0] + 1)):
        check_interruption(name, at, CRITICAL)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_interrupted_at_every_statement(name: str) -> None:
    for at in range(1, whole(name)[0] + 1):
        check_interruption(name, at)
