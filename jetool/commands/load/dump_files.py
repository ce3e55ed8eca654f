"""``jetool load`` from a JE dump or from standard input: through the engine, in transactions."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

import click

from engine.catalog.naming import DatabaseOptions
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, StorageError
from engine.txn.records import PutMode
from engine.txn.txn import Durability
from jetool.app import kinds
from jetool.app.opening import lead_if_replicated, open_to_write
from jetool.app.options import Run
from jetool.commands.load.dump_reader import DumpReader, require_same_kind


class DumpLoad(NamedTuple):
    """What was loaded: the database, whether it was made, and counts."""

    db: str
    created: bool
    records: int
    rejected: int
    transactions: int


class _Count:
    """How far the load has come."""

    def __init__(self) -> None:
        self.records = self.rejected = self.transactions = 0


def load_dump(
    run: Run, env: str, file: str | None, name: str | None, *, create: bool, plain: bool, overwrite: bool, batch: int
) -> DumpLoad:
    """Load records as DbLoad does.

    Arguments:
        run: the options that all writers have.
        env: the environment.
        file: the dump; None or ``-`` for standard input.
        name: the database; None for the one that the dump's header names.
        create: make it when it is not there.
        plain: no header, keys and data on alternate lines.
        overwrite: replace records whose keys are there.
        batch: records of a transaction.

    Raises:
        JetoolError: with what was loaded before it.
    """
    count = _Count()
    with _opened(file) as lines:
        reader = DumpReader(lines, file or "standard input", plain=plain)
        name = name or reader.header.database
        if name is None:
            raise click.UsageError("name the database with --db; the dump does not", click.get_current_context())
        if kinds.is_derby(env):
            from jetool.derby.store import load_records

            part = load_records(run, env, name, reader, create=create, overwrite=overwrite, batch=batch)
            return DumpLoad(name, *part)
        with open_to_write(run, env) as found:
            lead_if_replicated(found)
            created, db = _database(found, name, reader, create=create)
            with db:
                require_same_kind(reader.header, db.duplicates, name)
                _load(run, found, db, reader, PutMode.OVERWRITE if overwrite else PutMode.INSERT_ONLY, batch, count)
    return DumpLoad(name, created, count.records, count.rejected, count.transactions)


@contextmanager
def _opened(file: str | None) -> Iterator[BinaryIO]:
    if file in (None, "-"):
        yield sys.stdin.buffer
        return
    try:
        lines = open(str(file), "rb")  # noqa: PTH123, SIM115 - the user's file, not one of the engine
    except OSError as error:
        hint = "check the path; - reads the dump from standard input"
        raise NotFoundError("cannot open the dump", file=file, found=error.strerror, hint=hint) from error
    with lines:
        yield lines


def _database(env: Environment, name: str, reader: DumpReader, *, create: bool) -> tuple[bool, Database]:
    try:
        return False, env.open_database(name)
    except NotFoundError as error:
        if create:
            return True, env.create_database(name, DatabaseOptions(duplicates=bool(reader.header.duplicates)))
        raise NotFoundError(f"no database of the name {name!r}", file=env.home, hint="--create makes it") from error


def _load(
    run: Run, env: Environment, db: Database, reader: DumpReader, mode: PutMode, batch: int, count: _Count
) -> None:
    try:
        _write(run, env, db, reader, mode, batch, count)
        env.sync()
    except StorageError as error:
        error.consequence = f"{count.records} records were written, the last of them perhaps not to the disk"
        error.hint = f"{error.hint}; jetool dbs {env.home} --count says how many records are there"
        raise
    except JetoolError as error:
        env.sync()
        before = f"{count.records} records before it were loaded" if count.records else "no record was loaded"
        error.consequence = f"{error.consequence}; {before}" if error.consequence else before
        raise
    except KeyboardInterrupt:
        env.sync()
        run.messages.notice(f"{count.records} records were loaded before the interruption, and stay")
        raise


def _write(
    run: Run, env: Environment, db: Database, reader: DumpReader, mode: PutMode, batch: int, count: _Count
) -> None:
    records = reader.records()
    more = True
    while more:
        written = rejected = 0
        with env.begin(durability=Durability.NO_SYNC) as txn:
            more = False
            for key, data in records:
                done = db.put(key, data, txn, mode=mode)
                written += done
                rejected += not done
                if written + rejected >= batch:
                    more = True
                    break
        count.records += written
        count.rejected += rejected
        count.transactions += 1
        run.listener.step("load", count.records, 0)
