"""Opening environments for commands.

* Readers recover in memory: they create no file, change no byte, and take only the shared lock that keeps a cleaner
  from deleting files (R-LOG-28). They show the state of the log at that moment. A running writer is reported, since its
  unlogged changes are not visible.
* Writers lock byte 0 of ``je.lck``, waiting up to ``--lock-timeout``, and save the bytes that they overwrite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, ParamSpec

import click

from engine.errors import NotFoundError, StorageError, UsageError, plural
from engine.format.lsn import format_lsn
from engine.log.files import LogFiles
from engine.rescue.repair.access import (
    backup_directory,
    full_backup_named,
    leaving_no_lock_file,
    wait_for_writer,
    writer_of,
)
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.posix_locks import holder_in_words
from jetool.frame import exits, params
from jetool.frame.kinds import require_je
from jetool.frame.options import NamedOrders, Run

if TYPE_CHECKING:
    from engine.catalog.catalog import Catalog
    from engine.db.config import EnvironmentConfig
    from engine.db.database import Database
    from engine.db.environment import Environment
    from engine.log.tail import LastCheckpoint, Tail
    from engine.rescue.points import Point
    from engine.storage.saved_bytes import SavingStorage
    from engine.storage.sidecar import DirectoryBeside
    from engine.tree.comparators import SortKey

P = ParamSpec("P")

WRITE_EXITS: Final = {
    exits.REFUSED: "the environment is locked or must not be opened, or intact work follows a bad entry",
    exits.NOT_FOUND: "no environment, no such database",
    exits.UNSUPPORTED: "a log version that this program does not read, or an unknown key order",
    exits.INCOMPLETE: "damage that recovery has to read, or a file that cannot be read or written",
}
READ_EXITS: Final = {
    exits.FINDINGS: "printed, but committed transactions after a bad entry of the log were not read",
    exits.REFUSED: "the environment has a restore marker and must not be opened; files of that point were deleted",
    exits.NOT_FOUND: "no environment, no such database, no such point",
    exits.UNSUPPORTED: "a log version that this program does not read, or a search in an unknown key order",
    exits.INCOMPLETE: "damage that recovery has to read, or a file that cannot be read",
}


def as_of_option(function: Callable[P, int]) -> Callable[P, int]:
    """The option ``--as-of`` (parameter ``as_of``) of commands that read records."""
    text = "As it was at POINT: lsn:0xFILE/0xOFFSET, vlsn:N, time:TIME, txn:ID or commits:-N."
    return click.option("--as-of", "as_of", type=params.POINT, help=text)(function)


def config_of(run: Run, **settings: Any) -> EnvironmentConfig:
    """The configuration for opening an environment, with the user's cache size."""
    from engine.db.config import EnvironmentConfig, read_ahead_for
    from engine.db.memory import LEAST_CACHE_BYTES

    config = EnvironmentConfig(read_ahead_bytes=read_ahead_for(os.cpu_count() or 1), **settings)
    if run.environments > 1:
        config = replace(config, cache_bytes=max(config.cache_bytes // run.environments, LEAST_CACHE_BYTES))
    return config if run.cache_bytes is None else replace(config, cache_bytes=run.cache_bytes, cache_is_fixed=True)


def with_orders(run: Run, storage: Storage, config: EnvironmentConfig) -> EnvironmentConfig:
    """The configuration with the key orders that the user has specified.

    Arguments:
        storage: the environment. The environment is opened once for that, because the databases name the Java classes
            that the orders replace.

    Raises:
        NotFoundError: no database has that name.
        UsageError: the database has no Java comparator.
    """
    if not run.orders:
        return config
    from engine.db.environment import Environment

    found: dict[str, SortKey] = {}
    with Environment(storage, replace(config, read_only=True, create=False, before_writing=None)) as env:
        for named in run.orders:
            found |= _sort_keys(env, storage.root, named)
    return replace(config, comparators={**config.comparators, **found})


def _sort_keys(env: Environment, root: str, named: NamedOrders) -> dict[str, SortKey]:
    """Sort keys of one database by Java class."""
    from engine.tree.comparators import find_order

    classes = env.comparator_classes(named.database)
    if classes is None:
        raise NotFoundError(
            f"no database {named.database!r}",
            file=root,
            consequence="nothing was changed",
            hint=f"jetool dbs {root} lists them",
        )
    found = {}
    for order, java_class, what in zip((named.keys, named.data), classes, ("keys", "duplicates"), strict=True):
        if order is not None and java_class is None:
            raise UsageError(
                f"the {what} of {named.database!r} are in the order of their bytes",
                found=f"--comparator with {order}",
                consequence="nothing was changed",
                hint="leave --comparator out; jetool dbs shows which databases have a class",
            )
        if order is not None and java_class is not None:
            found[java_class] = find_order(order)
    return found


def open_to_read(run: Run, env: str, as_of: Point | None = None) -> Environment:
    """Recover an environment in memory.

    Arguments:
        run: receives warnings about data that is not visible.
        env: the directory of the environment.
        as_of: a point of its log; the environment is read as of this point.

    Raises:
        JetoolError: as ``Environment``.
    """
    from engine.db.environment import Environment
    from engine.db.memory import LEAST_CACHE_BYTES

    storage = DiskStorage(env)
    require_je(storage)
    if as_of is not None:
        from engine.rescue.history import view_at

        view, cut = view_at(storage, as_of, run.listener)
        if cut.snapped:
            run.messages.notice(
                f"{as_of.text} is {cut.snapped}", file=env, lsn=format_lsn(cut.end_lsn), consequence="as it was there"
            )
        return _noted(run, env, Environment(view, with_orders(run, view, config_of(run, read_only=True)), run.listener))
    # Check this before recovery: a writer that ends meanwhile may have logged entries that recovery did not read.
    holder = writer_of(storage)
    config = with_orders(run, storage, config_of(run, read_only=True))
    found = _noted(run, env, Environment(storage, config, run.listener))
    engine = found.engine
    if run.cache_bytes is None:
        # After recovery commands walk: a node that they have passed is not read again.
        engine.evictor.limit_growth(LEAST_CACHE_BYTES)
    _note_holder(run, holder)
    tail = engine.tail
    if tail is not None:
        warn_of_tail(run, env, tail)
    if found.unseen and not (tail is not None and tail.commits_at_risk):
        run.messages.warning(
            "records may be missing or wrong", file=env, found=found.unseen, hint=f"jetool verify {env}"
        )
    return found


def note_writer(run: Run, storage: Storage) -> None:
    """Report the process that has the environment open for writing, for commands that read only its log."""
    _note_holder(run, writer_of(storage))


def _note_holder(run: Run, holder: int | None) -> None:
    if holder is not None:
        run.messages.notice(
            f"{holder_in_words(holder)} has the environment open for writing",
            consequence="changes that it has not logged yet are not visible",
        )


def reading_code(found: Environment) -> int:
    """The exit code of a command that has printed recovered data.

    A script must be able to detect a dump that lacks committed transactions.
    """
    return exits.FINDINGS if found.unseen else exits.DONE


def _noted(run: Run, path: str, env: Environment) -> Environment:
    """Report databases whose key order recovery needed but did not know."""
    for learned in env.unknown_orders():
        named = repr(learned.database) if learned.database else f"with the id {learned.db_id}"
        run.messages.warning(
            f"the database {named} is in the order of a Java class that is not known here",
            file=path,
            consequence=f"{plural(learned.skipped, 'entry', 'entries')} after the last checkpoint not seen"
            if learned.skipped
            else f"{plural(learned.guessed, 'record')} written after the last checkpoint stand last; if the class "
            "takes different keys for equal, an old version may stand beside a new one",
            hint="give the order: --comparator DB=NAME (jetool-orders(7))",
        )
    return env


def say_notes_for_je(run: Run, storage: Storage, files: LogFiles, known: LastCheckpoint | None = None) -> None:
    """Print notes about what JE needs in addition to a sound log, or would refuse; see ``notes_for_je``."""
    from engine.rescue.je_notes import notes_for_je

    for note in notes_for_je(storage, files, known):
        run.messages.notice(note.message, file=storage.root, consequence=note.consequence, hint=note.remedy)


def warn_of_tail(run: Run, env: str, tail: Tail) -> None:
    """Warn about bytes after the end of the log."""
    # If the log ends at the end of its last file, there are no such bytes.
    if not tail.given_up_bytes:
        return
    lost = f", {plural(tail.commits_at_risk, 'committed transaction')} among them" if tail.commits_at_risk else ""
    # If the bytes hold no commit, they are the usual trace of a crash.
    say = run.messages.warning if tail.commits_at_risk else run.messages.notice
    say(
        "the log ends before its last file does"
        if tail.given_up is None
        else f"the log ends before its last file, {tail.given_up.path}: no entry of that file can be kept",
        file=f"{env}/{tail.last_file.path}",
        lsn=format_lsn(tail.end_lsn),
        consequence=f"{plural(tail.given_up_bytes, 'byte')} after it not seen{lost}",
        hint=f"jetool verify --end {env}",
    )


def require_byte_order(db: Database, options: dict[str, Any]) -> None:
    """Refuse ranges for a database whose keys are not ordered by bytes.

    Raises:
        UsageError: one of the options is set, and the database has a Java comparator.
    """
    named = [f"--{name}" for name, value in options.items() if value is not None]
    if db.state.order.comparator is not None and named:
        raise UsageError(
            f"the keys of {db.name!r} are not in the order of their bytes",
            expected="a database without a comparator",
            found=db.state.order.comparator,
            hint=f"leave out {', '.join(named)}",
        )


def require_place(path: str, option: str) -> None:
    """Refuse a directory that cannot be created, before doing anything.

    Raises:
        StorageError: a file has its name, or its parent directory is not writable.
    """
    # The nearest existing directory decides whether the rest can be created.
    from pathlib import Path

    there = next(one for one in (Path(path).absolute(), *Path(path).absolute().parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise StorageError(
            "cannot make the directory" if str(there) != path else "cannot write to the directory",
            file=path,
            found=f"{there} is no directory" if not there.is_dir() else f"{there} may not be written",
            consequence="nothing was changed",
            hint=f"name another directory with {option}",
        )


def require_database(env: str, name: str, hint: str | None = None) -> Callable[[Catalog], None]:
    """A check for ``open_to_write``: NotFoundError if no database has a name."""

    def check(catalog: Catalog) -> None:
        found = catalog.by_name(name)
        # Recovery removes temporary ones.
        if found is None or found.temporary:
            raise NotFoundError(
                f"no database {name!r}",
                file=env,
                consequence="nothing was changed",
                hint=hint or f"jetool dbs {env} lists them",
            )

    return check


@contextmanager
def open_to_write(
    run: Run,
    env: str,
    config: EnvironmentConfig | None = None,
    *,
    through: Callable[[Storage], Storage] = lambda storage: storage,
    check: Callable[[Catalog], None] | None = None,
) -> Iterator[Environment]:
    """Open an environment for writing: recovered, locked, with a checkpoint at the end.

    A dry run is the same on a view whose changes stay in memory. Otherwise the bytes that recovery cuts off or changes
    are saved first.

    Arguments:
        run: gives the lock timeout, the backup directory, and whether this is a dry run.
        env: the directory of the environment.
        config: the configuration for opening it.
        through: wraps the storage of the environment.
        check: compares the user's arguments with the recovered databases, before the first byte changes.

    Raises:
        JetoolError: as ``Environment``, or from ``check``.
    """
    from engine.db.environment import Environment
    from engine.storage.overlay import OverlayStorage
    from engine.storage.saved_bytes import SavingStorage

    disk = DiskStorage(env)
    require_je(disk)
    config = replace(
        with_orders(run, disk, config or config_of(run)),
        before_writing=None if check is None else lambda parts: check(parts.catalog),
        halt_on_record_after_bad=True,
    )
    saved: SavingStorage | None = None
    backup: DirectoryBeside | None = None
    # A dry run needs no lock, because only this process uses the view.
    storage: Storage = OverlayStorage(disk) if run.dry_run else disk
    if not run.dry_run:
        wait_for_writer(disk, run.lock_timeout_s)
        backup = backup_directory(env, run.backup_dir)
        if backup is not None:
            # Undo cannot revert transactions that are committed after the open, so it is not offered.
            storage = saved = SavingStorage(disk, backup, "open for writing", undoable=False)
    with leaving_no_lock_file(disk), full_backup_named(backup):
        try:
            with Environment(through(storage), config, run.listener) as found:
                yield found
        finally:
            # Opening a clean environment changes no existing byte.
            if saved is not None and saved.touched:
                saved.finish({})
                where = backup.root if backup else ""
                run.messages.notice(f"the bytes that recovery changed were saved in {where}")


def lead_if_replicated(env: Environment) -> None:
    """Become master of the group of a replicated environment; it must have no other electable member.

    Raises:
        RefusedError: other electable members would not receive the change.
    """
    from engine.rep.group import lead_alone

    if env.replicated:
        lead_alone(env.engine)


def node_address(env: str) -> tuple[str, int] | None:
    """The address of a running node given as ENV; None if a directory of that name exists."""
    if DiskStorage(env).stat() is not None:
        return None
    try:
        return params.HOST.convert(env, None, None)
    except click.BadParameter:
        return None
