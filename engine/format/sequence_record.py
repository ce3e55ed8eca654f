"""The record of a sequence (``com.sleepycat.je.Sequence``), a record like any other in the application's database.

======  ========  ========================================================
bytes   form      what
======  ========  ========================================================
1       u8        version, 1; 0 has its three numbers as 8 bytes each
1       u8        flags: 0x01 ascending, 0x02 wraps, 0x04 exhausted
1 to 9  ``plong``  the smallest value of the range
1 to 9  ``plong``  the largest
1 to 9  ``plong``  the next value that no handle has taken
======  ========  ========================================================

Example: ``01 05 01 0a 06`` ascends from 1 to 10, and is exhausted at 6.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter

VERSION: Final = 1
_ASCENDS: Final = 0x01
_WRAPS: Final = 0x02
_EXHAUSTED: Final = 0x04


class SequenceRecord(NamedTuple):
    """The state of a sequence.

    Attributes:
        range_min, range_max: the smallest and the largest value.
        stored: the next value that no handle has taken.
        ascends: the values ascend; otherwise they descend.
        wraps: the sequence starts again after its last value.
        exhausted: the last value was returned to a caller, and the sequence does not wrap.
    """

    range_min: int
    range_max: int
    stored: int
    ascends: bool
    wraps: bool
    exhausted: bool


def decode_sequence(data: bytes) -> SequenceRecord:
    """Decode the record of a sequence.

    Raises:
        FormatError: the data is not the record of a sequence.
    """
    reader = ByteReader(data)
    version, flags = reader.u8(), reader.u8()
    if version > VERSION:
        raise FormatError("version of a sequence's record", expected=f"at most {VERSION}", found=str(version))
    read = reader.packed if version == VERSION else reader.i64
    range_min, range_max, stored = read(), read(), read()
    reader.finish()
    return SequenceRecord(
        range_min=range_min,
        range_max=range_max,
        stored=stored,
        ascends=bool(flags & _ASCENDS),
        wraps=bool(flags & _WRAPS),
        exhausted=bool(flags & _EXHAUSTED),
    )


def encode_sequence(record: SequenceRecord) -> bytes:
    """Encode the record of a sequence."""
    flags = _ASCENDS * record.ascends | _WRAPS * record.wraps | _EXHAUSTED * record.exhausted
    writer = ByteWriter().u8(VERSION).u8(flags)
    return writer.packed(record.range_min, record.range_max, record.stored).getvalue()
