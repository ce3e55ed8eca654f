"""Converts entries of this node's log to the form sent by a feeder of JE (je-ha-protocol.md 6.2).

============================  =====================================================================
entry                         form
============================  =====================================================================
LN without abort information  as the log has it
other LN                      without LSNs and abort information
Commit, Abort                 without its last LSN; a null transaction, which has none, as the log has it
============================  =====================================================================

The table is for a stream of the log's own version, or of version 16 for a log of version 17: JE 18.3 agrees on that
with later nodes, bodies of LNs did not change from 16 to 17, and each entry states its own version. An entry of a later
version than the stream is rewritten: a replica of an earlier release gets no times, tombstones and terms, which its log
could not keep, and an operation with a before-image as one without.

Entries unknown to JE's replicas are never sent, since they would stop the replicas: Matchpoints, which masters of
jetool log at the start in groups of their own, and the old name of a database renamed by an earlier release of jetool.
"""

from __future__ import annotations

from typing import Final

from engine.errors import UnsupportedError
from engine.format.codecs import decode_body, encode_body
from engine.format.entry.ln import (
    BEFORE_IMAGE,
    BLIND_DELETION,
    HAS_ABORT_DATA,
    HAS_ABORT_KEY,
    HAS_EXPIRATION,
    LN,
    TOMBSTONE,
)
from engine.format.entry.ln_content import OPERATIONS, NameOperation
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import MATCHPOINT, NAME_LNS, TXN_ENDS, plain_type, type_name
from engine.format.lsn import NULL_LSN
from engine.format.versions import BEFORE_IMAGES, BLIND_DELETIONS, LN_FLAGS_FIRST, LN_KEY_FIRST, WRITTEN_VERSION
from engine.rep.wire.entries import WireEntry

# The highest version that JE 18.3 streams, whose log has version 17, and the lowest in which no entry loses data: JE
# 7.5, the oldest release in a group, reads 14.
_STREAM_OF_17: Final = 16
OLDEST_STREAM: Final = LN_FLAGS_FIRST
_ABORT_FLAGS: Final = HAS_ABORT_KEY | HAS_ABORT_DATA
_NULL_BYTE: Final = 0xFF
_OLDEST_ENTRY: Final = 8
# Marks of a record that every node has, unlike abort information, and the first version of each.
_SHARED_MARKS: Final = ((TOMBSTONE, LN_KEY_FIRST), (BLIND_DELETION, BLIND_DELETIONS), (BEFORE_IMAGE, BEFORE_IMAGES))


def newest_stream(log_version: int) -> int:
    """The highest version in which a node with a log of the given version feeds replicas."""
    return _STREAM_OF_17 if log_version == WRITTEN_VERSION else log_version


def outgoing(vlsn: int, type_number: int, version: int, body: bytes, stream: int) -> WireEntry:
    """The form in which an entry is sent.

    Arguments:
        version: of the body.
        stream: the agreed version.

    Raises:
        UnsupportedError: no replica of JE can replay it.
        FormatError: the body is malformed.
    """
    if type_number == MATCHPOINT or version < _OLDEST_ENTRY:
        raise _not_for_je(vlsn, type_number, f"log version {version}")
    if type_number in NAME_LNS:
        _check_name(vlsn, type_number, decode_body(type_number, version, body))
    if stream >= version or (stream >= _STREAM_OF_17 and version == WRITTEN_VERSION):
        # The first byte decides: a Commit or Abort without entries begins with the null LSN, and an LN with its flags.
        if type_number in TXN_ENDS:
            whole = body[0] == _NULL_BYTE
        else:
            whole = not body[0] & _ABORT_FLAGS
        if whole or version < _STREAM_OF_17:
            return WireEntry(vlsn, type_number, version, body)
    record, sent = decode_body(type_number, version, body), min(stream, version)
    if isinstance(record, LN):
        shared = sum(mark for mark, since in _SHARED_MARKS if sent >= since)
        # Fields excluded by the flags are not written, whatever their values.
        record = record._replace(flags=record.flags & HAS_EXPIRATION, flags2=record.flags2 & shared, last_lsn=NULL_LSN)
        if sent < BEFORE_IMAGES and plain_type(type_number) != type_number:
            type_number, record = plain_type(type_number), record._replace(tail=None)
    elif isinstance(record, TxnEnd):
        record = record._replace(last_lsn=NULL_LSN)
    return WireEntry(vlsn, type_number, sent, encode_body(type_number, sent, record))


def _check_name(vlsn: int, type_number: int, record: object) -> None:
    tail = record.tail if isinstance(record, LN) else None
    if isinstance(tail, NameOperation) and OPERATIONS[tail.operation] == "none":
        raise _not_for_je(vlsn, type_number, "the old name of a renamed database")


def _not_for_je(vlsn: int, type_number: int, found: str) -> UnsupportedError:
    return UnsupportedError(
        "the log has an entry that replicas of JE cannot take",
        expected="a log that was written by JE, or by jetool for a group of JE",
        found=f"VLSN {vlsn} {type_name(type_number)}: {found}",
        consequence="the replica is not fed, since it would stop",
        hint="jetool group reset makes a new group of this environment; a copy of its files has all records",
    )
