"""The head of the VLSN index where reserved files are missing (R-VLSN-76).

A backup and a network restore leave reserved files out: these are no longer part of the live log, and only feeders
would read them. The index in the copy still begins with their VLSNs, so opening the copy for writing cuts that head
off, as JE does.
"""

from __future__ import annotations

from engine.cleaner.file_records import RESERVED_FILES
from engine.db.parts import EnvironmentParts
from engine.db.vlsn_index.store import StoredIndex
from engine.errors import FormatError
from engine.format.entry.internal_db import reserved_file_of
from engine.format.vlsn import NULL_VLSN
from engine.vlsn.index import VLSNIndex
from engine.vlsn.memory_index import records_of


def cut_missing(parts: EnvironmentParts, index: VLSNIndex) -> None:
    """Make the index begin after the last VLSN of the reserved files that are missing."""
    with parts.ctx.latch:
        state = parts.catalog.by_name(RESERVED_FILES)
    if state is None or index.range.is_empty:
        return
    there = {file.number for file in parts.ctx.access.files()}
    end, gone = NULL_VLSN, -1
    for key, data in records_of(StoredIndex(parts, state)).items():
        try:
            number, record = reserved_file_of(key, data)
        except FormatError:
            # The check of the trees reports this; it has no effect here.
            continue
        if number not in there and record.last_vlsn > end:
            end, gone = record.last_vlsn, number
    # A log that lost its last matchpoint has other damage, which is reported elsewhere.
    if index.range.first <= end < index.range.last_sync:
        index.truncate_head(end, min((number for number in there if number > gone), default=gone + 1))
