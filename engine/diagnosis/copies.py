"""Copies of one environment side by side, such as a snapshot, a backup and the original: the one to start from.

Environments of a replication group are compared as nodes (``engine.diagnosis.nodes``). Of others only the log shows
that they were one: their first common file begins with the same bytes. The one whose last transaction is the newest is
the one to start from. For each other copy, the Commits after the first difference are counted on both sides, up to the
first damage, where recovery stops.

Example: ``env`` has a flipped bit at 0x0/0x900 before ten Commits; ``env.bak`` was copied two Commits before its end.
``env.bak`` is the one to start from, since it has eight of the ten Commits that JE would cut off in ``env``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from engine.diagnosis.record import DERBY, Diagnosis
from engine.errors import JetoolError
from engine.events import SILENT, Listener
from engine.format.entry_types import COMMIT
from engine.format.lsn import NULL_LSN
from engine.inspect.common_log import FIRST_IS_PREFIX, SECOND_IS_PREFIX, UNRELATED, CommonLog, common_log
from engine.log.entry import LogEntry
from engine.log.files import LogFiles, list_log_files
from engine.log.scan import scan_log
from engine.storage.disk import DiskStorage

_COMMITS: Final = frozenset({COMMIT})


class CopyStanding(NamedTuple):
    """A copy compared with the one to start from.

    Attributes:
        copy: the copy.
        behind: Commits that only the one to start from has.
        own: Commits that only this copy has.
    """

    copy: Diagnosis
    behind: int
    own: int


class _Log(NamedTuple):
    """The log of a copy."""

    copy: Diagnosis
    storage: DiskStorage
    files: LogFiles


def copies_among(found: Sequence[Diagnosis], listener: Listener = SILENT) -> Iterator[list[Diagnosis]]:
    """Environments outside of groups that were one, in the given order; one whose log cannot be read is left out."""
    sets: list[list[_Log]] = []
    for one in found:
        if one.identity.group_uuid is not None or one.identity.application == DERBY or not one.supported:
            continue
        try:
            log = _log_of(one)
            near = next((logs for logs in sets if _compared(logs[0], log, listener).relation != UNRELATED), None)
        except JetoolError:
            # Its own diagnosis says why.
            continue
        if near is None:
            sets.append([log])
        else:
            near.append(log)
    return ([log.copy for log in logs] for logs in sets if len(logs) > 1)


def compare_copies(copies: Sequence[Diagnosis], listener: Listener = SILENT) -> tuple[str, list[CopyStanding]]:
    """The directory of the copy to start from, and the standing of every copy.

    Arguments:
        copies: copies that can start, at least one.

    Raises:
        JetoolError: a log cannot be read.
    """
    logs = [_log_of(one) for one in copies]
    start = max(logs, key=lambda log: (log.copy.identity.last_time or 0, log.copy.is_clean, log.copy.identity.bytes))
    standings = []
    for log in logs:
        behind = own = 0
        if log is not start:
            common = _compared(log, start, listener)
            behind = 0 if common.relation == SECOND_IS_PREFIX else _commits_from(start, common.first_difference)
            own = 0 if common.relation == FIRST_IS_PREFIX else _commits_from(log, common.first_difference)
        standings.append(CopyStanding(log.copy, behind, own))
    return start.copy.directory, standings


def _log_of(one: Diagnosis) -> _Log:
    storage = DiskStorage(one.directory)
    return _Log(one, storage, list_log_files(storage))


def _compared(one: _Log, other: _Log, listener: Listener) -> CommonLog:
    return common_log(one.storage, one.files, other.storage, other.files, listener)


def _commits_from(log: _Log, lsn: int) -> int:
    """The number of Commits from an LSN on, up to the first damage."""
    if lsn == NULL_LSN:
        return 0
    count = 0
    for item in scan_log(log.storage, log.files).between(lsn).of_types(_COMMITS).entries():
        if not isinstance(item, LogEntry):
            break
        count += 1
    return count
