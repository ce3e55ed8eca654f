"""The files in the directory of an environment, their utilization, and why each is kept.

The counters and the reasons are the cleaner's own: the environment is opened as for cleaning, on a view whose changes
stay in memory. If recovery refuses, the counters come from the last summary of each file in the log, and the reason why
a file is kept is unknown. File sizes are those in the directory, not those in the view.

Expired bytes may have been counted as obsolete too, so live bytes are a range: at most all bytes minus the larger of
the two counts, at least all bytes minus their sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from engine.cleaner.file_summary import obsolete_bytes
from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import EnvironmentConfig, RecoveredParts, read_ahead_for
from engine.db.environment import Environment
from engine.db.parts import EnvironmentParts, make_context
from engine.errors import DamageError, FormatError, JetoolError, RefusedError
from engine.events import SILENT, Listener
from engine.evictor.evictor import Evictor
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import FileSummary, FileSummaryLN
from engine.format.entry_types import FILE_SUMMARY_LNS
from engine.format.fast.file_summary import SUMMARY_KEY_BYTES
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import LOCK_FILE, PROMISES_FILE, LogFiles, list_log_files
from engine.log.marker import MARKER as RESTORE_MARKER
from engine.log.scan import scan_log
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.storage.base import Storage
from engine.storage.journal import MARKER as REPAIR_MARKER
from engine.storage.overlay import OverlayStorage

if TYPE_CHECKING:
    from engine.rescue.recalculation import Recalculation

LIVE: Final = "live"
CLEANED: Final = "cleaned"
RESERVED: Final = "reserved"
OTHER: Final = "other"
UNKNOWN: Final = "unknown"
STATES: Final = (LIVE, CLEANED, RESERVED, OTHER, UNKNOWN)
_NOT_NEXT: Final = "enough of the log is in use, or another file comes first"
_SET_ASIDE: Final = {
    "del": "a cleaned file that was renamed instead of deleted",
    "bad": "a damaged last file that JE set aside",
    "bup": "a file that a network restore has replaced",
    "tmp": "a file that is being received, or was when a network restore stopped",
}
_KNOWN: Final = {
    LOCK_FILE: "the lock file",
    "je.properties": "parameters of the environment",
    "je.config.csv": "parameters, as JE's statistics note them",
    "je.stat.csv": "JE's statistics",
    PROMISES_FILE: "what the node has promised in elections",
    RESTORE_MARKER: "the restore marker: it keeps the environment from being opened",
    REPAIR_MARKER: "the marker of a repair that is not finished",
}


class SpaceFile(NamedTuple):
    """A file of the directory.

    Attributes:
        path: relative to the environment.
        size_bytes: length of the file.
        state: of ``STATES``.
        counted: counted bytes of the entries in the file; None if unknown.
        obsolete, expired: parts of the counted bytes; expired bytes may be in both parts.
        reason: why the file is kept.
        exact: recounted, so that obsolete bytes do not include expired ones.
    """

    path: str
    size_bytes: int
    state: str
    counted: int | None
    obsolete: int | None
    expired: int | None
    reason: str
    exact: bool = False

    @property
    def live(self) -> tuple[int, int] | None:
        """Bytes in use: at least, at most."""
        if self.counted is None or self.obsolete is None or self.expired is None:
            return None
        least = max(self.counted - self.obsolete - self.expired, 0)
        if self.exact:
            return least, least
        return least, max(self.counted - max(self.obsolete, self.expired), 0)


class SpaceReport(NamedTuple):
    """All files of a directory; ``problem``: why recovery refuses; empty if it does not."""

    files: tuple[SpaceFile, ...]
    problem: str


def survey_space(
    storage: Storage, listener: Listener = SILENT, now_ms: int | None = None, *, jobs: int = 1
) -> SpaceReport:
    """Find the files and their utilization.

    Arguments:
        now_ms: records that have expired by this time count as expired; None for now.
        jobs: processes that recovery may use.

    Raises:
        NotFoundError: no environment. UnsupportedError, StorageError: a file cannot be read.
    """
    files = list_log_files(storage)
    problem = ""
    try:
        known = _by_cleaner(storage, files, listener, now_ms, jobs)
    except (DamageError, RefusedError) as error:
        problem = str(error)
        known = _by_log(storage, files)
    logs = {file.path: known[file.number]._replace(path=file.path, size_bytes=file.size_bytes) for file in files.files}
    found = [logs.get(path) or _other(path, size, files) for path, size in _walk(storage)]
    return SpaceReport(tuple(found), problem)


def recounted(report: SpaceReport, found: Recalculation, files: LogFiles) -> SpaceReport:
    """A report in which recounted figures replace the cleaner's."""
    numbers = {file.path: file.number for file in files.files}
    rows = []
    for file in report.files:
        space = found.files.get(numbers.get(file.path, -1))
        if space is not None:
            file = file._replace(counted=space.counted, obsolete=space.obsolete, expired=space.expired, exact=True)
        rows.append(file)
    return report._replace(files=tuple(rows))


