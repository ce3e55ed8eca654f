"""Finding the end of the log, and the last checkpoint (R-LOG-30 to R-LOG-39, R-REC-4).

Example: the last file holds ``CkptStart@0x100 CkptEnd@0x200 INS_LN_TX@0x260 (bad checksum) Commit@0x2a0``. The log ends
at 0x260. JE cuts there without an error. Here ``Tail.commits_at_risk`` is 1, and the writer that opens the log has to
decide (D-5).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Final, NamedTuple

from engine.errors import DamageError, RefusedError, UnsupportedError
from engine.events import SILENT, Listener, Progress
from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.entry_types import (
    CKPT_END,
    CKPT_ENTRIES,
    CKPT_START,
    DB_TREE,
    FILE_HEADER,
    IMMUTABLE_FILE,
    RESTORE_REQUIRED,
)
from engine.format.header import header_bytes
from engine.format.lsn import NULL_LSN, format_lsn, make_lsn, offset_of
from engine.log.access import LogAccess
from engine.log.damage import AfterDamage, AfterDamageCount, is_full
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFile, LogFiles
from engine.log.passes import LogRange, backward_pieces, bytes_of, entries_back
from engine.log.reader import FileReader
from engine.storage.base import Storage

# Bytes between two reports of progress.
_TOLD_BYTES: Final = 1 << 20
_REFUSED: Final = frozenset((RESTORE_REQUIRED,))


class Tail(NamedTuple):
    """The end of a log.

    Attributes:
        last_file: the last file that belongs to the log.
        version: log version of the last file.
        end_lsn: the place of the next entry.
        last_lsn: the last good entry; NULL_LSN if the log has no good entry.
        ckpt_end_lsn: the last CkptEnd of the last file.
        partial_ckpt_start: the first CkptStart after it.
        root_lsn: the last DbTree of the last file.
        immutable: an ImmutableFile entry requires a new file.
        cut_bytes: number of bytes after the end in the last file.
        damage: the first bad entry of the last file, or None.
        commits_at_risk: number of good Commits after the damage.
        entries: number of entries in the last file.
        set_aside: paths of last files that are not part of the log and will be renamed: files with only a damaged
            header, and ``given_up``.
        after: the evidence about the Commits at risk, and the records outside transactions after the damage.
        stubs: paths of last files that are empty or hold only an intact header: a writer removes them (R-LOG-16).
        given_up: a last file with data but without a usable entry: its header or its first entry is bad.
    """

    last_file: LogFile
    version: int
    end_lsn: int
    last_lsn: int
    ckpt_end_lsn: int
    partial_ckpt_start: int
    root_lsn: int
    immutable: bool
    cut_bytes: int
    damage: Damage | None
    commits_at_risk: int
    entries: int
    set_aside: tuple[str, ...]
    after: AfterDamage
    stubs: tuple[str, ...] = ()
    given_up: LogFile | None = None

    @property
    def holds_records(self) -> bool:
        """Whether good Commits, or records outside transactions, stand after the end of the log."""
        return bool(self.commits_at_risk or self.after.records)

    @property
    def given_up_bytes(self) -> int:
        """Number of bytes after the end of the log, in any file."""
        return self.cut_bytes + (self.given_up.size_bytes if self.given_up is not None else 0)


class LastCheckpoint(NamedTuple):
    """The start of recovery; NULL_LSN for missing entries."""

    ckpt_end_lsn: int
    partial_ckpt_start: int
    root_lsn: int


def find_end(storage: Storage, found: LogFiles, listener: Listener = SILENT) -> Tail:
    """Read the last file and find the end of the log.

    Arguments:
        storage: the environment.
        found: the log files.
        listener: receives the step ``FIND_END_OF_LOG``, in bytes of the last file.

    Raises:
        RefusedError: the environment must be restored first (marker file, or RestoreRequired).
        DamageError: a last file has a damaged header, holds data, and either is the only file or was followed by
            another.
    """
    if found.marker is not None:
        raise RefusedError(
            "the environment must not be opened: it holds a restore marker",
            file=f"{storage.root}/{found.marker.path}",
            consequence="JE found persistent damage, or a network restore was not finished",
            hint="restore the environment; then remove the marker file",
        )
    set_aside: list[str] = []
    stubs: list[str] = []
    given_up: _GivenUp | None = None
    # A crash between creating a file and writing its first entry leaves a file without entries: the log ends before it.
    for file in reversed(found.files):
        if file.size_bytes > FILE_HEADER_BYTES or file is found.files[0]:
            is_last = file is found.files[-1]
            # A file with a successor was synced, so a bad header or first entry there is damage. The first file cannot
            # be given up, because it holds the root.
            if is_last and file is not found.files[0] and (given_up := _given_up(storage, file)) is not None:
                set_aside.append(file.path)
                continue
            tail = _read_last(storage, file, listener, has_later_file=not is_last)
            tail = tail._replace(set_aside=tuple(set_aside), stubs=tuple(stubs))
            return tail if given_up is None else _without(tail, given_up)
        # JE renames a damaged stub to .bad; an intact or empty one stays and is reused (R-LOG-30).
        if file.size_bytes and not _is_header(storage, file):
            set_aside.append(file.path)
        else:
            stubs.append(file.path)
    raise DamageError("the log holds no entry", file=storage.root)


class _GivenUp(NamedTuple):
    """A last file without a usable entry: its first damage, and the evidence after the damage."""

    file: LogFile
    damage: Damage
    after: AfterDamage


def _given_up(storage: Storage, file: LogFile) -> _GivenUp | None:
    """Examine a last file whose header, or whose first entry after it, is bad; None if it has a usable entry.

    A file is synced when the next one is begun, but its own first sectors need not reach the disk before later ones. So
    a crash can leave such a file, and its entries count no more than others after a bad one. JE refuses a file with a
    bad header, and cuts a file with a bad first entry down to the header (R-LOG-16).
    """
    with FileReader(storage, file, is_last=True) as reader:
        count, damage = AfterDamageCount(), None
        for item in reader.entries():
            if isinstance(item, LogEntry):
                if damage is not None:
                    count.add(item)
                elif item.type_number != FILE_HEADER:
                    return None
            elif damage is None:
                # A broken link, or a header with another file number: left to the reader of a whole file.
                if not item.length:
                    return None
                damage = item
    if damage is None:
        return None
    with closing(storage.open(file.path)) as handle:
        return _GivenUp(file, damage, count.result(handle, damage, has_later_file=False))


def _without(tail: Tail, last: _GivenUp) -> Tail:
    """The end of a log whose last file is given up as well."""
    before, after = tail.after, last.after
    return tail._replace(
        damage=tail.damage or last.damage,
        commits_at_risk=before.commits + after.commits,
        after=AfterDamage(
            commits=before.commits + after.commits,
            synced=before.synced + after.synced,
            shown_by=before.shown_by if before.synced else after.shown_by,
            acknowledged=before.acknowledged + after.acknowledged,
            torn=before.torn or after.torn,
            records=(*before.records, *after.records),
        ),
        given_up=last.file,
    )


def may_lack_a_file(tail: Tail, files: Sequence[LogFile]) -> bool:
    """Whether the log ends without a checkpoint in a file that is full, so that the next file may be lost."""
    last = tail.last_file
    # A torn tail, a closing CkptEnd, or later files show that nothing was written after this file.
    if tail.cut_bytes or tail.last_lsn == tail.ckpt_end_lsn or files[-1].number != last.number:
        return False
    return is_full(last.size_bytes, [file.size_bytes for file in files[:-1]])


def _is_header(storage: Storage, file: LogFile) -> bool:
    """Whether a file no longer than a header is a good header (R-LOG-30)."""
    if file.size_bytes < FILE_HEADER_BYTES:
        return False
    try:
        with FileReader(storage, file, is_last=True) as reader:
            return isinstance(next(iter(reader.entries()), None), LogEntry)
    except UnsupportedError:
        return False


def find_last_checkpoint(access: LogAccess, tail: Tail, listener: Listener = SILENT) -> LastCheckpoint:
    """The last CkptEnd of the whole log, and the latest root (R-REC-4, R-REC-5).

    Arguments:
        listener: receives the step ``FIND_LAST_CKPT``, in bytes, if the checkpoint is not in the last file.
    """
    notes = CheckpointNotes(tail.ckpt_end_lsn, tail.partial_ckpt_start, tail.root_lsn)
    if notes.ckpt_end_lsn == NULL_LSN:
        before = LogRange(NULL_LSN, make_lsn(tail.last_file.number, FILE_HEADER_BYTES))
        progress = Progress(listener, "FIND_LAST_CKPT", bytes_of(access, before))
        for piece in backward_pieces(access, before):
            if any(notes.before(raw.lsn, raw.type_number) for raw in entries_back(access, piece, CKPT_ENTRIES)):
                break
            progress.add(len(piece.data))
    return LastCheckpoint(notes.ckpt_end_lsn, notes.partial_ckpt_start, notes.root_lsn)


class CheckpointNotes:
    """Finds the last checkpoint from the entries of a log; the only place with the rules for this.

    Arguments:
        ckpt_end_lsn, partial_ckpt_start, root_lsn: initial values, as far as known.

    Attributes:
        ckpt_end_lsn: the last CkptEnd.
        partial_ckpt_start: the first CkptStart after it.
        root_lsn: the last DbTree noted.
    """

    __slots__ = ("ckpt_end_lsn", "partial_ckpt_start", "root_lsn")

    def __init__(
        self, ckpt_end_lsn: int = NULL_LSN, partial_ckpt_start: int = NULL_LSN, root_lsn: int = NULL_LSN
    ) -> None:
        self.ckpt_end_lsn = ckpt_end_lsn
        self.partial_ckpt_start = partial_ckpt_start
        self.root_lsn = root_lsn

    def after(self, lsn: int, type_number: int) -> None:
        """Note an entry after all noted so far."""
        if type_number == CKPT_END:
            # The CkptStart noted before belongs to this CkptEnd; a partial checkpoint begins after it (R-LOG-32).
            self.ckpt_end_lsn, self.partial_ckpt_start = lsn, NULL_LSN
        elif type_number == CKPT_START and self.partial_ckpt_start == NULL_LSN:
            self.partial_ckpt_start = lsn
        elif type_number == DB_TREE:
            self.root_lsn = lsn

    def before(self, lsn: int, type_number: int) -> bool:
        """Note an entry before all noted so far, while no CkptEnd is known; returns whether the entry is a CkptEnd."""
        if type_number == CKPT_END:
            self.ckpt_end_lsn = lsn
            return True
        if type_number == CKPT_START:
            # Backwards, the last CkptStart seen is the earliest, which is the one that counts (R-REC-4).
            self.partial_ckpt_start = lsn
        elif type_number == DB_TREE and self.root_lsn == NULL_LSN:
            # Backwards, the first DbTree seen is the latest.
            self.root_lsn = lsn
        return False


class _TailNotes:
    """The findings of a walk through the last file."""

    __slots__ = ("after", "checkpoint", "count", "damage", "end", "immutable", "last")

    def __init__(self) -> None:
        self.end = self.count = 0
        self.after = AfterDamageCount()
        self.last = NULL_LSN
        self.checkpoint = CheckpointNotes()
        self.immutable = False
        self.damage: Damage | None = None

    def good(self, item: Stretch | LogEntry) -> None:
        """Note entries before the end of the log."""
        last = item.entry_at(item.last - offset_of(item.lsn)) if isinstance(item, Stretch) else item
        self.count += item.entries if isinstance(item, Stretch) else 1
        self.last = last.lsn
        # An ImmutableFile counts only as the last entry: nothing may be appended, so the next entry begins a new file.
        self.immutable = last.type_number == IMMUTABLE_FILE
        self.end = offset_of(last.lsn) + header_bytes(last.flags, last.version) + last.item_size
        for entry in _entries_of(item, CKPT_ENTRIES):
            self.checkpoint.after(entry.lsn, entry.type_number)


def _entries_of(item: Stretch | LogEntry, types: frozenset[int] | None) -> Iterable[LogEntry]:
    """The entries of some types; None for all."""
    if isinstance(item, Stretch):
        return item.entries_of(types)
    return (item,) if types is None or item.type_number in types else ()


def _read_last(storage: Storage, file: LogFile, listener: Listener, *, has_later_file: bool) -> Tail:
    seen = _TailNotes()
    # A stretch ends with the window, and each is a report of progress.
    with FileReader(storage, file, is_last=True, window_bytes=_TOLD_BYTES) as reader:
        name, told = f"{storage.root}/{file.path}", 0
        for item in reader.stretches():
            # Report progress: a last file may have any size, and damage in it is searched byte by byte for entries.
            if offset_of(item.lsn) >= told:
                listener.step("FIND_END_OF_LOG", offset_of(item.lsn), reader.window.size_bytes)
                told = offset_of(item.lsn) + _TOLD_BYTES
            if isinstance(item, Stretch | LogEntry):
                _take(seen, item, name)
            elif seen.damage is None and item.length:
                # A later file shows that this header was once intact; it must not be the reason for cutting anything
                # (R-LOG-30).
                if offset_of(item.lsn) == 0:
                    raise DamageError("the header of the last log file is damaged", file=name, lsn=format_lsn(item.lsn))
                # The log ends at the first bad entry; later damage is in the part that is cut off anyway (R-LOG-31).
                seen.damage = item
            elif item.reason == "file-number":
                raise DamageError(
                    "wrong file number in a log file header", file=name, expected=item.expected, found=item.found
                )
        size = reader.window.size_bytes
        after = AfterDamage()
        if seen.damage is not None and (seen.after.commits or seen.after.records):
            with closing(storage.open(file.path)) as handle:
                after = seen.after.result(handle, seen.damage, has_later_file=has_later_file)
        return Tail(
            last_file=file,
            version=reader.version,
            end_lsn=make_lsn(file.number, seen.end),
            last_lsn=seen.last,
            ckpt_end_lsn=seen.checkpoint.ckpt_end_lsn,
            partial_ckpt_start=seen.checkpoint.partial_ckpt_start,
            root_lsn=seen.checkpoint.root_lsn,
            immutable=seen.immutable,
            cut_bytes=size - seen.end,
            damage=seen.damage,
            commits_at_risk=after.commits,
            entries=seen.count,
            set_aside=(),
            after=after,
        )


def _take(seen: _TailNotes, item: Stretch | LogEntry, name: str) -> None:
    if seen.damage is not None:
        # No longer part of the log, but it may show that the part cut off had been durable (D-5).
        for entry in _entries_of(item, None):
            seen.after.add(entry)
        return
    for entry in _entries_of(item, _REFUSED):
        # Files are missing or were found damaged: this is not a whole log (R-LOG-32).
        raise RefusedError(
            "the log ends with a request to restore the environment", file=name, lsn=format_lsn(entry.lsn)
        )
    seen.good(item)
