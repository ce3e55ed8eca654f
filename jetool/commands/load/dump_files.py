"""``jetool load`` from a JE dump or from standard input.

Records are loaded by the engine, in transactions. A large dump for an empty database is instead loaded like other
sources (``dump_bulk``), as sorted runs that become finished log files. Both ways give the same result. If the dump has
a bad line, the whole batches before that line stay.
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
from engine.pipeline.python_side import missing_columns
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
    """The result: the database, whether it was created, and counts; number and size of files if files were created."""

    db: str
    created: bool
    records: int
    rejected: int
    transactions: int
    files: int = 0
    size: int = 0


class _Count:
    """The progress of the load."""

    def __init__(self) -> None:
        self.records = self.rejected = self.transactions = 0


def load_dump(run: Run, env: str, sources: tuple[str, ...], options: dict[str, Any]) -> DumpLoad:
    """Load records as DbLoad does.

    Arguments:
        run: the shared options.
        env: the environment.
        sources: the dump; empty or ``-`` for standard input.
        options: ``name``: the database, None for the one in the dump's header; ``create``: create it if it does not
            exist; ``plain``: no header, keys and data on alternate lines; ``no_overwrite``: reject records with
            existing keys; ``batch``: records per transaction; ``settings``, ``ignore_unknown``: as for ``DumpReader``.

    Raises:
        JetoolError: the error states how many records were loaded before it.
    """
    count = _Count()
    mode = PutMode.INSERT_ONLY if options["no_overwrite"] else PutMode.OVERWRITE
    # Read the header first: a file that is not a dump must not cause a recovery or create a database.
    with ExitStack() as stack:
        name, reader = stack.enter_context(opened(sources, options))

        def check(catalog: Catalog) -> None:
            if not options["create"]:
                require_database(env, name, "--create makes it")(catalog)
            there = catalog.by_name(name)
            if there is not None and not there.temporary:
                require_same_kind(reader.header, there.duplicates, name)

        many = reader.is_large() and not missing_columns()
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
    """Print the result; returns the exit code."""
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
    """The name of the database, and the dump after reading its header.

    Raises:
        NotFoundError: the file does not exist. UsageError: neither the options nor the dump names a database.
    """
    file = sources[0] if sources else None
    with _lines_of(file) as lines:
        reader = DumpReader(
            lines,
            file or "standard input",
            plain=options["plain"],
            settings=dict(options["settings"]),
            ignore_unknown=options["ignore_unknown"],
        )
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
        # A check before the environment was opened for writing has allowed this creation.
        return True, env.create_database(name, _options_of(reader))


def _options_of(reader: DumpReader) -> DatabaseOptions:
    return DatabaseOptions(duplicates=bool(reader.header.duplicates))


def _load_files(run: Run, session: LoadSession, reader: DumpReader, count: _Count, options: dict[str, Any]) -> DumpLoad:
    """Load everything at once, as finished log files."""
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
    """Add to an error how many records were loaded before it."""
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
    # Handled before JetoolError: after a disk error another sync would only fail again.
    except StorageError as error:
        error.consequence = f"{plural(count.records, 'record')} written, the last perhaps not to the disk"
        error.hint = f"{error.hint}; jetool dbs {env.home} --count says how many records are there"
        raise
    except JetoolError as error:
        # The records that the message counts must be durable.
        env.sync()
        _with_loaded(error, count)
        raise
    # The open batch is rolled back; earlier batches are complete and stay.
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
                # The iterator continues after the records of the previous batch. Signals may interrupt reading, but not
                # changes.
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
            # Count after the commit, because an error before it rolls the batch back.
            count.records += written
            count.rejected += rejected
            count.transactions += 1
            held.release()
            run.listener.step("load", count.records, 0)
