"""Service ``LDiff``: digests of the records of a database, block by block, and the records of a block.

There is no agreement on a version. A connection serves one database: the client asks for its blocks, and after the last
block for the records of any of them, until it sends ``Done``. A block is described by its first record and by digests
of its records; each record counts as its key and its data, without their lengths. JE 18.3 sends MD5 digests, JE 25.3
SHA-256 digests.

JE declares the number of records in ``RecordsRequest`` with eight bytes and reads four of them.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from itertools import count, islice
from typing import Annotated, Final

from engine.errors import FormatError
from engine.rep.wire.messages import Message, Table, message
from engine.rep.wire.values import BYTES, INT, LONG, TEXT, Value

VERSION: Final = 2
# The number of records in a request for all records up to the end of the database.
TO_THE_END: Final = -1
# The length of a digest, and the algorithm.
DIGESTS: Final = {16: "md5", 32: "sha256"}
# A record: key and data.
_LONGEST: Final = 160 << 20
_HALF: Final = 1 << 31
_WORD: Final = 1 << 32
_LOW: Final = _WORD - 1


def _digest(data: bytes) -> bytes:
    if len(data) not in DIGESTS:
        raise FormatError("length of a digest", expected="16 or 32", found=str(len(data)))
    return data


_DIGEST: Final[Value[bytes]] = Value(
    lambda reader: _digest(BYTES.read(reader)), lambda writer, data: BYTES.write(writer, _digest(data))
)


@message(1)
class BlocksRequest(Message):
    """Request for the blocks of a database."""

    database: Annotated[str, TEXT]
    block_records: Annotated[int, INT]


@message(2)
class NoSuchDatabase(Message):
    """The node does not have the database."""

    text: Annotated[str, TEXT]


@message(3)
class BlocksStart(Message):
    """The blocks follow."""


@message(4, limit=_LONGEST)
class Block(Message):
    """A block: its number from 0, its first record, and digests of all its records."""

    number: Annotated[int, INT]
    key: Annotated[bytes, BYTES]
    data: Annotated[bytes, BYTES]
    digest: Annotated[bytes, _DIGEST]
    checksum: Annotated[int, LONG]


@message(5)
class BlocksEnd(Message):
    """There are no more blocks."""


@message(6)
class CountRequest(Message):
    """Request for the number of databases."""


@message(7)
class DatabaseCount(Message):
    """The number of databases of applications."""

    databases: Annotated[int, INT]


@message(8, limit=_LONGEST)
class RecordsRequest(Message):
    """Request for some records from a record on."""

    key: Annotated[bytes, BYTES]
    data: Annotated[bytes, BYTES]
    records: Annotated[int, LONG]


@message(9, limit=_LONGEST)
class BlockRecord(Message):
    """A record, in no particular order; its VLSN, or -1."""

    key: Annotated[bytes, BYTES]
    data: Annotated[bytes, BYTES]
    vlsn: Annotated[int, LONG]


@message(10)
class RecordsStart(Message):
    """The records follow."""


@message(11)
class RecordsEnd(Message):
    """There are no more records."""


@message(12)
class ComparisonDone(Message):
    """The client needs no more records."""


@message(13)
class BlocksError(Message):
    """The node cannot read the requested records."""

    text: Annotated[str, TEXT]


@message(1004)
class BlocksProtocolError(Message):
    """The node did not expect the request."""

    text: Annotated[str, TEXT]


RECORD_BLOCKS: Final = Table(
    "LDiff",
    client=(BlocksRequest, CountRequest, RecordsRequest, ComparisonDone),
    server=(
        NoSuchDatabase,
        BlocksStart,
        Block,
        BlocksEnd,
        DatabaseCount,
        BlockRecord,
        RecordsStart,
        RecordsEnd,
        BlocksError,
        BlocksProtocolError,
    ),
)


class BlockDigest:
    """The digests of a block, record by record.

    Arguments:
        algorithm: one of ``DIGESTS``.

    Attributes:
        records: number of records so far.
    """

    def __init__(self, algorithm: str) -> None:
        self._digest = hashlib.new(algorithm, usedforsecurity=False)
        self._low = self._high = 0
        self.records = 0

    def add(self, key: bytes, data: bytes) -> None:
        """Count the next record."""
        self._digest.update(key)
        self._digest.update(data)
        self._low += zlib.adler32(data, zlib.adler32(key))
        self._high += self._low
        self.records += 1

    @property
    def value(self) -> tuple[bytes, int]:
        """The digest, and the rolling checksum: rsync's, in which the Adler-32 checksum of a record takes the place of
        a byte. Its two sums of 32 bits are one signed number.
        """
        high = self._high & _LOW
        return self._digest.digest(), (self._low & _LOW) + ((high - _WORD if high >= _HALF else high) << 32)


def blocks_of(records: Iterator[tuple[bytes, bytes]], block_records: int, algorithm: str) -> Iterator[Block]:
    """The blocks of a database.

    Arguments:
        records: all records, in order.
        block_records: number of records of each block but the last.
        algorithm: one of ``DIGESTS``.
    """
    for number in count():
        first = next(records, None)
        if first is None:
            return
        found = BlockDigest(algorithm)
        found.add(*first)
        for record in islice(records, block_records - 1):
            found.add(*record)
        digest, checksum = found.value
        yield Block(number=number, key=first[0], data=first[1], digest=digest, checksum=checksum)
