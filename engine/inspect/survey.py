"""A summary of the control entries of a log, for an operator's first look at an environment.

The log is read from its end. The last file is scanned whole: the log ends at the first place where no good entry
begins, whatever follows (R-LOG-31). If the last file holds no CkptEnd before the end of the log, earlier files are
searched for one (R-REC-4). Recovery would process the range from firstActive of that checkpoint to the end (R-REC-10);
the survey reads it once, forward.

Example: CkptStart 0x0/0x5d5, CkptEnd 0x0/0x6e2 (firstActive 0x0/0x5d5), end of log 0x0/0x711. Nothing follows the
CkptEnd, its invoker is "close": the environment was closed cleanly and recovery has nothing to do. A closing JE may
write utilization, expiration and reserved-file records after that CkptEnd; they change no data, and JE rewrites them if
they are missing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.entry.db_tree import ENV_REPLICATED, DbTree
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry.markers import RestoreRequired
from engine.format.entry_types import (
    RESTORE_REQUIRED,
    TIMED_ENTRIES,
    TXN_ENDS,
)
from engine.format.fast.header import header_lengths, item_size
from engine.format.fast.loops import keeping
from engine.format.fast.txn_end import txn_end_fields
from engine.format.header import FLAGS_AT, TYPE_AT
from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.inspect.checkpoint_interval import (
    CheckpointSurvey,
    LogAfterCheckpoint,
    OpenRollback,
    RecoveryWork,
    RecoveryWorkCounter,
    decoded_as,
)
from engine.inspect.database_name import reserved_files
from engine.inspect.selection import time_of
from engine.log.damage import is_harmless
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LOCK_FILE, WRITER_BYTE, LogFile, LogFiles
from engine.log.scan import scan_file, scan_log
from engine.storage.base import Storage

if TYPE_CHECKING:
    from engine.log.tail import LastCheckpoint

_TIMED: Final = keeping(TIMED_ENTRIES)


class FileVersions(NamedTuple):
    """Consecutive files of one log version."""

    version: int
    first_file: int
    last_file: int


class Survey(NamedTuple):
    """The control data of an environment.

    Attributes:
        last_lsn: the last entry of the log.
        end_of_log: LSN after it.
        tail: damage from the end of the log to the end of the file, or None.
        closed_cleanly: the log ends with the checkpoint of a close.
        partial_checkpoint: LSN of a CkptStart after the last CkptEnd, or NULL_LSN.
        replicated: the root marks the environment as replicated.
        first_vlsn, last_vlsn: VLSN range of the visible entries of the log.
        damages: damage in the parts that were read, except a tail that holds nothing durable.
        reserved: reserved files that still exist; empty if they were not looked for.
        lost_ends: entries at the ends of files that the header of the next file names but that do not exist.
        lock_holder: pid of the process that has the environment open for writing (0: unknown), or None.
        marker: why JE refuses to open the environment, or None.
    """

    files: LogFiles
    versions: tuple[FileVersions, ...]
    first_lsn: int
    last_lsn: int
    end_of_log: int
    last_time: int
    tail: Damage | None
    closed_cleanly: bool
    checkpoint: CheckpointSurvey | None
    partial_checkpoint: int
    root_lsn: int
    root: DbTree | None
    replicated: bool
    first_vlsn: int
    last_vlsn: int
    open_rollbacks: tuple[OpenRollback, ...]
    work: RecoveryWork | None
    damages: tuple[Damage, ...]
    reserved: tuple[LogFile, ...]
    lost_ends: tuple[int, ...]
    lock_holder: int | None
    marker: RestoreRequired | None

    @property
    def last_checkpoint(self) -> LastCheckpoint | None:
        """Where recovery begins, for a caller that would search the log for it again; None if damage was met."""
        if self.damages:
            return None
        from engine.log.tail import LastCheckpoint

        ckpt_end = NULL_LSN if self.checkpoint is None else self.checkpoint.end_lsn
        return LastCheckpoint(ckpt_end, self.partial_checkpoint, self.root_lsn)


def survey(storage: Storage, files: LogFiles, *, quick: bool = False, listener: Listener = SILENT) -> Survey:
    """Read the control data of an environment.

    Arguments:
        storage: the environment.
        files: the log files.
        quick: read only what is needed to find the last CkptEnd; ``work`` is then None, and VLSNs and rollbacks are
            missing.
        listener: receives ``find checkpoint`` and ``read log`` steps in files.

    Raises:
        UnsupportedError: the last files are of a log version that this program does not read.
        StorageError: a file cannot be read.
    """
    return _Surveyor(storage, files, listener).run(quick)


class _End(NamedTuple):
    """The result of a search for the last checkpoint."""

    checkpoint: CheckpointSurvey | None
    partial: int
    root_lsn: int
    root: DbTree | None
    is_last: bool


class _Surveyor:
    """Reads one environment."""

    def __init__(self, storage: Storage, files: LogFiles, listener: Listener) -> None:
        self._listener = listener
        self._storage = storage
        self._files = files
        self._log = scan_log(storage, files)
        self._damages: list[Damage] = []

    def run(self, quick: bool) -> Survey:
        """Collect everything, or only the data near the end of the log."""
        files = self._files.files
        last_lsn, end, last_time, tail = self._end_of_log()
        control = self._last_checkpoint(last_lsn)
        counter = None if quick else self._work(control.checkpoint, end)
        replicated = control.root is not None and bool(control.root.flags & ENV_REPLICATED)
        # Search for VLSNs only if the root is missing or marked as replicated; otherwise the search would read the
        # whole log in vain.
        looks = (replicated or control.root is None) and not quick
        first_vlsn, last_vlsn = self._vlsns(last_lsn, end) if looks else (NULL_VLSN, NULL_VLSN)
        record = control.checkpoint.record if control.checkpoint else None
        versions, lost_ends = self._file_headers()
        return Survey(
            files=self._files,
            versions=versions,
            first_lsn=make_lsn(files[0].number, 0) if files else NULL_LSN,
            last_lsn=last_lsn,
            end_of_log=end,
            last_time=last_time,
            tail=tail,
            closed_cleanly=record is not None and record.invoker == "close" and control.is_last,
            checkpoint=control.checkpoint,
            partial_checkpoint=control.partial,
            root_lsn=control.root_lsn,
            root=control.root,
            replicated=replicated,
            first_vlsn=first_vlsn,
            last_vlsn=last_vlsn,
            open_rollbacks=() if counter is None else counter.open_rollbacks(),
            work=None if counter is None else counter.result(),
            damages=tuple(self._damages),
            reserved=() if counter is None else self._reserved(control, counter),
            lost_ends=lost_ends,
            lock_holder=self._storage.lock_holder(LOCK_FILE, WRITER_BYTE),
            marker=self._marker(),
        )

    def _file_headers(self) -> tuple[tuple[FileVersions, ...], tuple[int, ...]]:
        """Runs of files with one log version, and lost ends: last entries of files that the header of the next file
        names but that do not exist.
        """
        runs: list[FileVersions] = []
        lost: list[int] = []
        bad = {file_of(damage.lsn) for damage in self._damages}
        # The number of the file after the current file, and the last entry of the current file according to that file's
        # header.
        after, named = -1, 0
        for file in reversed(self._files.files):
            if file.size_bytes < FILE_HEADER_BYTES:
                continue
            head = self._log.of_file(file).head()
            named_lsn = make_lsn(file.number, named)
            if after == file.number + 1 and named and file.number not in bad and not self._log.is_entry(named_lsn):
                lost.append(named_lsn)
            after, named = file.number, 0 if head.header is None else head.header.last_entry_in_prev_file
            if runs and runs[-1].version == head.version:
                runs[-1] = runs[-1]._replace(first_file=file.number)
            else:
                runs.append(FileVersions(head.version, file.number, file.number))
        return tuple(reversed(runs)), tuple(reversed(lost))

    def _end_of_log(self) -> tuple[int, int, int, Damage | None]:
        """The last entry, the LSN after it, the newest time in the last file, the torn tail."""
        end_file = self._files.end_file()
        for file in reversed(self._files.files):
            # Skip empty files at the end of the log (R-LOG-30).
            if file.number > end_file:
                continue
            last: LogEntry | None = None
            tail: Damage | None = None
            newest = 0
            scan = self._log.of_file(file)
            for item in scan.stretches():
                if isinstance(item, Stretch):
                    last = item.entry_at(item.last - offset_of(item.lsn))
                    newest = max(newest, _newest_time(item))
                elif isinstance(item, LogEntry):
                    last = item
                    newest = max(newest, time_of(item) or 0)
                elif item.length and offset_of(item.lsn):
                    # Whatever may follow, the log ends here (R-LOG-31).
                    tail = item._replace(length=scan.head().size_bytes - offset_of(item.lsn))
                    break
                else:
                    self._damages.append(item)
            if tail is not None:
                self._damages += (
                    seen.damage
                    for seen in scan.check().damages
                    if seen.damage.lsn >= tail.lsn and not is_harmless(seen, end_file)
                )
            if last is not None:
                end = last.lsn + last.total_bytes
                return last.lsn, end, newest, tail
        return NULL_LSN, NULL_LSN, 0, None

    def _last_checkpoint(self, last_lsn: int) -> _End:
        found = LogAfterCheckpoint()
        for number, file in enumerate(reversed(self._files.files)):
            # How many files there are to read is not known before the checkpoint is found.
            self._listener.step("find checkpoint", number, 0)
            if last_lsn == NULL_LSN or file.number > file_of(last_lsn):
                continue
            limit = last_lsn + 1 if file.number == file_of(last_lsn) else NULL_LSN
            here = LogAfterCheckpoint()
            for item in self._log.of_file(file).between(end=limit).stretches():
                here.add(item)
            if file.number < self._files.end_file():
                # Files are read from the last one back, and damage is reported in that order.
                self._damages += reversed(here.damages)
            found.join_earlier(here)
            if found.checkpoint is not None:
                break
        checkpoint, root_lsn, root = found.checkpoint, found.root_lsn, found.root
        # No DbTree follows the CkptEnd, so the DbTree that the CkptEnd names is the root (R-REC-5).
        if checkpoint is not None and root is None:
            root_lsn = checkpoint.record.root_lsn
            at_root = self._log.entry_at(root_lsn)
            root = decoded_as(at_root, DbTree) if at_root is not None else None
        is_last = root is not None and found.is_housekeeping(self._log, root)
        return _End(checkpoint, found.partial, root_lsn, root, is_last)

    def _reserved(self, control: _End, counter: RecoveryWorkCounter) -> tuple[LogFile, ...]:
        """Reserved files from the records of the checkpoint and the records after it."""
        known = reserved_files(self._log, control.root) if control.root is not None else set()
        return tuple(file for file in self._files.files if counter.reserved.get(file.number, file.number in known))

    def _work(self, checkpoint: CheckpointSurvey | None, end: int) -> RecoveryWorkCounter:
        start = checkpoint.record.first_active_lsn if checkpoint else NULL_LSN
        if start != NULL_LSN and self._files.find(file_of(start)) is None:
            # The file of firstActive is missing; the remaining interval begins in the next file.
            start = make_lsn(file_of(start), 0)
        elif start != NULL_LSN:
            # Begin at the next readable place, since the entry at firstActive may be damaged or cut off.
            start = self._log.place_after(start)
        counter = RecoveryWorkCounter(start)
        known = {damage.lsn for damage in self._damages}
        first = 0 if start == NULL_LSN else file_of(start)
        numbers = [file.number for file in self._files.files if file.number >= first]
        for item in self._log.between(start, end).stretches() if end != NULL_LSN else ():
            self._listener.step("read log", bisect_left(numbers, file_of(item.lsn)), len(numbers))
            if isinstance(item, Stretch):
                counter.take(item)
            elif isinstance(item, LogEntry):
                counter.add(item)
            elif item.lsn not in known:
                self._damages.append(item)
        return counter

    def _vlsns(self, last_lsn: int, end: int) -> tuple[int, int]:
        """First and last VLSN of visible entries, read from both ends of the log only as far as needed."""
        if last_lsn == NULL_LSN:
            return NULL_VLSN, NULL_VLSN
        first = next(_visible_vlsns(self._log.between(end=end).entries()), NULL_VLSN)
        if first == NULL_VLSN:
            return NULL_VLSN, NULL_VLSN
        return first, next(_visible_vlsns(self._log.between(last_lsn).backward(over_gaps=True)), NULL_VLSN)

    def _marker(self) -> RestoreRequired | None:
        if self._files.marker is None:
            return None
        scan = scan_file(self._storage, self._files.marker, is_last=True, types=frozenset((RESTORE_REQUIRED,)))
        for entry in scan.good_entries():
            return decoded_as(entry, RestoreRequired)
        # The existence of the file keeps JE from opening, whatever its content.
        return RestoreRequired("unreadable", 0, "")


def _newest_time(stretch: Stretch) -> int:
    """The newest time in the entries of a stretch."""
    data, version, lengths = stretch.data, stretch.version, header_lengths(stretch.version)
    newest = 0
    for pos in stretch.positions(_TIMED):
        number = data[pos + TYPE_AT]
        if number in TXN_ENDS:
            body = pos + lengths[number | data[pos + FLAGS_AT] << 8]
            try:
                newest = max(newest, txn_end_fields(data, body, body + item_size(data, pos), version)[1])
            except (FormatError, IndexError):
                # A matching checksum does not prove that the body is valid.
                continue
        else:
            newest = max(newest, time_of(stretch.entry_at(pos)) or 0)
    return newest


def _visible_vlsns(items: Iterator[LogEntry | Damage]) -> Iterator[int]:
    return (item.vlsn for item in items if isinstance(item, LogEntry) and item.replicated and not item.invisible)
