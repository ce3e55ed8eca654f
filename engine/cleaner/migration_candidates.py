"""The entries of a file that the cleaner has to process: all but the LNs that are known to be obsolete.

Most LNs of a file that is worth cleaning are recorded as obsolete, so this reads only the header and the first bytes of
each and makes no record. It runs for every LN of every cleaned file, and is compiled in the native build.

Example: ``INS a | INS b (offset recorded) | DEL c | BIN`` gives the positions of ``INS a`` and ``BIN``.
"""

from __future__ import annotations

from typing import Final

from engine.format.entry.ln import EMBEDDED
from engine.format.entry_types import COMMON_LNS, DB_TREE, DELETIONS, DUP_COUNT_LNS, LNS, TREE_NODE_ENTRIES
from engine.format.fast.header import header_lengths
from engine.format.fast.ln import database_at
from engine.format.header import FLAGS_AT, REPLICATED, TYPE_AT, is_invisible
from engine.format.lsn import offset_of
from engine.format.versions import LN_FLAGS_FIRST, LN_KEY_FIRST, PACKED_NUMBERS
from engine.log.passes import RangePiece, positions, raw_at

_WANTED: Final = (LNS - DUP_COUNT_LNS) | TREE_NODE_ENTRIES | {DB_TREE}
_LN: Final = 1
_DELETION: Final = 2
_COMMON: Final = 4
# Properties of each type, as bits.
_KINDS: Final = bytes(
    _LN * (number in LNS) | _DELETION * (number in DELETIONS) | _COMMON * (number in COMMON_LNS)
    for number in range(256)
)


class Sieve:
    """Selects the candidates in the pieces of one file.

    Arguments:
        offsets: offsets of its LNs and nodes that are recorded as obsolete.

    Attributes:
        obsolete: number of LNs skipped.
        db_ids: the databases of these LNs.
        unneeded: databases that need none of their LNs: they are gone, or their slots hold the whole records.
    """

    def __init__(self, offsets: set[int]) -> None:
        self._offsets = offsets
        self.obsolete = 0
        self.db_ids: set[int] = set()
        self.unneeded: set[int] = set()

    def sift(self, piece: RangePiece) -> list[int]:
        """The positions of the entries in a piece that have to be processed, ascending.

        Raises:
            FormatError, IndexError: an LN is too short.
        """
        data, version, base = piece.data, piece.version, offset_of(piece.lsn)
        lengths = header_lengths(version)
        flags_first = LN_FLAGS_FIRST <= version < LN_KEY_FIRST
        offsets, unneeded, db_ids = self._offsets, self.unneeded, self.db_ids
        found: list[int] = []
        for pos in positions(piece, _WANTED):
            number, flags = data[pos + TYPE_AT], data[pos + FLAGS_AT]
            if is_invisible(flags, version):
                continue
            kind = _KINDS[number]
            if kind & _LN:
                body = pos + lengths[number | flags << 8]
                if version < PACKED_NUMBERS:
                    raw = raw_at(piece, pos)
                    db_id = database_at(raw.body, 0, raw.version)
                else:
                    db_id = database_at(data, body, version)
                # An offset in the replication stream is not trusted: a rollback may restore the version.
                if (
                    kind & _DELETION
                    or (base + pos in offsets and not flags & REPLICATED)
                    or (flags_first and kind & _COMMON and data[body] & EMBEDDED)
                    or db_id in unneeded
                ):
                    self.obsolete += 1
                    db_ids.add(db_id)
                    continue
            found.append(pos)
        return found
