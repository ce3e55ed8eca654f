"""Two logs of one group compared entry by entry: the first VLSN at which their streams differ.

Both logs are read once, forward, side by side, in VLSN order. An entry counts only if it is visible and no later
RollbackStart rolls it back; the facts of the log (``read_stream``) determine this. So a log with an unfinished rollback
is compared as it would be after recovery.

Only VLSNs that both nodes should have are compared. A VLSN that one node lacks within that range is a difference: its
entry was cleaned or damaged. A VLSN that occurs twice in one stream is also a difference (JE-LOG-016): a comparison
cannot decide which entry is valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from engine.errors import FormatError
from engine.events import SILENT, Listener
from engine.format.logical_content import first_difference, logical_content
from engine.format.lsn import NULL_LSN, file_of, offset_of
from engine.format.stream_facts import StreamFacts
from engine.format.vlsn import NULL_VLSN
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
    """The first VLSN at which two streams differ.

    Attributes:
        what: ``type``, the part of the content that differs, or the side that lacks the VLSN.
        one, other: the entries; None on the side that lacks it.
    """

    vlsn: int
    what: str
    one: LogEntry | None
    other: LogEntry | None


class StreamDiff(NamedTuple):
    """The extent to which two streams are equal.

    Attributes:
        first, last: the range of VLSNs that both should have; NULL_VLSN for no common range.
        same: number of equal entries from ``first`` on.
        difference: the first difference, or None.
    """

    first: int
    last: int
    same: int
    difference: Difference | None

    @property
    def gaps(self) -> int:
        """The number of VLSNs that neither node has, up to the difference or the end of the range. Their files were
        cleaned or not copied.
        """
        if self.first == NULL_VLSN:
            return 0
        end = self.last + 1 if self.difference is None else self.difference.vlsn
        # The number is not below 0: if the difference is a duplicated VLSN, that VLSN was already counted as equal.
        return max(0, end - self.first - self.same)


def diff_streams(one: StreamSide, other: StreamSide, listener: Listener = SILENT) -> StreamDiff:
    """Compare two streams in the range that both nodes have.

    Arguments:
        one, other: the environments, with facts from ``read_stream``.
        listener: receives ``compare`` steps in VLSNs.

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
    """Finds entries that a later RollbackStart rolls back; entries must be queried in log order.

    Arguments:
        rollbacks: LSN and matchpoint VLSN of each RollbackStart, in log order.
    """

    def __init__(self, rollbacks: list[tuple[int, int]]) -> None:
        self._ahead: list[tuple[int, int]] = []
        # Go backward, because at each place the lowest matchpoint of all later RollbackStarts counts.
        for lsn, matchpoint in reversed(rollbacks):
            lowest = min(matchpoint, self._ahead[-1][1]) if self._ahead else matchpoint
            self._ahead.append((lsn, lowest))

    def has(self, entry: LogEntry) -> bool:
        """Whether a later RollbackStart rolls the entry back."""
        while self._ahead and self._ahead[-1][0] < entry.lsn:
            self._ahead.pop()
        return bool(self._ahead) and entry.vlsn > self._ahead[-1][1]


def _repeated(here: LogEntry | None, there: LogEntry | None, before: int) -> Difference | None:
    """A VLSN that is not greater than the previous VLSN."""
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
        # Undecodable entries may still be equal on both nodes.
        what = "body" if here.body != there.body else ""
    return Difference(here.vlsn, what, here, there) if what else None


def _content(entry: LogEntry) -> tuple[tuple[str, object], ...]:
    return logical_content(entry.type_number, entry.version, entry.body)


def lsn_of(entry: LogEntry | None) -> int:
    """LSN of an entry; NULL_LSN for None."""
    return NULL_LSN if entry is None else entry.lsn
