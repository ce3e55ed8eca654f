"""Warnings of commands that read the whole log about damage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import DamageError, RefusedError, StorageError, UnsupportedError, plural
from engine.format.lsn import format_lsn
from engine.log.entry import REASONS, Damage
from engine.log.files import log_file_name
from jetool.frame import exits
from jetool.frame.options import Run

if TYPE_CHECKING:
    from engine.log.files import LogFiles
    from engine.storage.base import Storage
    from engine.verify.missing_file_refs import LostFile

_MOST_NAMED: Final = 8
# If there is more log than this, commands that are not checks verify only headers. Reading this much takes some
# seconds.
_MOST_CHECKED_BYTES: Final = 1 << 30
LOG_EXITS: Final = {
    exits.DONE: "everything was read; a torn tail without a commit is not damage",
    exits.FINDINGS: "everything was read; damage was found and skipped",
    exits.NOT_FOUND: "no environment, no such database",
    exits.UNSUPPORTED: "a log version that this program does not read",
    exits.INCOMPLETE: "a file cannot be read",
}


def report_damage(run: Run, env: str, met: Iterable[Damage]) -> int:
    """Warn about each stretch of damage; returns the exit code."""
    damages = [damage for damage in met if not damage.is_tail]
    for damage in damages:
        run.messages.warning(
            f"damage met: {REASONS[damage.reason]}",
            file=f"{env}/{damage.path}",
            lsn=format_lsn(damage.lsn),
            consequence="its content is not known",
            hint=f"jetool verify {env}",
        )
    return exits.FINDINGS if damages else exits.DONE


def lost_in(run: Run, storage: Storage, files: LogFiles) -> Mapping[int, LostFile]:
    """Report tree nodes and records in missing files that recovery does not need."""
    if files.is_whole():
        return {}
    from engine.verify.trees import lost_files

    try:
        lost = lost_files(storage, files, listener=run.listener) or {}
    except (DamageError, RefusedError, StorageError, UnsupportedError):
        # Why recovery fails is a separate finding of verify.
        return {}
    for number, what in sorted(lost.items())[:_MOST_NAMED]:
        run.messages.warning(
            "log file missing that the trees lead into",
            file=log_file_name(number),
            found=f"{plural(what.records, 'record')}, {plural(what.nodes, 'node')}, the first of {what.first_db}",
            consequence="they cannot be read",
            hint=f"put the file back from a backup; jetool verify {storage.root}",
        )
    return lost


class EarlierDamage(NamedTuple):
    """Damage that recovery does not read.

    Attributes:
        first: the first damaged place.
        places, files: how many there are, and in how many files.
        two_writers: two processes seem to have written the log at once.
    """

    first: Damage
    places: int
    files: int
    two_writers: bool

    def in_words(self) -> str:
        """The damage, for a verdict."""
        at = f"{self.first.path} at {format_lsn(self.first.lsn)}"
        more = f" and {plural(self.places - 1, 'more place')}" if self.places > 1 else ""
        return f"damage before the last checkpoint in {at}{more}"

    def warn(self, run: Run, env: str) -> None:
        """Print one warning."""
        run.messages.warning(
            "damage before the last checkpoint, which recovery does not read"
            + (": two processes seem to have written the log at once" if self.two_writers else ""),
            file=f"{env}/{self.first.path}",
            lsn=format_lsn(self.first.lsn),
            found=f"{plural(self.places, 'place')} in {plural(self.files, 'file')}, "
            f"the first: {REASONS[self.first.reason]}",
            consequence="records in the damaged part are lost, if the trees still refer to them",
            hint=f"jetool verify {env} --full",
        )


def find_damage_before(run: Run, storage: Storage, files: LogFiles, number: int) -> EarlierDamage | None:
    """Damage in files before a number, which recovery does not read; None without any.

    Checksums are verified if the files have at most a gigabyte; otherwise only headers are checked: types, sizes,
    links.
    """
    from engine.errors import NotFoundError
    from engine.inspect.vlsn_map import map_file
    from engine.log.interleaved import find_interleaved
    from engine.log.scan import scan_file

    earlier = [file for file in files.files if file.number < number]
    is_little = sum(file.size_bytes for file in earlier) <= _MOST_CHECKED_BYTES
    damages: list[Damage] = []
    two_writers = False
    for done, file in enumerate(earlier):
        run.listener.step("CHECK_EARLIER_FILES", done, len(earlier))
        try:
            if is_little:
                found = scan_file(storage, file, is_last=False).check(with_sizes=False).damages
            else:
                found = map_file(storage, files.end_file(), file).damages
            if found and not two_writers:
                two_writers = find_interleaved(storage, file, is_last=False) is not None
        except (NotFoundError, StorageError, UnsupportedError):
            # Recovery did not need the file; verify reports why it cannot be read.
            continue
        damages += [one.damage for one in found]
    if not damages:
        return None
    return EarlierDamage(damages[0], len(damages), len({one.path for one in damages}), two_writers)
