"""``info`` on a Derby database."""

from __future__ import annotations

from engine.aries.database import CONTROL, LOCK_FILE, OWNER_FILE, Database
from engine.aries.info import Info, gather
from engine.storage.base import Storage
from jetool import exits
from jetool.options import Run
from jetool.output.derby_info import DERBY_INFO, info_row
from jetool.output.values import instant_text


def print_info(run: Run, storage: Storage) -> int:
    """Print the control data of a Derby database.

    Returns:
        The exit code: FINDINGS when recovery could not simply go on, UNSUPPORTED when the database is encrypted.
    """
    database = Database(storage)
    found = gather(database, listener=run.listener)
    lock_files = [path for path in (OWNER_FILE, LOCK_FILE) if storage.stat(path) is not None]
    run.out.document(DERBY_INFO, info_row(found, lock_files))
    if found.encrypted:
        run.messages.warning(
            "the database is encrypted",
            file=storage.root,
            consequence="its log records and pages cannot be read without the boot password",
            hint="use Derby itself: connect with bootPassword",
        )
        return exits.UNSUPPORTED
    damaged = warn(run, storage.root, found)
    return exits.FINDINGS if damaged else exits.DONE


def warn(run: Run, root: str, found: Info) -> bool:
    """Say what is wrong, a line each; whether anything is."""
    hint = f"jetool verify {root}"
    wrong: list[tuple[str | None, str | None, str, str | None]] = []
    for copy in (found.controls.primary, found.controls.mirror):
        if copy.control is None:
            wrong.append((copy.path, None, f"a control file cannot be used: {copy.problem or 'it is missing'}", None))
    if found.problem is not None:
        wrong.append((CONTROL, None, found.problem, "recovery could not start"))
    if found.analysis is not None:
        start, end, behind = found.analysis.start, found.analysis.end, found.analysis.behind
        if start.problem is not None:
            wrong.append((CONTROL, None, f"the checkpoint record cannot be used: {start.problem}", None))
        if end.obstacle is not None:
            wrong.append((None, instant_text(end.append), end.obstacle, "Derby refuses to start"))
        if start.checkpoint is not None and end.append <= start.checkpoint_at:
            wrong.append((None, instant_text(end.append), "the log ends in front of its last checkpoint", None))
        if behind.commits:
            what = f"{behind.commits} commits lie behind the end of the log"
            wrong.append((None, instant_text(end.append), what, "Derby would drop them without a word"))
    for file, lsn, what, consequence in wrong:
        run.messages.warning(what, file=file, lsn=lsn, consequence=consequence, hint=hint)
    return bool(wrong)
