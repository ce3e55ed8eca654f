"""Log a live record again, because its file will be deleted (R-CLN-26).

The new entry is a non-transactional update with the same key, data, expiration and times. Readers see no difference;
only the slot's LSN changes. The new entry has no VLSN and is not replicated: replicas clean their own files. A locker
that holds a lock on the old LSN gets the same lock on the new one before the latch is released (R-TXN-1).
"""

from __future__ import annotations

from typing import Final

from engine.errors import DamageError
from engine.format.codecs import decode_body, encode_body
from engine.format.entry.ln import HAS_EXPIRATION, HAS_PRIOR_FILE, HAS_PRIOR_SIZE, LN, TOMBSTONE, creation_flag
from engine.format.entry.ln_content import NameOperation
from engine.format.entry.node import SLOT_TOMBSTONE
from engine.format.entry_types import (
    COMMON_LNS,
    EXTINCT_SCAN_LN,
    EXTINCT_SCAN_LNS,
    FILE_SUMMARY_LN,
    FILE_SUMMARY_LNS,
    NAME_LN,
    NAME_LNS,
    RESERVED_FILE_LN,
    RESERVED_FILE_LNS,
    TRANSACTIONAL,
    UPD_LN,
)
from engine.format.fast.ln import moved_body
from engine.format.header import HEADER_BYTES
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.format.versions import LN_KEY_FIRST
from engine.format.vlsn import NULL_VLSN
from engine.log.passes import RawEntry
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.txn.locks import LockTable
from engine.txn.txn import note_lock

_NO_OPERATION: Final = NameOperation(0, None, None)


def migrate(ctx: TreeContext, locks: LockTable, node: BIN, index: int, raw: RawEntry) -> int:
    """Log the record of a slot again; the caller holds the latch, and no transaction has a write lock on the record.

    Arguments:
        raw: the entry that the slot leads to.

    Returns:
        The size of the new entry.

    Raises:
        DamageError: the entry has no data.
    """
    writer = ctx.writer
    assert writer is not None
    number, expiration = _type_for(raw.type_number), node.expirations[index]
    key = node.db.order.unwrap(node.keys[index])
    flags2 = HAS_PRIOR_SIZE | HAS_PRIOR_FILE | (TOMBSTONE if node.states[index] & SLOT_TOMBSTONE else 0)
    body = None
    # The common case; other records need more than the places of data and key.
    if raw.type_number in COMMON_LNS and writer.version < LN_KEY_FIRST and not node.db.deferred:
        prior = raw.size, file_of(raw.lsn)
        transactional = raw.type_number in TRANSACTIONAL
        body = moved_body(raw.body, raw.version, transactional, key, expiration, flags2, prior)
    if body is None:
        old = decode_body(raw.type_number, raw.version, raw.body)
        if not isinstance(old, LN) or old.data is None:
            raise DamageError("a live slot leads to a deletion", lsn=format_lsn(raw.lsn))
        if node.db.deferred:
            _keep_in_memory(ctx, node, index, old.data)
            return 0
        record = old._replace(
            flags=HAS_EXPIRATION if expiration else 0,
            flags2=flags2,
            flags3=creation_flag(number, old.modification_time, old.creation_time),
            abort_lsn=NULL_LSN, txn_id=None, last_lsn=NULL_LSN, abort_key=None, abort_data=None, abort_vlsn=NULL_VLSN,
            abort_expiration=0, expiration=expiration, prior_size=raw.size, prior_file=file_of(raw.lsn), node_id=None,
            key=key, tail=_NO_OPERATION if number == NAME_LN else None,
        )  # fmt: skip
        body = encode_body(number, writer.version, record)
    # Counted like any update: the old version is obsolete once its replacement is logged (R-CLN-6).
    lsn = writer.log(number, body, obsolete_lns=((raw.lsn, raw.size),))
    size = HEADER_BYTES + len(body)
    if expiration and ctx.expiring is not None:
        ctx.expiring.expires(lsn, expiration, size)
    locks.transfer(raw.lsn, lsn, write=False, noted=note_lock)
    # The data is not kept in the cache: no application has read the record.
    node.put(index, node.keys[index], True, lsn, node.states[index] & SLOT_TOMBSTONE, None, size, expiration)
    ctx.account(node)
    return size


def _keep_in_memory(ctx: TreeContext, node: BIN, index: int, data: bytes) -> None:
    """Keep a record of a deferred-write database in memory: it is logged again with its BIN (R-TREE-60)."""
    state, expiration = node.states[index], node.expirations[index]
    node.put(index, node.keys[index], True, ctx.transient_lsn(), state, data, 0, expiration)
    ctx.account(node)


def _type_for(number: int) -> int:
    if number in NAME_LNS:
        return NAME_LN
    if number in FILE_SUMMARY_LNS:
        return FILE_SUMMARY_LN
    if number in RESERVED_FILE_LNS:
        return RESERVED_FILE_LN
    return EXTINCT_SCAN_LN if number in EXTINCT_SCAN_LNS else UPD_LN
