"""Counters of one log file (R-CLN-1 to R-CLN-4)."""

from __future__ import annotations

from typing import Final

from engine.format.entry.ln_content import FileSummary
from engine.format.entry_types import LNS, NODE_ENTRIES

EMPTY: Final = FileSummary(
    total_count=0,
    total_size=0,
    total_in_count=0,
    total_in_size=0,
    total_ln_count=0,
    total_ln_size=0,
    max_ln_size=0,
    obsolete_in_count=0,
    obsolete_ln_count=0,
    obsolete_ln_size=0,
    obsolete_ln_size_counted=0,
)


_MOST: Final = (1 << 31) - 1


def _bounded(value: int) -> int:
    """A counter limited to the values that the log can store; a forged summary may have set its start value too
    high.
    """
    return max(min(value, _MOST), -_MOST)


class Counters:
    """Mutable counters of one file.

    Attributes:
        new_offsets: obsolete offsets since the last FileSummaryLN of the file.
        changed: whether anything was counted since then.
        last_sequence: sequence number of the file's last FileSummaryLN; -1 if the log holds no FileSummaryLN for the
            file.
    """

    __slots__ = (
        "changed", "last_sequence", "max_ln_size", "new_offsets", "obsolete_in_count", "obsolete_ln_count",
        "obsolete_ln_size", "obsolete_ln_size_counted", "total_count", "total_in_count", "total_in_size",
        "total_ln_count", "total_ln_size", "total_size",
    )  # fmt: skip

    def __init__(self, summary: FileSummary = EMPTY) -> None:
        self.set(summary)
        self.new_offsets: list[int] = []
        self.changed = False
        self.last_sequence = -1

    def set(self, summary: FileSummary) -> None:
        """Set the counters from a summary that was read."""
        (
            self.total_count,
            self.total_size,
            self.total_in_count,
            self.total_in_size,
            self.total_ln_count,
            self.total_ln_size,
            self.max_ln_size,
            self.obsolete_in_count,
            self.obsolete_ln_count,
            self.obsolete_ln_size,
            self.obsolete_ln_size_counted,
        ) = summary

    def summary(self) -> FileSummary:
        """The counters as a record."""
        return FileSummary(
            total_count=_bounded(self.total_count),
            total_size=_bounded(self.total_size),
            total_in_count=_bounded(self.total_in_count),
            total_in_size=_bounded(self.total_in_size),
            total_ln_count=_bounded(self.total_ln_count),
            total_ln_size=_bounded(self.total_ln_size),
            max_ln_size=_bounded(self.max_ln_size),
            obsolete_in_count=_bounded(self.obsolete_in_count),
            obsolete_ln_count=_bounded(self.obsolete_ln_count),
            obsolete_ln_size=_bounded(self.obsolete_ln_size),
            obsolete_ln_size_counted=_bounded(self.obsolete_ln_size_counted),
        )

    def count_new(self, type_number: int, size: int) -> None:
        """Count an entry of the file."""
        self.changed = True
        self.total_count += 1
        self.total_size += size
        if type_number in NODE_ENTRIES:
            self.total_in_count += 1
            self.total_in_size += size
        elif type_number in LNS:
            self.total_ln_count += 1
            self.total_ln_size += size
            if size > self.max_ln_size:
                self.max_ln_size = size

    def count_many(self, type_number: int, entries: int, size_bytes: int, largest: int) -> None:
        """Count several entries of one type in the file, with their total size and the size of the largest."""
        self.changed = True
        self.total_count += entries
        self.total_size += size_bytes
        if type_number in NODE_ENTRIES:
            self.total_in_count += entries
            self.total_in_size += size_bytes
        elif type_number in LNS:
            self.total_ln_count += entries
            self.total_ln_size += size_bytes
            self.max_ln_size = max(self.max_ln_size, largest)

    def count_obsolete_ln(self, size: int, offset: int | None) -> None:
        """Count an LN of the file as obsolete.

        Arguments:
            size: size of the entry; 0 if not known.
            offset: offset of the LN, if it has to be recorded; None otherwise.
        """
        self.changed = True
        self.obsolete_ln_count += 1
        if size:
            self.obsolete_ln_size += size
            self.obsolete_ln_size_counted += 1
        if offset is not None:
            self.new_offsets.append(offset)

    def count_obsolete_lns(self, entries: int, sized: int, size_bytes: int) -> None:
        """Count several LNs of the file as obsolete; the size of some of them is known."""
        self.changed = True
        self.obsolete_ln_count += entries
        self.obsolete_ln_size += size_bytes
        self.obsolete_ln_size_counted += sized

    def count_obsolete_node(self, offset: int | None) -> None:
        """Count a node version of the file as obsolete."""
        self.changed = True
        self.obsolete_in_count += 1
        if offset is not None:
            self.new_offsets.append(offset)


def utilization_percent(summary: FileSummary) -> int:
    """Utilization of a file as a percentage, rounded half up; 0 for an empty file (R-CLN-2 to R-CLN-4)."""
    if summary.total_size <= 0:
        return 0
    return int(100 * (summary.total_size - obsolete_bytes(summary)) / summary.total_size + 0.5)


def obsolete_bytes(summary: FileSummary) -> int:
    """Obsolete bytes of a file: obsolete LNs and INs, and everything that is neither (R-CLN-3)."""
    ln_bytes = summary.obsolete_ln_size
    unknown = summary.obsolete_ln_count - summary.obsolete_ln_size_counted
    rest = summary.total_ln_count - summary.obsolete_ln_size_counted
    # LNs of unknown size count with the average size of all LNs that were not counted with a size (R-CLN-2).
    if unknown > 0 and rest > 0:
        ln_bytes += int(unknown * (summary.total_ln_size - summary.obsolete_ln_size) / rest)
    in_bytes = 0
    if summary.total_in_count > 0:
        in_bytes = int(summary.obsolete_in_count * summary.total_in_size / summary.total_in_count)
    # Commits, traces, headers and checkpoints are garbage as soon as they are written (R-CLN-3).
    leftover = summary.total_size - summary.total_in_size - summary.total_ln_size
    # Recovery may count twice, so each part is limited to its total.
    return min(
        min(ln_bytes, summary.total_ln_size) + min(in_bytes, summary.total_in_size) + leftover, summary.total_size
    )
