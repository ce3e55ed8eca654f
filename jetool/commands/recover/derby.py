"""``recover``, ``checkpoint`` and ``undo`` on Derby databases."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.log import DerbyLogFiles
from engine.derby.presence import GIVEN_UP, MissingContainer
from engine.derby.recovery.manager import DerbyRecoveryResult, RecoveryOptions, recover, take_back
from engine.derby.textbook import compare
from engine.derby.timeline import timeline
from engine.errors import plural
from engine.fields import Bool, Choices, Int, Text, record
from engine.rescue.repair import settlement
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.storage.sidecar import DirectoryBeside
from engine.storage.undo import undo
from jetool.commands.derby_log_ends import note_holder
from jetool.commands.recover.derby_explain_rows import textbook_report
from jetool.commands.recover.derby_rows import DerbyRecoveryReport, derby_recovered
from jetool.commands.recover.derby_saved_bytes import backup_of, has_saved, last_backup
from jetool.commands.recover.derby_timeline_rows import drawing, timeline_report
from jetool.frame import exits, interrupted
from jetool.frame.options import Run
from jetool.output.shape import check_fields


@record("undone")
class DerbyUndone(NamedTuple):
    """What undo brought back."""

    environment: Annotated[Text, "the directory"]
    store: Annotated[Text, "what it is", Choices(("derby",))]
    dry_run: Annotated[Bool, "nothing was changed: this is the plan"]
    saved_in: Annotated[Text, "directory with the old bytes"]
    entries: Annotated[Int, "saved entries that were put back"]


def recover_database(run: Run, storage: DiskStorage, *, accept_loss: bool, force_checkpoint: bool) -> int:
    """Recover a database and print a report.

    Arguments:
        run: the run; its dry run works on an overlay in memory.
        storage: the database directory.
        accept_loss: continue although committed transactions would be lost.
        force_checkpoint: take a checkpoint even if the database is clean.

    Returns:
        The exit code.

    Raises:
        RefusedError: a JVM has the database open, or committed work would be lost.
        UnsupportedError: encrypted, or of a release that was not verified for recovery.
        DamageError: something that recovery needs is missing or damaged.
    """
    # Refuse wrong field names before anything is changed.
    check_fields(run.out.selected, (DerbyRecoveryReport,))
    if not run.dry_run:
        DerbyDatabase(storage).wait_unlocked(run.lock_timeout_s)
    options = RecoveryOptions(accept_loss=accept_loss, force_checkpoint=force_checkpoint)
    started = time.monotonic()
    with backup_of(storage, run.backup_dir, dry_run=run.dry_run) as backup:
        # A dry run begins in the same state as the real one: after an interrupted repair was undone.
        seen = settlement.as_before(storage) if run.dry_run else storage
        found = recover(seen, options, dry_run=run.dry_run, backup=backup, listener=run.listener)
        # Look for saved bytes inside the block, because the end of the block removes an empty directory.
        saved_in = backup.root if backup is not None and has_saved(backup) else None
    duration_ms = int((time.monotonic() - started) * 1000)
    # Recovery succeeded, but commits after the end of the log, or a container, are lost: the exit code must show that.
    absent = [one for one in found.analysis.presence.lost if one.loss in GIVEN_UP]
    code = exits.DATA_GIVEN_UP if found.lost_commits or absent else exits.DONE
    verdict = exits.verdict(code, _why(found, absent), partly=True)
    done = derby_recovered(
        storage.root, verdict, found, dry_run=run.dry_run, saved_in=saved_in, duration_ms=duration_ms
    )
    run.out.document(done)
    for note in found.notes:
        run.messages.warning(note, file=storage.root)
    if saved_in is not None:
        hint = f"jetool undo {storage.root} --backup-dir {saved_in}"
        run.messages.notice("the old bytes were saved; undo reverts the run", file=saved_in, hint=hint)
    return code


def _why(found: DerbyRecoveryResult, absent: Sequence[MissingContainer]) -> str:
    """What the verdict rests on: what is lost, or what recovery does."""
    if found.lost_commits:
        return f"recovery loses {plural(found.lost_commits, 'committed transaction')} after the end of the log"
    if absent:
        return absent[0].why
    ends = f" and undoes {plural(len(found.undone), 'transaction')} without an end" if found.undone else ""
    return f"recovery loses no commit{ends}; it does not read pages that it does not change"


def explain_database(run: Run, storage: Storage) -> int:
    """Print what recovery and textbook ARIES would do with each record; nothing is changed.

    Arguments:
        run: the run.
        storage: the database directory.

    Returns:
        The exit code.

    Raises:
        UnsupportedError: encrypted, or of a release that is not known.
        DamageError: a log file or a page that recovery needs is missing or damaged.
    """
    database = DerbyDatabase(storage)
    database.require_clear()
    database.require_version(database.controls())
    note_holder(run, database)
    run.out.document(textbook_report(storage.root, list(compare(storage))))
    return exits.DONE


def draw_timeline(run: Run, storage: Storage) -> int:
    """Print the timeline of transactions, the last checkpoint and the end of the log; nothing is changed.

    Arguments:
        run: the run.
        storage: the database directory.

    Returns:
        The exit code.

    Raises:
        UnsupportedError: encrypted, or of a release that is not known.
        DamageError: a log file that recovery needs is missing.
    """
    database = DerbyDatabase(storage)
    database.require_clear()
    database.require_version(database.controls())
    note_holder(run, database)
    found = timeline(database)
    if run.out.format == "text" and run.out.selected is None:
        width = shutil.get_terminal_size((80, 24)).columns
        run.out.text("\n".join(drawing(DerbyLogFiles(database), found, width)))
    else:
        run.out.document(timeline_report(storage.root, found))
    return exits.DONE


def undo_database(run: Run, storage: DiskStorage, *, force: bool) -> int:
    """Restore the state before a recovery and print a report.

    Arguments:
        run: the run; ``--backup-dir`` names the saved bytes.
        storage: the database directory.
        force: continue although files were changed since.

    Returns:
        The exit code.

    Raises:
        NotFoundError: there are no saved bytes.
        RefusedError: a JVM has the database open; or files were changed since, without ``force``.
    """
    if not run.dry_run:
        DerbyDatabase(storage).wait_unlocked(run.lock_timeout_s)
    storage, backup = DirectoryBeside(storage.root, storage.root), last_backup(storage, run.backup_dir)
    interrupted.note_undone(run, backup)
    if run.dry_run:
        # Undo also writes its progress to the backup, so use a view of the backup too.
        entries = undo(OverlayStorage(storage), OverlayStorage(backup), force=force)
    else:
        entries = take_back(storage, backup, force=force)
    run.out.document(
        DerbyUndone(environment=storage.root, store="derby", dry_run=run.dry_run, saved_in=backup.root, entries=entries)
    )
    return exits.DONE
