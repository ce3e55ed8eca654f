"""What the control entries of a log say: the operator's first question about an environment.

The log is read from its end. The last file is scanned whole: the log ends at the first place in it where no good entry
begins, whatever follows that (R-LOG-31). If it holds no CkptEnd up to there, the files before it are looked at
until one does (R-REC-4). What recovery would have to do lies between the
firstActive LSN of that checkpoint and the end (R-REC-10); it is read once, forward.

Example: CkptStart 0x0/0x5d5, CkptEnd 0x0/0x6e2 (firstActive 0x0/0x5d5), end of log 0x0/0x711. Nothing follows the
CkptEnd, its invoker is "close": the environment was closed cleanly and recovery has nothing to do. A closing JE may
write utilization, expiration and reserved-file records after that CkptEnd; they change no data, and JE writes them
again where they are missing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format import tuples
from engine.format.entry.checkpoint import CkptEnd
from engine.format.entry.db_tree import ENV_REPLICATED, DbTree
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry.ln import LN
from engine.format.entry.markers import RestoreRequired
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import Prepare, TxnEnd
from engine.format.entry_types import (
    ABORT,
    BY_NUMBER,
    CKPT_END,
    CKPT_ENTRIES,
    CKPT_START,
    COMMIT,
    DB_TREE,
    OWN_ENTRIES,
    PLAIN_LNS,
    PREPARE,
    RESERVED_FILE_LNS,
    RESTORE_REQUIRED,
    ROLLBACK_END,
    TIMED_ENTRIES,
    TRANSACTIONAL,
    TXN_ENDS,
)
from engine.format.entry_types import LN as LN_FAMILY
from engine.format.entry_types import NODE as NODE_FAMILY
from engine.format.entry_types import ROLLBACK_START as ROLLBACK_START_TYPE
from engine.format.fast.header import TYPES, header_lengths, item_size
from engine.format.fast.loops import COUNT, KEEP, TALLY, keeping, no_tallies
from engine.format.fast.txn_end import txn_end_fields
from engine.format.fast.txns import note_transactions
from engine.format.fast.walks import sift
from engine.format.header import FLAGS_AT, TYPE_AT
from engine.format.lsn import NULL_LSN, file_of, make_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.inspect.database_name import database_name, reserved_files
from engine.inspect.selection import db_of, time_of
from engine.log.damage import is_harmless
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LOCK_FILE, WRITER_BYTE, LogFile, LogFiles
from engine.log.scan import LogScan, scan_file, scan_log
from engine.storage.base import Storage

T = TypeVar("T")
_TIMED: Final = keeping(TIMED_ENTRIES)

# JE has nine databases of its own.
_MOST_OWN_DBS: Final = 9

# What the walk keeps that looks for what follows the last CkptEnd, and of what it only notes that it is there.
_AFTER_CKPT: Final = [
    0 if number in OWN_ENTRIES else KEEP if number in PLAIN_LNS or number in CKPT_ENTRIES else COUNT
    for number in range(TYPES)
] * TYPES
# What the count of the work keeps, for the ids of transactions and for reserved files; it counts all.
_WORK: Final = [
    COUNT | KEEP if number in TRANSACTIONAL | RESERVED_FILE_LNS else COUNT for number in range(TYPES)
] * TYPES


class FileVersions(NamedTuple):
    """Consecutive files of one log version."""

    version: int
    first_file: int
    last_file: int


class CheckpointSurvey(NamedTuple):
    """The checkpoint that recovery starts from."""

    end_lsn: int
    record: CkptEnd


class OpenRollback(NamedTuple):
    """A RollbackStart without its RollbackEnd."""

    lsn: int
    record: RollbackStart


class RecoveryWork(NamedTuple):
    """What lies between the start of recovery and the end of the log.

    Attributes:
        from_lsn: firstActive of the last checkpoint, or the first entry of the log.
        entries, log_bytes: in all.
        lns, nodes: LNs and IN-type entries among them.
        commits, aborts: transactions that ended.
        open_txns: ids of transactions with LNs and no end.
        prepared_txns: ids of transactions prepared and not decided.
    """

    from_lsn: int
    entries: int
    log_bytes: int
    lns: int
    nodes: int
    commits: int
    aborts: int
    open_txns: tuple[int, ...]
    prepared_txns: tuple[int, ...]


class Survey(NamedTuple):
    """The control data of an environment.

    Attributes:
        last_lsn: the last entry of the log.
        end_of_log: LSN after it.
        tail: the bytes from there to the end of the file, which are not entries or follow bytes that are not; or None.
        closed_cleanly: the last thing that was written is the checkpoint of a close.
        partial_checkpoint: LSN of a CkptStart after the last CkptEnd, or NULL_LSN.
        replicated: the root says that the environment is replicated.
        first_vlsn, last_vlsn: of the visible entries of the log.
        damages: stretches of damage that were met on the way; a tail with nothing durable in it does not count.
        reserved: files that the cleaner has given up and that are still there; none when they were not looked for.
        lost_ends: last entries of files, as the file after each names them, that are not there.
        lock_holder: pid of the process that has the environment open for writing (0: not named), or None.
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


