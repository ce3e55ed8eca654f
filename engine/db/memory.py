"""How much memory there is, and how much of it the cache of an environment takes by default.

The cache is two per cent of the memory that is free, 64 MiB at least: 430 MB where 21 GB are free. That is an estimate
which leaves room for long keys; with short ones two thirds of it are taken. A log that was written without a checkpoint
is replayed in it; in a cache that is too small the same nodes are read again and again. When an environment is open,
an eighth of it more may be maps of log files (``engine.storage.disk``).
je.maxMemoryPercent is a share of a JVM's heap, so here of a quarter of that memory: the usual 60 gives 3.2 GB of 21.
In a container the limit of its control group (version 1 or 2) counts, less what its processes use.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

LEAST_CACHE_BYTES: Final = 64 << 20
_DEFAULT_PER_CENT: Final = 2.0
_MAPS_PART: Final = 1 / 8
# A JVM that is not told otherwise takes a quarter of the memory for its heap.
_HEAP_PARTS: Final = 4
_MEMINFO: Final = "proc/meminfo"
# Limit and use: of control groups of version 2 and of version 1.
_GROUPS: Final = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_bytes(root: Path = Path("/")) -> int | None:
    """The memory that this process may still take; None where the system does not say.

    Arguments:
        root: where ``proc`` and ``sys`` stand.
    """
    found = [_free_of_machine(root)]
    for limit, use in _GROUPS:
        most, used = _number(root / limit), _number(root / use)
        if most is not None and used is not None:
            found.append(max(most - used, 0))
    return min((one for one in found if one is not None), default=None)


def share_of_free(per_cent: float) -> int:
    """So many per cent of the free memory; of the least cache where the system does not say, and never less than it."""
    free = free_bytes()
    return LEAST_CACHE_BYTES if free is None else max(int(free * per_cent / 100), LEAST_CACHE_BYTES)


def share_of_heap(per_cent: float) -> int:
    """What je.maxMemoryPercent means here: per cent of the heap that a JVM would take of the free memory."""
    return share_of_free(per_cent / _HEAP_PARTS)


def default_cache_bytes() -> int:
    """The cache of an environment, unless je.maxMemory or somebody else says."""
    return share_of_free(_DEFAULT_PER_CENT)


def maps_bytes(cache_bytes: int) -> int:
    """What maps of log files may take beside a cache."""
    return int(cache_bytes * _MAPS_PART)


def _free_of_machine(root: Path) -> int | None:
    try:
        for line in (root / _MEMINFO).read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) << 10
    except (OSError, ValueError, IndexError):
        pass
    names = os.sysconf_names
    if "SC_AVPHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _number(path: Path) -> int | None:
    """The number in a file; None when it is not there, or says that there is no limit."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
