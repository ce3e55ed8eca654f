"""``jetool clean --reactivate``: reserved files that are in use return to the live log.

JE 25.3 does this in a thread (``ReservedFilesAutoRepair``, je.env.autoReservedFileRepair). The trees are walked before
the environment is opened for writing, since opening deletes reserved files that no replica needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engine.cleaner.offline import OfflineReport
from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.verify.environment import verify_environment
from engine.verify.report import ERROR
from engine.verify.space_rules import RESERVED_IN_USE
from jetool.commands.clean.rows import CleaningRun, cleaning_run
from jetool.frame import exits
from jetool.frame.environments import config_of, with_orders
from jetool.frame.kinds import require_je
from jetool.frame.options import Run
from jetool.frame.repairs import repairing

COMMAND: Final = "clean"
_PUT_BACK: Final = "reserved files that are in use are back in the live log"
_NONE_IN_USE: Final = "no reserved file is in use"


def put_back(run: Run, env: str) -> int:
    """Put them back, and print the result; returns the exit code."""
    disk = DiskStorage(env)
    require_je(disk)
    files = list_log_files(disk)
    config = config_of(run, run_checkpointer=False, keep_reserved_files=True)
    orders = with_orders(run, disk, config).comparators
    report = verify_environment(disk, files, ("space",), comparators=orders, listener=run.listener)
    in_use = {one.file for one in report.findings if one.code == RESERVED_IN_USE.code}
    config = replace(config, reactivated_files=frozenset(file.number for file in files.files if file.path in in_use))
    if in_use:
        with repairing(run, env, COMMAND, config) as repair:
            done = _Done(repair.environment)
        run.out.document(done.row(backup=repair.backup, saved_bytes=repair.saved_bytes, dry_run=run.dry_run))
    else:
        # Nothing is written into an environment that needs no repair.
        with Environment(OverlayStorage(disk), with_orders(run, disk, config), run.listener) as opened:
            done = _Done(opened)
        run.out.document(done.row(backup=None, saved_bytes=0, dry_run=run.dry_run))
    problems = [one for one in report.findings if one.severity == ERROR and one.code != RESERVED_IN_USE.code]
    for one in problems:
        run.messages.warning(f"{one.code}: {one.message}", file=env)
    return exits.FINDINGS if problems else exits.DONE


class _Done:
    """The result in an open environment."""

    def __init__(self, environment: Environment) -> None:
        cleaner = environment.engine.cleaner
        assert cleaner is not None
        self._numbers = cleaner.reactivate()
        self._kept = cleaner.kept()
        size_bytes, utilization = sum(one.size_bytes for one in self._kept), cleaner.select().current_max
        self._report = OfflineReport(
            cleaned=[],
            deleted=set(),
            bytes_before=size_bytes,
            bytes_after=size_bytes,
            utilization_before=utilization,
            utilization_after=utilization,
            why=_PUT_BACK if self._numbers else _NONE_IN_USE,
        )

    def row(self, *, backup: str | None, saved_bytes: int, dry_run: bool) -> CleaningRun:
        """The output record."""
        return cleaning_run(
            self._report,
            self._kept,
            backup=backup,
            saved_bytes=saved_bytes,
            dry_run=dry_run,
            reactivated=self._numbers,
        )
