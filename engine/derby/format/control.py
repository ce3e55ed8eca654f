"""The control file ``log.ctrl`` and its mirror: 48 bytes that name the last checkpoint.

======  ====  ==================================================================
offset  size  content
======  ====  ==================================================================
0       int   format id 128
4       int   9, obsolete version number
8       long  instant of the last complete checkpoint record, 0 = none yet
16      int   major version of the database
20      int   minor version
24      int   build number of the engine that wrote it, -1 = none
28      byte  flags: 1 beta, 2 was run at least once without syncing
29      3     0
32      long  0
40      long  CRC-32 of bytes 0 to 39
======  ====  ==================================================================

A file of 16 bytes (the first three fields) is older than any release that Derby 10.14 can boot (R-DRB-41).
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

from engine.derby.format.instant import NONE
from engine.errors import FormatError, plural

FORMAT_ID = 128
OBSOLETE_VERSION = 9
FLAG_BETA = 1
FLAG_NO_SYNC = 2

_LAYOUT = struct.Struct(">iiqiiib3sqQ")
SIZE = _LAYOUT.size
_CHECKED = SIZE - 8
assert SIZE == 48


class Control(NamedTuple):
    """The content of a control file, fields in on-disk order; the checksum is computed."""

    checkpoint: int = NONE
    major: int = 10
    minor: int = 14
    build: int = -1
    flags: int = 0
    spare: bytes = bytes(3)
    spare_long: int = 0


def decode(data: bytes) -> Control:
    """Decode a control file; FormatError if it is short, of another format or fails its checksum."""
    if len(data) < SIZE:
        raise FormatError("the control file is too short", expected=f"{SIZE} bytes", found=plural(len(data), "byte"))
    format_id, obsolete, checkpoint, major, minor, build, flags, spare, spare_long, checksum = _LAYOUT.unpack(
        data[:SIZE]
    )
    computed = zlib.crc32(data[:_CHECKED])
    if checksum != computed:
        raise FormatError("the checksum of the control file is wrong", expected=str(computed), found=str(checksum))
    if format_id != FORMAT_ID or obsolete != OBSOLETE_VERSION:
        raise FormatError("not a control file", expected="format id 128, number 9", found=f"{format_id}, {obsolete}")
    return Control(
        checkpoint=checkpoint,
        major=major,
        minor=minor,
        build=build,
        flags=flags & 0xFF,
        spare=spare,
        spare_long=spare_long,
    )


def stated_release(data: bytes) -> tuple[int, int] | None:
    """Major and minor version in a control file whose checksum is wrong, None when it is too short."""
    if len(data) < SIZE:
        return None
    fields = _LAYOUT.unpack(data[:SIZE])
    return int(fields[3]), int(fields[4])


def encode(control: Control) -> bytes:
    """The 48 bytes of a control file."""
    # Java's byte is signed.
    flags = control.flags - 256 if control.flags > 127 else control.flags
    data = _LAYOUT.pack(FORMAT_ID, OBSOLETE_VERSION, *control[:4], flags, control.spare, control.spare_long, 0)
    return data[:_CHECKED] + zlib.crc32(data[:_CHECKED]).to_bytes(8, "big")