def survey(storage: Storage, files: LogFiles, *, quick: bool = False, listener: Listener = SILENT) -> Survey:
    """Read the control data of an environment.

    Arguments:
        storage: the environment.
        files: its log files.
        quick: read no more than the last CkptEnd needs; ``work`` is None then, and there are no VLSNs and no rollbacks.
        listener: hears ``read log`` with files.

    Raises:
        UnsupportedError: the last files are of a log version that this program does not read.
        StorageError: a file cannot be read.
    """
    return _Surveyor(storage, files, listener).run(quick)


class _End(NamedTuple):
    """What a scan for the last checkpoint found."""

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
        """Collect everything, or what is near the end of the log."""
        files = self._files.files
        last_lsn, end, last_time, tail = self._end_of_log()
        control = self._last_checkpoint(last_lsn)
        counter = None if quick else self._work(control.checkpoint, end)
        replicated = control.root is not None and bool(control.root.flags & ENV_REPLICATED)
        # Without a root it is not known; without replication there is nothing to look for in the whole log.
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
        """Runs of files of one version, and last entries that are not there though the next header names them."""
        runs: list[FileVersions] = []
        lost: list[int] = []
        bad = {file_of(damage.lsn) for damage in self._damages}
        # What the file after says: its number, and the offset of the last entry before it.
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
        """Last entry, the LSN after it, the newest time met in the last file, the torn tail."""
        end_file = self._files.end_file()
        for file in reversed(self._files.files):
            # A file without an entry after the last one that has some is skipped (R-LOG-30).
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
        found = _AfterCkpt()
        for file in reversed(self._files.files):
            if last_lsn == NULL_LSN or file.number > file_of(last_lsn):
                continue
            limit = last_lsn + 1 if file.number == file_of(last_lsn) else NULL_LSN
            here = _AfterCkpt()
            for item in self._log.of_file(file).between(end=limit).stretches():
                here.add(item)
            if file.number < self._files.end_file():
                # Files are read from the last one back, and damage is reported in that order.
                self._damages += reversed(here.damages)
            found.join_earlier(here)
            if found.checkpoint is not None:
                break
        checkpoint, root_lsn, root = found.checkpoint, found.root_lsn, found.root
        # No DbTree after the CkptEnd: the one that it names is the root (R-REC-5).
        if checkpoint is not None and root is None:
            root_lsn = checkpoint.record.root_lsn
            at_root = self._log.entry_at(root_lsn)
            root = _decoded(at_root, DbTree) if at_root is not None else None
        is_last = root is not None and found.is_housekeeping(self._log, root)
        return _End(checkpoint, found.partial, root_lsn, root, is_last)

    def _reserved(self, control: _End, counter: _WorkCounter) -> tuple[LogFile, ...]:
        """What the records of the checkpoint say, and those after it."""
        known = reserved_files(self._log, control.root) if control.root is not None else set()
        return tuple(file for file in self._files.files if counter.reserved.get(file.number, file.number in known))

    def _work(self, checkpoint: CheckpointSurvey | None, end: int) -> _WorkCounter:
        start = checkpoint.record.first_active_lsn if checkpoint else NULL_LSN
        if start != NULL_LSN and self._files.find(file_of(start)) is None:
            # The file is gone; what is left of the interval begins in the next one.
            start = make_lsn(file_of(start), 0)
        elif start != NULL_LSN:
            # It may be damaged, or cut off with the end of its file.
            start = self._log.place_after(start)
        counter = _WorkCounter(start)
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
        """First and last VLSN of visible entries: the log is read from both ends only as far as needed."""
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
            return _decoded(entry, RestoreRequired)
        # The file alone keeps JE from opening, whatever is in it.
        return RestoreRequired("unreadable", 0, "")


