"""``jetool load`` from a JE dump or from standard input.

Through the engine, in transactions. A large dump for a database without records takes the way of other sources
(``dump_bulk``): sorted runs, and finished log files of them. What comes of a dump is the same on both ways, also of one
with a bad line: the whole batches before it stay.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import click

from engine.catalog.name_operations import DatabaseOptions
from engine.db.database import Database
from engine.db.environment import Environment
from engine.errors import JetoolError, NotFoundError, StorageError, plural
from engine.pipeline.python_side import has
from engine.storage.disk import DiskStorage
from engine.txn.payload import PutMode
from engine.txn.txn import Durability
from jetool.commands.load.dump_reader import DumpReader, require_same_kind
from jetool.commands.load.held_signals import HeldSignals
from jetool.commands.load.rows import LoadSummary
from jetool.frame import exits
from jetool.frame.environments import lead_if_replicated, open_to_write, require_database
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.catalog.catalog import Catalog
    from engine.pipeline.load.session import LoadSession


class DumpLoad(NamedTuple):
    """What was loaded: the database, whether it was made, and counts; files and their bytes where files were made."""

    db: str
    created: bool
    records: int
    rejected: int
    transactions: int
    files: int = 0
    size: int = 0


class _Count:
    """How far the load has come."""

    def __init__(self) -> None:
        self.records = self.rejected = self.transactions = 0


def load_dump(run: Run, env: str, sources: tuple[str, ...], options: dict[str, Any]) -> DumpLoad:
    """Load records as DbLoad does.

    Arguments:
        run: the options that all writers have.
        env: the environment.
        sources: the dump; none or ``-`` for standard input.
        options: ``name``, None for the database that the dump's header names; ``create``, make it when it is not there;
            ``plain``, no header, keys and data on alternate lines; ``no_overwrite``, reject records whose keys are
            there; ``batch``, records of a transaction.

    Raises:
        JetoolError: with what was loaded before it.
    """
    count = _Count()
    mode = PutMode.INSERT_ONLY if options["no_overwrite"] else PutMode.OVERWRITE
    # The header first: a file that is no dump must not start a recovery or make a database.
    with ExitStack() as stack:
        name, reader = stack.enter_context(opened(sources, options))

        def check(catalog: Catalog) -> None:
            if not options["create"]:
                require_database(env, name, "--create makes it")(catalog)
            there = catalog.by_name(name)
            if there is not None and not there.temporary:
                require_same_kind(reader.header, there.duplicates, name)

        many = reader.is_large() and has("numpy", "pyarrow")
        if not many:
            found = stack.enter_context(open_to_write(run, env, check=check))
            lead_if_replicated(found)
        else:
            from engine.pipeline.load.session import LoadSession, LoadStorage

            found = stack.enter_context(open_to_write(run, env, check=check, through=LoadStorage))
            lead_if_replicated(found)
            session = LoadSession(found, DiskStorage(env), name, _options_of(reader), create=True)
            if session.bulk:
                return _load_files(run, session, reader, count, options)
        created, db = _database(found, name, reader)
        with db:
            _load(run, found, db, reader, mode, options["batch"], count)
    return DumpLoad(name, created, count.records, count.rejected, count.transactions)


def print_done(run: Run, done: DumpLoad) -> int:
    """Print what was loaded; the exit code."""
    run.out.document(
        LoadSummary(
            db=done.db,
            created=done.created,
            records=done.records,
            rejected=done.rejected,
            transactions=done.transactions,
            dry_run=run.dry_run,
            read=done.records + done.rejected,
            duplicates=0,
            files=done.files,
            bytes=done.size,
            rejects=None,
            value_schema=None,
        )
    )
    return exits.FINDINGS if done.rejected else exits.DONE


@contextmanager
def opened(sources: tuple[str, ...], options: dict[str, Any]) -> Iterator[tuple[str, DumpReader]]:
    """The name of the database, and the dump, its header read.

    Raises:
        NotFoundError: there is no such file. UsageError: neither the options nor the dump name a database.
    """
    file = sources[0] if sources else None
    with _lines_of(file) as lines:
        reader = DumpReader(lines, file or "standard input", plain=options["plain"])
        name = options["name"] or reader.header.database
        if name is None:
            raise click.UsageError("name the database with --db; the dump does not", click.get_current_context())
        yield name, reader


@contextmanager
def _lines_of(file: str | None) -> Iterator[BinaryIO]:
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


def _database(env: Environment, name: str, reader: DumpReader) -> tuple[bool, Database]:
    try:
        return False, env.open_database(name)
    except NotFoundError:
        # Before the environment was opened for writing it was checked that it may be made.
        return True, env.create_database(name, _options_of(reader))


def _options_of(reader: DumpReader) -> DatabaseOptions:
    return DatabaseOptions(duplicates=bool(reader.header.duplicates))


def _load_files(run: Run, session: LoadSession, reader: DumpReader, count: _Count, options: dict[str, Any]) -> DumpLoad:
    """All at once, as finished log files."""
    from jetool.commands.load import dump_bulk

    overwrite = not options["no_overwrite"]
    try:
        done = dump_bulk.load(run, session, reader, options["batch"], overwrite=overwrite)
    except KeyboardInterrupt:
        counted = f"jetool dbs {session.storage.root} --count says which"
        run.messages.notice(f"interrupted: either all records were loaded or none; {counted}")
        raise
    count.records, count.rejected = done.records, done.read - done.records
    if done.damage is not None:
        raise _with_loaded(done.damage, count)
    return DumpLoad(session.name, not session.exists, count.records, count.rejected, 0, done.files, done.size)


def _with_loaded(error: JetoolError, count: _Count) -> JetoolError:
    """An error that says how many records were loaded before it."""
    records = plural(count.records, "record was", "records were")
    before = f"{records} loaded before it" if count.records else "no record was loaded"
    error.consequence = f"{error.consequence}; {before}" if error.consequence else before
    return error


def _load(
    run: Run, env: Environment, db: Database, reader: DumpReader, mode: PutMode, batch: int, count: _Count
) -> None:
    try:
        _write(run, env, db, reader, mode, batch, count)
        # Batches commit without a sync; one at the end makes all of them durable.
        env.sync()
    # A JetoolError too, but with the disk gone another sync would only fail again.
    except StorageError as error:
        error.consequence = f"{plural(count.records, 'record')} written, the last perhaps not to the disk"
        error.hint = f"{error.hint}; jetool dbs {env.home} --count says how many records are there"
        raise
    except JetoolError as error:
        # What the message counts as loaded must be durable.
        env.sync()
        _with_loaded(error, count)
        raise
    # The open batch is rolled back; those before it are complete and stay.
    except KeyboardInterrupt:
        env.sync()
        run.messages.notice(f"loaded before the interruption, and kept: {plural(count.records, 'record')}")
        raise


def _write(
    run: Run, env: Environment, db: Database, reader: DumpReader, mode: PutMode, batch: int, count: _Count
) -> None:
    records = reader.records()
    more = True
    with HeldSignals() as held:
        while more:
            written = rejected = 0
            with env.begin(durability=Durability.NO_SYNC) as txn:
                more = False
                # The iterator goes on where the batch before has stopped. Reading is interrupted, changes are not.
                for key, data in records:
                    held.hold()
                    done = db.put(key, data, txn, mode=mode)
                    held.release()
                    written += done
                    rejected += not done
                    if written + rejected >= batch:
                        more = True
                        break
                held.hold()
            # Only after the commit: an error in a batch takes its records back.
            count.records += written
            count.rejected += rejected
            count.transactions += 1
            held.release()
            run.listener.step("load", count.records, 0)
