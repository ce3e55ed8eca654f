"""The verbs on Derby databases and page stores (``jetool.frame.verbs.Verbs``).

Each verb refuses options without a meaning for Derby, and calls a module of this package. The module is imported at the
call, so that a verb loads only the part of the engine that it needs.
"""

from __future__ import annotations

from typing import Any, Final

from engine.errors import UsageError
from engine.rescue.points import Point
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from jetool.frame import kinds
from jetool.frame.options import Run

_TREE_LEVELS: Final = ("tree", "refs", "data", "space", "rep")


def _refuse_history(as_of: Point | None, decode: str | None = None) -> None:
    if as_of is not None:
        raise kinds.not_for(kinds.DERBY, "--as-of")
    if decode is not None:
        raise kinds.not_for(kinds.DERBY, "--decode")


def _to_read(env: str) -> Storage:
    from engine.derby.database import with_its_log

    return with_its_log(DiskStorage(env))


def _has_sql(env: str) -> bool:
    """Whether a database has an SQL catalogue; if not, it is a page store."""
    from engine.derby.database import DerbyDatabase

    return not DerbyDatabase(_to_read(env)).is_page_store


def checkpoint(run: Run, *, env: str, minimize: bool, accept_loss: bool) -> int:
    """Recover if needed, and always take a checkpoint."""
    from jetool.commands.recover.derby import recover_database

    if minimize:
        raise UsageError("--minimize has no meaning for a Derby database", hint="leave it out")
    return recover_database(run, DiskStorage(env), accept_loss=accept_loss, force_checkpoint=True)


def crash(
    run: Run, *, env: str, place: str, mode: str, seed: int, out: str | None, in_place: bool, matrix: str | None
) -> int:
    """Simulate one crash, or a matrix of them."""
    from jetool.commands.crash.derby import check_database, crash_database
    from jetool.commands.crash.places import case_count

    if matrix is None:
        return crash_database(run, env, place, mode, seed, out, in_place=in_place)
    return check_database(run, env, mode, seed, case_count(matrix))


def create(run: Run, *, env: str, dbs: tuple[tuple[str, bool, bool], ...], file_max: int | None, **_: object) -> int:
    """Make a page store with tables."""
    from jetool.commands.page_store.verbs import create_store

    return create_store(run, env, dbs, file_max)


def dbs(run: Run, *, env: str, count: bool, internal: bool, names: tuple[str, ...], as_of: Point | None) -> int:
    """List the tables."""
    from jetool.commands.page_store.verbs import print_tables

    _refuse_history(as_of)
    if _has_sql(env):
        from jetool.commands.sql_tables import verbs as sql_tables

        return sql_tables.print_tables(run, _to_read(env), names, count=count, internal=internal)
    if internal:
        raise kinds.not_for(kinds.DERBY, "--internal")
    return print_tables(run, env, names, count=count)


def delete(run: Run, *, env: str, key: bytes, name: str, data: bytes | None) -> int:
    """Delete one record of a table."""
    from jetool.commands.page_store.verbs import delete_record

    if data is not None:
        raise kinds.not_for(kinds.DERBY, "--data")
    return delete_record(run, env, name, key)


def dump(
    run: Run,
    *,
    env: str,
    name: str | None,
    printable: bool,
    directory: str | None,
    as_of: Point | None,
    decode: str | None,
) -> int:
    """Print a whole table, or write each to a file."""
    from jetool.commands.dump.directory import dump_directory
    from jetool.commands.page_store import verbs
    from jetool.frame.record_output import print_dump

    _refuse_history(as_of, decode)
    if _has_sql(env):
        from jetool.commands.sql_tables import verbs as sql_tables

        return sql_tables.dump_tables(run, _to_read(env), name, directory)
    if directory is None:
        with verbs.records(run, env, name, None, None, reverse=False) as (table, records, opened):
            print_dump(run, table, records, duplicates=False, printable=printable, unseen=verbs.unseen(opened))
        return verbs.reading_code(opened)
    with verbs.open_to_read(run, env) as store, store.begin() as txn:
        unseen = verbs.unseen(store)

        def dump_one(run: Run, name: str) -> int:
            return print_dump(run, name, txn.scan(name), duplicates=False, printable=printable, unseen=unseen)

        dump_directory(run, directory, store.tables(), dump_one, lambda: unseen)
    return verbs.reading_code(store)


def dump_log(run: Run, /, *, env: str, **options: Any) -> int:
    """Print the log."""
    from jetool.commands.dump_log.derby import dump_database

    return dump_database(run, _to_read(env), options)


def get(run: Run, *, env: str, key: bytes, name: str | None, as_of: Point | None, decode: str | None) -> int:
    """Print one record of a table."""
    from jetool.commands.page_store.verbs import get_record

    _refuse_history(as_of, decode)
    return get_record(run, env, name, key)


def info(run: Run, *, env: str, stats: bool, html: str | None, **_: object) -> int:
    """Print the control data; ``quick`` makes no difference."""
    from jetool.commands.info.derby import print_info

    if html is not None:
        raise kinds.not_for(kinds.DERBY, "--html")
    if stats:
        raise UsageError("--stats has no meaning for a Derby database")
    return print_info(run, _to_read(env))


