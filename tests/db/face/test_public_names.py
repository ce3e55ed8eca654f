"""What ``engine`` exports: names that are listed, every error among them, and classes for what programs handle."""

from __future__ import annotations

import ast
import threading
from importlib import import_module
from pathlib import Path

import pytest

import engine
from engine.errors import (
    ArgumentError,
    DatabaseNotFoundError,
    ExistsError,
    InUseError,
    JetoolError,
    NotFoundError,
    ReadOnlyError,
    RefusedError,
)
from engine.txn.lock_errors import DeadlockError, LockConflictError, LockTimeoutError


def test_dir_lists_the_public_names() -> None:
    assert set(engine.__all__) <= set(dir(engine))
    assert dir(engine) == sorted(dir(engine))
    assert len(set(engine.__all__)) == len(engine.__all__)
    for name in engine.__all__:
        assert getattr(engine, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        engine.Nothing  # noqa: B018


def test_every_error_is_a_public_name() -> None:
    root = Path(engine.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            # Spark's modules raise the errors of others.
            if isinstance(node, ast.ClassDef) and node.bases and not node.name.startswith("_"):
                bases = {base.id for base in node.bases if isinstance(base, ast.Name)}
                if any(base.endswith("Error") for base in bases) or node.name == "JetoolError":
                    module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
                    found.add((module, node.name))
    assert len(found) > 40
    for module, name in found:
        error = getattr(import_module(module), name)
        assert issubclass(error, JetoolError)
        assert getattr(engine, name) is error
        assert name in engine.__all__


def test_subclasses_keep_kind_and_exit_code() -> None:
    """A command line ends as before, and a handler of the wider class still gets them."""
    for error in (ExistsError, InUseError, ReadOnlyError, engine.ClosedError, engine.TransactionAbortedError):
        assert issubclass(error, RefusedError)
        assert (error.kind, error.exit_code) == ("refused", 3)
    assert issubclass(DatabaseNotFoundError, NotFoundError)
    assert (DatabaseNotFoundError.kind, DatabaseNotFoundError.exit_code) == ("not_found", 4)
    assert issubclass(ArgumentError, TypeError)


def test_names_of_databases() -> None:
    storage = engine.MemoryStorage()
    with engine.Environment(storage, engine.EnvironmentConfig(create=True)) as env:
        db = env.create_database("there")
        env.create_database("other").close()
        with pytest.raises(ExistsError):
            env.create_database("there")
        with pytest.raises(ExistsError):
            env.rename_database("other", "there")
        for call in (env.open_database, env.remove_database, env.truncate_database):
            with pytest.raises(DatabaseNotFoundError):
                call("missing")
        with pytest.raises(InUseError):
            env.remove_database("there")
        with pytest.raises(InUseError):
            engine.Environment(storage, engine.EnvironmentConfig(create=True))
        db.sequence(b"ids", engine.SequenceConfig(create=True))
        with pytest.raises(ExistsError):
            db.sequence(b"ids", engine.SequenceConfig(create=True, exclusive=True))
    reading = engine.EnvironmentConfig(read_only=True)
    with engine.Environment(storage, reading) as env, env.open_database("there") as db, pytest.raises(ReadOnlyError):
        db[b"a"] = b"1"


def test_lock_timeout_and_deadlock() -> None:
    config = engine.EnvironmentConfig(create=True, lock_timeout_ms=50)
    with engine.Environment(engine.MemoryStorage(), config) as env:
        db = env.create_database("db")
        first, second = env.begin(), env.begin()
        db.put(b"a", b"1", first)
        with pytest.raises(LockTimeoutError):
            db.put(b"a", b"2", second)
        with pytest.raises(engine.TransactionAbortedError) as refused:
            db.put(b"b", b"2", second)
        assert isinstance(refused.value.__cause__, LockTimeoutError)
        second.abort()
        first.commit()


def test_deadlock() -> None:
    config = engine.EnvironmentConfig(create=True, lock_timeout_ms=20_000)
    with engine.Environment(engine.MemoryStorage(), config) as env:
        db = env.create_database("db")
        met, ends = threading.Barrier(2), list[str]()

        def crossing(mine: bytes, other: bytes) -> None:
            txn = env.begin()
            db.put(mine, b"1", txn)
            met.wait()
            try:
                db.put(other, b"2", txn)
                txn.commit()
                ends.append("committed")
            except LockConflictError as error:
                txn.abort()
                ends.append(type(error).__name__)

        threads = [threading.Thread(target=crossing, args=keys) for keys in ((b"a", b"b"), (b"b", b"a"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(ends) == [DeadlockError.__name__, "committed"]
        assert len(dict(db)) == 2
