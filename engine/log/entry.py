"""The items of a pass over a log: entries, and stretches of damage between them.

Callers that need few entries use stretches of plain entries, checked for checksum and link but not decoded:
``Stretch.positions`` gives the positions of entries of some types, and ``entry_at`` makes an entry of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.format.codecs import Record, decode_body, readable_body
from engine.format.entry_types import FILE_HEADER, type_name
from engine.format.fast.header import PLAIN_HEADER, header_lengths
from engine.format.fast.loops import NO_TALLIES, keeping
from engine.format.fast.walks import sift
from engine.format.header import (
    HEADER_BYTES,
    REPLICATED,
    VERSION_BITS_V6,
    VLSN_AT,
    VLSN_FIELD,
    EntryHeader,
    Provisional,
    header_bytes,
    is_invisible,
    provisional_of,
)
from engine.format.lsn import NULL_LSN, file_of, format_lsn, make_lsn, offset_of
from engine.format.versions import INVISIBLE_BIT, PACKED_NUMBERS
from engine.format.vlsn import NULL_VLSN

_new_tuple: Final = tuple.__new__

# Reasons for damage; also used in finding messages and NDJSON records.
REASONS: Final[dict[str, str]] = {
    "type": "no known entry type",
    "size": "a negative item size",
    "checksum": "wrong checksum",
    "prev-offset": "the entry does not point back to the one before it",
    "cut": "the file ends inside the entry",
    "header": "the file header is damaged",
    "short": "the file is shorter than a file header",
    "file-number": "the file header names another file number",
}

# How the entry after damage was found.
BY_SIZE_CHAIN: Final = "size chain"
BY_PREV_OFFSET: Final = "prev-offset chain"
BY_SEARCH: Final = "search"
BY_NEXT_FILE: Final = "next file"
AT_END_OF_LOG: Final = "end of log"


class LogEntry(NamedTuple):
    """One entry, its body not decoded. ``log_entry`` creates one faster.

    Attributes:
        lsn: the position of its header.
        version: the log version whose layout the body has: that of the file, but 6 for the translated body of an entry
            of v1 to v5.
        flags: the flags byte of the header.
        prev_offset: offset of the previous entry in the same file.
        item_size: size of the body in the log.
        vlsn: NULL_VLSN if the entry has no VLSN.
        checksum_ok: None for erased entries, whose checksum has no meaning.
    """

    lsn: int
    type_number: int
    version: int
    flags: int
    prev_offset: int
    item_size: int
    vlsn: int
    checksum: int
    checksum_ok: bool | None
    body: bytes

    @property
    def type_name(self) -> str:
        """JE's name of the type."""
        return type_name(self.type_number)

    @property
    def own_version(self) -> int:
        """The version that JE prints after the name of the type: until v6 the flags hold it."""
        if self.version >= INVISIBLE_BIT or self.type_number == FILE_HEADER:
            return self.version
        return self.flags & VERSION_BITS_V6

    @property
    def provisional(self) -> Provisional:
        """Whether recovery replays it."""
        return provisional_of(self.flags)

    @property
    def replicated(self) -> bool:
        """Whether the entry is part of the replication stream."""
        return bool(self.flags & REPLICATED)

    @property
    def invisible(self) -> bool:
        """Whether replication rolled the entry back."""
        return is_invisible(self.flags, self.version)

    @property
    def total_bytes(self) -> int:
        """Size of header and body."""
        length = header_bytes(self.flags, self.version)
        return length + self.item_size

    def record(self) -> Record:
        """The decoded body.

        Raises:
            FormatError: the body does not fit its type.
        """
        return decode_body(self.type_number, self.version, self.body)


def readable_entry(
    file_version: int,
    header: EntryHeader,
    lsn: int,
    body: bytes,
    checksum_ok: bool | None,
) -> LogEntry:
    """The entry with a header and a body as they are in the log; a body of v1 to v5 is translated."""
    number, flags = header.type_number, header.flags
    version = file_version
    if file_version < PACKED_NUMBERS:
        version, body = readable_body(number, file_version, flags & VERSION_BITS_V6, body)
    return log_entry(
        lsn=lsn,
        type_number=number,
        version=version,
        flags=flags,
        prev_offset=header.prev_offset,
        item_size=header.item_size,
        vlsn=header.vlsn,
        checksum=header.checksum,
        checksum_ok=checksum_ok,
        body=body,
    )


