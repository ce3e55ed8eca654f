"""A filter for one log file that another program copies: every byte is checked as it passes.

A log file that is damaged must not enter a backup, because then environment and backup are both bad. ``LogFileFilter``
gets the bytes of a file in order, in pieces of any size, and returns those that are checked: header, types, sizes,
checksums, links. It raises at the first bad entry, and at the end if the last entry is incomplete. JE's
LogVerificationInputStream does the same.

Memory holds one piece and at most ``MOST_HELD_BYTES`` of an entry. A larger entry passes while its checksum is being
computed, so its first bytes are passed on before it is known to be good.

Nothing outside the file is known: whether the log goes on in the next file, or ends in this one, where an entry that
is cut off may be a torn tail.

Example: ``LogFileFilter("00000005.jdb", 5)`` is fed with pieces of 1 MiB; the third contains a flipped bit at 0x280000.
The third ``feed`` raises a DamageError that names the LSN of the entry, and the caller has everything before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from zlib import adler32

from engine.errors import DamageError, plural
from engine.format.entry.file_header import FILE_HEADER_BYTES, decode_file_header
from engine.format.entry_types import ERASED, type_name
from engine.format.header import BAD_CHECKSUM, CUT, GOOD, HEADER_BYTES, MORE, EntryCheck, entry_checksum, examine
from engine.format.lsn import format_lsn, make_lsn
from engine.format.versions import is_supported
from engine.log.check import plain_entries
from engine.log.entry import REASONS
from engine.log.files import header_version
from engine.log.reader import unsupported_version

MOST_HELD_BYTES: Final = 1 << 20


class PassedFile(NamedTuple):
    """What has passed: entries, bytes, and the log version of the file."""

    entries: int
    size_bytes: int
    version: int


class _LargeEntry(NamedTuple):
    """An entry that passes in pieces: where it begins, its end, its checksum, and the sum so far (None: erased)."""

    offset: int
    end: int
    checksum: int
    total: int | None


class LogFileFilter:
    """Checks the bytes of one log file in order.

    Arguments:
        name: the file, for messages.
        number: its number, which its header must have; None if it is not known.
        most_held_bytes: entries up to this size pass only once they are known to be good.
    """

    def __init__(self, name: str, number: int | None = None, *, most_held_bytes: int = MOST_HELD_BYTES) -> None:
        self._name = name
        self._number = number
        self._most_held_bytes = most_held_bytes
        self._held = b""
        # The file offset of the first byte that is held.
        self._base = 0
        self._version = 0
        self._prev = 0
        self._entries = 0
        self._large: _LargeEntry | None = None
        # Checked bytes before the first bad entry.
        self.checked = b""

    def feed(self, data: bytes) -> bytes:
        """Check the next bytes; returns those that may be passed on.

        Raises:
            DamageError: an entry is bad. ``checked`` has the good bytes before it that were not returned yet.
            UnsupportedError: the log version is one that this program does not read.
        """
        whole = self._held + data
        pos, self.checked = 0, b""
        try:
            if not self._version:
                if len(whole) < FILE_HEADER_BYTES:
                    self._held = whole
                    return b""
                self._read_header(whole)
            while pos < len(whole):
                after = self._step(whole, pos)
                if after == pos:
                    break
                pos = after
        finally:
            self.checked, self._held = whole[:pos], whole[pos:]
            self._base += pos
        return self.checked

    def end(self) -> PassedFile:
        """The end of the file.

        Raises:
            DamageError: the file ends inside an entry or its header.
        """
        self.checked = b""
        if not self._version:
            found = self._base + len(self._held)
            raise self._damage(0, REASONS["short"], plural(FILE_HEADER_BYTES, "byte"), plural(found, "byte"))
        if self._large is not None:
            left = self._large.end - self._base
            raise self._damage(self._large.offset, REASONS[CUT], f"{plural(left, 'byte')} more", "the end")
        while self._held:
            # Up to 21 bytes may be left that were too few for the longest header.
            after = self._step(self._held, 0, at_end=True)
            self.checked, self._held = self.checked + self._held[:after], self._held[after:]
            self._base += after
        return self.passed()

    def passed(self) -> PassedFile:
        """What has passed so far."""
        return PassedFile(self._entries, self._base, self._version)

    def _read_header(self, data: bytes) -> None:
        version = header_version(data)
        if version is None:
            raise self._damage(0, REASONS["header"], "a file header", f"0x{data[:FILE_HEADER_BYTES].hex()}")
        if not is_supported(version):
            raise unsupported_version(self._name, version, "nothing of this file was checked")
        number = decode_file_header(data[HEADER_BYTES:FILE_HEADER_BYTES], version).file_num
        if self._number is not None and number != self._number:
            raise self._damage(0, REASONS["file-number"], f"0x{self._number:x}", f"0x{number:x}")
        self._number, self._version = number, version

    def _step(self, data: bytes, pos: int, *, at_end: bool = False) -> int:
        """Check on from a position; returns how far the bytes are good, which is the position if more are needed."""
        if self._large is not None:
            return self._go_on(self._large, data, pos)
        base = self._base
        after, self._prev, entries = plain_entries(data, pos, base, self._prev, self._version)
        self._entries += entries
        if after > pos or after == len(data):
            return after
        examined = examine(data, pos, len(data), self._version, self._prev, at_end=at_end)
        if examined.verdict == GOOD:
            self._prev = base + pos
            self._entries += 1
            return pos + examined.found
        if examined.verdict == MORE:
            return self._begin_large(data, pos, examined)
        raise self._bad(base + pos, examined)

    def _begin_large(self, data: bytes, pos: int, examined: EntryCheck) -> int:
        header, begin = examined.header, self._base + pos
        if header is None or examined.expected <= self._most_held_bytes:
            return pos
        # Nothing of it can be taken back, so the link is checked before the checksum.
        if header.prev_offset != self._prev:
            raise self._bad(
                begin, examined._replace(verdict="prev-offset", expected=self._prev, found=header.prev_offset)
            )
        total = (
            None
            if header.type_number == ERASED
            else entry_checksum(data[pos : pos + examined.header_bytes], self._version)
        )
        self._large = _LargeEntry(begin, begin + examined.expected, header.checksum, total)
        return self._go_on(self._large, data, pos + examined.header_bytes)

    def _go_on(self, large: _LargeEntry, data: bytes, pos: int) -> int:
        end = min(large.end - self._base, len(data))
        total = large.total if large.total is None else adler32(data[pos:end], large.total)
        self._large = large._replace(total=total)
        if self._base + end == large.end:
            self._large = None
            if total is not None and total != large.checksum:
                raise self._damage(large.offset, REASONS[BAD_CHECKSUM], f"0x{large.checksum:08x}", f"0x{total:08x}")
            self._prev = large.offset
            self._entries += 1
        return end

    def _bad(self, offset: int, examined: EntryCheck) -> DamageError:
        what = REASONS[examined.verdict]
        if examined.header is not None:
            what += f" of what says it is {type_name(examined.header.type_number)}"
        shown = "#010x" if examined.verdict == BAD_CHECKSUM else "#x" if examined.verdict == "prev-offset" else "d"
        return self._damage(offset, what, format(examined.expected, shown), format(examined.found, shown))

    def _damage(self, offset: int, what: str, expected: str, found: str) -> DamageError:
        return DamageError(
            what,
            file=self._name,
            lsn=format_lsn(make_lsn(self._number or 0, offset)),
            expected=expected,
            found=found,
            consequence="the file must not replace a good copy; nothing is known of what follows",
            hint="jetool verify on the environment says what is lost; restore the file from a replica or a backup",
        )
