"""The logical content of an entry of the replication stream: the parts that are equal on every node of a group
(R-SYNC-2).

The parts that each node decides for itself are left out: LSNs, the abort information that refers to a record's earlier
version, sizes and checksums, and whether data is embedded. The time and the DTVLSN of a Commit or Abort are also left
out, since JE does not compare them.
"""

from __future__ import annotations

from engine.format.codecs import decode_body
from engine.format.entry.ln import LN
from engine.format.entry.rollback import Matchpoint
from engine.format.entry.txn_end import TxnEnd

# Name and value of each part, in the order of comparison.
Content = tuple[tuple[str, object], ...]


def logical_content(type_number: int, version: int, body: bytes) -> Content:
    """The logical content of a replicated entry, without type and VLSN.

    Raises:
        FormatError: the body does not fit the type.
    """
    record: object = decode_body(type_number, version, body)
    if isinstance(record, LN):
        return (
            ("transaction", record.txn_id),
            ("database", record.db_id),
            ("key", record.key),
            ("data", record.data),
            ("expiration", record.expiration),
            ("content", record.content),
            ("operation", record.tail),
        )
    if isinstance(record, TxnEnd):
        return (("transaction", record.id), ("master", record.master_id))
    if isinstance(record, Matchpoint):
        return (("time", record.time), ("master", record.master_id))
    return (("body", body),)


def first_difference(one: Content, other: Content) -> str:
    """Name of the first part in which two contents differ; empty when they do not."""
    for (name, value), (_, second) in zip(one, other, strict=False):
        if value != second:
            return name
    return "" if len(one) == len(other) else "type"
