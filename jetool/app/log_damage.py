"""What commands that read the whole log say about damage in it."""

from __future__ import annotations

from typing import Final

from engine.format.lsn import format_lsn
from engine.inspect.fates import LogFates
from engine.log.entry import REASONS
from jetool.app import exits
from jetool.app.options import Run

LOG_EXITS: Final = {
    exits.DONE: "all was read; a torn tail that holds no commit is no damage",
    exits.FINDINGS: "all was read; damage was met and stepped over",
    exits.NOT_FOUND: "no environment, no database of the name",
    exits.UNSUPPORTED: "a log version that this program does not read",
    exits.INCOMPLETE: "a file cannot be read",
}


def report_damage(run: Run, env: str, found: LogFates) -> int:
    """Warn of each stretch of damage; give the exit code."""
    damages = [damage for damage in found.damages if not damage.is_tail]
    for damage in damages:
        run.messages.warning(
            f"damage met: {REASONS[damage.reason]}",
            file=f"{env}/{damage.path}",
            lsn=format_lsn(damage.lsn),
            consequence="what it held is not known",
            hint=f"jetool verify {env}",
        )
    return exits.FINDINGS if damages else exits.DONE
