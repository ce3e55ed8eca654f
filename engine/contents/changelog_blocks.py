"""Log files of OpenDJ's replication changelog: records across blocks of 256 bytes (opendj-changelog.md 2).

A record is a length of 4 bytes and as many bytes. At each multiple of 256, except 0, a pointer of 4 bytes interrupts
whatever is written there. It holds the distance back to the start of the record that it interrupts; it is 0 if a record
begins at the border. The server searches by pointers and reads by lengths, so the two must agree.

A length that is not positive, or leads past the end of the file, begins damage; so does a record that cannot be
decoded, if a pointer in it leads to another record. The damage extends to the next record that a pointer leads to. If
no pointer leads to one, the file ends inside a record, or with bytes that were never a record.

Example::

    data = frame_records([b"first", b"second"])
    assert [one.data for one in framed(data, bool).records] == [b"first", b"second"]
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

BLOCK: Final = 256
POINTER_BYTES: Final = 4
LENGTH_BYTES: Final = 4
_ROOM: Final = BLOCK - POINTER_BYTES
# Bytes that the search for records after damage may look at, per byte of the file, and in short files.
_WORK_PER_BYTE: Final = 16
_LEAST_WORK: Final = 1 << 20


class FramedRecord(NamedTuple):
    """A record: the offsets of its first byte and of the byte after it, and its bytes without length and pointers."""

    at: int
    end: int
    data: bytes


class DamagedBytes(NamedTuple):
    """Bytes from ``at`` to ``end`` that are no record, and the length that stands there; None if it is cut off."""

    at: int
    end: int
    length: int | None


class WrongPointer(NamedTuple):
    """A pointer at offset ``at``; the record that it interrupts begins ``expected`` bytes before, not ``found``."""

    at: int
    expected: int
    found: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedFile:
    """A log file.

    Attributes:
        records: the records, in the order of the file.
        damaged: damage that records follow.
        pointers: pointers that do not lead to the record that they interrupt.
        tail: the bytes after the last record, from its end to that of the file; None if there are none.
    """

    records: Sequence[FramedRecord]
    damaged: Sequence[DamagedBytes]
    pointers: Sequence[WrongPointer]
    tail: DamagedBytes | None


def framed(data: bytes, decodes: Callable[[bytes], bool]) -> FramedFile:
    """Divide a log file into records.

    Arguments:
        data: the file.
        decodes: whether bytes are a record. Other bytes are damage up to the next pointer among them that
            leads to a record; without such a pointer they count as a record.
    """
    plain, pointers = _without_pointers(data)
    search = _Search(plain, pointers, decodes)
    records: list[FramedRecord] = []
    damaged: list[DamagedBytes] = []
    at, tail = 0, None
    while at < len(plain):
        end = _end_of(plain, at)
        following = None
        if end is None or not decodes(plain[at + LENGTH_BYTES : end]):
            following = search.next_start(at, end)
        length = _length(plain, at) if len(plain) - at >= LENGTH_BYTES else None
        if following is not None:
            damaged.append(DamagedBytes(_place(at), _place(following), length))
            at = following
        elif end is not None:
            records.append(FramedRecord(_place(at), _place(end), plain[at + LENGTH_BYTES : end]))
            at = end
        else:
            tail = DamagedBytes(_place(at), len(data), length)
            break
    if tail is None and _place(at) < len(data):
        # The file ends inside a pointer, or after one.
        tail = DamagedBytes(_place(at), len(data), None)
    return FramedFile(records=records, damaged=damaged, pointers=_wrong(records, pointers), tail=tail)


def _without_pointers(data: bytes) -> tuple[bytes, list[int]]:
    """The bytes between the pointers, and the whole pointers, one for each block after the first."""
    blocks = range(BLOCK, len(data), BLOCK)
    plain = b"".join((data[:BLOCK], *(data[at + POINTER_BYTES : at + BLOCK] for at in blocks)))
    whole = (at for at in blocks if at + POINTER_BYTES <= len(data))
    return plain, [struct.unpack_from(">i", data, at)[0] for at in whole]


def _length(plain: bytes, at: int) -> int:
    return int.from_bytes(plain[at : at + LENGTH_BYTES], "big", signed=True)


def _end_of(plain: bytes, at: int) -> int | None:
    """The end of the record at a place between the pointers; None if there is no whole record."""
    length = _length(plain, at)
    end = at + LENGTH_BYTES + length
    return end if length > 0 and at + LENGTH_BYTES < end <= len(plain) else None


def _place(at: int) -> int:
    """The place in the file after ``at`` bytes that are no pointers; at a border, the place before the pointer."""
    if at < BLOCK:
        return at
    block, rest = divmod(at - BLOCK, _ROOM)
    return (block + 1) * BLOCK + (POINTER_BYTES + rest if rest else 0)


def _plain(place: int) -> int:
    """The number of bytes before a place in the file that are no pointers."""
    return place - min(place // BLOCK * POINTER_BYTES, place) + (POINTER_BYTES if place and place % BLOCK == 0 else 0)


class _Search:
    """The search for records after damage. Its work is bounded by the length of the file: pointers may be forged."""

    def __init__(self, plain: bytes, pointers: Sequence[int], decodes: Callable[[bytes], bool]) -> None:
        self._plain = plain
        self._pointers = pointers
        self._decodes = decodes
        self._left = _LEAST_WORK + _WORK_PER_BYTE * len(plain)

    def next_start(self, after: int, before: int | None) -> int | None:
        """The next record that a pointer leads to, as a place between the pointers.

        Arguments:
            after: only records after this place.
            before: only pointers before this place; None without a bound.
        """
        bound = None if before is None else _place(before)
        for block in range(max(_place(after) // BLOCK, 1), len(self._pointers) + 1):
            border, distance = block * BLOCK, self._pointers[block - 1]
            self._left -= BLOCK
            if self._left < 0 or (bound is not None and border >= bound):
                return None
            if not 0 <= distance <= border:
                continue
            start = _plain(border - distance)
            end = _end_of(self._plain, start)
            if start > after and end is not None and self._is_record(start, end):
                return start
        return None

    def _is_record(self, start: int, end: int) -> bool:
        self._left -= end - start
        return self._left >= 0 and self._decodes(self._plain[start + LENGTH_BYTES : end])


def _wrong(records: Iterable[FramedRecord], pointers: Sequence[int]) -> list[WrongPointer]:
    found = []
    for one in records:
        first = -(-one.at // BLOCK) if one.at else 1
        for block in range(first, (one.end - 1) // BLOCK + 1):
            expected = block * BLOCK - one.at
            if pointers[block - 1] != expected:
                found.append(WrongPointer(block * BLOCK, expected, pointers[block - 1]))
    return found


class TailRecovery(NamedTuple):
    """What the server does with a ``head.log`` when it opens it.

    Attributes:
        opens: False if it refuses the file, and with it the changelog.
        cut_at: the length to which it cuts the file; None if it cuts nothing.
        inside: the start of the record inside which it cuts; None if it cuts at the end of a record.
    """

    opens: bool
    cut_at: int | None
    inside: int | None


_REFUSED: Final = TailRecovery(False, None, None)


def tail_recovery(data: bytes, decodes: Callable[[bytes], bool]) -> TailRecovery:
    """What the server does with the end of ``head.log``: it begins at the last pointer of the file, and reads on.

    If the last record crosses that border and is not whole, the server cuts the file at the border, inside the record.
    The next record is then appended to the rest of that one, and cannot be read by its length.

    Arguments:
        data: the file.
        decodes: whether the server can decode a record. It refuses a file whose last records it cannot decode.
    """
    walk = _from_last_border(data)
    if walk is None or not all(decodes(record) for record, _ in walk.records):
        return _REFUSED
    valid = walk.records[-1][1] if walk.records else walk.border
    if valid == len(data):
        return TailRecovery(True, None, None)
    # The server reads the newest record of the file that it has cut.
    after = _from_last_border(data[:valid])
    opens = after is not None and all(decodes(record) for record, _ in after.records[-1:])
    return TailRecovery(opens, valid, walk.start if not walk.records and walk.start < walk.border else None)


class _Walk(NamedTuple):
    """Records from the last border: the border, the start of the first one, and each record with its end."""

    border: int
    start: int
    records: list[tuple[bytes, int]]


def _from_last_border(data: bytes) -> _Walk | None:
    """Read as the server does at the end of a file; None where it fails."""
    border = (max(len(data), 1) - 1) // BLOCK * BLOCK
    start = border
    if border:
        if len(data) - border < POINTER_BYTES:
            return None
        start -= max(int.from_bytes(data[border : border + POINTER_BYTES], "big", signed=True), 0)
        if start < 0:
            return None
    plain, _ = _without_pointers(data)
    at, records = _plain(start), []
    while at + LENGTH_BYTES <= len(plain):
        end = at + LENGTH_BYTES + _length(plain, at)
        if end < at + LENGTH_BYTES:
            return None
        if end > len(plain):
            break
        records.append((plain[at + LENGTH_BYTES : end], _place(end)))
        at = end
    return _Walk(border, start, records)


def frame_records(records: Iterable[bytes]) -> bytes:
    """A log file with these records; for tests and examples."""
    out = bytearray()
    for record in records:
        rest = len(record).to_bytes(LENGTH_BYTES, "big") + record
        start = len(out)
        while rest:
            if out and len(out) % BLOCK == 0:
                out += (len(out) - start).to_bytes(POINTER_BYTES, "big")
            room = BLOCK - len(out) % BLOCK
            out += rest[:room]
            rest = rest[room:]
    return bytes(out)