def load(run: Run, /, *, env: str, sources: tuple[str, ...], **options: Any) -> int:
    """Load a JE dump into a table."""
    from jetool.commands.load import dump_files, request_options
    from jetool.commands.page_store.verbs import load_records

    if not request_options.is_dump(sources, options):
        raise kinds.not_for(kinds.DERBY, "sources other than a JE dump")
    overwrite, batch = not options["no_overwrite"], int(options["batch"])
    with dump_files.opened(sources, options) as (name, reader):
        done = load_records(run, env, name, reader, create=options["create"], overwrite=overwrite, batch=batch)
    return dump_files.print_done(run, dump_files.DumpLoad(name, *done))


def put(run: Run, *, env: str, key: bytes, data: bytes, name: str, no_overwrite: bool, no_commit: bool) -> int:
    """Write one record to a table."""
    from jetool.commands.page_store.verbs import put_record
    from jetool.frame.record_output import read_data

    record = key, read_data(data)
    return put_record(run, env, name, record, overwrite=not no_overwrite, commit=not no_commit)


def recover(
    run: Run, *, env: str, accept_loss: bool, je_default: bool, explain: bool, timeline: bool, estimate: bool
) -> int:
    """Run recovery, or explain what it would do with each record or transaction."""
    from jetool.commands.recover.derby import draw_timeline, explain_database, recover_database

    if estimate:
        raise kinds.not_for(kinds.DERBY, "--estimate")
    if je_default:
        raise UsageError("--je-default has no meaning for a Derby database", hint="leave it out")
    if timeline:
        return draw_timeline(run, _to_read(env))
    if explain:
        return explain_database(run, _to_read(env))
    return recover_database(run, DiskStorage(env), accept_loss=accept_loss, force_checkpoint=False)


def scan(
    run: Run,
    *,
    env: str,
    name: str | None,
    first: bytes | None,
    last: bytes | None,
    prefix: bytes | None,
    reverse: bool,
    limit: int | None,
    as_of: Point | None,
    decode: str | None,
) -> int:
    """Print records of a table in key order."""
    from jetool.commands.page_store import verbs
    from jetool.frame.record_output import end_of_range, note_prefix, print_range

    _refuse_history(as_of, decode)
    if _has_sql(env):
        from jetool.commands.sql_tables import verbs as sql_tables

        if reverse or prefix is not None or first is not None or last is not None:
            raise UsageError(
                "a table of an SQL database has no keys",
                file=env,
                hint="leave out --from, --to, --prefix and --reverse: rows come in the order of its pages",
            )
        return sql_tables.scan_table(run, _to_read(env), name, limit)
    end = end_of_range(last)
    if prefix is not None:
        first, end = prefix, verbs.past_prefix(prefix)
    with verbs.records(run, env, name, first, end, reverse=reverse) as (_, records, opened):
        if not print_range(run, records, limit, verbs.unseen(opened)) and prefix is not None:
            note_prefix(run, env, prefix)
    return verbs.reading_code(opened)


def txns(
    run: Run,
    *,
    env: str,
    fates: tuple[str, ...],
    ids: tuple[int, ...],
    since: int | None,
    until: int | None,
    limit: int | None,
    tail: int | None,
    reverse: bool,
) -> int:
    """Print the fate of every transaction."""
    from jetool.commands.derby_txns import print_txns

    if since is not None or until is not None:
        raise UsageError("--since and --until have no meaning for a Derby database: its log holds no times")
    return print_txns(
        run, _to_read(env), (fates, ids), limit if tail is None else tail, last=tail is not None, reverse=reverse
    )


def undo(run: Run, *, env: str, force: bool) -> int:
    """Restore the state before a recovery."""
    from jetool.commands.recover.derby import undo_database

    return undo_database(run, DiskStorage(env), force=force)


def verify(run: Run, /, *, env: str, **options: Any) -> int:
    """Check control files and log, and also every page unless only the log is requested."""
    from jetool.commands.verify.derby import verify_database, verify_part

    only_je = {"secondaries": "--secondary", "name": "--db"}
    if given := [shown for option, shown in only_je.items() if options[option]]:
        raise kinds.not_for(kinds.DERBY, ", ".join(given))
    for level in _TREE_LEVELS:
        if options[level]:
            raise UsageError(f"--{level} has no meaning for a Derby database", hint="use --full: it checks every page")
    storage = _to_read(env)
    if options["rate"] is not None:
        from engine.storage.throttle import Throttle, ThrottledStorage

        storage = ThrottledStorage(storage, Throttle(options["rate"]))
    wanted = options["wanted"]
    if wanted is not None:
        if levels := [f"--{one}" for one in ("log", "tail", "quick", "full") if options[one]]:
            raise UsageError(f"--files and {levels[0]} exclude each other", hint="leave one of them out")
        kinds.require_files_of(kinds.DERBY, wanted.kind)
        return verify_part(run, storage, wanted.first, wanted.last, strict=options["strict"])
    # ``--full`` takes precedence over options that limit the check.
    log_only = (options["quick"] or options["log"] or options["tail"]) and not options["full"]
    return verify_database(run, storage, log_only=log_only, strict=options["strict"])
