"""Two logs of one group entry by entry: the first VLSN at which their streams are not the same.

Both logs are read once, forward, side by side, in VLSN order. An entry counts when it is visible and not taken back by
a RollbackStart that follows; the facts of the log (``read_stream``) say which those are. So a log with a rollback that
was not finished gives the stream that it has after recovery.

Only VLSNs that both nodes should have are compared. A VLSN that one of them lacks within that range is a difference: it
was cleaned away, or lies in damage. A VLSN that stands twice in one of them is a difference too (JE-LOG-016): which of
the two holds is not for a comparison to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
from engine.inspect.logical_content import first_difference, logical_content
from engine.log.entry import LogEntry
from engine.log.files import LogFiles
from engine.log.scan import scan_log
from engine.storage.base import Storage

MISSING_HERE = "missing in the first"
MISSING_THERE = "missing in the second"
TWICE_HERE = "twice in the first"
TWICE_THERE = "twice in the second"


class StreamSide(NamedTuple):
    """One of the two environments."""

    storage: Storage
    files: LogFiles
    facts: StreamFacts


class Difference(NamedTuple):
    """The first VLSN at which two streams are not the same.

    Attributes:
        what: ``type``, the part of the content that differs, or which side lacks the VLSN.
        one, other: the entries; None on the side that lacks it.
    """

    vlsn: int
    what: str
    one: LogEntry | None
    other: LogEntry | None


class StreamDiff(NamedTuple):
    """How far two streams are the same.

    Attributes:
        first, last: the VLSNs that both should have; NULL_VLSN without one.
        same: how many were compared and equal, from ``first`` on.
        difference: the first that is not, or None.
    """

    first: int
    last: int
    same: int
    difference: Difference | None

    @property
    def gaps(self) -> int:
        """VLSNs before the difference, or before the end, that neither has: cleaned away, or in files not copied."""
        if self.first == NULL_VLSN:
            return 0
        end = self.last + 1 if self.difference is None else self.difference.vlsn
        # One that stands twice was compared once.
        return max(0, end - self.first - self.same)


def diff_streams(one: StreamSide, other: StreamSide, listener: Listener = SILENT) -> StreamDiff:
    """Compare two streams where both nodes have them.

    Arguments:
        one, other: the environments; their facts are those of ``read_stream``.
        listener: hears ``compare`` with VLSNs.

    Raises:
        UnsupportedError, StorageError: a file cannot be read.
    """
    first = max(one.facts.first, other.facts.first)
    last = min(one.facts.last, other.facts.last)
    if NULL_VLSN in (one.facts.first, other.facts.first) or first > last:
        return StreamDiff(NULL_VLSN, NULL_VLSN, 0, None)
    ours, theirs = stream(one, first, last), stream(other, first, last)
    same, before = 0, first - 1
    here, there = next(ours, None), next(theirs, None)
    while here is not None or there is not None:
        found = _repeated(here, there, before) or _compare(here, there)
        if found is not None:
            return StreamDiff(first, last, same, found)
        assert here is not None
        same, before = same + 1, here.vlsn
        if not same & 0xFFF:
            listener.step("compare", same, last - first + 1)
        here, there = next(ours, None), next(theirs, None)
    return StreamDiff(first, last, same, None)


def stream(side: StreamSide, first: int, last: int) -> Iterator[LogEntry]:
    """The entries of a node's stream with VLSNs from ``first`` to ``last``, in VLSN order."""
    taken_back = _TakenBack(side.facts.rollbacks)
    end_file = side.files.end_file()
    for item in scan_log(side.storage, side.files).entries():
        if not isinstance(item, LogEntry):
            # The end of the log (R-LOG-31). A damaged file header, at offset 0, is stepped over.
            if item.length and offset_of(item.lsn) and file_of(item.lsn) >= end_file:
                return
            continue
        if item.replicated and not item.invisible and not taken_back.has(item) and item.vlsn >= first:
            if item.vlsn > last:
                return
            yield item


class _TakenBack:
    """Which entries a later RollbackStart takes back; asked in log order.

    Arguments:
        rollbacks: LSN and matchpoint VLSN of each RollbackStart, in log order.
    """

    def __init__(self, rollbacks: list[tuple[int, int]]) -> None:
        self._ahead: list[tuple[int, int]] = []
        # Backward: at each place the lowest matchpoint of all RollbackStarts after it counts.
        for lsn, matchpoint in reversed(rollbacks):
            lowest = min(matchpoint, self._ahead[-1][1]) if self._ahead else matchpoint
            self._ahead.append((lsn, lowest))

    def has(self, entry: LogEntry) -> bool:
        """Whether the entry is taken back."""
        while self._ahead and self._ahead[-1][0] < entry.lsn:
            self._ahead.pop()
        return bool(self._ahead) and entry.vlsn > self._ahead[-1][1]


def _repeated(here: LogEntry | None, there: LogEntry | None, before: int) -> Difference | None:
    """A VLSN that is not after the one that was compared before."""
    if here is not None and here.vlsn <= before:
        return Difference(here.vlsn, TWICE_HERE, here, None)
    if there is not None and there.vlsn <= before:
        return Difference(there.vlsn, TWICE_THERE, None, there)
    return None


def _compare(here: LogEntry | None, there: LogEntry | None) -> Difference | None:
    if here is None or (there is not None and there.vlsn < here.vlsn):
        assert there is not None
        return Difference(there.vlsn, MISSING_HERE, None, there)
    if there is None or here.vlsn < there.vlsn:
        return Difference(here.vlsn, MISSING_THERE, here, None)
    if here.type_number != there.type_number:
        return Difference(here.vlsn, "type", here, there)
    try:
        what = first_difference(_content(here), _content(there))
    except FormatError:
        # What cannot be decoded may still be the same on both.
        what = "body" if here.body != there.body else ""
    return Difference(here.vlsn, what, here, there) if what else None


def _content(entry: LogEntry) -> tuple[tuple[str, object], ...]:
    return logical_content(entry.type_number, entry.version, entry.body)


def lsn_of(entry: LogEntry | None) -> int:
    """LSN of an entry, NULL_LSN for none."""
    return NULL_LSN if entry is None else entry.lsn
