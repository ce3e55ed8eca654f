"""The interlock: conditions under which recovery is refused.

Derby takes any damage for the end of the log and zeroes what follows. Refused here:

* committed transactions after the end of the log, unless the loss is accepted (duty 2 of section J);
* a log that ends before its own checkpoint: pages already hold changes whose records are gone;
* service properties with which Derby would not start: it is then unknown whether the database is encrypted;
* a needed container without a file, unless redo can continue and the loss is accepted (``presence``);
* a next log file that keeps Derby from starting, unless it is too short to hold a record (it is put aside then).

Missing log files are refused by ``start``. A missing ``log.ctrl`` with a good mirror is not refused: the mirror is
used, although Derby would read the whole log and write no checksums (R-DRB-42).
"""

from __future__ import annotations

from engine.derby.database import LOG_DIRECTORY, Controls, DerbyDatabase
from engine.derby.database_info import DerbyAnalysis
from engine.derby.format import instant
from engine.derby.format.log_file import HEADER_SIZE
from engine.derby.log import DerbyLogFiles
from engine.derby.presence import misnamed_clause, require_containers, require_properties
from engine.errors import DamageError, RefusedError, plural


def usable_controls(database: DerbyDatabase, notes: list[str], *, derby_default: bool) -> Controls:
    """The control files that recovery uses.

    Arguments:
        database: the database.
        notes: a clause is appended for each problem.
        derby_default: ignore the mirror when ``log.ctrl`` is missing, as Derby does.
    """
    controls = database.controls()
    if not controls.primary.present and controls.mirror.control is not None:
        if derby_default:
            # R-DRB-42: Derby ignores the mirror if log.ctrl is absent.
            return Controls(controls.primary, controls.mirror, None, None)
        notes.append("log.ctrl is missing, its mirror is used; Derby would read the whole log")
    elif controls.primary.control is None:
        notes.append(f"log.ctrl cannot be used: {controls.primary.problem or 'it is missing'}")
    if controls.mirror.control is None:
        notes.append(f"logmirror.ctrl cannot be used: {controls.mirror.problem or 'it is missing'}")
    return controls


def check(
    log: DerbyLogFiles, analysis: DerbyAnalysis, notes: list[str], *, accept_loss: bool, accept_file: bool
) -> None:
    """Refuse recovery under the conditions above.

    Arguments:
        log: the log files; a next file that is not a continuation is put aside.
        analysis: what was found.
        notes: a clause is appended for each problem that is skipped.
        accept_loss: continue although committed transactions are lost.
        accept_file: put later log files aside although they hold records.

    Raises: RefusedError or DamageError.
    """
    if analysis.start.problem is not None:
        notes.append(f"the checkpoint record cannot be used: {analysis.start.problem}")
    _check_checkpoint(log, analysis)
    presence = analysis.presence
    require_properties(log.database, presence.misnamed)
    require_containers(log.database, presence.lost, accept_loss=accept_loss)
    notes += [one.why for one in presence.lost]
    if presence.misnamed_later:
        notes.append(misnamed_clause(presence.misnamed_later))
    if analysis.end.obstacle is not None:
        _step_over(log, analysis.end.stopped_at, analysis.end.obstacle, notes, accept_file=accept_file)
    if not accept_loss:
        _check_after_end(log, analysis)
    elif accept_file and analysis.after.commits:
        # Put the later log files aside: they would stop the next run too, and Derby must not find them at a log switch.
        for number in analysis.after.files:
            if log.exists(number):
                _put_aside(log, number, "its transactions are discarded", notes)
    end = analysis.end
    if end.derby_fails:
        notes.append(f"Derby itself would fail at {instant.show(end.stopped_at)}: {end.reason}")


def _check_checkpoint(log: DerbyLogFiles, analysis: DerbyAnalysis) -> None:
    """Refuse a log that ends before its own checkpoint."""
    start, end = analysis.start, analysis.end
    # The checkpoint record itself must be in the log, hence greater, not equal.
    if start.checkpoint is None or end.append > start.checkpoint_at:
        return
    raise DamageError(
        f"the log ends in front of its last checkpoint: {end.reason}",
        file=_name(log, end.stopped_at),
        lsn=instant.show(end.stopped_at),
        expected=f"records to {instant.show(start.checkpoint_at)} at least",
        found=f"an end at {instant.show(end.append)}",
        consequence="changes that are on the pages already would be taken for uncommitted ones",
        hint="restore the log file from a copy, or the database from a backup",
    )


def _check_after_end(log: DerbyLogFiles, analysis: DerbyAnalysis) -> None:
    """No committed transaction may lie after the end."""
    after, end = analysis.after, analysis.end
    if not after.commits:
        return
    follow = plural(after.commits, "committed transaction follows", "committed transactions follow")
    raise RefusedError(
        f"the log seems to end, but {follow}: {end.reason}",
        file=_name(log, end.stopped_at),
        lsn=instant.show(end.stopped_at),
        expected="nothing valid after the end",
        found=f"{plural(after.records, 'record')} from {instant.show(after.first)} to {instant.show(after.last)}",
        consequence="Derby would drop them without a word",
        hint="copy the database first; then recover --accept-loss gives them up, their bytes are saved",
    )


def _step_over(log: DerbyLogFiles, stopped_at: int, obstacle: str, notes: list[str], *, accept_file: bool) -> None:
    """Put a next log file aside that keeps Derby from starting."""
    number = instant.file_of(stopped_at) + 1
    path = log.path(number)
    # A file shorter than its header holds no record, so setting it aside loses nothing.
    if log.size(number) >= HEADER_SIZE and not accept_file:
        raise RefusedError(
            f"the next log file is not usable: {obstacle}",
            file=log.database.name(path),
            consequence="Derby refuses to start with it",
            hint="find out where the file comes from; recover --accept-loss puts it aside",
        )
    _put_aside(log, number, obstacle, notes)


def _put_aside(log: DerbyLogFiles, number: int, why: str, notes: list[str]) -> None:
    """Give a log file a name that Derby ignores."""
    path = log.path(number)
    # The log reader may have the file open, and must not continue to read it under the old name.
    log.forget()
    log.database.storage.rename(path, f"{path}.aside")
    log.database.storage.sync_directory(LOG_DIRECTORY)
    notes.append(f"{path} was put aside as {path}.aside: {why}")


def _name(log: DerbyLogFiles, at: int) -> str:
    return log.database.name(log.path(instant.file_of(at)))
