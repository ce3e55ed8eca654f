"""How much memory is free, and how much of it an environment's cache takes by default.

The default cache is two per cent of the free memory, at least 64 MiB: 430 MB if 21 GB are free. The estimate leaves
room for long keys; with short keys two thirds of the cache are used. A log without a checkpoint is replayed in the
cache; if the cache is too small, the same nodes are read again and again. While an environment is open, maps of log
files may take a further eighth of the cache size (``engine.storage.disk``). je.maxMemoryPercent is a percentage of a
JVM's heap. Here it is a percentage of a quarter of the free memory: its usual value of 60 gives 3.2 GB if 21 GB are
free. In a container the memory limit of its control group (version 1 or 2) applies, less the memory its processes use.
"""

from __future__ import annotations

import os
from typing import Final

LEAST_CACHE_BYTES: Final = 64 << 20
_DEFAULT_PER_CENT: Final = 2.0
_MAPS_PART: Final = 1 / 8
# By default a JVM takes a quarter of the memory for its heap.
_HEAP_PARTS: Final = 4
_MEMINFO: Final = "proc/meminfo"
# Paths of limit and usage, for control groups of version 2 and version 1.
_GROUPS: Final = (
    ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current"),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def free_bytes(root: str = "/") -> int | None:
    """The memory that this process may still take; None if the system does not report it.

    Arguments:
        root: the directory that contains ``proc`` and ``sys``.
    """
    found = [_free_of_machine(root)]
    for limit, use in _GROUPS:
        most, used = _number(f"{root}/{limit}"), _number(f"{root}/{use}")
        if most is not None and used is not None:
            found.append(max(most - used, 0))
    return min((one for one in found if one is not None), default=None)


def share_of_free(per_cent: float) -> int:
    """A percentage of the free memory; the minimum cache size if that is larger, or if the free memory is not known."""
    free = free_bytes()
    return LEAST_CACHE_BYTES if free is None else max(int(free * per_cent / 100), LEAST_CACHE_BYTES)


def share_of_heap(per_cent: float) -> int:
    """The meaning of je.maxMemoryPercent here: a percentage of the heap that a JVM would take from the free memory."""
    return share_of_free(per_cent / _HEAP_PARTS)


def default_cache_bytes() -> int:
    """The cache size of an environment, unless je.maxMemory or the caller sets it."""
    return share_of_free(_DEFAULT_PER_CENT)


def maps_bytes(cache_bytes: int) -> int:
    """The memory that maps of log files may take beside the cache."""
    return int(cache_bytes * _MAPS_PART)


def _free_of_machine(root: str) -> int | None:
    try:
        for line in _text_of(f"{root}/{_MEMINFO}").splitlines():
            name, _, value = line.partition(":")
            if name == "MemAvailable":
                return int(value.split()[0]) << 10
    except (OSError, ValueError, IndexError):
        pass
    names = os.sysconf_names
    if "SC_AVPHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _number(path: str) -> int | None:
    """The number in a file; None if the file does not exist, or states that there is no limit."""
    try:
        return int(_text_of(path))
    except (OSError, ValueError):
        return None


def _text_of(path: str) -> str:
    with open(path, encoding="ascii") as file:  # noqa: PTH123 - readers would load pathlib only for this
        return file.read()
