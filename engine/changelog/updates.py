"""The updates of a changelog: each file divided into records, each record decoded."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from engine.changelog.directory import DomainDirectory, LogFileName, ReplicaDirectory, read_log_file
from engine.contents.changelog_blocks import framed
from engine.contents.changelog_updates import Csn, ReplicaUpdate, decode_numbered, decode_update
from engine.errors import FormatError
from engine.storage.base import Storage


class FoundUpdate(NamedTuple):
    """An update of a replica.

    Attributes:
        domain, replica: where it is.
        file: its log file.
        at: its offset in the file.
        size: the length of its record, without the length field and pointers.
        update: the update; None if the record cannot be decoded.
    """

    domain: DomainDirectory
    replica: ReplicaDirectory
    file: LogFileName
    at: int
    size: int
    update: ReplicaUpdate | None


def is_update(data: bytes) -> bool:
    """Whether a record can be decoded as an update."""
    return update_of(data) is not None


def update_of(data: bytes) -> ReplicaUpdate | None:
    """The update of a record; None if it cannot be decoded."""
    try:
        return decode_update(data)
    except (FormatError, ValueError):
        return None


def is_numbered(data: bytes) -> bool:
    """Whether a record can be decoded as an entry of the change number index."""
    try:
        decode_numbered(data)
    except (FormatError, ValueError):
        return False
    return True


def replica_updates(storage: Storage, domain: DomainDirectory, replica: ReplicaDirectory) -> Iterator[FoundUpdate]:
    """The updates of a replica in the order of its files; damage is skipped."""
    for file in replica.files:
        for one in framed(read_log_file(storage, file), is_update).records:
            yield FoundUpdate(
                domain=domain, replica=replica, file=file, at=one.at, size=len(one.data), update=update_of(one.data)
            )


def domain_updates(storage: Storage, domain: DomainDirectory, server: int | None = None) -> Iterator[FoundUpdate]:
    """The updates of a domain, merged by CSN as readers of the changelog see them.

    Arguments:
        server: only those of this replica.
    """
    streams = [
        _keyed(replica_updates(storage, domain, replica))
        for replica in domain.replicas
        if server is None or replica.server == server
    ]
    for _, one in heapq.merge(*streams, key=lambda pair: pair[0]):
        yield one


def _keyed(updates: Iterator[FoundUpdate]) -> Iterator[tuple[Csn, FoundUpdate]]:
    """Each update with its CSN; with that of the previous one if it cannot be read."""
    last = Csn(0, 0, 0)
    for one in updates:
        if one.update is not None and one.update.csn is not None:
            last = one.update.csn
        yield last, one