def log_entry(
    lsn: int,
    type_number: int,
    version: int,
    flags: int,
    prev_offset: int,
    item_size: int,
    vlsn: int,
    checksum: int,
    checksum_ok: bool | None,
    body: bytes,
) -> LogEntry:
    """Same as ``LogEntry(...)``, in half the time; for code that runs for every entry."""
    return _new_tuple(
        LogEntry,
        (lsn, type_number, version, flags, prev_offset, item_size, vlsn, checksum, checksum_ok, body),
    )


class Damage(NamedTuple):
    """A stretch of a file without valid entries, or (with length 0) a broken link between two good ones.

    Attributes:
        lsn: start of the stretch.
        length: bytes up to the next good entry or the end of the file.
        path: the file, relative to the environment.
        reason: a key of REASONS.
        expected, found: the numbers that the reason refers to, as text.
        type_number: the type in the header of the damaged entry; 0 if it has no readable header.
        next_lsn: the next good entry in the file; NULL_LSN if there is none.
        found_by: how that entry was found.
        is_tail: no good entry follows in the last file: a torn end of the log, unless other evidence shows a loss.
    """

    lsn: int
    length: int
    path: str
    reason: str
    expected: str
    found: str
    type_number: int
    next_lsn: int
    found_by: str
    is_tail: bool

    @property
    def where(self) -> str:
        """File and LSN for messages."""
        return f"{self.path} at {format_lsn(self.lsn)}"

    @property
    def end_lsn(self) -> int:
        """The first byte after the damage."""
        return (file_of(self.lsn) << 32) | (offset_of(self.lsn) + self.length)

    @property
    def has_next(self) -> bool:
        """Whether a good entry follows in the same file."""
        return self.next_lsn != NULL_LSN


class Stretch(NamedTuple):
    """Consecutive plain entries of one file.

    Attributes:
        lsn: LSN of the buffer's first byte.
        version: log version of the file.
        data: the buffer; it may contain more than the entries.
        start, end: bounds of the entries in it.
        last: file offset of the last entry.
        entries: number of entries.
        pairs: the values of ``type | flags << 8`` that occur.
        last_vlsn: VLSN of the last replicated entry since the last item that was not a stretch; NULL_VLSN if there is
            no such entry.
    """

    lsn: int
    version: int
    data: bytes
    start: int
    end: int
    last: int
    entries: int
    pairs: tuple[int, ...]
    last_vlsn: int

    @property
    def last_lsn(self) -> int:
        """LSN of the last entry."""
        return make_lsn(file_of(self.lsn), self.last)

    def positions(self, actions: list[int]) -> list[int]:
        """The buffer positions of the entries that ``actions`` keeps; see ``walks.keeping``."""
        found: list[int] = []
        if any(actions[pair] for pair in self.pairs):
            sift(self.data, self.start, self.end, actions, header_lengths(self.version), found, NO_TALLIES)
        return found

    def entries_of(self, types: frozenset[int] | None) -> Iterator[LogEntry]:
        """The entries of some types; None for all."""
        return map(self.entry_at, self.positions(keeping(types)))

    def entry_at(self, pos: int) -> LogEntry:
        """The entry that begins at a position of the buffer."""
        return entry_at(self.data, pos, self.lsn, self.version)


def entry_at(data: bytes, pos: int, base_lsn: int, version: int) -> LogEntry:
    """The plain entry at a position of a buffer; ``base_lsn`` is the LSN of the buffer's first byte."""
    checksum, pair, prev, size = PLAIN_HEADER.unpack_from(data, pos)
    length = header_lengths(version)[pair]
    vlsn = NULL_VLSN if length == HEADER_BYTES else VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
    return log_entry(
        lsn=base_lsn + pos,
        type_number=pair & 0xFF,
        version=version,
        flags=pair >> 8,
        prev_offset=prev,
        item_size=size,
        vlsn=vlsn,
        checksum=checksum,
        checksum_ok=True,
        body=data[pos + length : pos + length + size],
    )
