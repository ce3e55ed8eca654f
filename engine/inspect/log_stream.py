"""The replication stream of a log, read once: its facts, gaps in the files, and damage.

Every entry up to the end of the log counts; what follows the first bad entry of the last file does not (R-LOG-31).
Earlier damage is skipped and reported; the facts then cover the readable entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry_types import NAME_LNS, RARE_ENTRIES, STREAM_LNS, STREAM_MARKS, SYNC_POINTS
from engine.format.fast.header import PAIRS, REPLICATED_IN_PAIR
from engine.format.fast.loops import KEEP
from engine.format.header import FLAGS_AT, TYPE_AT, VLSN_AT, VLSN_FIELD
from engine.format.lsn import make_lsn
from engine.format.stream_facts import StreamFacts, matters
from engine.inspect.group_record import GroupName, group_of, last_group_in
from engine.log.check import FileCheck
from engine.log.entry import Damage, LogEntry, Stretch
from engine.log.files import LogFile, LogFiles
from engine.log.scan import scan_file
from engine.storage.base import Storage
from engine.vlsn.database import DATABASE_NAME
from engine.workers.parallel import map_in_order

# Types that ``Stretch.positions`` keeps; rollback entries and matchpoints are rare and never part of a stretch.
_OF_STREAM: Final = [KEEP if pair & REPLICATED_IN_PAIR or pair & 0xFF in NAME_LNS else 0 for pair in range(PAIRS)]
_INDEX_NAME: Final = DATABASE_NAME.encode()
assert STREAM_MARKS <= RARE_ENTRIES
assert not NAME_LNS & RARE_ENTRIES


class FileStream(NamedTuple):
    """The stream's part in one file.

    Attributes:
        path: relative to the environment.
        unreadable: LSNs of entries whose checksum is right but whose body does not decode.
        names_index: a record of the naming tree may name a VLSN index.
        group: the replication group, from the latest group record; None if the file holds no group record.
    """

    path: str
    facts: StreamFacts
    damages: tuple[Damage, ...]
    unreadable: tuple[int, ...]
    names_index: bool
    group: GroupName | None


class LogStream(NamedTuple):
    """The stream of a whole log.

    Attributes:
        gaps: start LSNs of the files directly after a missing file number.
        damages: in log order; a torn tail has ``is_tail``.
        names_index, group: as in ``FileStream``.
    """

    facts: StreamFacts
    gaps: tuple[int, ...]
    damages: tuple[Damage, ...]
    unreadable: tuple[int, ...]
    names_index: bool
    group: GroupName | None


def read_stream(storage: Storage, files: LogFiles, jobs: int = 1) -> LogStream:
    """Read a log.

    Arguments:
        storage, files: the environment.
        jobs: how many processes.

    Raises:
        UnsupportedError, StorageError: a file cannot be read.
    """
    found = map_in_order(partial(stream_of_file, storage, files.end_file()), files.files, jobs)
    return joined(found, files)


def joined(parts: Iterable[FileStream], files: LogFiles) -> LogStream:
    """Join the streams of the files, given in log order."""
    facts = StreamFacts()
    damages: list[Damage] = []
    unreadable: list[int] = []
    names_index = False
    group = None
    for part in parts:
        group = part.group or group
        names_index = names_index or part.names_index
        facts.join(part.facts)
        damages += part.damages
        unreadable += part.unreadable
    numbers = [file.number for file in files.files]
    gaps = [after for before, after in pairwise(numbers) if after != before + 1]
    return LogStream(
        facts, tuple(make_lsn(number, 0) for number in gaps), tuple(damages), tuple(unreadable), names_index, group
    )


def stream_of_file(storage: Storage, end_file: int, file: LogFile) -> FileStream:
    """The stream's part in one file.

    Arguments:
        storage: the environment.
        end_file: number of the file that the log ends in.
        file: which one.
    """
    facts = StreamFacts()
    damages: list[Damage] = []
    unreadable: list[int] = []
    is_last = file.number >= end_file
    names_index, group = False, None
    for item in scan_file(storage, file, is_last=is_last, past_end=False).stretches():
        if isinstance(item, Stretch):
            names_index = _take(facts, item, unreadable) or names_index
            group = last_group_in(item, _OF_STREAM) or group
        elif isinstance(item, LogEntry):
            if matters(item.type_number, item.flags):
                try:
                    facts.add(item.lsn, item.type_number, item.version, item.flags, item.vlsn, item.body)
                except FormatError:
                    unreadable.append(item.lsn)
            if item.type_number in STREAM_LNS and not item.invisible:
                group = group_of(item) or group
        else:
            damages.append(item)
    return FileStream(file.path, facts, tuple(damages), tuple(unreadable), names_index, group)


def is_outside(check: FileCheck) -> bool:
    """Whether the check of a whole file shows that the file holds no part of the stream, so that ``stream_of_file``
    need not read it.
    """
    return not check.damages and not any(
        pair & REPLICATED_IN_PAIR or pair & 0xFF in STREAM_MARKS or pair & 0xFF in NAME_LNS for pair in check.totals
    )


def nothing_of(file: LogFile) -> FileStream:
    """The result for a file without a part of the stream (``is_outside``); it is not read."""
    return FileStream(file.path, StreamFacts(), (), (), False, None)


def _take(facts: StreamFacts, stretch: Stretch, unreadable: list[int]) -> bool:
    """Note the entries of the stream and the LSNs of undecodable entries; return whether an entry names a
    VLSN index.
    """
    base, version, data = stretch.lsn, stretch.version, stretch.data
    names_index = False
    for pos in stretch.positions(_OF_STREAM):
        number, flags = data[pos + TYPE_AT], data[pos + FLAGS_AT]
        if number in NAME_LNS:
            names_index = names_index or _INDEX_NAME in stretch.entry_at(pos).body
            if not (number | flags << 8) & REPLICATED_IN_PAIR:
                continue
        try:
            # For most entries only the VLSN and the LSN matter.
            body = stretch.entry_at(pos).body if number in SYNC_POINTS else b""
            facts.add(base + pos, number, version, flags, VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0], body)
        except FormatError:
            unreadable.append(base + pos)
    return names_index
