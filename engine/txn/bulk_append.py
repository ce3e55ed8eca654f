"""Appending records in key order to the end of a database without other users.

Filling a new environment needs no locks, no transaction, and no search for each record: all records go into the last
BIN until it is full. They are logged as non-transactional records, so each record exists once it is durable, and no
record can be undone. Databases with duplicates, comparators or deferred writes use ``Records.put``.
"""

from __future__ import annotations

from typing import Final

from engine.errors import RefusedError
from engine.format.bytecursor import pack
from engine.format.entry.ln import EMBEDDED, HAS_EXPIRATION
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import INS_LN
from engine.format.fast.ln import encode_rare, encode_user_fields
from engine.format.header import HEADER_BYTES
from engine.format.lsn import NULL_LSN
from engine.format.versions import LN_KEY_FIRST
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.split import bin_for_insert

_NO_TXN: Final = (NULL_LSN, None, NULL_LSN)


def can_append(ctx: TreeContext, db: DatabaseState) -> bool:
    """Whether ``append`` can be used for a database."""
    # Since v19 a record has times, and its key is in a different place.
    is_usual = ctx.writer is not None and ctx.writer.version < LN_KEY_FIRST
    return is_usual and db.order.plain and not (db.duplicates or db.deferred or db.internal)


def append(ctx: TreeContext, db: DatabaseState, records: list[tuple[bytes, bytes, int]]) -> None:
    """Add records. The caller has to evict nodes afterwards if the cache exceeds its budget.

    Arguments:
        db: a database for which ``can_append`` is True.
        records: key, data and expiration, in key order, all after the existing keys.

    Raises:
        RefusedError: a key is not after the previous one. StorageError: the log cannot be written.
    """
    writer = ctx.writer
    assert writer is not None
    plain, embedded = (encode_user_fields(flags, 0, db.id, _NO_TXN, b"", b"", b"")[:-1] for flags in (0, EMBEDDED))
    most, done = ctx.max_embedded, 0
    with ctx.latch:
        while done < len(records):
            node = bin_for_insert(ctx, db, records[done][0])
            last = node.keys[-1] if node.keys else b""
            # As many records as the node has room for.
            taken = records[done : done + node.max_entries - len(node.keys)]
            done += len(taken)
            bodies: list[bytes] = []
            fitting: list[bool] = []
            for key, data, expiration in taken:
                if key <= last and (bodies or node.keys):
                    raise RefusedError("records do not come in the order of their keys", found=key.hex())
                last, fits = key, len(data) <= most
                if expiration:
                    flags = HAS_EXPIRATION | (EMBEDDED if fits else 0)
                    rare = encode_rare(flags, 0, None, 0, expiration, 0, -1)
                    bodies.append(encode_user_fields(flags, 0, db.id, _NO_TXN, rare, data, key))
                else:
                    bodies.append((embedded if fits else plain) + pack(len(data)) + data + key)
                # An embedded record is never read by its LSN (R-CLN-5).
                fitting.append(fits)
            for at, lsn in enumerate(writer.log_all(INS_LN, bodies, fitting)):
                key, data, expiration = taken[at]
                size = HEADER_BYTES + len(bodies[at])
                if expiration and ctx.expiring is not None:
                    ctx.expiring.expires(lsn, expiration, size)
                state, value = (SLOT_EMBEDDED, data) if fitting[at] else (0, None)
                node.put(len(node.keys), key, False, lsn, state, value, size, expiration)
            ctx.account(node)
