"""The gaps of a damaged log: where the last one ends, and which VLSNs the log has.

A gap is damage, a missing file, or the lost end of a file. A version before the last gap may not be the newest: a newer
one, or a deletion, may have been in the gap. Most missing files were cleaned: the trees of a later checkpoint then
contain the data that is still in use (``verdict``).

A torn tail is not a gap, since it held nothing durable. The loss of the last files is not a gap either, since it cannot
be detected.

Example: files 0, 1 and 3, damage in file 1 at 1/0x400: the last gap is file 2, and ends at 3/0x0. The log has the VLSNs
1 to 40 before the damage, 44 to 60 after it, and from file 3 on those from 90.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from engine.errors import JetoolError
from engine.format.entry_types import STREAM_LNS, TXN_ENDS
from engine.format.fast.loops import keeping
from engine.format.lsn import NULL_LSN, file_of, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFiles
from engine.log.scan import scan_file
from engine.storage.base import Storage

VlsnRange = tuple[int, int]
_IN_STREAM = STREAM_LNS | TXN_ENDS


def cut_short(storage: Storage, files: LogFiles) -> dict[int, int]:
    """Files that end before their last entry according to the next file: number, and where they end."""
    found = {}
    for before, after in pairwise(files.files):
        if after.number != before.number + 1:
            continue
        try:
            header = scan_file(storage, after, is_last=False).head().header
        except JetoolError:
            continue
        # The header gives the start of the last entry; the end of that file is not recorded.
        if header is not None and before.size_bytes <= header.last_entry_in_prev_file:
            found[before.number] = before.size_bytes
    return found


def gap_end(storage: Storage, files: LogFiles, damages: Iterable[Damage]) -> int:
    """The LSN at which the last gap ends; NULL_LSN if there is no gap."""
    ends = [make_lsn(number + 1, 0) for number in (*files.missing(), *cut_short(storage, files))]
    # An unreadable file is damage of length 0, and so is a broken link; the reason distinguishes them.
    ends += [
        make_lsn(file_of(one.lsn) + 1, 0) if one.reason == "unreadable" else one.end_lsn
        for one in damages
        if not one.is_tail
    ]
    return max(ends, default=NULL_LSN)


class VlsnCoverage:
    """Collects the ranges of VLSNs between the gaps of a log, in log order."""

    def __init__(self) -> None:
        self._ranges: list[VlsnRange] = []
        self._first = self._last = NULL_VLSN
        self._file = -1

    def take(self, item: Stretch | LogEntry | Damage) -> None:
        """Take the next entry or damage of the log."""
        file = file_of(item.lsn)
        if isinstance(item, Damage) or file > self._file + 1:
            self._end()
        self._file = file
        if isinstance(item, LogEntry):
            if item.replicated and not item.invisible:
                self._last = item.vlsn
                if self._first == NULL_VLSN:
                    self._first = item.vlsn
        elif isinstance(item, Stretch) and item.last_vlsn != NULL_VLSN:
            self._last = item.last_vlsn
            if self._first == NULL_VLSN:
                entries = map(item.entry_at, item.positions(keeping(_IN_STREAM)))
                # If none of these entries is replicated, the VLSNs of the stretch are in entries of other types.
                self._first = next((one.vlsn for one in entries if one.replicated), item.last_vlsn)

    def _end(self) -> None:
        if self._first != NULL_VLSN:
            self._ranges.append((self._first, self._last))
        self._first = self._last = NULL_VLSN

    def ranges(self) -> tuple[VlsnRange, ...]:
        """The ranges of VLSNs, in log order."""
        self._end()
        return tuple(self._ranges)


def covered_from(ranges: Iterable[VlsnRange]) -> int:
    """The lowest VLSN from which the ranges of several logs are complete up to the highest; NULL_VLSN without ranges.

    Example: 1 to 40 and 44 to 60 of one log, 30 to 50 and 55 to 58 of another: 1.
    """
    found = NULL_VLSN
    for first, last in sorted(ranges, key=lambda one: one[1], reverse=True):
        if found == NULL_VLSN or last >= found - 1:
            found = first if found == NULL_VLSN else min(found, first)
    return found