class _AfterCkpt:
    """What a part of the log holds after its last CkptEnd that can be read, and that CkptEnd.

    Attributes:
        checkpoint: None when no CkptEnd can be read.
        partial: the first CkptStart; NULL_LSN without one.
        root_lsn, root: the last DbTree that can be read; without one the first that cannot.
        damages: damage that was met.
    """

    def __init__(self) -> None:
        self._restart(None)

    def _restart(self, checkpoint: CheckpointSurvey | None) -> None:
        self.checkpoint = checkpoint
        self.partial = self.root_lsn = NULL_LSN
        self.root: DbTree | None = None
        self.damages: list[Damage] = []
        self._other = False
        self._dbs: set[int] = set()

    def add(self, item: Stretch | LogEntry | Damage) -> None:
        """The next part of the log."""
        if isinstance(item, Stretch):
            self._take(item)
        elif isinstance(item, Damage):
            self.damages.append(item)
        elif item.type_number == CKPT_END and (record := _decoded(item, CkptEnd)) is not None:
            # Whatever came before it is of no interest, damage neither.
            self._restart(CheckpointSurvey(item.lsn, record))
        else:
            self._add(item)

    def join_earlier(self, earlier: _AfterCkpt) -> None:
        """Put the part before this one in front."""
        self.checkpoint = earlier.checkpoint
        if earlier.partial != NULL_LSN:
            self.partial = earlier.partial
        if self.root is None and earlier.root_lsn != NULL_LSN:
            self.root_lsn, self.root = earlier.root_lsn, earlier.root
        self._other |= earlier._other
        self._dbs |= earlier._dbs

    def _take(self, stretch: Stretch) -> None:
        tallies = no_tallies()
        found: list[int] = []
        lengths = header_lengths(stretch.version)
        sift(stretch.data, stretch.start, stretch.end, _AFTER_CKPT, lengths, found, tallies)
        self._other |= any(tallies[::TALLY])
        for pos in found:
            if len(self._dbs) <= _MOST_OWN_DBS or stretch.data[pos + TYPE_AT] not in PLAIN_LNS:
                self._add(stretch.entry_at(pos))

    def _add(self, item: LogEntry) -> None:
        if item.type_number == DB_TREE:
            record = _decoded(item, DbTree)
            if record is not None or self.root_lsn == NULL_LSN:
                self.root_lsn, self.root = item.lsn, record
        elif item.type_number == CKPT_START and self.partial == NULL_LSN:
            self.partial = item.lsn
        if item.type_number in OWN_ENTRIES:
            return
        db = db_of(item) if item.type_number in PLAIN_LNS and not item.replicated else None
        if db is None:
            self._other = True
        else:
            self._dbs.add(db)

    def is_housekeeping(self, log: LogScan, root: DbTree) -> bool:
        """Whether all of it is what a closing JE writes for itself: records of databases whose names begin with _je."""
        if self._other or len(self._dbs) > _MOST_OWN_DBS:
            return False
        return all((database_name(log, root, db) or "").startswith("_je") for db in self._dbs)


