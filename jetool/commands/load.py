"""``jetool load``: records from a JE dump."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final

import click

from engine.catalog.naming import DatabaseOptions
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, StorageError
from engine.txn.records import PutMode
from engine.txn.txn import Durability
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.je_load import DumpReader, require_same_kind
from jetool.opening import WRITE_EXITS, lead_if_replicated, open_to_write
from jetool.options import Run
from jetool.output.shape import Field, Shape

LOADED: Final = Shape(
    "loaded",
    "What was loaded.",
    (
        Field("db", "text", "name of the database"),
        Field("created", "bool", "the database was made"),
        Field("records", "int", "records written"),
        Field("rejected", "int", "records that were there already, with --no-overwrite"),
        Field("transactions", "int", "transactions that wrote them"),
        Field("dry_run", "bool", "nothing was changed"),
    ),
)


class _Count:
    """How far the load has come."""

    def __init__(self) -> None:
        self.records = self.rejected = self.transactions = 0


@command(
    "load",
    only=kinds.JE,
    outputs=lambda: Outputs("document", (LOADED,)),
    features=("fields", "progress", "lock", "write"),
    examples=(
        ("A dump that DbDump or jetool dump made", "jetool load /data/env orders.dump --db orders --create"),
        ("From standard input, such as the output of jetool dump", "jetool load /data/b --db orders --create"),
        ("Check a dump without changing anything", "jetool load /data/env orders.dump --db orders -n"),
    ),
    exits={
        exits.DONE: "all records were written, and are durable",
        exits.FINDINGS: "done, but records were rejected since their keys were there (--no-overwrite)",
        **WRITE_EXITS,
        exits.INCOMPLETE: "stopped early: a bad line, a dump without its end, damage in the environment",
    },
)
@environment
@click.argument("file", required=False, type=click.Path(), help="The dump; standard input when left out, or -.")
@click.option("--db", "name", metavar="NAME", help="The database.  [default: the one that the dump's header names]")
@click.option("--create", is_flag=True, help="Make the database when it is not there, as the header says.")
@click.option("-T", "--text", "plain", is_flag=True, help="No header: keys and data on alternate lines, as text.")
@click.option("--no-overwrite", is_flag=True, help="Reject records whose keys are there (exit 1).")
@click.option("--batch", type=click.IntRange(1), default=10_000, metavar="N", help="Records of a transaction.")
def load(
    run: Run, env: str, file: str | None, name: str | None, create: bool, plain: bool, no_overwrite: bool, batch: int
) -> int:
    """Load records from FILE in JE's dump format, as DbLoad does.

    Records are written in transactions of --batch records; the last commit makes all of them durable. When a line is
    bad, what was loaded before it stays, and the message says how much that is.
    """
    count = _Count()
    with _opened(file) as lines:
        reader = DumpReader(lines, file or "standard input", plain=plain)
        name = name or reader.header.database
        if name is None:
            raise click.UsageError("name the database with --db; the dump does not", click.get_current_context())
        with open_to_write(run, env) as found:
            lead_if_replicated(found)
            created, db = _database(found, name, reader, create=create)
            with db:
                require_same_kind(reader.header, db.duplicates, name)
                mode = PutMode.INSERT_ONLY if no_overwrite else PutMode.OVERWRITE
                _load(run, found, db, reader, mode, batch, count)
    row = (name, created, count.records, count.rejected, count.transactions, run.dry_run)
    run.out.document(LOADED, LOADED.row(row))
    return exits.FINDINGS if count.rejected else exits.DONE


@contextmanager
def _opened(file: str | None) -> Iterator[BinaryIO]:
    if file in (None, "-"):
        yield sys.stdin.buffer
        return
    try:
        lines = open(str(file), "rb")  # noqa: PTH123, SIM115 - the user's file, not one of the engine
    except OSError as error:
        raise NotFoundError("cannot open the dump", file=file, found=error.strerror) from error
    with lines:
        yield lines


def _database(env: Environment, name: str, reader: DumpReader, *, create: bool) -> tuple[bool, Database]:
    try:
        return False, env.open_database(name)
    except NotFoundError as error:
        if create:
            return True, env.create_database(name, DatabaseOptions(duplicates=bool(reader.header.duplicates)))
        raise NotFoundError(
            f"no database of the name {name!r}", file=env.storage.root, hint="--create makes it"
        ) from error


def _load(
    run: Run, env: Environment, db: Database, reader: DumpReader, mode: PutMode, batch: int, count: _Count
) -> None:
    try:
        _write(run, env, db, reader, mode, batch, count)
        env.sync()
    except StorageError as error:
        error.consequence = f"{count.records} records were written, the last of them perhaps not to the disk"
        error.hint = f"{error.hint}; jetool dbs {env.storage.root} --count says how many records are there"
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
