"""Checking one log file in bulk, limited to what ``verify --log``, ``dump-log --stats`` and ``vlsn map`` need.

Almost all entries go through one tight loop (``fast.loops.check_plain``). It stops at a rare or bad entry; that entry
is examined here, and the loop continues after it. The first replicated entry of a file counts as rare, so that its VLSN
becomes known.

VLSNs of visible replicated entries ascend through the log (je-log-format.md 11.1). After a RollbackStart, VLSNs
continue from its matchpoint; entries that the rollback made invisible do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, cast

from engine.errors import FormatError
from engine.format.codecs import decode_body, readable_body
from engine.format.entry_types import (
    CKPT_END,
    COMMIT,
    DURABLE_ENTRIES,
    ERASED,
    FILE_SUMMARY_LN,
    PLAIN_LNS,
    RARE_ENTRIES,
    RESERVED_FILE_LN,
    ROLLBACK_START,
    ROLLBACKS,
)
from engine.format.fast.file_summary import summarised_file, summary_file
from engine.format.fast.header import header_lengths
from engine.format.fast.walks import walk_of
from engine.format.header import (
    BAD_PREV,
    GOOD,
    HEADER_WITH_VLSN_BYTES,
    REPLICATED,
    VERSION_BITS_V6,
    EntryCheck,
    EntryHeader,
    is_invisible,
)
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage
from engine.log.files import LogFile
from engine.log.reader import FileReader
from engine.log.window import look

if TYPE_CHECKING:
    from engine.format.entry.checkpoint import CkptEnd
    from engine.format.entry.file_header import FileHeader
    from engine.format.entry.ln import LN
    from engine.format.entry.rollback import RollbackEnd, RollbackStart

# Keys of _jeReservedFilesDb hold the file number with its sign bit flipped.
_LONG_BIAS: Final = 1 << 63

# No VLSN is above this, so the loop stops at the first replicated entry.
STOP_AT_FIRST: Final = (1 << 63) - 1


class PlainRun(NamedTuple):
    """Plain entries of a buffer: the position after them, the file offset of the last one, and their number."""

    end: int
    last: int
    entries: int


def plain_entries(data: bytes, pos: int, base: int, prev_offset: int, version: int) -> PlainRun:
    """Check plain entries of a buffer until one is not plain, or the buffer ends; arguments as ``check_plain``."""
    walk = walk_of(version)
    end, last, _ = walk.check(data, pos, base, prev_offset, -(1 << 63))
    return PlainRun(end, last, sum(tally[0] for _, tally in walk.take(with_bytes=False)))


class PairTotals(NamedTuple):
    """Sizes of the entries of one type with the same flags; bytes include headers."""

    entries: int
    total_bytes: int
    least_bytes: int
    most_bytes: int

    def plus(self, other: PairTotals) -> PairTotals:
        """The sum of both."""
        return PairTotals(
            self.entries + other.entries,
            self.total_bytes + other.total_bytes,
            min(self.least_bytes, other.least_bytes),
            max(self.most_bytes, other.most_bytes),
        )


class Evidence(NamedTuple):
    """Numbers of intact entries that are normally followed by a sync, so that the bytes before them became durable.

    Attributes:
        commits: number of Commits.
        checkpoints: number of CkptEnds, which are fsynced.
        plain_lns: number of non-transactional records, which are committed at once.
    """

    commits: int
    checkpoints: int
    plain_lns: int


class DamagedStretch(NamedTuple):
    """A stretch of damage, and the evidence in the intact entries after it in its file."""

    damage: Damage
    after: Evidence


class VLSNBreak(NamedTuple):
    """A VLSN that is not above the previous VLSN."""

    offset: int
    vlsn: int
    before: int


class LoggedFileState(NamedTuple):
    """The last statement of the log about a file: its utilization was recorded, or it was cleaned.

    Attributes:
        lsn: LSN of the FileSummaryLN or ReservedFileLN.
        in_use: the file held live entries at that time.
    """

    lsn: int
    in_use: bool


class LoggedCkptEnd(NamedTuple):
    """A CkptEnd with its LSN."""

    lsn: int
    record: CkptEnd


class LoggedRollback(NamedTuple):
    """A RollbackStart or RollbackEnd with its LSN."""

    lsn: int
    record: RollbackStart | RollbackEnd


class FileCheck(NamedTuple):
    """The result of checking one file.

    Attributes:
        version: log version of the file.
        has_sizes: whether ``totals`` include bytes.
        header: None if it cannot be read.
        size_bytes: length of the file when it was opened.
        totals: by ``type | flags << 8``.
        last_offset: offset of the last good entry; -1 if the file has no good entry.
        end_offset: the offset after the last good entry.
        damages: in file order.
        invisible: offset and VLSN of the invisible entries.
        erased: offsets of the erased entries.
        vlsn_steps_back: places within this file where VLSNs do not ascend.
        file_words: by file number, the last statement in the checked file about the file with this number.
        checkpoint: the last CkptEnd.
        rollbacks: RollbackStart and RollbackEnd entries in log order.
        first_vlsn, last_vlsn, vlsn_count: first and last VLSN of visible replicated entries in log order, and their
            number; NULL_VLSN and 0 if there are no such entries.
    """

    file: LogFile
    version: int
    has_sizes: bool
    header: FileHeader | None
    size_bytes: int
    totals: dict[int, PairTotals]
    last_offset: int
    end_offset: int
    damages: tuple[DamagedStretch, ...]
    invisible: tuple[tuple[int, int], ...]
    erased: tuple[int, ...]
    vlsn_steps_back: tuple[VLSNBreak, ...]
    file_words: dict[int, LoggedFileState]
    checkpoint: LoggedCkptEnd | None
    rollbacks: tuple[LoggedRollback, ...]
    first_vlsn: int
    last_vlsn: int
    vlsn_count: int

    def count(self, type_number: int) -> int:
        """Number of good entries of one type."""
        return sum(total.entries for pair, total in self.totals.items() if pair & 0xFF == type_number)

    @property
    def entries(self) -> int:
        """Number of good entries, including the file header."""
        return sum(total.entries for total in self.totals.values())

    def restarts(self) -> list[int]:
        """The VLSN of the matchpoint of each RollbackStart."""
        if not self.rollbacks:
            return []
        from engine.format.entry.rollback import RollbackStart

        records = (found.record for found in self.rollbacks)
        return [record.matchpoint_vlsn for record in records if isinstance(record, RollbackStart)]

    @property
    def good_bytes(self) -> int:
        """Bytes of the good entries."""
        return sum(total.total_bytes for total in self.totals.values())


def check_file(reader: FileReader, *, with_sizes: bool = True) -> FileCheck:
    """Check every entry of a file: type, size, checksum, prevOffset, order of VLSNs.

    Arguments:
        reader: an open reader; this consumes it.
        with_sizes: sum up bytes too; otherwise ``totals`` hold numbers of entries and 0 for bytes.

    Raises:
        StorageError: the file cannot be read.
    """
    return _CheckPass(reader, with_sizes).run()


class _CheckPass:
    """The state of one pass over a file."""

    def __init__(self, reader: FileReader, with_sizes: bool) -> None:
        self._reader = reader
        self._with_sizes = with_sizes
        self._lengths = header_lengths(reader.version)
        self._walk = walk_of(reader.version)
        self._totals: dict[int, PairTotals] = {}
        self._damages: list[tuple[Damage, Evidence]] = []
        self._invisible: list[tuple[int, int]] = []
        self._erased: list[int] = []
        self._steps_back: list[VLSNBreak] = []
        self._words: dict[int, LoggedFileState] = {}
        self._checkpoint: LoggedCkptEnd | None = None
        self._rollbacks: list[LoggedRollback] = []
        self._first_vlsn = self._last_vlsn = NULL_VLSN
        # The VLSN that the loop compares with; separate from _last_vlsn, since a rollback resets it.
        self._stream = STOP_AT_FIRST
        self._prev = 0
        self._last = -1
        self._end = 0

    def run(self) -> FileCheck:
        """Check the whole file."""
        reader, window = self._reader, self._reader.window
        for damage in reader.header_damage(0):
            self._damages.append((damage, Evidence(0, 0, 0)))
        offset = 0
        while offset < window.size_bytes:
            if not window.holds(offset, min(HEADER_WITH_VLSN_BYTES, window.size_bytes - offset)):
                window.reach(offset, HEADER_WITH_VLSN_BYTES)
            before = offset
            offset = self._plain(offset)
            # The loop also ends at the window's edge: move the window before examining the entry.
            if offset < window.size_bytes and (offset == before or window.at_end()):
                offset = self._special(offset)
        return self._result()

    def _plain(self, offset: int) -> int:
        """Run the loop from an offset; returns the offset where it stopped."""
        window = self._reader.window
        base = window.base
        stopped, prev, stream = self._walk.check(window.data, offset - base, base, self._prev, self._stream)
        if base + stopped == offset:
            return offset
        self._prev = self._last = prev
        self._end = base + stopped
        if stream != self._stream:
            self._stream = self._last_vlsn = stream
        for pair, (entries, total, least, most) in self._walk.take(self._with_sizes):
            length = self._lengths[pair] if self._with_sizes else 0
            self._add(pair, PairTotals(entries, total + length * entries, least + length, most + length))
        return base + stopped

    def _special(self, offset: int) -> int:
        """Process one entry that is not plain, or damage; returns the offset after it."""
        reader = self._reader
        examined = look(reader.window, offset, reader.version, self._prev)
        if examined.verdict not in (GOOD, BAD_PREV):
            damage = reader.damage(offset, examined)
            self._damages.append((damage, self._evidence()))
            # The link of the next good entry leads into the damage, so it cannot be checked.
            self._prev = -1
            return offset + damage.length
        header = examined.header
        assert header is not None
        if examined.verdict == BAD_PREV and (broken := reader.broken_link(offset, examined)) is not None:
            self._damages.append((broken, self._evidence()))
        total = examined.header_bytes + header.item_size
        self._add(header.type_number | header.flags << 8, PairTotals(1, total, total, total))
        self._note(offset, header, examined)
        self._prev = self._last = offset
        self._end = offset + total
        return self._end

    def _note(self, offset: int, header: EntryHeader, examined: EntryCheck) -> None:
        if header.type_number == ERASED:
            self._erased.append(offset)
        if is_invisible(header.flags, self._reader.version):
            # After a rollback, later entries get the same VLSNs again, so invisible entries are left out of the check
            # of the order (R-SYNC-11).
            self._invisible.append((offset, header.vlsn))
            return
        if header.type_number in RARE_ENTRIES:
            self._control(offset, header, examined)
        if header.flags & REPLICATED:
            # The first VLSN of a file is not compared here: the transition between files is checked separately.
            before = NULL_VLSN if self._stream == STOP_AT_FIRST else self._stream
            if header.vlsn <= before:
                self._steps_back.append(VLSNBreak(offset, header.vlsn, before))
            if self._first_vlsn == NULL_VLSN:
                self._first_vlsn = header.vlsn
            self._stream = self._last_vlsn = header.vlsn

    def _control(self, offset: int, header: EntryHeader, examined: EntryCheck) -> None:
        body = self._reader.window.bytes_at(offset + examined.header_bytes, header.item_size)
        lsn = self._reader.file.number << 32 | offset
        version, body = readable_body(header.type_number, self._reader.version, header.flags & VERSION_BITS_V6, body)
        if header.type_number == FILE_SUMMARY_LN and (found := summarised_file(body, version)) is not None:
            # There is a FileSummaryLN per file and checkpoint, so it is read without making a record if possible.
            self._words[found[0]] = LoggedFileState(lsn, not found[1])
            return
        try:
            record = decode_body(header.type_number, version, body)
        except FormatError:
            # The checksum is right, so this is not damage; a pass that decodes every body reports it.
            return
        # The type number identifies the record; isinstance would load the classes of all types.
        number = header.type_number
        if number == CKPT_END:
            self._checkpoint = LoggedCkptEnd(lsn, cast("CkptEnd", record))
        elif number in ROLLBACKS:
            self._rollbacks.append(LoggedRollback(lsn, cast("RollbackStart | RollbackEnd", record)))
            if number == ROLLBACK_START and self._stream != STOP_AT_FIRST:
                # VLSNs continue from the matchpoint; a VLSN at or below it is still a step back.
                self._stream = min(self._stream, cast("RollbackStart", record).matchpoint_vlsn)
        elif number == FILE_SUMMARY_LN:
            found_ln = cast("LN", record)
            # Keys of FileSummaryLNs begin with the file number; an LN without data means that the file was deleted.
            self._words[summary_file(found_ln.key)] = LoggedFileState(lsn, found_ln.data is not None)
        elif number == RESERVED_FILE_LN:
            self._words[int.from_bytes(cast("LN", record).key[:8], "big") - _LONG_BIAS] = LoggedFileState(lsn, False)

    def _add(self, pair: int, total: PairTotals) -> None:
        known = self._totals.get(pair)
        self._totals[pair] = total if known is None else known.plus(total)

    def _evidence(self) -> Evidence:
        counts = dict.fromkeys(DURABLE_ENTRIES, 0)
        for pair, total in self._totals.items():
            if pair & 0xFF in counts:
                counts[pair & 0xFF] += total.entries
        return Evidence(counts[COMMIT], counts[CKPT_END], sum(counts[number] for number in PLAIN_LNS))

    def _result(self) -> FileCheck:
        reader = self._reader
        end = self._evidence()
        visible = sum(
            total.entries
            for pair, total in self._totals.items()
            if pair & REPLICATED << 8 and not is_invisible(pair >> 8, reader.version)
        )
        return FileCheck(
            file=reader.file,
            version=reader.version,
            has_sizes=self._with_sizes,
            header=reader.header,
            size_bytes=reader.window.size_bytes,
            totals=self._totals,
            last_offset=self._last,
            end_offset=self._end,
            damages=tuple(DamagedStretch(damage, _since(before, end)) for damage, before in self._damages),
            invisible=tuple(self._invisible),
            erased=tuple(self._erased),
            vlsn_steps_back=tuple(self._steps_back),
            file_words=self._words,
            checkpoint=self._checkpoint,
            rollbacks=tuple(self._rollbacks),
            first_vlsn=self._first_vlsn,
            last_vlsn=self._last_vlsn,
            vlsn_count=visible,
        )


def _since(before: Evidence, end: Evidence) -> Evidence:
    return Evidence(*(later - earlier for later, earlier in zip(end, before, strict=True)))
