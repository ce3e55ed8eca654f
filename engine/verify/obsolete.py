"""The offsets of each log file that are recorded as obsolete: all offset lists of its FileSummaryLNs (R-CLN-12).

The lists of a file are read at its first query. The least recently used ones are dropped when all take more than about
16 MB, so memory does not grow with the log.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from typing import Final

from engine.errors import DamageError, FormatError, UnsupportedError
from engine.format.entry.ln_content import FileSummaryLN
from engine.format.lsn import file_of, offset_of
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.tree import find_bin, next_bin, read_ln

_MOST_OFFSETS: Final = 4 << 20


def next_summary(ctx: TreeContext, utilization: DatabaseState, number: int) -> int | None:
    """The first file, from a number on, that has a summary in the utilization database, or None.

    Summaries of cleaned files are deleted.

    Raises:
        DamageError, FormatError: the database cannot be read.
    """
    prefix = number.to_bytes(4, "big")
    node = find_bin(ctx, utilization, prefix)
    while node is not None:
        for index, key in enumerate(node.keys):
            if key[:4] >= prefix and node.is_live(index):
                return int.from_bytes(key[:4], "big")
        node = next_bin(ctx, node)
    return None


class ObsoleteOffsets:
    """Answers whether an LSN is recorded as obsolete.

    Arguments:
        ctx: the trees.
        utilization: the utilization database; None if the environment has no such database.
    """

    def __init__(self, ctx: TreeContext, utilization: DatabaseState | None) -> None:
        self._ctx = ctx
        self._state = utilization
        self._files: OrderedDict[int, array[int]] = OrderedDict()
        self._held = 0

    def __contains__(self, lsn: int) -> bool:
        offsets = self._of(file_of(lsn))
        index = bisect_left(offsets, offset_of(lsn))
        return index < len(offsets) and offsets[index] == offset_of(lsn)

    def between(self, lsn: int, size: int) -> array[int]:
        """Obsolete offsets in a range of bytes, ascending, relative to the LSN at which it starts."""
        offsets, first = self._of(file_of(lsn)), offset_of(lsn)
        found = offsets[bisect_left(offsets, first) : bisect_left(offsets, first + size)]
        return found if not first else array(found.typecode, [offset - first for offset in found])

    def _of(self, number: int) -> array[int]:
        """The obsolete offsets of a file, ascending; one may be there twice."""
        known = self._files.get(number)
        if known is not None:
            self._files.move_to_end(number)
            return known
        found = self._read(number)
        # The lists of a file are ascending, so sorting merges them.
        found.sort()
        offsets = array("Q", found)
        self._files[number] = offsets
        self._held += len(offsets)
        # The newest list is kept whatever its size, because it is the one in use.
        while self._held > _MOST_OFFSETS and len(self._files) > 1:
            self._held -= len(self._files.popitem(last=False)[1])
        return offsets

    def _read(self, number: int) -> list[int]:
        found: list[int] = []
        prefix = number.to_bytes(4, "big")
        try:
            node = find_bin(self._ctx, self._state, prefix) if self._state is not None else None
            while node is not None and self._state is not None:
                for index, key in enumerate(node.keys):
                    if key[:4] == prefix and node.is_live(index):
                        content = read_ln(self._ctx, self._state, node.lsns[index]).content
                        if isinstance(content, FileSummaryLN):
                            found += content.offsets
                # Keys are file number and sequence, so the first key of another file ends the list.
                if len(node) and node.keys[-1][:4] > prefix:
                    break
                node = next_bin(self._ctx, node)
        except (DamageError, FormatError, UnsupportedError):
            # The walk over the utilization database reports the damage.
            return found
        return found
