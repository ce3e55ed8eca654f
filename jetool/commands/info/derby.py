"""``info`` on a Derby database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from engine.derby.database import CONTROL, LOCK_FILE, OWNER_FILE, DerbyDatabase
from engine.derby.database_info import DatabaseSurvey, gather
from engine.derby.format import container
from engine.derby.presence import POSSIBLE, misnamed_clause
from engine.derby.service_properties import PROPERTIES
from engine.derby.verify.findings import CODES
from engine.errors import plural
from engine.storage.base import Storage
from engine.verify.repairs import interrupted
from jetool.commands.info.derby_rows import info_of
from jetool.frame import exits
from jetool.frame.options import Run
from jetool.output.shape import instant_text


def print_info(run: Run, storage: Storage) -> int:
    """Print the control data of a Derby database.

    Returns:
        The exit code: Returns FINDINGS for problems that ``verify`` reports as errors, UNSUPPORTED if the database is
        encrypted.
    """
    database = DerbyDatabase(storage)
    found = gather(database, listener=run.listener)
    pending = interrupted(storage)
    lock_files = [path for path in (OWNER_FILE, LOCK_FILE) if storage.stat(path) is not None]
    wrong = [] if found.encrypted else [*_wrong_properties(found), *_wrong_controls(found), *_wrong_log(found)]
    first = next((one.what for one in wrong if one.harmful), None)
    code = exits.UNSUPPORTED if found.encrypted else exits.DONE if first is None else exits.FINDINGS
    if found.encrypted:
        why = "the database is encrypted"
    else:
        why = first or "the log was read from the undo low water mark on, no page; jetool verify reads everything"
    verdict = exits.verdict(code, why, partly=True)
    run.out.document(info_of(verdict, found, pending.command if pending else None, lock_files))
    # The log cannot be read, so there are no further warnings.
    if found.encrypted:
        run.messages.warning(
            "the database is encrypted",
            file=storage.root,
            consequence="its log records and pages cannot be read without the boot password",
            hint="use Derby itself: connect with bootPassword",
        )
        return code
    _warn(run, storage.root, wrong)
    return code


class _Wrong(NamedTuple):
    """A problem; ``harmful`` if ``verify`` reports it as an error, not as a warning."""

    what: str
    harmful: bool
    file: str | None = None
    lsn: str | None = None
    consequence: str | None = None


def _warn(run: Run, root: str, wrong: Sequence[_Wrong]) -> None:
    """Print the problems, one per line."""
    for one in wrong:
        hint = f"jetool verify {root}"
        run.messages.warning(one.what, file=one.file, lsn=one.lsn, consequence=one.consequence, hint=hint)


def _wrong_properties(found: DatabaseSurvey) -> list[_Wrong]:
    consequence = CODES["DRB-DB-002"].consequence
    wrong = []
    if found.start_problem is not None:
        wrong.append(_Wrong(found.start_problem, True, file=PROPERTIES, consequence=consequence))
    if found.analysis is not None:
        presence = found.analysis.presence
        wrong += [
            _Wrong(misnamed_clause(names), harmful, file=PROPERTIES, consequence=consequence if harmful else None)
            for names, harmful in ((presence.misnamed, True), (presence.misnamed_later, False))
            if names
        ]
    return wrong


def _wrong_controls(found: DatabaseSurvey) -> list[_Wrong]:
    copies = (found.controls.primary, found.controls.mirror)
    bad = [copy for copy in copies if copy.control is None]
    # Derby can start from either copy, so the damage is harmful only if both are unusable.
    both = len(bad) == len(copies)
    return [
        _Wrong(f"a control file cannot be used: {copy.problem or 'it is missing'}", both, file=copy.path)
        for copy in bad
    ]


def _wrong_log(found: DatabaseSurvey) -> list[_Wrong]:
    if found.problem is not None:
        return [_Wrong(found.problem, True, file=CONTROL, consequence="recovery could not start")]
    if found.analysis is None:
        return []
    start, end, after = found.analysis.start, found.analysis.end, found.analysis.after
    at = instant_text(end.append)
    wrong = []
    if start.problem is not None:
        wrong.append(_Wrong(f"the checkpoint record cannot be used: {start.problem}", False, file=CONTROL))
    if end.obstacle is not None:
        wrong.append(_Wrong(end.obstacle, True, lsn=at, consequence="Derby refuses to start"))
    # The log ends before the checkpoint in the control file, so pages may be newer than the log.
    if start.checkpoint is not None and end.append <= start.checkpoint_at:
        wrong.append(_Wrong("the log ends in front of its last checkpoint", True, lsn=at))
    if end.derby_fails:
        wrong.append(_Wrong(f"the log has no end: {end.reason}", True, lsn=at, consequence="Derby fails to start"))
    # Every crash leaves records without a commit.
    if after.commits:
        what = f"{plural(after.commits, 'commit lies', 'commits lie')} after the end of the log"
        wrong.append(_Wrong(what, True, lsn=at, consequence="Derby would drop them without a word"))
    wrong += [
        _Wrong(
            one.why,
            one.loss != POSSIBLE,
            file=container.path_of(one.key),
            consequence="the table or index cannot be used",
        )
        for one in found.analysis.presence.lost
    ]
    return wrong
