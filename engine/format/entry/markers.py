"""Entries that mark a state of the log: ImmutableFile (38), RestoreRequired (39), Erased (43).

* ImmutableFile: one filler byte, written as 42. A writer that finds it at the end of a file must start a new file.
* RestoreRequired: failure type, time, properties as text. Alone in the file ``7fffffff.jdb`` (je-log-format.md 2.4).
* Erased: zeros in place of an obsolete entry. The header keeps all fields of the old entry except the type, including
  the checksum, which therefore does not match. After a crash only a part of the body may be zero.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.fields import Shape, shape


class ImmutableFile(NamedTuple):
    """The last entry of a file that must not change because a backup has copied it."""

    filler: int


class RestoreRequired(NamedTuple):
    """The reason why JE refuses to open the environment."""

    failure_type: str
    time: int
    properties: str


class ErasedEntry(NamedTuple):
    """The rest of an erased entry; ``nonzero_bytes`` counts bytes that are not zero yet."""

    content: bytes

    @property
    def nonzero_bytes(self) -> int:
        """The number of bytes in the body that the eraser has not reached."""
        return len(self.content) - self.content.count(0)


IMMUTABLE_FILE: Final[Shape] = shape(ImmutableFile, "filler:int")
RESTORE_REQUIRED: Final[Shape] = shape(RestoreRequired, "failure_type:text time:time properties:text")
ERASED: Final[Shape] = shape(ErasedEntry, "content:bytes")


def decode_immutable_file(body: bytes, version: int) -> ImmutableFile:
    """Decode an ImmutableFile body, since v11."""
    reader = ByteReader(body)
    record = ImmutableFile(reader.u8())
    reader.finish()
    return record


def encode_immutable_file(record: ImmutableFile, version: int) -> bytes:
    """Encode an ImmutableFile body."""
    return bytes((record.filler,))


def decode_restore_required(body: bytes, version: int) -> RestoreRequired:
    """Decode a RestoreRequired body, since v14."""
    reader = ByteReader(body)
    record = RestoreRequired(reader.string(), reader.packed(), reader.string())
    reader.finish()
    return record


def encode_restore_required(record: RestoreRequired, version: int) -> bytes:
    """Encode a RestoreRequired body."""
    return ByteWriter().string(record.failure_type).packed(record.time).string(record.properties).getvalue()


def decode_erased(body: bytes, version: int) -> ErasedEntry:
    """Decode the body of an Erased entry, since v17; it is kept as it is."""
    return ErasedEntry(body)


def encode_erased(record: ErasedEntry, version: int) -> bytes:
    """The body of an Erased entry."""
    return record.content
