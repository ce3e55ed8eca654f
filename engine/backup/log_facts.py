"""Facts about the files of a copy: first and last entry, VLSNs, and the end of the last file.

A log file may be a gigabyte, so files before the last are not read from end to end. The header of the next file names
the last entry (je-log-format.md 3.2); the header is believed only if that entry exists, is good, and ends where its
file ends. Entries are read from both ends until one has a VLSN. If no entry near the ends has a VLSN, the whole file is
checked in bulk.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from itertools import islice
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.file_header import FILE_HEADER_BYTES, decode_file_header
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.format.header import HEADER_BYTES
from engine.format.lsn import NULL_LSN, make_lsn, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.damage import AfterDamageCount
from engine.log.entry import LogEntry
from engine.log.files import LogFile, LogFiles, header_version
from engine.log.scan import LogScan, scan_file
from engine.storage.base import Storage

# Number of entries read one by one before a file is read in bulk.
_MOST_LOOKS: Final = 2000
# Bytes read at once when reading backward.
_BACK_BYTES: Final = 1 << 14


class FileFacts(NamedTuple):
    """The facts about one file; for the fields see ``BackupFile``."""

    version: int
    first_lsn: int
    last_lsn: int
    first_vlsn: int
    last_vlsn: int


class LogEnd(NamedTuple):
    """Where a last file ends.

    Attributes:
        end_offset: the offset after its last whole entry; the log ends there.
        commits_after: good Commits after a bad entry; they do not belong to the log (R-LOG-31).
    """

    end_offset: int
    commits_after: int


def end_of(storage: Storage, file: LogFile) -> LogEnd:
    """The end of the last file of a log, which another process may be writing.

    Raises:
        UnsupportedError: a log version that this program does not read. StorageError: it cannot be read.
    """
    scan = scan_file(storage, file, is_last=True)
    found = scan.check(with_sizes=False)
    bad = [stretch.damage for stretch in found.damages if stretch.damage.length]
    if not bad:
        return LogEnd(found.end_offset, 0)
    end = offset_of(bad[0].lsn)
    count = AfterDamageCount()
    for entry in scan.good_entries():
        if entry.lsn > bad[0].lsn:
            count.add(entry)
    with closing(storage.open(file.path)) as handle:
        return LogEnd(end, count.result(handle, bad[0], has_later_file=False).commits if count.commits else 0)


def facts_of(storage: Storage, files: LogFiles, file: LogFile, *, replicated: bool) -> FileFacts:
    """What a file holds.

    Arguments:
        replicated: whether entries may have VLSNs; if not, the file is not searched for them.

    Raises:
        UnsupportedError, StorageError: the file cannot be read.
    """
    is_last = file is files.files[-1]
    scan = scan_file(storage, file, is_last=is_last)
    version, last = scan.head().version, _named_by_next(storage, files, file, scan)
    vlsns = _vlsns_at_ends(scan, last) if replicated and last is not None else (NULL_VLSN,) * 2
    if last is not None and vlsns is not None:
        return FileFacts(version, make_lsn(file.number, 0), last, *vlsns)
    found = scan.check(with_sizes=False)
    if found.last_offset < 0:
        return FileFacts(version, NULL_LSN, NULL_LSN, NULL_VLSN, NULL_VLSN)
    return FileFacts(
        version=version,
        first_lsn=make_lsn(file.number, 0),
        last_lsn=make_lsn(file.number, found.last_offset),
        first_vlsn=found.first_vlsn,
        last_vlsn=found.last_vlsn,
    )


def _named_by_next(storage: Storage, files: LogFiles, file: LogFile, scan: LogScan) -> int | None:
    """The last entry according to the header of the next file; None if the header cannot be believed."""
    following = files.find(file.number + 1)
    if following is None:
        return None
    with closing(storage.open(following.path)) as handle:
        start = handle.read(0, FILE_HEADER_BYTES)
    version = header_version(start)
    if version is None:
        return None
    offset = decode_file_header(start[HEADER_BYTES:], version).last_entry_in_prev_file
    # The header is written once and never corrected: a file that was cut and continued has another last entry
    # (R-LOG-16).
    if not 0 < offset < file.size_bytes:
        return None
    entry = scan.entry_at(make_lsn(file.number, offset))
    whole = entry is not None and offset + entry.total_bytes == file.size_bytes
    return make_lsn(file.number, offset) if whole else None


def _vlsns_at_ends(scan: LogScan, last_lsn: int) -> tuple[int, int] | None:
    """First and last VLSN of the entries near both ends; None if no such entry has a VLSN."""
    ends = []
    for items in (islice(scan.entries(), _MOST_LOOKS), islice(scan.back_by_links(last_lsn), _MOST_LOOKS)):
        seen = (item.vlsn for item in items if isinstance(item, LogEntry) and item.replicated and not item.invisible)
        ends.append(next(seen, NULL_VLSN))
    return (ends[0], ends[1]) if NULL_VLSN not in ends else None


def last_commit_ms(storage: Storage, files: LogFiles, last_lsns: Mapping[int, int]) -> int | None:
    """Time of the last Commit of a log; None if the log holds no Commit.

    Arguments:
        last_lsns: the last entry of each file, by number.
    """
    for file in reversed([file for file in files.files if file.number in last_lsns]):
        for entry in scan_file(storage, file, is_last=False).back_by_links(last_lsns[file.number]):
            if entry.type_number == COMMIT and not entry.invisible:
                # A valid checksum over bytes that are not a Commit: the entry was forged.
                with suppress(FormatError, IndexError, ValueError):
                    record = entry.record()
                    if isinstance(record, TxnEnd):
                        return record.time
    return None
