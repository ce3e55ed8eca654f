"""Trace (24): a message that JE left in the log, such as "Recovery underway, valid end of log = 0x0/0x66cc".

=======  ========
time     time
message  string
=======  ========
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.fields import Shape, shape
from engine.format.versions import PACKED_NUMBERS


class Trace(NamedTuple):
    """A message with its time (ms)."""

    time: int
    message: str


TRACE: Final[Shape] = shape(Trace, "time:time message:text")


def decode_trace(body: bytes, version: int) -> Trace:
    """Decode a Trace body, any version."""
    reader = ByteReader(body)
    record = Trace(reader.packed(), reader.string())
    reader.finish()
    return record


def encode_trace(record: Trace, version: int) -> bytes:
    """Encode a Trace body of any version."""
    if version < PACKED_NUMBERS:
        text = record.message.encode("utf-8", "surrogateescape")
        return ByteWriter().i64(record.time).i32(len(text)).raw(text).getvalue()
    return ByteWriter().packed(record.time).string(record.message).getvalue()
