"""Points of a log, and where a log can end for them.

=====================  =======================================================================================
point                  what is kept
=====================  =======================================================================================
``lsn:0xF/0xO``        what stands before the entry at that LSN, or before the damage that begins there
``vlsn:N``             the stream up to VLSN N
``time:T``             what stands before the first Commit or Abort later than T
``txn:ID``             everything up to the Commit or Abort of the transaction
``commits:-N``         what stands before the last N Commits
``matchpoint``         everything up to the matchpoint of the last rollback
=====================  =======================================================================================

The log has to end where a transaction does, so the cut goes back to the last *end* before the point: a Commit, an
Abort, the RollbackEnd of a rollback, a record without a transaction, or a CkptEnd with no record of a transaction
between it and the end before it. Recovery gives the same result, since it would undo a transaction that is open at the
point.

A rollback has marked the entries after its matchpoint invisible, and only RollbackStart and RollbackEnd show why. A cut
between matchpoint and RollbackEnd would leave unexplained invisible entries, so it goes back to the matchpoint.

Example: ``100 INS T1 | 200 Commit T1 | 300 INS T2 | 400 CkptStart | 500 CkptEnd | 600 Commit T2``: lsn:500 and lsn:600
are cut after 200, since T2 is open there; the end of the log is that of 600.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from engine.errors import FormatError, NotFoundError, RefusedError, UsageError
from engine.events import SILENT, Listener
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import (
    CKPT_END,
    COMMIT,
    LNS,
    PLAIN_LNS,
    ROLLBACK_END,
    ROLLBACK_START,
    TRANSACTIONAL,
    TXN_ENDS,
    type_name,
)
from engine.format.fast.header import header_lengths, item_size
from engine.format.fast.loops import keeping
from engine.format.fast.txn_end import txn_end_fields
from engine.format.header import FLAGS_AT, TYPE_AT
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of, parse_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.storage.base import Storage
from engine.storage.truncated_view import CutStorage

LSN: Final = "lsn"
VLSN: Final = "vlsn"
TIME: Final = "time"
TXN: Final = "txn"
COMMITS: Final = "commits"
MATCHPOINT: Final = "matchpoint"
KINDS: Final = (LSN, VLSN, TIME, TXN, COMMITS, MATCHPOINT)
_IN_TXN: Final = LNS & TRANSACTIONAL
# Types of plain entries that matter for finding an end: a log may end at such an entry, or the entry rules out a
# following CkptEnd as an end.
_NOTED: Final = TXN_ENDS | PLAIN_LNS | _IN_TXN
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Point(NamedTuple):
    """A point of a log.

    Attributes:
        kind: of ``KINDS``.
        value: an LSN, a VLSN, ms since 1970, an id, a number of Commits; 0 for a matchpoint.
        text: the text that was parsed.
    """

    kind: str
    value: int
    text: str


def parse_point(text: str) -> Point:
    """Parse a point, as in the table above; a time is in ISO 8601, in UTC unless it has a zone.

    Raises:
        UsageError: the text is not a point.
    """
    kind, _, rest = text.strip().partition(":")
    try:
        if text.strip() == MATCHPOINT:
            return Point(MATCHPOINT, 0, text)
        if kind == LSN:
            return Point(LSN, parse_lsn(rest), text)
        if kind == TIME:
            when = datetime.fromisoformat(rest)
            when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
            return Point(TIME, (when - _EPOCH) // timedelta(milliseconds=1), text)
        if kind in (VLSN, TXN) or (kind == COMMITS and int(rest) < 0):
            return Point(kind, abs(int(rest)) if kind == COMMITS else int(rest), text)
    except ValueError:
        pass
    raise UsageError(
        f"not a point: {text!r}",
        expected="lsn:0xF/0xO, vlsn:N, time:2026-11-21T14:00:00Z, txn:ID, commits:-N or matchpoint",
        found=text,
    )


def spell_point(point: Point) -> str:
    """A point as ``parse_point`` reads it; a time that was typed relative to now is absolute then."""
    if point.kind == MATCHPOINT:
        return MATCHPOINT
    if point.kind == LSN:
        return f"{LSN}:{format_lsn(point.value)}"
    if point.kind == TIME:
        return f"{TIME}:{(_EPOCH + timedelta(milliseconds=point.value)).isoformat()}"
    return f"{point.kind}:{-point.value if point.kind == COMMITS else point.value}"


class Cut(NamedTuple):
    """Where a log ends for a point.

    Attributes:
        end_lsn: the first byte to remove.
        last_lsn, last_type: the last entry that is kept.
        asked_lsn: position of the point itself: the first byte after the part that it keeps.
        snapped: why the cut is not at the point; empty if it is at the point.
        log_end_lsn: where the log ends now.
    """

    end_lsn: int
    last_lsn: int
    last_type: int
    asked_lsn: int
    snapped: str
    log_end_lsn: int


class _End(NamedTuple):
    """The last place where a log may end; ``lsn`` is NULL_LSN before the first."""

    end_lsn: int
    lsn: int
    type_number: int


def find_cut(storage: Storage, files: LogFiles, point: Point, listener: Listener = SILENT) -> Cut:
    """Find where the log ends for a point; the log is read once.

    Arguments:
        listener: receives progress of ``look for the point`` with the number of files.

    Raises:
        NotFoundError: the log has no such point. RefusedError: no transaction ends before it.
    """
    walk = _Walk(point)
    number, total = -1, len(files.files)
    last_file = files.end_file()
    prev = NULL_LSN
    for found in scan_log(storage, files).stretches():
        if file_of(found.lsn) != number:
            number = file_of(found.lsn)
            listener.step("look for the point", sum(file.number < number for file in files.files), total)
        item: LogEntry | Damage
        if isinstance(found, Stretch):
            if walk.may_be_in(found):
                for item in found.entries_of(None):
                    walk.pass_place(storage, item.lsn, prev)
                    walk.take(item)
                    prev = item.lsn
            else:
                walk.take_stretch(found)
                prev = found.last_lsn
            continue
        item = found
        if not isinstance(item, LogEntry):
            if item.length:
                walk.pass_place(storage, item.lsn, prev)
                # The log ends at the first bad entry of its last file (R-LOG-31).
                if number >= last_file:
                    break
            continue
        walk.pass_place(storage, item.lsn, prev)
        walk.take(item)
        prev = item.lsn
    listener.step("look for the point", total, total)
    return walk.result(storage, files)


class _Walk:
    """Reads a log forward to the place of a point."""

    def __init__(self, point: Point) -> None:
        self._point = point
        self._last = self._now = _End(NULL_LSN, NULL_LSN, 0)
        self._found: tuple[int, _End] | None = None
        # For each of the last Commits, its LSN and the last end before it.
        self._commits: deque[tuple[int, _End]] = deque(maxlen=point.value if point.kind == COMMITS else 1)
        self._starts: dict[int, RollbackStart] = {}
        self._ends: dict[int, int] = {}
        self._open = False
        self._vlsn = NULL_VLSN
        self._is_after_vlsn = False

    def pass_place(self, storage: Storage, lsn: int, prev: int) -> None:
        """Note that an entry or a stretch of damage begins at an LSN."""
        wanted = self._point.value
        if self._point.kind != LSN or self._found is not None:
            return
        if lsn == wanted:
            self._found = (lsn, self._last)
        elif lsn > wanted:
            # The end of a file can be a point too: nothing of the next file is kept.
            if wanted == self._now.end_lsn:
                self._found = (wanted, self._last)
                return
            raise self._between(storage, prev, lsn)

    def may_be_in(self, stretch: Stretch) -> bool:
        """Whether every entry of a stretch must be examined, because the point may be at or between them."""
        if self._point.kind == LSN and self._found is None:
            return stretch.last_lsn >= self._point.value or self._now.end_lsn == self._point.value
        return self._point.kind == VLSN

    def take_stretch(self, stretch: Stretch) -> None:
        """Take entries without the point, according to ``may_be_in``; plain ones are visible and not rollbacks."""
        kind, value, data = self._point.kind, self._point.value, stretch.data
        lengths = header_lengths(stretch.version)
        for pos in stretch.positions(keeping(_NOTED)):
            number = data[pos + TYPE_AT]
            if number in TXN_ENDS:
                lsn, body = stretch.lsn + pos, pos + lengths[number | data[pos + FLAGS_AT] << 8]
                end = body + item_size(data, pos)
                ended = _End(stretch.lsn + end, lsn, number)
                if number == COMMIT:
                    self._commits.append((lsn, self._last))
                if kind in (TIME, TXN) and self._found is None:
                    # As in ``_record``, ignore an entry that cannot be decoded: it cannot be the point.
                    with suppress(FormatError, IndexError):
                        txn, time_ms = txn_end_fields(data, body, end, stretch.version)
                        if kind == TIME and time_ms > value:
                            self._found = (lsn, self._last)
                        elif kind == TXN and txn == value:
                            self._found = (ended.end_lsn, ended)
                self._last, self._open = ended, False
            elif number in _IN_TXN:
                self._open = True
            else:
                self.take(stretch.entry_at(pos))
        last = stretch.last - offset_of(stretch.lsn)
        self._now = _End(stretch.lsn + stretch.end, stretch.last_lsn, data[last + TYPE_AT])

    def take(self, entry: LogEntry) -> None:
        """The next entry."""
        end_lsn = entry.lsn + entry.total_bytes
        visible = not entry.invisible
        if entry.replicated and visible:
            self._meet_vlsn(entry)
        if entry.type_number in TXN_ENDS and visible:
            self._meet_txn_end(entry)
        self._now = _End(end_lsn, entry.lsn, entry.type_number)
        if entry.type_number == ROLLBACK_START:
            record = _record(entry)
            if isinstance(record, RollbackStart):
                self._starts[entry.lsn] = record
                # The entries that this rollback takes back no longer belong to the stream.
                self._vlsn = min(self._vlsn, record.matchpoint_vlsn)
        elif entry.type_number == ROLLBACK_END:
            rolled = _record(entry)
            if isinstance(rolled, RollbackEnd):
                self._ends[rolled.rollback_start_lsn] = end_lsn
        if entry.type_number in LNS and entry.type_number in TRANSACTIONAL and visible:
            self._open = True
        if self._is_end(entry, visible):
            self._last, self._open = self._now, False
        if self._point.kind == TXN and self._found is None and entry.type_number in TXN_ENDS and visible:
            found = _record(entry)
            if isinstance(found, TxnEnd) and found.id == self._point.value:
                self._found = (end_lsn, self._last)

    def _is_end(self, entry: LogEntry, visible: bool) -> bool:
        kind = entry.type_number
        if kind in TXN_ENDS or kind in PLAIN_LNS:
            return visible
        return kind == ROLLBACK_END or (kind == CKPT_END and not self._open)

    def _meet_vlsn(self, entry: LogEntry) -> None:
        if self._point.kind == VLSN and entry.vlsn > self._point.value and not self._is_after_vlsn:
            # A later rollback may take the stream back below this place; then the last one counts.
            self._found = (entry.lsn, self._last) if self._vlsn == self._point.value else None
            self._is_after_vlsn = True
        elif self._point.kind == VLSN and entry.vlsn <= self._point.value:
            self._is_after_vlsn = False
            self._found = None
        self._vlsn = entry.vlsn

    def _meet_txn_end(self, entry: LogEntry) -> None:
        if entry.type_number == COMMIT:
            self._commits.append((entry.lsn, self._last))
        if self._point.kind == TIME and self._found is None:
            record = _record(entry)
            if isinstance(record, TxnEnd) and record.time > self._point.value:
                self._found = (entry.lsn, self._last)

    def result(self, storage: Storage, files: LogFiles) -> Cut:
        """Determine the cut for the point."""
        asked, last = self._place(storage, files)
        snapped = ""
        if last.lsn == NULL_LSN:
            raise RefusedError(
                "no transaction ends before that point",
                file=storage.root,
                lsn=format_lsn(asked),
                consequence="nothing would be left",
                hint="name a later point; jetool txns lists where transactions end",
            )
        # Only points of these two kinds name an entry, so only for these a cut at an earlier place is reported.
        if last.end_lsn != asked and self._point.kind in (LSN, VLSN):
            snapped = f"back to the {type_name(last.type_number)} before it, where no transaction is open"
        for _ in self._starts:
            # Rollbacks may overlap: the matchpoint of one may lie within another.
            moved = self._before_rollback(storage, files, last.end_lsn)
            if moved is None:
                break
            last, snapped = moved, "back to the matchpoint of a rollback that the cut would have torn"
        return Cut(last.end_lsn, last.lsn, last.type_number, asked, snapped, self._now.end_lsn)

    def _place(self, storage: Storage, files: LogFiles) -> tuple[int, _End]:
        """The position of the point, and the last end before it."""
        kind, value, now = self._point.kind, self._point.value, self._now
        if kind == COMMITS:
            if len(self._commits) < value:
                raise self._absent(storage, f"{len(self._commits)} Commits")
            return self._commits[0]
        if kind == MATCHPOINT:
            if not self._starts:
                raise self._absent(storage, "no RollbackStart")
            found = _after_matchpoint(storage, files, self._starts[max(self._starts)])
            return found.end_lsn, found
        if self._found is not None:
            return self._found
        if kind == LSN and value == now.end_lsn:
            return value, self._last
        if (kind == VLSN and value == self._vlsn) or kind == TIME:
            return now.end_lsn, self._last
        if kind == LSN:
            raise self._absent(storage, f"the log ends at {format_lsn(now.end_lsn)}")
        words = f"a stream without it, up to {max(self._vlsn, 0)}"
        raise self._absent(storage, words if kind == VLSN else "no Commit or Abort of it")

    def _before_rollback(self, storage: Storage, files: LogFiles, end_lsn: int) -> _End | None:
        """The matchpoint of a rollback that a cut would split; else None."""
        for start_lsn, record in self._starts.items():
            over = self._ends.get(start_lsn, self._now.end_lsn + 1)
            if record.matchpoint_lsn < end_lsn < over:
                found = _after_matchpoint(storage, files, record)
                if found.end_lsn != end_lsn:
                    return found
        return None

    def _between(self, storage: Storage, before: int, after: int) -> NotFoundError:
        near = " and ".join(format_lsn(lsn) for lsn in (before, after) if lsn != NULL_LSN)
        return NotFoundError(
            "no entry begins at this LSN",
            file=storage.root,
            lsn=format_lsn(self._point.value),
            consequence="nothing was changed",
            hint=f"entries near it begin at {near}",
        )

    def _absent(self, storage: Storage, found: str) -> NotFoundError:
        return NotFoundError(
            f"the log has no point {self._point.text}",
            file=storage.root,
            expected=self._point.text,
            found=found,
            hint="jetool info shows the end of the log; jetool txns and jetool vlsn map show its content",
        )


def _after_matchpoint(storage: Storage, files: LogFiles, record: RollbackStart) -> _End:
    entry = scan_log(storage, files).entry_at(record.matchpoint_lsn)
    if entry is None:
        raise RefusedError(
            "the matchpoint of a rollback cannot be read",
            file=storage.root,
            lsn=format_lsn(record.matchpoint_lsn),
            consequence="a cut in its period would leave entries that the rollback took back; nothing was changed",
            hint="jetool rollbacks shows them; name a point before the matchpoint, or after the rollback",
        )
    return _End(entry.lsn + entry.total_bytes, entry.lsn, entry.type_number)


def lengths_at(files: LogFiles, end_lsn: int) -> dict[str, int | None]:
    """How to end the log at an LSN: by path, the new length of the file that holds it, and None for all later files."""
    last, found = file_of(end_lsn), {}
    for file in files.files:
        if file.number >= last:
            found[file.path] = offset_of(end_lsn) if file.number == last else None
    return found


def as_of(storage: Storage, end_lsn: int) -> CutStorage:
    """A view of the environment as it was when its log ended at an LSN."""
    return CutStorage(storage, lengths_at(list_log_files(storage), end_lsn))


def _record(entry: LogEntry) -> object:
    try:
        return entry.record()
    except (FormatError, IndexError, ValueError):
        return None
