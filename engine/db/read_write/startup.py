"""Opening an environment for writing: from the files of a directory to connected parts with a log writer.

In this order: find the end of the log; refuse if committed transactions follow a bad entry (D-5); recover in memory;
set invisible bits and cut the file at the end of the log; restore open transactions; finish committed naming
operations; merge the VLSN index; take a checkpoint (R-REC-60 to R-REC-64). Nothing but the lock file is changed before
recovery has succeeded.

Example: recovery finds ``0x1/0x4b0 Commit 7 | 0x1/0x510 half an entry``: file 0x1 is cut at 0x510, and the checkpoint
is appended there.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from engine.catalog.catalog import NULL_REPLICATED_DB_ID, Catalog, empty_root
from engine.catalog.name_operations import DatabaseOptions
from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import EnvironmentConfig
from engine.db.extinction import DATABASE_NAME as EXTINCTIONS
from engine.db.parts import EnvironmentParts, make_context
from engine.db.read_write.parts import attach_writer
from engine.db.startup import context_over, recovery_for
from engine.db.stream import EnvironmentStream
from engine.db.vlsn_index.head import cut_missing
from engine.db.vlsn_index.store import HookGroup, StoredIndex, VLSNHook, VLSNParticipant, tell_stream
from engine.errors import DamageError, NotFoundError, RefusedError, UnsupportedError, plural
from engine.events import Listener
from engine.format.entry.db_tree import ENV_REPLICATED
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry.ln import LN
from engine.format.entry.markers import RestoreRequired
from engine.format.lsn import NULL_LSN, format_lsn, make_lsn, offset_of
from engine.format.versions import JE_RELEASES, OLDEST_CONTINUED, PRIOR_VERSION, continued_in
from engine.log.access import LogAccess
from engine.log.files import LogFiles, list_log_files, log_file_name, new_file_name
from engine.log.marker import MARKER, write_marker
from engine.log.passes import LogRange
from engine.log.tail import Tail, find_end
from engine.recovery.result import RecoveryResult
from engine.storage.base import Storage
from engine.tree.database_state import DatabaseState
from engine.txn.rollback import relock, set_invisible
from engine.txn.txn import Durability, Txn, TxnState
from engine.vlsn.database import DATABASE_NAME as VLSN_DATABASE
from engine.vlsn.rebuild import StreamCollector, first_of, replace_index
from engine.vlsn.recovery_merge import open_index

_INTERNAL: Final = ("_jeUtilization", "_jeReservedFilesDb", "_jeExpiration")
_STAND_ALONE: Final = (*_INTERNAL, EXTINCTIONS)
_REPLICATED: Final = (*_INTERNAL, VLSN_DATABASE)


def open_for_writing(storage: Storage, config: EnvironmentConfig, listener: Listener) -> EnvironmentParts:
    """Recover or create an environment. The caller holds the writer's lock.

    Raises:
        NotFoundError, RefusedError, DamageError, UnsupportedError: see ``Environment``.
    """
    try:
        files = list_log_files(storage)
    except NotFoundError:
        if not config.create:
            raise
        return _create(storage, config, listener)
    if config.create and _holds_nothing(files):
        # A crash interrupted the creation of the environment: it is still empty.
        return _create(storage, config, listener)
    tail = find_end(storage, files, listener)
    if config.create and tail.entries <= 1 and len(files.files) == 1:
        # Only a header was written: the crash came before the first entry.
        return _create(storage, config, listener)
    # Check before recovery, which may take long, and before anything on disk changes.
    _check_tail(storage, config, tail)
    with context_over(storage, files, config) as ctx:
        # New files never get an older version: versions ascend with file numbers (je-log-format.md 3.6).
        ctx.log_version = continued_in(tail.version)
        utilization, stream = UtilizationTracker(ctx), VLSNHook(config.vlsn_limits)
        recovery = recovery_for(ctx, tail, config, listener, HookGroup(utilization, stream))
        catalog = recovery.run()
        parts = EnvironmentParts(config, ctx, catalog, utilization, recovery.result, listener)
        parts.tail = tail
        # This check needs the catalog, to distinguish users' databases from JE's own and from temporary databases.
        _check_records(parts, tail)
        if config.before_writing is not None:
            config.before_writing(parts)
        # The first change on disk; everything before it can be repeated after a crash.
        _make_writable(parts, tail, stream, files)
        if config.mark_damage:
            ctx.access.on_damage = partial(_mark_damaged, parts)
    return parts


def _mark_damaged(parts: EnvironmentParts, error: DamageError) -> None:
    """Stop writing after a bad entry was met in a file, and mark the environment so that it is not opened as if it
    were whole.
    """
    if parts.writer is None or parts.writer.failed:
        return
    # Stop the writer first: nothing more may be logged while the marker is being written.
    parts.writer.invalidate(error)
    now_ms = parts.clock()
    said = f"#{time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime(now_ms // 1000))}\nlsn={error.lsn}\n"
    write_marker(parts.ctx.access.storage, RestoreRequired("LOG_CHECKSUM", now_ms, said))
    error.consequence = f"a record or tree node is lost; {MARKER} now keeps JE and jetool from opening the environment"
    error.hint = (
        "restore the file from a backup or a replica, then remove the marker; jetool verify shows what is damaged"
    )


def _create(storage: Storage, config: EnvironmentConfig, listener: Listener) -> EnvironmentParts:
    """Create an environment (R-REC-2, je-log-format.md 9.6)."""
    found = RecoveryResult()
    found.new_environment = True
    ctx = make_context(config, LogAccess(storage, ()))
    ctx.log_version = config.log_version
    root = empty_root(replicated=config.replicated, version=config.log_version)
    catalog = Catalog(ctx, root, config.comparators)
    parts = EnvironmentParts(config, ctx, catalog, UtilizationTracker(ctx), found, listener)
    attach_writer(parts, make_lsn(0, 0), NULL_LSN, new_file=False, data_directories=0)
    parts.naming.write_root()
    for name in _REPLICATED if config.replicated else _STAND_ALONE:
        txn = parts.txns.begin(durability=Durability.NO_SYNC)
        parts.naming.create(name, DatabaseOptions(), txn, internal=True)
        parts.txns.commit(txn)
    if config.replicated:
        _open_vlsn_index(parts, VLSNHook(config.vlsn_limits))
    parts.checkpointer.run("recovery", force=True, minimize=True)
    return parts


def _check_tail(storage: Storage, config: EnvironmentConfig, tail: Tail) -> None:
    """Refuse to open for writing if the end of the log forbids it; nothing has been changed yet."""
    if tail.version < OLDEST_CONTINUED:
        raise UnsupportedError(
            f"a log of version {tail.version} (JE {JE_RELEASES[tail.version]}) is read, but not written on",
            file=storage.root,
            expected=f"log version {OLDEST_CONTINUED} or later",
            found=str(tail.version),
            consequence="nothing was changed; current releases of JE cannot read its tree nodes",
            hint="jetool salvage saves its records in a new environment",
        )
    if tail.commits_at_risk and config.halt_on_commit_after_bad:
        damage = tail.damage
        assert damage is not None
        stand = plural(tail.commits_at_risk, "committed transaction stands", "committed transactions stand")
        raise RefusedError(
            f"{stand} after a bad entry",
            file=f"{storage.root}/{damage.path}",
            lsn=format_lsn(damage.lsn),
            consequence=f"opening for writing would cut {plural(tail.given_up_bytes, 'byte')} away and lose them",
            hint="restore the file from a copy; jetool recover --accept-loss gives them up and saves the bytes",
        )


def _check_records(parts: EnvironmentParts, tail: Tail) -> None:
    """Refuse to drop records outside transactions if the configuration requires it; nothing on disk has been changed
    yet.
    """
    count = parts.records_after_damage if parts.config.halt_on_record_after_bad else 0
    if count:
        stand = plural(count, "record outside transactions stands", "records outside transactions stand")
        raise RefusedError(
            f"{stand} after a bad entry",
            file=f"{parts.ctx.access.storage.root}/{tail.last_file.path}",
            lsn=format_lsn(tail.end_lsn),
            consequence=f"opening for writing would cut {plural(tail.given_up_bytes, 'byte')} away and lose them",
            hint="restore the file from a copy; jetool recover gives them up and saves the bytes",
        )


def _make_writable(parts: EnvironmentParts, tail: Tail, stream: VLSNHook, files: LogFiles) -> None:
    """Apply on disk what recovery has done in memory."""
    storage, found = parts.ctx.access.storage, parts.recovery
    # Set the bits before anything is logged: the next recovery must not redo what this one has undone (R-RB-32).
    set_invisible(parts.ctx.access, found.rolled_back)
    _clear_after(parts.ctx.access, tail, files)
    if tail.cut_bytes:
        file = storage.open_rw(tail.last_file.path)
        # Truncate before the first write; otherwise the old bytes could continue the log after the new entries
        # (R-LOG-33).
        file.truncate(offset_of(tail.end_lsn))
        # The cut must be durable before anything is appended after it.
        file.sync()
        file.close()
    # A file has one log version, and an ImmutableFile entry ends its file (R-LOG-34).
    new_file = tail.immutable or tail.version < parts.ctx.log_version or parts.config.force_new_file
    attach_writer(parts, tail.end_lsn, tail.last_lsn, new_file=new_file, data_directories=files.data_directories)
    # Restore open transactions before naming operations are finished: they may hold locks on names.
    _resurrect(parts)
    if tail.version < PRIOR_VERSION:
        _put_names_into_map_lns(parts)
    _finish_naming(parts)
    if parts.catalog.flags & ENV_REPLICATED:
        _open_vlsn_index(parts, stream)
    changed = parts.writer is not None and parts.writer.entries > 0
    if changed or not found.last_entry_is_ckpt_end or parts.config.force_checkpoint:
        # Take a checkpoint, so that the next recovery starts here and need not repeat this work (R-REC-64).
        parts.checkpointer.run("recovery", force=True, minimize=True)


def _clear_after(access: LogAccess, tail: Tail, files: LogFiles) -> None:
    """Remove the files after the end of the log, before anything is appended to the log."""
    storage = access.storage
    for path in tail.set_aside:
        # Rename it: the next new file gets this number.
        storage.rename(path, bad_name(storage, path))
    # JE would append before a stub, and later use the stub with its old pointer to the previous file (R-LOG-16).
    unfinished = new_file_name(log_file_name(tail.last_file.number + 1))
    stale = [*tail.stubs, *(path for path in files.set_aside if path.endswith(unfinished))]
    for path in stale:
        storage.remove(path)
    for directory in sorted({path.rpartition("/")[0] for path in (*tail.set_aside, *stale)}):
        # A file that reappeared after a crash would follow entries that are appended now.
        storage.sync_directory(directory)
    for path in (*tail.set_aside, *tail.stubs):
        access.forget(int(path.rpartition("/")[2][:8], 16))


def _open_vlsn_index(parts: EnvironmentParts, stream: VLSNHook) -> None:
    """Merge the part of the replication stream that recovery saw into the stored index (R-REC-63, R-VLSN-75)."""
    with parts.ctx.latch:
        state = parts.catalog.by_name(VLSN_DATABASE)
    config, is_new = parts.config, parts.catalog.last_replicated_db_id == NULL_REPLICATED_DB_ID
    if state is None and (is_new or config.rebuild_vlsn_index):
        # A crash interrupted the creation of the environment: there is no stream yet.
        txn = parts.txns.begin(durability=Durability.NO_SYNC)
        state = parts.naming.create(VLSN_DATABASE, DatabaseOptions(), txn, internal=True)
        parts.txns.commit(txn)
    if state is None:
        return
    stored, recovered = StoredIndex(parts, state), None if config.rebuild_vlsn_index else stream.tracker
    if config.rebuild_vlsn_index:
        _rebuild(parts, stored)
    parts.vlsn_index = open_index(stored, config.vlsn_limits, recovered, cache_size=config.vlsn_cache_size)
    if not config.rebuild_vlsn_index:
        cut_missing(parts, parts.vlsn_index)
    if parts.cleaner is not None:
        # The head of the index must be truncated before the files are deleted (R-VLSN-54).
        parts.cleaner.stream = parts.vlsn_index
    # The index is the first participant: utilization summaries must count the records that it stores (R-CKPT-19).
    parts.checkpointer.participants.insert(0, VLSNParticipant(parts.vlsn_index))
    assert parts.writer is not None
    # Connected after all local entries are logged, which are not part of the stream.
    parts.writer.stream = EnvironmentStream(parts.vlsn_index)


def _rebuild(parts: EnvironmentParts, stored: StoredIndex) -> None:
    """Rebuild the index from the whole log."""
    assert parts.writer is not None
    parts.writer.flush(sync=False)
    whole = LogRange(NULL_LSN, parts.recovery.end_lsn)
    collector = StreamCollector(parts.config.vlsn_limits, first_of(stored))
    tell_stream(parts.ctx.access, whole, collector)
    if collector.range.is_empty:
        # The range of the old index begins after the end of the log: collect the stream without it.
        collector = StreamCollector(parts.config.vlsn_limits)
        tell_stream(parts.ctx.access, whole, collector)
    replace_index(stored, collector)
    parts.stream_gaps = tuple(collector.gaps)


def _put_names_into_map_lns(parts: EnvironmentParts) -> None:
    """Log MapLNs with names: since log version 16 every MapLN holds its database's name, and readers of later logs
    rely on it.
    """
    with parts.ctx.latch:
        for name, db_id in list(parts.catalog.names(internal=True)):
            state = parts.catalog.by_id(db_id)
            if state is not None:
                state.name, state.dirty = name, True


def _resurrect(parts: EnvironmentParts) -> None:
    """Restore transactions that recovery leaves open, with their locks and their place in firstActive (R-REC-47,
    51).
    """
    for found in parts.recovery.resurrected.values():
        # No timeout: the transaction's master or coordinator may decide much later (R-REC-42).
        txn = Txn(found.txn_id, lock_timeout_ms=0)
        txn.state = TxnState.PREPARED if found.prepare is not None else TxnState.OPEN
        txn.first_lsn, txn.last_lsn = found.first_lsn, found.last_lsn
        parts.txns.adopt(txn)
        for lsn in reversed(found.lns):
            record = parts.ctx.access.read(lsn).record()
            assert isinstance(record, LN)
            db = parts.catalog.by_id(record.db_id)
            if db is not None:
                relock(parts.locks, txn, db, record, lsn)


def _finish_naming(parts: EnvironmentParts) -> None:
    """Finish committed removals, truncations and renames; remove temporary databases (R-REC-60 to R-REC-62)."""
    # The Commits of these operations are in the log, but the changes of the MapLNs are not: a crash came in between
    # (R-REC-61).
    for db_id in sorted(parts.recovery.databases_removed):
        state = parts.catalog.by_id(db_id)
        if state is not None:
            parts.naming.finish_removal(state)
    for db_id, name in parts.recovery.renamed.items():
        state = parts.catalog.by_id(db_id)
        if state is not None and state.name != name:
            parts.naming.finish_rename(state, name)
    if parts.extinctions is not None:
        parts.extinctions.finish_removals()
        parts.extinctions.run()
    with parts.ctx.latch:
        found = list(parts.catalog.names())
    for name, db_id in found:
        state = parts.catalog.by_id(db_id)
        if _is_temporary(parts, name, state):
            txn = parts.txns.begin()
            parts.naming.remove_name(name, db_id, txn)
            parts.txns.commit(txn)
            if state is not None:
                parts.naming.finish_removal(state)


def _is_temporary(parts: EnvironmentParts, name: str, state: DatabaseState | None) -> bool:
    """Whether a name is that of a temporary database, which must not outlive its process.

    A name without a MapLN that was written outside a transaction also belongs to a temporary database: a crash came
    before the MapLN was logged. JE keeps the name and cannot open the database. If a transaction wrote the name, its
    MapLN is lost, which ``verify`` reports.
    """
    if state is not None:
        return state.temporary
    with parts.ctx.latch:
        return parts.catalog.is_named_outside_transactions(name)


def _holds_nothing(files: LogFiles) -> bool:
    """Whether the only file is a file 0 too short for a header."""
    return [file.number for file in files.files] == [0] and files.files[0].size_bytes < FILE_HEADER_BYTES


def bad_name(storage: Storage, path: str) -> str:
    """The name under which a last file without entries is kept (R-LOG-30)."""
    base = path.rsplit(".", 1)[0] + ".bad"
    name, count = base, 0
    while storage.stat(name) is not None:
        count += 1
        name = f"{base}.{count}"
    return name
