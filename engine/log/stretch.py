"""Entries that were checked and are still bytes: what a reader of few of them makes no object of the others for.

A ``Stretch`` holds plain entries in a row, each with the right checksum and link. Whoever looks for entries of some
types asks where they begin (``positions``), decides on their bytes, and makes an entry of those that are wanted
(``entry_at``).
"""

from __future__ import annotations

from typing import NamedTuple

from engine.format.fast.header import PLAIN_HEADER, header_lengths
from engine.format.fast.walks import sift
from engine.format.header import HEADER_BYTES, VLSN_AT, VLSN_FIELD
from engine.format.lsn import file_of, make_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry, log_entry


class Stretch(NamedTuple):
    """Plain entries of one file in a row.

    Attributes:
        lsn: that of the buffer's first byte.
        version: log version of the file.
        data: the buffer; it may hold more than the entries.
        start, end: where they begin and end in it.
        last: offset in the file of the last one.
        entries: how many there are.
        last_vlsn: of the last replicated one up to here, since the last entry that stood apart; NULL_VLSN without one.
    """

    lsn: int
    version: int
    data: bytes
    start: int
    end: int
    last: int
    entries: int
    last_vlsn: int

    @property
    def last_lsn(self) -> int:
        """LSN of the last entry."""
        return make_lsn(file_of(self.lsn), self.last)

    def positions(self, actions: list[int]) -> list[int]:
        """Where the entries begin in the buffer that ``actions`` keeps; from ``walks.keeping``."""
        found: list[int] = []
        sift(self.data, self.start, self.end, actions, header_lengths(self.version), found, [])
        return found

    def entry_at(self, pos: int) -> LogEntry:
        """The entry that begins at a position of the buffer."""
        return entry_at(self.data, pos, self.lsn, self.version)


def entry_at(data: bytes, pos: int, base_lsn: int, version: int) -> LogEntry:
    """The plain entry at a position of a buffer whose first byte has an LSN."""
    checksum, pair, prev, size = PLAIN_HEADER.unpack_from(data, pos)
    length = header_lengths(version)[pair]
    vlsn = NULL_VLSN if length == HEADER_BYTES else VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
    return log_entry(
        lsn=base_lsn + pos, type_number=pair & 0xFF, version=version, flags=pair >> 8, prev_offset=prev,
        item_size=size, vlsn=vlsn, checksum=checksum, checksum_ok=True, body=data[pos + length : pos + length + size],
    )  # fmt: skip
