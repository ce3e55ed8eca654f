"""What redo makes of one LN: the version that it brings into the tree, and what a name leaves to be finished."""

from __future__ import annotations

from engine.format.codecs import codec_of
from engine.format.entry.ln import EMBEDDED, LN, TOMBSTONE
from engine.format.entry.ln_content import NameLN
from engine.format.versions import EMBEDDED_RECORDS, LN_KEY_FIRST
from engine.log.passes import RawEntry
from engine.recovery.result import RecoveryResult
from engine.tree.apply import RecordVersion, record_version
from engine.tree.bin_node import UNTIMED, times_from
from engine.tree.database_state import DatabaseState

_REMOVE, _TRUNCATE, _RENAME = 2, 3, 4


def leaf_of(raw: RawEntry, record: LN, db: DatabaseState, *, resurrected: bool) -> RecordVersion:
    """The version that redo brings in; the deletion of a transaction that is still open is pending (R-REC-47)."""
    embedded = raw.version >= EMBEDDED_RECORDS and bool(record.flags & EMBEDDED)
    content = record.content
    # MapLNs and NameLNs say in their content that they are gone.
    deleted = record.data is None or bool(getattr(content, "deleted", 0))
    data = record.data if embedded and not deleted and not db.duplicates else None
    times, tombstone = UNTIMED, False
    if raw.version >= LN_KEY_FIRST:
        tombstone = bool(record.flags2 & TOMBSTONE)
        if data is not None:
            times = times_from(record.modification_time, record.creation_time)
    return record_version(
        lsn=raw.lsn,
        size=raw.size,
        data=data,
        expiration=record.expiration,
        vlsn=raw.vlsn,
        known_deleted=deleted and not resurrected,
        pending_deleted=deleted and resurrected,
        times=times,
        tombstone=tombstone,
    )


def note_naming(result: RecoveryResult, record: LN, content: NameLN) -> None:
    """What a committed naming operation leaves to be finished (R-REC-56)."""
    operation = getattr(record.tail, "operation", 0)
    if operation == _REMOVE:
        result.databases_removed.add(content.db_id)
    elif operation == _TRUNCATE:
        old = getattr(record.tail, "truncated_db_id", None)
        if old is not None:
            # The name leads to the new, empty database now; the old one has to go.
            result.databases_removed.add(old)
    elif operation == _RENAME:
        result.renamed[content.db_id] = record.key.decode("utf-8", "surrogateescape")


def ln_of(raw: RawEntry) -> LN:
    """The record of an entry that holds an LN."""
    codec = codec_of(raw.type_number)
    assert codec is not None
    record = codec.decode(raw.body, raw.version)
    assert isinstance(record, LN)
    return record
