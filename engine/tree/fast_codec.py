"""Nodes of the usual form to log entries, and BINs back, without an object for each slot.

Almost every node of almost every log: keys in byte order, nothing in it expires, no VLSNs, no times. General twins:
``node_codec.node_to`` and ``node_from`` with ``format.entry.node``; the layout is in ``format.fast.bin``. What is read
and written here is what the twins make of it, byte for byte. Whatever is not of this form is left to them (None), and
so is whatever does not fit: they say what is wrong with it.
"""

from __future__ import annotations

from typing import Final

from engine.errors import FormatError
from engine.format.bytecursor import pack
from engine.format.entry.node import DIRTY, HAS_SIZES, LEVEL_MASK, ROOT
from engine.format.fast.bin import (
    NO_EXPIRATION,
    add_children,
    add_records,
    compact_base,
    decode_head,
    encode_head,
    read_records,
)
from engine.format.lsn import NULL_LSN
from engine.format.versions import EXPIRATION, LONG_LSNS_ONLY, WRITTEN_VERSION
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.node_codec import common_prefix

_BIN_HEIGHT: Final = 1


def encode_usual(node: IN, version: int, *, delta: bool, with_filter: bool) -> bytes | None:
    """The entry body of a node; None when it is not of the usual form.

    Arguments:
        version, delta, with_filter: as for ``node_codec.node_to``.
    """
    db, keys = node.db, node.keys
    if version != WRITTEN_VERSION or not db.order.plain:
        return None
    chosen = list(range(len(keys)))
    delta_lsn, bases, flags = NULL_LSN, b"", ROOT if node.is_root else 0
    if isinstance(node, BIN):
        if node.vlsns or (delta and with_filter) or any(node.expirations):
            return None
        if delta:
            chosen = [at for at, state in enumerate(bytes(node.states)) if state & DIRTY]
        delta_lsn, bases, flags = node.delta_lsn, NO_EXPIRATION, flags | HAS_SIZES
    base = compact_base([node.lsns[at] for at in chosen] if delta else node.lsns)
    if base is None:
        return None
    prefix = common_prefix(keys) if db.prefixing and len(keys) > 1 else None
    count = len(chosen)
    # The capacity that JE gives a delta: what its default of 25 % allows, or what it needs.
    most = max(count, len(keys) * 25 // 100) if delta else max(node.max_entries, count)
    lsns, sizes = (db.id, node.full_lsn, delta_lsn), (count, node.level, most)
    parts = [encode_head(lsns, bases, node.node_id, node.ident, flags, prefix, sizes, base)]
    cut = 0 if prefix is None else len(prefix)
    if isinstance(node, BIN):
        add_records(parts, chosen, keys, node.lsns, bytes(node.states), node.values, node.sizes, base, cut)
    else:
        add_children(parts, keys, node.lsns, base, cut)
    # Who reads the delta learns here how large the full BIN is (R-TREE-10).
    if delta:
        parts += (pack(len(keys)), pack(max(node.max_entries, len(keys))))
    return b"".join(parts)


def decode_usual(db: DatabaseState, body: bytes, version: int) -> BIN | None:
    """The BIN of a full entry, clean, its ``full_lsn`` not set; None when it is not of the usual form."""
    if not EXPIRATION <= version < LONG_LSNS_ONLY or not db.order.plain:
        return None
    try:
        head = decode_head(body)
        if head is None or head.db_id != db.id or head.level & LEVEL_MASK != _BIN_HEIGHT:
            return None
        node = BIN(db, head.node_id, head.level, head.ident, head.max_entries)
        states = bytearray()
        data_bytes = read_records(body, head, node.keys, node.lsns, states, node.values, node.sizes)
    except (FormatError, IndexError):
        return None
    if data_bytes < 0:
        return None
    node.is_root = bool(head.flags & ROOT)
    node.data_bytes += data_bytes
    node.states = states
    node.expirations = [0] * head.slots
    return node