def _by_cleaner(
    storage: Storage, files: LogFiles, listener: Listener, now_ms: int | None, jobs: int
) -> dict[int, SpaceFile]:
    """The cleaner's figures, by file number."""
    counters: dict[int, FileSummary] = {}

    def count(parts: RecoveredParts) -> None:
        # Read now, since the checkpoint at the end of the opening counts its own entries.
        parts.utilization.load()
        counters.update((number, one.summary()) for number, one in parts.utilization.files().items())

    view, found = OverlayStorage(storage), {}
    config = EnvironmentConfig(
        run_checkpointer=False,
        before_writing=count,
        guess_orders=True,
        read_ahead_bytes=read_ahead_for(jobs),
        clock=None if now_ms is None else lambda: now_ms,
    )
    with Environment(view, config, listener) as env:
        cleaner, recovery = env.engine.cleaner, env.engine.recovery
        assert cleaner is not None
        if recovery.resurrected:
            counters = _counters(storage, files, listener)
        for kept in cleaner.kept(listener=listener):
            facts, state = kept.facts, kept.state
            summary = counters.get(kept.file.number)
            if summary is None or facts is None or not summary.total_size:
                summary = None
            found[kept.file.number] = SpaceFile(
                path="",
                size_bytes=0,
                state=LIVE if state is None else RESERVED if facts is None else CLEANED,
                counted=None if summary is None else summary.total_size,
                obsolete=None if summary is None else _within(obsolete_bytes(summary), summary.total_size),
                expired=None if summary is None or facts is None else _within(facts.expired, summary.total_size),
                # The checkpoint of the opening has changed the figure, which is printed beside the reason.
                reason=_NOT_NEXT if kept.reason.endswith("% of it is in use") else kept.reason,
            )
    # Opening for writing deletes reserved files on the view.
    gone = "nothing leads into it: it goes when the environment is next opened for writing"
    reserved, begun = _uncounted(RESERVED, gone), _uncounted(LIVE, "begun, and no entry is in it yet")
    return {
        file.number: found.get(file.number, reserved if file.size_bytes > FILE_HEADER_BYTES else begun)
        for file in files.files
    }


def _counters(storage: Storage, files: LogFiles, listener: Listener) -> dict[int, FileSummary]:
    """Utilization after unfinished transactions are undone. DbSpace counts this way; opening for writing does not."""
    config = EnvironmentConfig()
    ctx = make_context(config, LogAccess(storage, files.files))
    utilization = UtilizationTracker(ctx)
    try:
        tail = find_end(storage, files)
        recovery = Recovery(ctx, tail, {}, listener, hook=utilization, keeper=Evictor(ctx))
        catalog = recovery.run()
        EnvironmentParts(config, ctx, catalog, utilization, recovery.result, listener)
        utilization.load()
        return {number: counters.summary() for number, counters in utilization.files().items()}
    finally:
        ctx.access.close()
        if ctx.spill is not None:
            ctx.spill.close()


def _by_log(storage: Storage, files: LogFiles) -> dict[int, SpaceFile]:
    """The figures in the last summary of each file."""
    reason = "not known: recovery refuses"
    found = {file.number: _uncounted(UNKNOWN, reason) for file in files.files}
    try:
        for item in scan_log(storage, files).entries():
            if isinstance(item, LogEntry) and item.type_number in FILE_SUMMARY_LNS:
                _take_summary(item, found)
    except JetoolError:
        # Keep the summaries read before the error.
        pass
    return found


def _take_summary(item: LogEntry, found: dict[int, SpaceFile]) -> None:
    try:
        record: object = item.record()
    except (FormatError, IndexError, ValueError):
        return
    if (
        not isinstance(record, LN)
        or not isinstance(record.content, FileSummaryLN)
        or len(record.key) != SUMMARY_KEY_BYTES
    ):
        return
    number, counters = int.from_bytes(record.key[:4], "big"), record.content.summary
    if number in found and counters is not None:
        found[number] = found[number]._replace(
            counted=counters.total_size, obsolete=_within(obsolete_bytes(counters), counters.total_size), expired=0
        )


def _within(counted: int, total: int) -> int:
    """A part of a file, from its counters, which may have any value."""
    return max(min(counted, total), 0)


def _walk(storage: Storage, under: str = "") -> list[tuple[str, int]]:
    """Every file below a directory with its size, by name."""
    found = []
    for name in storage.names(under):
        path = f"{under}/{name}" if under else name
        stat = storage.stat(path)
        if stat is not None and stat.is_directory:
            found += _walk(storage, path)
        elif stat is not None:
            found.append((path, stat.size_bytes))
    return found


def _other(path: str, size: int, files: LogFiles) -> SpaceFile:
    name = path.rpartition("/")[2]
    reason = _KNOWN.get(name, "not a file of JE")
    if path in files.set_aside:
        reason = _SET_ASIDE[name.split(".")[1].lower()]
    elif path in files.twice:
        reason = "a second file of the same number: one of the two does not belong here"
    elif name.startswith("je.info"):
        reason = "JE's messages"
    return _uncounted(OTHER, reason, path, size)


def _uncounted(state: str, reason: str, path: str = "", size: int = 0) -> SpaceFile:
    """A file without counters."""
    return SpaceFile(path=path, size_bytes=size, state=state, counted=None, obsolete=None, expired=None, reason=reason)
