"""Decodes messages of a stream in bulk: entries directly from the bytes, without a message object for each.

General twin: ``messages.Table.decode``, which decodes all frames other than a regular Entry or Commit
(je-ha-protocol.md 5.3 and 6). A Commit that awaits an acknowledgement stays a message; for others the sync policy is
checked and dropped. ``join_stream`` is the feeder's side: bytes to send are verified by decoding them with the same
function.

======  =====  ===================================================
offset  type   frame of an Entry; a Commit has 2 bytes more at 6
======  =====  ===================================================
0       i16    operation code
2       i32    length of the body
6       u8     type of the entry
7       i32    log version
11      i32    length of its body
15      i64    VLSN
23             the body
======  =====  ===================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from engine.errors import FormatError
from engine.format.entry_types import COMMIT, ENTRY_TYPES
from engine.format.versions import NEWEST_VERSION
from engine.rep.wire.entries import WireEntry, first_streamed
from engine.rep.wire.feeder import FEEDER, NO_SYNC, WRITE_NO_SYNC, Commit, Entry
from engine.rep.wire.messages import FRAME, Message

Arrived = WireEntry | Message
_HEAD: Final = Struct("<BiiQ")
_FRAME_BYTES: Final = FRAME.size
_CARRIERS: Final = (Entry.OP, Commit.OP)
# needsAck and sync policy.
_COMMIT_BYTES: Final = 2
_NOT_AWAITED: Final = bytes((0, NO_SYNC))
_SINCE: Final = {kind.number: first_streamed(kind) for kind in ENTRY_TYPES if kind.replicable}
# Makes a record without calling its constructor, which matters for millions of records.
_new_tuple: Final = tuple.__new__


def split_stream(data: bytes, version: int) -> tuple[list[Arrived], int]:
    """Decode the complete messages at the start of received bytes of a feeder.

    Arguments:
        data: the buffer; it begins with a frame.
        version: of the protocol.

    Returns:
        Entries for the messages of a running stream that carry them, other messages unchanged; and their size in bytes.

    Raises:
        FormatError: a feeder does not send such a message, or it is malformed or too long.
    """
    found: list[Arrived] = []
    at, end = 0, len(data)
    while end - at >= _FRAME_BYTES:
        op, length = FRAME.unpack_from(data, at)
        body = at + _FRAME_BYTES
        after = body + length
        if op in _CARRIERS and 0 <= length <= Entry.LIMIT:
            if after > end:
                break
            entry = _entry(data, body + _COMMIT_BYTES if op == Commit.OP else body, after)
            plain = op == Entry.OP or (length >= _COMMIT_BYTES and not data[body] and data[body + 1] <= WRITE_NO_SYNC)
            if entry is not None and plain:
                found.append(entry)
                at = after
                continue
        limit = FEEDER.limit(op, version, client=False)
        # Check the length before waiting for so long a message.
        if not 0 <= length <= limit:
            raise FormatError(f"message {op} of {FEEDER.service}", expected=f"0..{limit} bytes", found=str(length))
        if after > end:
            break
        message = FEEDER.decode(op, data[body:after], version, client=False)
        found.append(carried(message))
        at = after
    return found, at


def carried(message: Message) -> Arrived:
    """The entry of a message of the stream; the message itself if it awaits an acknowledgement."""
    if isinstance(message, Entry) or (isinstance(message, Commit) and not message.needs_ack):
        return message.entry
    return message


def join_stream(sent: Sequence[WireEntry | Commit], version: int) -> bytes:
    """Encode messages of a feeder: a Commit that awaits an acknowledgement is given as a message, others as entries.

    Raises:
        FormatError: a message does not decode to an equal one, or is not an entry of a stream.
    """
    frames: list[bytes] = []
    for one in sent:
        if isinstance(one, Commit):
            frames.append(FEEDER.encode(one, version, client=False))
            continue
        vlsn, type_number, log_version, body = one
        length = _HEAD.size + len(body)
        if type_number == COMMIT:
            frames.append(FRAME.pack(Commit.OP, length + _COMMIT_BYTES) + _NOT_AWAITED)
        else:
            frames.append(FRAME.pack(Entry.OP, length))
        frames.append(_HEAD.pack(type_number, log_version, len(body), vlsn))
        frames.append(body)
    data = b"".join(frames)
    found, taken = split_stream(data, version)
    if found != list(sent) or taken != len(data):
        raise FormatError("entries do not survive their encoding", found=f"{len(found)} of {len(sent)}")
    return data


def _entry(data: bytes, at: int, end: int) -> WireEntry | None:
    """Decode an entry; None if the general decoder must report the error."""
    if end - at < _HEAD.size:
        return None
    type_number, log_version, length, vlsn = _HEAD.unpack_from(data, at)
    at += _HEAD.size
    since = _SINCE.get(type_number)
    if since is None or not since <= log_version <= NEWEST_VERSION or length != end - at or not 0 < vlsn < 1 << 63:
        return None
    return _new_tuple(WireEntry, (vlsn, type_number, log_version, data[at:end]))