class _WorkCounter:
    """Counts what recovery would read.

    Arguments:
        start: where it begins.

    Attributes:
        reserved: numbers of files, and whether the last record of each says that it is reserved.
    """

    def __init__(self, start: int) -> None:
        self._start = start
        self.reserved: dict[int, bool] = {}
        self._entries = self._bytes = self._lns = self._nodes = 0
        self._ended = {COMMIT: 0, ABORT: 0}
        self._active: dict[int, None] = {}
        self._prepared: dict[int, None] = {}
        self._rollbacks: dict[int, OpenRollback] = {}

    def add(self, item: LogEntry) -> None:
        """Count one entry."""
        kind = BY_NUMBER[item.type_number]
        self._entries += 1
        self._bytes += item.total_bytes
        self._nodes += kind.family == NODE_FAMILY
        self._lns += kind.family == LN_FAMILY
        if item.type_number in self._ended:
            self._ended[item.type_number] += 1
        if kind.transactional or item.type_number in RESERVED_FILE_LNS:
            self._note(item)
        elif item.type_number == ROLLBACK_START_TYPE:
            start = _decoded(item, RollbackStart)
            if start is not None:
                self._rollbacks[item.lsn] = OpenRollback(item.lsn, start)
        elif item.type_number == ROLLBACK_END:
            finished = _decoded(item, RollbackEnd)
            if finished is not None:
                self._rollbacks.pop(finished.rollback_start_lsn, None)

    def _note(self, item: LogEntry) -> None:
        """What an entry of a transaction says of it, and what becomes of a reserved file."""
        if item.type_number in RESERVED_FILE_LNS:
            record = _decoded(item, LN)
            if record is not None and len(record.key) == tuples.LONG_KEY_BYTES:
                self.reserved[tuples.parse_long_key(record.key)] = record.data is not None
        elif item.type_number in self._ended:
            end = _decoded(item, TxnEnd)
            if end is not None:
                self._active.pop(end.id, None)
                self._prepared.pop(end.id, None)
        elif item.type_number == PREPARE:
            prepared = _decoded(item, Prepare)
            if prepared is not None:
                self._prepared[prepared.id] = None
        # What was rolled back leaves no transaction open.
        elif not item.invisible:
            record = _decoded(item, LN)
            if record is not None and record.txn_id is not None:
                self._active[record.txn_id] = None

    def take(self, stretch: Stretch) -> None:
        """Count the entries of a stretch."""
        data, version, lengths = stretch.data, stretch.version, header_lengths(stretch.version)
        tallies = no_tallies()
        found: list[int] = []
        sift(data, stretch.start, stretch.end, _WORK, lengths, found, tallies)
        for number in range(TYPES):
            if entries := tallies[number * TALLY]:
                family = BY_NUMBER[number].family
                self._entries += entries
                self._bytes += tallies[number * TALLY + 1]
                self._nodes += entries if family == NODE_FAMILY else 0
                self._lns += entries if family == LN_FAMILY else 0
                if number in self._ended:
                    self._ended[number] += entries
        at = 0
        # Ids are noted from the bytes; what is not of the usual form is decoded.
        while (at := note_transactions(data, found, at, lengths, version, self._active, self._prepared)) < len(found):
            self._note(stretch.entry_at(found[at]))
            at += 1

    def result(self) -> RecoveryWork:
        """The counts."""
        open_txns = tuple(txn for txn in self._active if txn not in self._prepared)
        return RecoveryWork(
            from_lsn=self._start,
            entries=self._entries,
            log_bytes=self._bytes,
            lns=self._lns,
            nodes=self._nodes,
            commits=self._ended[COMMIT],
            aborts=self._ended[ABORT],
            open_txns=open_txns,
            prepared_txns=tuple(self._prepared),
        )

    def open_rollbacks(self) -> tuple[OpenRollback, ...]:
        """Periods without an end."""
        return tuple(self._rollbacks.values())


def _newest_time(stretch: Stretch) -> int:
    """The newest time of the entries of a stretch that carry one."""
    data, version, lengths = stretch.data, stretch.version, header_lengths(stretch.version)
    newest = 0
    for pos in stretch.positions(_TIMED):
        number = data[pos + TYPE_AT]
        if number in TXN_ENDS:
            body = pos + lengths[number | data[pos + FLAGS_AT] << 8]
            try:
                newest = max(newest, txn_end_fields(data, body, body + item_size(data, pos), version)[1])
            except (FormatError, IndexError):
                # A right checksum does not prove that the body was written rightly.
                continue
        else:
            newest = max(newest, time_of(stretch.entry_at(pos)) or 0)
    return newest


def _visible_vlsns(items: Iterator[LogEntry | Damage]) -> Iterator[int]:
    return (item.vlsn for item in items if isinstance(item, LogEntry) and item.replicated and not item.invisible)


def _decoded(item: LogEntry, kind: type[T]) -> T | None:
    try:
        record = item.record()
    except FormatError:
        return None
    return record if isinstance(record, kind) else None
