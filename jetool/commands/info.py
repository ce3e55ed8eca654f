"""``jetool info``: the control data of an environment."""

from __future__ import annotations

from engine.format.lsn import format_lsn
from engine.log.entry import REASONS
from engine.log.files import list_log_files
from engine.log.survey import survey
from engine.storage.disk import DiskStorage
from jetool import exits, kinds
from jetool.command import Outputs, command, environment
from jetool.options import Run
from jetool.output.info_rows import INFO, info_row


def _outputs() -> Outputs:
    from jetool.output.derby_info import DERBY_INFO

    return Outputs("document", (INFO, DERBY_INFO))


@command(
    "info",
    outputs=_outputs,
    features=("fields", "progress", "times"),
    examples=(
        ("What state is this environment in", "jetool info /data/env"),
        ("Was it closed cleanly, for a script", "jetool info /data/env --json --fields closed_cleanly,end_of_log"),
    ),
    exits={
        exits.DONE: "read; a torn tail is no damage",
        exits.FINDINGS: "read, and damage was met on the way: see jetool verify",
        exits.NOT_FOUND: "no environment",
        exits.UNSUPPORTED: "a log version or a release that this program does not read, or an encrypted database",
        exits.INCOMPLETE: "a file cannot be read",
    },
)
@environment
def info(run: Run, env: str) -> int:
    """Print the control data of an environment: files, versions, the last checkpoint, what recovery would have to do.

    Reads the last file, and the log from firstActive of the last checkpoint on. Of a Derby database: both control
    files, the log from the undo low water mark on, losers, and what lies behind the end of the log. Nothing is locked
    or changed.
    """
    storage = DiskStorage(env)
    if kinds.kind_of(storage) == kinds.DERBY:
        from jetool.derby.info import print_info

        return print_info(run, storage)
    found = survey(storage, list_log_files(storage))
    run.out.document(INFO, info_row(env, found))
    damages = [damage for damage in found.damages if not damage.is_tail]
    for damage in damages:
        run.messages.warning(
            f"damage met: {REASONS[damage.reason]}",
            file=damage.path,
            lsn=format_lsn(damage.lsn),
            hint=f"jetool verify {env}",
        )
    return exits.FINDINGS if damages else exits.DONE
