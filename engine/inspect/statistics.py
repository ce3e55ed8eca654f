"""Counting a log by type, file, database or transaction (``dump-log --stats``; DbPrintLog -S, R-UTIL-13).

Counts by type and by file need no decoding; without a selection ``check_file`` computes them in bulk. Other counts are
made entry by entry. Per-file results are merged, so several processes can count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from engine.format.entry_types import type_name
from engine.format.header import Provisional, provisional_of
from engine.inspect.selection import Selection, db_of, txn_of
from engine.log.check import DamagedStretch, FileCheck, PairTotals
from engine.log.entry import Damage, LogEntry
from engine.log.files import log_file_name
from engine.log.scan import LogScan

BY = ("type", "file", "db", "txn")


class Totals(NamedTuple):
    """Entries of one group.

    Attributes:
        entries: how many.
        provisional, before_ckpt_end: number of entries in each provisional state; JE's "provisional count" is the
            first.
        total_bytes, least_bytes, most_bytes: sizes with headers.
    """

    entries: int
    provisional: int
    before_ckpt_end: int
    total_bytes: int
    least_bytes: int
    most_bytes: int

    def plus(self, other: Totals) -> Totals:
        """The counts of both."""
        return Totals(
            self.entries + other.entries,
            self.provisional + other.provisional,
            self.before_ckpt_end + other.before_ckpt_end,
            self.total_bytes + other.total_bytes,
            min(self.least_bytes, other.least_bytes),
            max(self.most_bytes, other.most_bytes),
        )


# The group of an entry: a type number, file number, database id or transaction id; None if it belongs to no group.
Group = int | None


class FileStats(NamedTuple):
    """The counts of one file, and its damage."""

    totals: dict[Group, Totals]
    damages: tuple[DamagedStretch, ...]
    file_bytes: int


def count_file(scan: LogScan, by: str, selection: Selection) -> FileStats:
    """Count the entries of a file.

    Arguments:
        scan: a pass over the file.
        by: one of BY.
        selection: which entries; prepared.
    """
    check: FileCheck | None = None
    if selection.is_open() and by in ("type", "file"):
        check = scan.check()
        return FileStats(_from_check(check, by), check.damages, check.size_bytes)
    totals: dict[Group, Totals] = {}
    damages = []
    wanted, group_of = selection.matcher(), _GROUPS[by]
    for item in scan.entries():
        if isinstance(item, Damage):
            damages.append(item)
        elif wanted(item):
            _add(totals, group_of(item), _one(item.total_bytes, item.flags))
    # Whether damage matters depends on all entries after it, so check the whole file and not only the selected entries.
    seen = scan.check().damages if damages else ()
    return FileStats(totals, seen, scan.head().size_bytes)


def merge(parts: Iterator[FileStats]) -> FileStats:
    """The counts of several files together."""
    totals: dict[Group, Totals] = {}
    damages: tuple[DamagedStretch, ...] = ()
    size = 0
    for part in parts:
        for group, found in part.totals.items():
            _add(totals, group, found)
        damages += part.damages
        size += part.file_bytes
    return FileStats(totals, damages, size)


def group_name(by: str, group: Group) -> str:
    """The label of a group in a table."""
    if group is None:
        return "none"
    if by == "type":
        return type_name(group)
    return log_file_name(group) if by == "file" else str(group)


def _from_check(check: FileCheck, by: str) -> dict[Group, Totals]:
    totals: dict[Group, Totals] = {}
    for pair, found in check.totals.items():
        _add(totals, pair & 0xFF if by == "type" else check.file.number, _from_pair(pair, found))
    return totals


def _from_pair(pair: int, found: PairTotals) -> Totals:
    # The upper byte of a pair holds the flags.
    yes, before = _states(pair >> 8, found.entries)
    return Totals(found.entries, yes, before, found.total_bytes, found.least_bytes, found.most_bytes)


def _one(size: int, flags: int) -> Totals:
    return Totals(1, *_states(flags, 1), size, size, size)


def _states(flags: int, entries: int) -> tuple[int, int]:
    state = provisional_of(flags)
    return entries * (state is Provisional.YES), entries * (state is Provisional.BEFORE_CKPT_END)


def _add(totals: dict[Group, Totals], group: Group, found: Totals) -> None:
    known = totals.get(group)
    totals[group] = found if known is None else known.plus(found)


_GROUPS: dict[str, Callable[[LogEntry], Group]] = {
    "type": lambda entry: entry.type_number,
    "file": lambda entry: entry.lsn >> 32,
    "db": db_of,
    "txn": txn_of,
}
