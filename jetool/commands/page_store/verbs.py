"""Commands for records of a page store of jetool: create, put, get, delete, scan, dump, load, dbs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final

import click
from click.core import ParameterSource

from engine.derby.database import DerbyDatabase
from engine.derby.log_writer import DEFAULT_SWITCH_BYTES
from engine.derby.store.layout import LARGEST_SWITCH, SMALLEST_SWITCH
from engine.derby.store.page_store import PageStore, StoreOptions
from engine.derby.store.transaction import StoreTransaction
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError, UsageError, plural
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from jetool.commands.derby_log_ends import note_holder
from jetool.commands.load.dump_reader import DumpReader
from jetool.commands.page_store.rows import CreatedStore, DeletedRow, StoredTable, WrittenRow
from jetool.commands.recover.derby_saved_bytes import backup_of, has_saved
from jetool.frame import exits, kinds, params
from jetool.frame.decode_option import decoded_shape
from jetool.frame.defaults.only_database import chosen_database
from jetool.frame.options import Run
from jetool.frame.record_output import PrintedRecord, completeness, printed

_ONLY_JE: Final = ("node-max", "log-version", "replicated", "group", "node", "address")


def create_store(run: Run, env: str, dbs: tuple[tuple[str, bool, bool], ...], file_max: int | None) -> int:
    """Create a store with tables, and print it.

    Arguments:
        run: the run; a dry run creates the store in memory.
        env: an empty or missing directory.
        dbs: name, duplicates and key prefixing of each table; page stores do not support the last two.
        file_max: log switch interval in bytes, None for the default.

    Raises:
        UsageError: an option without a meaning for page stores, a table with duplicates or prefixes, or an invalid
            interval.
        RefusedError: the directory is not empty, or a table is named twice.
    """
    # These options have defaults for JE; refuse them only if the user typed them.
    given = click.get_current_context().get_parameter_source
    foreign = [f"--{name}" for name in _ONLY_JE if given(name.replace("-", "_")) is ParameterSource.COMMANDLINE]
    if foreign:
        raise kinds.not_for(kinds.DERBY, ", ".join(foreign))
    marks = [f"{name}{':dups' * dups}{':prefix' * prefix}" for name, dups, prefix in dbs if dups or prefix]
    if marks:
        raise kinds.not_for(kinds.DERBY, f"--db {', --db '.join(marks)}")
    if file_max is not None and not SMALLEST_SWITCH <= file_max <= LARGEST_SWITCH:
        raise UsageError(
            "--file-max is out of range", expected=f"{SMALLEST_SWITCH} to {LARGEST_SWITCH}", found=str(file_max)
        )
    disk = DiskStorage(env)
    storage: Storage = OverlayStorage(disk) if run.dry_run else disk
    log_file_bytes = DEFAULT_SWITCH_BYTES if file_max is None else file_max
    with PageStore.create(storage, log_file_bytes=log_file_bytes, listener=run.listener) as store:
        for name, _, _ in dbs:
            store.create_table(name)
        # The checkpoint moves the end of the log, so read ``end`` after it.
        store.checkpoint()
        names, end = store.tables(), store.end
    run.out.document(CreatedStore(environment=env, store="derby", dbs=names, end=end, dry_run=run.dry_run))
    return exits.DONE


def put_record(run: Run, env: str, name: str, record: tuple[bytes, bytes], *, overwrite: bool, commit: bool) -> int:
    """Write one record and print its place; without ``commit`` the transaction stays open as after a crash.

    Raises:
        RefusedError: the key has a record that must not be overwritten, or the store is locked.
        NotFoundError: no such table.
    """
    with _to_write(run, env) as store:
        _require_table(store, env, name)
        txn = store.begin()
        if not txn.put(name, *record, overwrite=overwrite):
            raise RefusedError(
                f"there is a record of the key {params.key_as_typed(record[0])} in table {name!r}",
                file=env,
                consequence="nothing was written",
                hint="leave out --no-overwrite to replace it",
            )
        at, end = txn.last_instant, 0
        if commit:
            end = txn.commit()
        else:
            # The change is durable and the transaction has no end, so the next recovery undoes it.
            store.flush()
            # Do not close the store, because that would roll the change back.
            store.crash()
    run.out.document(
        WrittenRow(db=name, key=record[0], txn=txn.number, instant=at, commit_end=end, dry_run=run.dry_run)
    )
    return exits.DONE


def delete_record(run: Run, env: str, name: str, key: bytes) -> int:
    """Delete one record. NotFoundError if the table or the key does not exist."""
    with _to_write(run, env) as store, store.begin() as txn:
        _require_table(store, env, name)
        if not txn.delete(name, key):
            raise _no_record(env, name, key, "nothing was deleted")
        number, end = txn.number, txn.commit()
    run.out.document(DeletedRow(db=name, key=key, records=1, txn=number, commit_end=end, dry_run=run.dry_run))
    return exits.DONE


def get_record(run: Run, env: str, name: str | None, key: bytes) -> int:
    """Print one record; without a name, of the only table. NotFoundError if the table or the key does not exist."""
    with open_to_read(run, env) as store:
        name = chosen_database(run, env, name, store.tables())
        _require_table(store, env, name)
        value = store.get(name, key)
    if value is None:
        missing = _no_record(env, name, key, None)
        if unseen(store):
            raise DamageError(
                f"{missing.what}, as far as the log can be read",
                file=env,
                found=unseen(store),
                consequence="the record may be in the part that was not read",
                hint=f"jetool dump-log {env} shows the records after the end of the log",
            )
        raise missing
    run.out.table(decoded_shape(PrintedRecord, None), [printed((key, value))], completeness(unseen(store)))
    return reading_code(store)


def print_tables(run: Run, env: str, names: tuple[str, ...], *, count: bool) -> int:
    """List the tables. NotFoundError if a named table does not exist."""
    with open_to_read(run, env) as store, store.begin() as txn:
        for name in names:
            _require_table(store, env, name)
        rows = [
            StoredTable(
                name=place.name,
                heap_container=place.heap_container,
                index_container=place.index_container,
                page_bytes=place.page_bytes,
                heap_pages=place.heap_pages,
                index_pages=place.index_pages,
                index_levels=place.index_levels,
                records=sum(1 for _ in txn.scan(place.name)) if count else None,
            )
            for place in store.places()
            if not names or place.name in names
        ]
    run.out.table(StoredTable, rows, completeness(unseen(store)))
    return reading_code(store)


@contextmanager
def records(
    run: Run, env: str, name: str | None, first: bytes | None, end: bytes | None, *, reverse: bool
) -> Iterator[tuple[str, Iterator[tuple[bytes, bytes]], PageStore]]:
    """The name of a table, by default the only one, and its records from one key up to, but not including, another.

    The store is open meanwhile.
    """
    with open_to_read(run, env) as store, store.begin() as txn:
        name = chosen_database(run, env, name, store.tables())
        _require_table(store, env, name)
        yield name, txn.scan(name, first, end, reverse=reverse), store


def past_prefix(prefix: bytes) -> bytes | None:
    """The smallest key after all keys with this prefix; None if every later key has the prefix."""
    # A byte ff cannot be incremented, so drop the last ff bytes and increment the byte before them.
    front = prefix.rstrip(b"\xff")
    return front[:-1] + bytes((front[-1] + 1,)) if front else None


class LoadProgress:
    """The progress of a load."""

    def __init__(self) -> None:
        self.records = self.rejected = self.transactions = 0


def load_records(
    run: Run, env: str, name: str, reader: DumpReader, *, create: bool, overwrite: bool, batch: int
) -> tuple[bool, int, int, int]:
    """Load records in transactions of ``batch`` records.

    Returns: whether the table was created, records written, records rejected, transactions.

    Raises:
        NotFoundError: the table does not exist and must not be created. UsageError: the dump has duplicates.
    """
    if reader.header.duplicates:
        raise kinds.not_for(kinds.DERBY, "a dump with duplicates=1")
    done = LoadProgress()
    with _to_write(run, env) as store:
        created = name not in store.tables()
        if created and not create:
            raise NotFoundError(f"no table {name!r}", file=env, hint="--create makes it")
        if created:
            store.create_table(name)
        found = reader.records()
        try:
            while part := list(islice(found, batch)):
                with store.begin() as txn:
                    _load(txn, name, part, done, overwrite=overwrite)
                    # Closing the store makes all batches durable at once.
                    txn.commit(durable=False)
                done.transactions += 1
                run.listener.step("load", done.records, 0)
        except JetoolError as error:
            before = (
                f"{plural(done.records, 'record was', 'records were')} loaded before it"
                if done.records
                else "no record was loaded"
            )
            error.consequence = f"{error.consequence}; {before}" if error.consequence else before
            raise
    return created, done.records, done.rejected, done.transactions


def _load(
    txn: StoreTransaction, name: str, part: list[tuple[bytes, bytes]], done: LoadProgress, *, overwrite: bool
) -> None:
    for key, value in part:
        written = txn.put(name, key, value, overwrite=overwrite)
        done.records += written
        done.rejected += not written


@contextmanager
def open_to_read(run: Run, env: str) -> Iterator[PageStore]:
    """Recover a store in memory; nothing is locked or changed. Warns about data that is not visible."""
    note_holder(run, DerbyDatabase(DiskStorage(env)))
    # A reader changes nothing: it shows the state that Derby would see, and warns.
    with PageStore(DiskStorage(env), StoreOptions(accept_loss=True), read_only=True, listener=run.listener) as store:
        if store.recovered.lost_commits:
            run.messages.warning(
                f"{plural(store.recovered.lost_commits, 'committed transaction')} after the end of the log: not seen",
                file=env,
                hint=f"jetool verify {env}",
            )
        yield store


def unseen(store: PageStore) -> str | None:
    """The part of the log that recovery could not read; None if it read everything."""
    lost = store.recovered.lost_commits
    return f"{plural(lost, 'committed transaction')} after the end of the log: not seen" if lost else None


def reading_code(store: PageStore) -> int:
    """The exit code of a command that has printed recovered records; FINDINGS if committed work is missing."""
    return exits.FINDINGS if store.recovered.lost_commits else exits.DONE


@contextmanager
def _to_write(run: Run, env: str) -> Iterator[PageStore]:
    """Open a store for writing: recovered, locked, with a checkpoint at the end; a dry run works in memory."""
    if not run.dry_run:
        DerbyDatabase(DiskStorage(env)).wait_unlocked(run.lock_timeout_s)
    with backup_of(DiskStorage(env), run.backup_dir, dry_run=run.dry_run) as backup:
        # Refuse committed work after the end of the log, because writing would overwrite it.
        with PageStore(DiskStorage(env), read_only=run.dry_run, backup=backup, listener=run.listener) as store:
            yield store
        # Bytes are saved only if recovery changed pages or the log.
        if isinstance(backup, DiskStorage) and has_saved(backup):
            run.messages.notice(f"the bytes that recovery changed were saved in {backup.root}")


def _require_table(store: PageStore, env: str, name: str) -> None:
    if name not in store.tables():
        raise NotFoundError(f"no table {name!r}", file=env, hint=f"jetool dbs {env}")


def _no_record(env: str, name: str, key: bytes, consequence: str | None) -> NotFoundError:
    return NotFoundError(
        f"no record with the key {params.key_as_typed(key)} in table {name!r}",
        file=env,
        consequence=consequence,
        hint=f"jetool scan {env} --db {name} shows the existing keys",
    )
