"""Did two processes write one log file?

``je.lck`` excludes a second writer. If it was deleted, or the file system has no locks, two processes append to the
same file, each at its own offsets, and overwrite each other's entries. The file then consists of pieces of two chains
of prevOffsets. The first intact entry of a piece points back to an entry that the other writer has overwritten. It may
point into the middle of an intact entry before the damage, which no damage explains, or into the middle of the damaged
entry. The latter can have another cause, a damaged size and a second damaged entry, so one such place is no proof.
Ordinary damage looks different: the entry after it points to the damaged entry.

Old bytes that reappear (sectors of a lost write, a file restored in part) look the same.

Example: ``a@100 a@160 (damage@220..240) b@240 (prev 190)``: the second ``a`` has overwritten the entry at 190.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.header import BAD_PREV, GOOD, header_bytes
from engine.format.lsn import make_lsn, offset_of
from engine.log.entry import LogEntry
from engine.log.files import LogFile
from engine.log.reader import FileReader
from engine.log.window import look
from engine.storage.base import Storage

# Other kinds of damage can explain a single change of the chain, but not this number of changes.
_ENOUGH: Final = 2


class InterleavedChains(NamedTuple):
    """Two chains of entries in one file.

    Attributes:
        lsn: the first intact entry that continues another chain.
        named: offset of the overwritten entry that it points back to.
        changes: number of times the chain changes.
    """

    lsn: int
    named: int
    changes: int


def find_interleaved(storage: Storage, file: LogFile, *, is_last: bool) -> InterleavedChains | None:
    """The first place where a file continues another chain; None if all entries belong to one chain.

    Arguments:
        storage: the environment.
        file: a file with damage; other files have no such place.
        is_last: the log ends in it.

    Raises:
        StorageError: the file cannot be read.
    """
    seen = _Changes()
    with FileReader(storage, file, is_last=is_last) as reader:
        for item in reader.entries():
            if isinstance(item, LogEntry):
                seen.entry(reader, item)
            elif item.length:
                seen.damage(offset_of(item.lsn))
    return seen.result(file.number)


class _Changes:
    """Collects changes of the chain while a file is read."""

    def __init__(self) -> None:
        self._last = self._damage = -1
        self._candidate: tuple[int, int, bool] | None = None
        self._found: list[tuple[int, int]] = []
        self._certain = False

    def damage(self, offset: int) -> None:
        """Note a stretch of damage; the next entry comes after it."""
        self._damage = offset
        self._candidate = None

    def entry(self, reader: FileReader, entry: LogEntry) -> None:
        """Note an intact entry."""
        offset = offset_of(entry.lsn)
        # The link after the candidate is right, so the chain has changed here. If bytes had been removed or inserted,
        # all later links would be off by the same number.
        if self._candidate is not None and entry.prev_offset == self._last:
            self._take(*self._candidate)
        self._candidate = None
        if self._damage >= 0 and self._last >= 0:
            at, named = _begin_of_piece(reader, entry, self._damage)
            is_before = 0 < named < self._damage and named != self._last
            if is_before or _is_inside(reader, self._damage, named):
                if at != offset:
                    self._take(at, named, is_before)
                else:
                    self._candidate = at, named, is_before
        self._last, self._damage = offset, -1

    def result(self, number: int) -> InterleavedChains | None:
        """The findings for the file with this number."""
        if not self._certain and len(self._found) < _ENOUGH:
            return None
        at, named = self._found[0]
        return InterleavedChains(make_lsn(number, at), named, len(self._found))

    def _take(self, at: int, named: int, certain: bool) -> None:
        self._found.append((at, named))
        self._certain = self._certain or certain


def _begin_of_piece(reader: FileReader, entry: LogEntry, since: int) -> tuple[int, int]:
    """The first entry of the intact piece that continues with ``entry``, and the offset to which it points back.

    The reader returns the first entry that it is sure of. There may be earlier intact entries, within the damage.
    """
    at, named = offset_of(entry.lsn), entry.prev_offset
    while since < named < at:
        examined = look(reader.window, named, reader.version, -1)
        header = examined.header
        if header is None or examined.verdict not in (GOOD, BAD_PREV):
            break
        # The entry must end where the piece is known to continue; otherwise these bytes only look like an entry.
        if named + examined.header_bytes + header.item_size != at:
            break
        at, named = named, header.prev_offset
    return at, named


def _is_inside(reader: FileReader, start: int, named: int) -> bool:
    """Whether a place lies in the middle of the entry whose damaged remains begin at ``start``."""
    header = look(reader.window, start, reader.version, -1).header
    if header is None:
        return False
    end = start + header_bytes(header.flags, reader.version) + header.item_size
    # A size that is itself damaged hardly ever fits an entry of the file.
    return start < named < end <= reader.window.size_bytes
