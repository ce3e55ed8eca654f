"""The settings of an environment that a monitor compares with: limits of disk, cleaner and cache.

The process that has the environment open knows them. From outside there are three sources: ``je.config.csv``, in which
JE notes its settings when it opens an environment, ``je.properties``, which overrides the settings of a program, and
JE's defaults for the log version.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.cleaner.disk_limits import DiskLimits, default_free_disk
from engine.cleaner.selection import CleaningLimits
from engine.db.config import EnvironmentConfig, read_properties
from engine.errors import UsageError
from engine.monitor.stat_file import CONFIG_FILE, LastRow
from engine.storage.base import Storage

_PREFIX: Final = "envcfg:"
_JAVA_MEMORY: Final = "java:maxMemory"
_MEMORY: Final = "je.maxMemory"
_MEMORY_PERCENT: Final = "je.maxMemoryPercent"
_NAMES: Final = (
    "je.maxDisk",
    "je.freeDisk",
    "je.reservedDisk",
    "je.cleaner.minUtilization",
    "je.cleaner.minLogUtilization",
    "je.cleaner.minAge",
)


class MonitorSettings(NamedTuple):
    """The settings.

    Attributes:
        cache_bytes: how much memory JE's cache may take; None if not known.
        problem: what is wrong with the files that hold settings; empty if they can be read.
    """

    disk: DiskLimits
    cleaning: CleaningLimits
    cache_bytes: int | None
    problem: str = ""


def read_settings(storage: Storage, log_version: int) -> MonitorSettings:
    """The settings; those that cannot be read keep their defaults.

    Raises:
        StorageError: a file cannot be read.
    """
    config = EnvironmentConfig(free_disk=default_free_disk(log_version))
    row = LastRow(storage, CONFIG_FILE).read()
    noted = {} if row is None else {name.removeprefix(_PREFIX): text for name, text in row.values.items()}
    problem = ""
    try:
        given = noted | read_properties(storage)
        config = config.with_params({name: given[name] for name in _NAMES if name in given})
    except UsageError as error:
        given, problem = noted, str(error)
    return MonitorSettings(
        disk=DiskLimits(config.max_disk, config.free_disk, config.reserved_disk),
        cleaning=CleaningLimits(
            config.cleaner_min_utilization, config.cleaner_min_file_utilization, config.cleaner_min_age
        ),
        cache_bytes=_cache_bytes(given),
        problem=problem,
    )


def _cache_bytes(given: dict[str, str]) -> int | None:
    """je.maxMemory, or je.maxMemoryPercent of the heap that JE has noted."""
    size, percent, heap = (given.get(name, "") for name in (_MEMORY, _MEMORY_PERCENT, _JAVA_MEMORY))
    if size.isdecimal() and int(size):
        return int(size)
    if percent.isdecimal() and heap.isdecimal():
        return int(heap) * int(percent) // 100
    return None
