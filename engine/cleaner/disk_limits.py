"""Limits on the disk space of the log (R-CLN-40, R-CLN-43): je.maxDisk, je.freeDisk, je.reservedDisk.

The available space is the lesser of two values: the free bytes of the disk above je.freeDisk, and je.maxDisk minus the
log. The bytes of reserved files without a protection are added to this value. If nothing is left, writes are refused.

Example: je.maxDisk 100 MB, a log of 95 MB with 20 MB reserved, 15 MB of them protected: 5 + 20 - 15, 10 MB.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import RefusedError, plural
from engine.format.versions import PRIOR_VERSION

# If je.maxDisk is above this size, je.freeDisk applies in addition.
_LARGE_BYTES: Final = 10_000_000_000
_LEAST_NEEDED_BYTES: Final = 1 << 20
# The default of je.freeDisk since JE 18.
_FREE_DISK_BYTES: Final = 5 << 30


class DiskLimitError(RefusedError):
    """The log must not grow any more; reads still work (JE's DiskLimitException)."""


class DiskLimits(NamedTuple):
    """The parameters, in bytes; 0 for none."""

    max_disk: int = 0
    free_disk: int = 0
    reserved_disk: int = 0


class DiskUse(NamedTuple):
    """The disk space of the log, in bytes; ``free`` is None if it is not known."""

    active: int
    reserved: int
    protected: int
    free: int | None

    @property
    def total(self) -> int:
        """The size of all log files."""
        return self.active + self.reserved


def default_free_disk(version: int) -> int:
    """JE's default of je.freeDisk: releases before 18, whose log versions end with 15, do not look at the disk."""
    return _FREE_DISK_BYTES if version >= PRIOR_VERSION else 0


def available(use: DiskUse, limits: DiskLimits) -> int | None:
    """Bytes that may still be written, see the head of the module; None without a limit."""
    rooms = []
    if use.free is not None and limits.free_disk:
        rooms.append(use.free - limits.free_disk)
    if limits.max_disk:
        rooms.append(_most(limits) - use.total)
    return min(rooms) + use.reserved - use.protected if rooms else None


def needed(use: DiskUse, limits: DiskLimits, ahead: int) -> int:
    """Bytes of reserved files to delete even if replicas may still need them (R-CLN-40); none if not above 0.

    Arguments:
        ahead: bytes that are written between two checks.
    """
    margin = max(_LEAST_NEEDED_BYTES, ahead)
    wanted = []
    if use.free is not None and limits.free_disk:
        wanted.append(limits.free_disk - use.free + margin)
    if limits.max_disk:
        wanted.append(use.total - _most(limits) + margin)
    if limits.reserved_disk:
        wanted.append(use.reserved - limits.reserved_disk)
    return max(wanted, default=0)


def violation(use: DiskUse, limits: DiskLimits) -> DiskLimitError | None:
    """Why writes are refused; None if they are not."""
    left = available(use, limits)
    if left is None or left > 0:
        return None
    return DiskLimitError(
        "the log takes more room than it may",
        expected=f"je.maxDisk {limits.max_disk or 'none'}, je.freeDisk {limits.free_disk or 'none'}",
        found=f"{plural(use.total, 'byte')} of log, {use.reserved} of them reserved; free on the disk: {use.free}",
        consequence="nothing is written until there is room; reading goes on",
        hint="make room on the disk, end what protects reserved files, or raise the limits in je.properties",
    )


def _most(limits: DiskLimits) -> int:
    large = limits.max_disk > _LARGE_BYTES
    return limits.max_disk - limits.free_disk if large else limits.max_disk
