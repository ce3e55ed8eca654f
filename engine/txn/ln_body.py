"""Building the LN of a write: type, flags, fields, encoded body.

An LN describes earlier versions: the *abort* fields are the version before the transaction, the *prior* fields the size
of the version that it replaces (je-log-format.md 7.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.format.codecs import encode_body
from engine.format.entry import ln as ln_codec
from engine.format.entry.ln import Content
from engine.format.entry.node import KNOWN_DELETED, SLOT_EMBEDDED, SLOT_TOMBSTONE
from engine.format.fast.ln import encode_rare, encode_user_fields
from engine.format.lsn import NULL_LSN, file_of
from engine.format.versions import CREATION_TIMES
from engine.format.vlsn import NULL_VLSN
from engine.tree.apply import RecordVersion, record_version
from engine.tree.bin_node import BIN, DELETED, Times
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.txn.payload import Payload
from engine.txn.txn import Txn

_NO_RECORD: Final = RecordVersion(lsn=NULL_LSN)
# The flags and flags2 of an LN, and the size and file of the version that it replaces (0 and -1: not recorded).
Marks = tuple[int, int, int, int]


def marks_of(
    node: BIN, index: int, exact: bool, payload: Payload, locker: Txn, before: RecordVersion, embedded: bool
) -> Marks:
    """The flags of an LN that is written to a slot, with the size and file of the slot's current version."""
    if not exact and not payload.expiration and before.lsn == NULL_LSN:
        # An insertion of a record that never existed.
        return ln_codec.EMBEDDED if embedded else 0, 0, 0, -1
    old_lsn = node.lsns[index] if exact else NULL_LSN
    old_state = node.states[index] if exact else KNOWN_DELETED
    was_embedded = bool(old_state & SLOT_EMBEDDED)
    flags = ln_codec.EMBEDDED if embedded or (payload.data is None and was_embedded) else 0
    flags |= ln_codec.HAS_EXPIRATION if payload.expiration else 0
    flags2 = 0
    prior_size = node.sizes[index] if exact else 0
    # Redo of this LN counts the prior version obsolete by its size and file (R-REC-57).
    if prior_size and not old_state & (DELETED | SLOT_EMBEDDED) and not node.db.duplicates:
        flags2 |= ln_codec.HAS_PRIOR_SIZE
        # If the prior version is the abort version, the abort LSN already gives its file.
        if not locker.transactional or before.lsn != old_lsn:
            flags2 |= ln_codec.HAS_PRIOR_FILE
    if locker.transactional:
        flags |= ln_codec.ABORT_KNOWN_DELETED if before.known_deleted else 0
        flags |= ln_codec.HAS_ABORT_LSN if before.lsn != NULL_LSN else 0
        flags |= ln_codec.HAS_ABORT_DATA if before.data is not None else 0
        flags |= ln_codec.HAS_ABORT_EXPIRATION if before.expiration else 0
    return flags, flags2, prior_size, file_of(old_lsn) if flags2 & ln_codec.HAS_PRIOR_FILE else -1


def user_body(db: DatabaseState, key: Key, payload: Payload, locker: Txn, before: RecordVersion, marks: Marks) -> bytes:
    """The LN of a user record, encoded without creating the record object."""
    flags, flags2, prior_size, prior_file = marks
    rare = encode_rare(flags, flags2, before.data, before.expiration, payload.expiration, prior_size, prior_file)
    txn = before.lsn, locker.id if locker.transactional else None, locker.last_lsn
    return encode_user_fields(flags, flags2, db.id, txn, rare, payload.data, db.order.unwrap(key))


def record_of(
    db: DatabaseState, key: Key, payload: Payload, locker: Txn, before: RecordVersion, marks: Marks
) -> ln_codec.LN:
    """The LN record, without times."""
    flags, flags2, prior_size, prior_file = marks
    return ln_codec.LN(
        flags=flags, flags2=flags2, flags3=0, db_id=db.id, abort_lsn=before.lsn,
        txn_id=locker.id if locker.transactional else None, last_lsn=locker.last_lsn, abort_key=None,
        abort_data=before.data, abort_vlsn=NULL_VLSN, abort_expiration=before.expiration, abort_modification_time=0,
        abort_creation_time=0, expiration=payload.expiration, modification_time=0, creation_time=0,
        prior_size=prior_size, prior_file=prior_file, node_id=None, data=payload.data,
        content=payload.content, key=db.order.unwrap(key), tail=payload.tail,
    )  # fmt: skip


def with_times(
    record: ln_codec.LN, number: int, version: int, times: Times, before: RecordVersion, payload: Payload
) -> ln_codec.LN:
    """An LN with the fields of v19 and later: its own times, and those of the version before the transaction."""
    flags2, flags3 = record.flags2 | (payload.marks.flags2 if payload.marks is not None else 0), 0
    if record.txn_id is not None:
        flags2 |= ln_codec.HAS_ABORT_MODIFICATION_TIME if before.times.modified else 0
        flags2 |= ln_codec.ABORT_TOMBSTONE if before.tombstone else 0
    if version >= CREATION_TIMES:
        flags2 |= ln_codec.HAS_ABORT_CREATION_TIME if record.txn_id is not None and before.times.created else 0
        flags3 = ln_codec.creation_flag(number, times.modified, times.created)
    return record._replace(
        flags2=flags2,
        flags3=flags3,
        abort_modification_time=before.times.modified,
        abort_creation_time=before.times.created,
        modification_time=times.modified,
        creation_time=times.created,
    )


def marshalled(
    number: int, version: int, record: ln_codec.LN, refresh: Callable[[], Content] | None
) -> tuple[bytes, Callable[[], bytes] | None]:
    """The body as encoded now. For content that counts the entry itself, also a function that encodes the final body
    when the entry is logged.
    """
    if refresh is None:
        return encode_body(number, version, record), None

    def marshal() -> bytes:
        return encode_body(number, version, record._replace(content=refresh()))

    # The first encoding is needed for its size; the later call, under the latch, encodes the current content.
    return marshal(), marshal


def version_before(node: BIN, index: int, exact: bool) -> RecordVersion:
    """The current version in a slot, as found by a transaction's first write of the record (R-TXN-33)."""
    # There is no version before, and so no abort LSN: undo makes the slot known deleted (R-TXN-33).
    if not exact or node.lsns[index] == NULL_LSN:
        return _NO_RECORD
    state = node.states[index]
    deleted = bool(state & DELETED)
    # The data is included in the LN, since the version's own entry may be cleaned before an abort (R-TREE-42).
    embedded = bool(state & SLOT_EMBEDDED) and not deleted
    return record_version(
        lsn=node.lsns[index],
        size=node.sizes[index],
        data=(node.values[index] or b"") if embedded else None,
        expiration=0 if deleted else node.expirations[index],
        known_deleted=deleted,
        times=node.times_of(index),
        tombstone=bool(state & SLOT_TOMBSTONE),
    )


def type_of(payload: Payload, exists: bool, locker: Txn) -> int:
    """The entry type of an insertion, an update or a deletion."""
    kind = payload.kind
    if payload.data is None:
        return kind.delete_tx if locker.transactional else kind.delete
    if exists:
        return kind.update_tx if locker.transactional else kind.update
    return kind.insert_tx if locker.transactional else kind.insert
