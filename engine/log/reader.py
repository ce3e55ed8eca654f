"""Read one log file forward: its entries, and every stretch of damage.

``engine.log.scan`` builds passes over whole logs from it. Rules: R-LOG-31 (the end of the log), R-LOG-40 and 41
(checksums), je-log-format.md 3.8 and 16.

* A file's version is the version in its header. If the header is damaged, it is the version for which the header's
  checksum is right; otherwise the version in the header, if it is a known one; otherwise that of a neighbouring file
  (``version_beside``). The entries after the header are still read.
* Damage does not stop a reader. It yields one ``Damage`` for the stretch and continues with the next good entry
  (``next_good``). In the last file, damage without a good entry after it is the torn tail of the log.
* If bytes were lost or inserted, every later entry is displaced and its link is wrong by the same number: this counts
  as one broken link, not one for each entry.
* The three ways to read a file make the same decisions: ``FileReader.entries`` yields entries one by one,
  ``FileReader.stretches`` leaves plain ones in their buffer, ``engine.log.check`` counts them in bulk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from zlib import adler32

from engine.errors import FormatError, UnsupportedError, plural
from engine.format.entry.file_header import FILE_HEADER_BYTES, VERSION_AT, FileHeader, decode_file_header
from engine.format.entry_types import ERASED, FILE_HEADER, type_name
from engine.format.fast.header import PLAIN_HEADER, header_lengths, plain_pairs
from engine.format.fast.walks import walk_of
from engine.format.header import (
    BAD_CHECKSUM,
    BAD_PREV,
    CHECKSUM_BYTES,
    CUT,
    GOOD,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    TYPE_AT,
    VLSN_AT,
    VLSN_FIELD,
    EntryCheck,
    EntryHeader,
    entry_checksum,
)
from engine.format.lsn import NULL_LSN, offset_of
from engine.format.versions import NEWEST_VERSION, OLDEST_VERSION, is_supported
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import AT_END_OF_LOG, BY_NEXT_FILE, Damage, LogEntry, Stretch, log_entry, readable_entry
from engine.log.files import LogFile, version_beside
from engine.log.window import WINDOW_BYTES, SearchBudget, Window, look, next_good
from engine.storage.base import Storage

# Below every VLSN.
_LEAST_VLSN: Final = -(1 << 63)
# JE's log versions increase one by one: version 26 after twenty years.
_NEWEST_CREDIBLE: Final = 256


class FileReader:
    """Reads one log file.

    Arguments:
        storage: the environment.
        file: the file.
        is_last: whether it is the last file, in which bad bytes at the end are a torn tail.
        version: the version to assume if the file's header cannot be read; None: that of a neighbouring file.
        window_bytes: how much of the file to hold in memory.

    Raises:
        UnsupportedError: an intact header has a version that this program does not read.
        StorageError: the file cannot be read.
    """

    def __init__(
        self,
        storage: Storage,
        file: LogFile,
        *,
        is_last: bool,
        version: int | None = None,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.file = file
        self.is_last = is_last
        self._handle = storage.open(file.path)
        self.window = Window(self._handle, max(file.size_bytes, self._handle.size()), window_bytes)
        self._name = f"{storage.root}/{file.path}"
        self._budget = SearchBudget(self.window.size_bytes)
        # The last entry with a broken link, and, if known, the distance by which links are off there.
        self._displaced: tuple[int, int | None] = (-1, None)
        self.header, self.version = self._read_header(storage, version)

    def close(self) -> None:
        """Close the file."""
        self._handle.close()

    def __enter__(self) -> FileReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def entries(self, start: int = 0, end: int | None = None, prev: int = -1) -> Iterator[LogEntry | Damage]:
        """Entries that begin in ``[start, end)``, and damage, in file order.

        Arguments:
            start: an entry boundary; 0 is the file header.
            end: an offset, or None for the end of the file.
            prev: offset of the entry before ``start``; -1 if not known: the first link is then not checked.
        """
        window, version = self.window, self.version
        limit = window.size_bytes if end is None else end
        plain, lengths, unpack = plain_pairs(version), header_lengths(version), PLAIN_HEADER.unpack_from
        lsn_base = self.file.number << 32
        # The first entry after the header points to the header (R-LOG-9).
        prev_offset = 0 if start in (0, FILE_HEADER_BYTES) else prev
        offset = start
        yield from self.header_damage(start)
        while offset < min(limit, window.size_bytes):
            pos = offset - window.base
            data = window.data
            if 0 <= pos <= len(data) - HEADER_WITH_VLSN_BYTES:
                checksum, pair, prev, size = unpack(data, pos)
                length = lengths[pair]
                after = pos + length + size
                # Plain entries are never invisible, so no flag has to be masked.
                if (
                    pair in plain
                    and after <= len(data)
                    and prev == prev_offset
                    and (adler32(data[pos + CHECKSUM_BYTES : after]) == checksum)
                ):
                    vlsn = NULL_VLSN if length == HEADER_BYTES else VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
                    yield log_entry(
                        lsn=lsn_base | offset,
                        type_number=pair & 0xFF,
                        version=version,
                        flags=pair >> 8,
                        prev_offset=prev,
                        item_size=size,
                        vlsn=vlsn,
                        checksum=checksum,
                        checksum_ok=True,
                        body=data[pos + length : after],
                    )
                    prev_offset = offset
                    offset += length + size
                    continue
            found = self._look_closer(offset, prev_offset)
            yield from found
            prev_offset, offset = _after(found[-1])

    def stretches(
        self, start: int = 0, end: int | None = None, prev: int = -1
    ) -> Iterator[Stretch | LogEntry | Damage]:
        """Like ``entries``, with consecutive plain entries as one ``Stretch``.

        Arguments: see ``entries``.
        """
        window, version = self.window, self.version
        limit = window.size_bytes if end is None else end
        walk = walk_of(version)
        prev_offset = 0 if start in (0, FILE_HEADER_BYTES) else prev
        offset = start
        # The walk accepts any first VLSN; it also stops where VLSNs do not ascend, which has no effect here.
        last_vlsn = _LEAST_VLSN
        whole = data = b""
        yield from self.header_damage(start)
        while offset < min(limit, window.size_bytes):
            if not window.holds(offset, min(HEADER_WITH_VLSN_BYTES, window.size_bytes - offset)):
                window.reach(offset, HEADER_WITH_VLSN_BYTES)
            base = window.base
            if window.data is not whole:
                # An entry that begins at the limit is left out; the one before it may extend beyond.
                whole = window.data
                data = whole if limit - base >= len(whole) else whole[: limit - base]
            before = offset
            pos, last, last_vlsn = walk.check(data, offset - base, base, prev_offset, last_vlsn)
            if base + pos > offset:
                met = {pair: tally[0] for pair, tally in walk.take(with_bytes=False)}
                vlsn = NULL_VLSN if last_vlsn == _LEAST_VLSN else last_vlsn
                yield Stretch(
                    lsn=self.file.number << 32 | base,
                    version=version,
                    data=data,
                    start=offset - base,
                    end=pos,
                    last=last,
                    entries=sum(met.values()),
                    pairs=tuple(met),
                    last_vlsn=vlsn,
                )
                prev_offset, offset = last, base + pos
            # The walk also ends at the window's edge: move the window before examining the entry.
            if offset < min(limit, window.size_bytes) and (offset == before or window.at_end()):
                found = self._look_closer(offset, prev_offset)
                yield from found
                prev_offset, offset = _after(found[-1])
                last_vlsn = _LEAST_VLSN

    def _look_closer(self, offset: int, prev_offset: int) -> list[LogEntry | Damage]:
        """Examine an entry that is not plain: returns it, preceded by its broken link if any, or the damage up to
        the next good entry.
        """
        examined = look(self.window, offset, self.version, prev_offset)
        if examined.verdict not in (GOOD, BAD_PREV):
            return [self.damage(offset, examined)]
        found = self.broken_link(offset, examined) if examined.verdict == BAD_PREV else None
        entry = self.entry(offset, examined)
        return [entry] if found is None else [found, entry]

    def mark(self) -> tuple[tuple[int, int | None], int]:
        """The state of a pass apart from its position, for ``rewind``."""
        return self._displaced, self._budget.left

    def rewind(self, mark: tuple[tuple[int, int | None], int]) -> None:
        """Restore a state, so that a second pass reports the same damage as the first pass."""
        self._displaced, self._budget.left = mark

    def is_entry(self, offset: int) -> bool:
        """Whether a good entry begins at the offset."""
        return offset < self.window.size_bytes and look(self.window, offset, self.version, -1).verdict == GOOD

    def _read_header(self, storage: Storage, fallback: int | None) -> tuple[FileHeader | None, int]:
        start = self.window.bytes_at(0, FILE_HEADER_BYTES)
        if len(start) < FILE_HEADER_BYTES:
            return None, fallback or version_beside(storage, self.file.path)
        version = int.from_bytes(start[VERSION_AT:FILE_HEADER_BYTES], "little", signed=True)
        intact = start[TYPE_AT] == FILE_HEADER and _header_sum_matches(start, version)
        if not intact:
            # With a wrong version good entries look damaged, so first the bytes of the header are searched for the
            # version.
            likely = _likely_version(start, version)
            return None, likely or fallback or version_beside(storage, self.file.path)
        if not is_supported(version):
            raise unsupported_version(self._name, version, "nothing of this file was read")
        # Type and checksum are right, but the size or link is not that of a file header.
        if look(self.window, 0, version, 0).verdict != GOOD:
            return None, version
        return decode_file_header(start[HEADER_BYTES:], version), version

    def header_damage(self, start: int) -> Iterator[Damage]:
        """Errors in the header of a file whose entries can be read nevertheless.

        The header is intact but has another file number; or the first entry is not a file header; or a file other than
        the last is empty. (An empty last file is one that JE was about to begin, R-LOG-30.)
        """
        if start != 0:
            return
        base, kind, reason = self.file.number << 32, FILE_HEADER, ""
        if self.window.size_bytes == 0:
            if not self.is_last:
                reason, expected, found, kind = "short", f"{FILE_HEADER_BYTES} bytes", "0 bytes", 0
        elif self.header is not None:
            if self.header.file_num != self.file.number:
                reason, expected, found = "file-number", f"0x{self.file.number:x}", f"0x{self.header.file_num:x}"
        else:
            examined = look(self.window, 0, self.version, 0)
            if examined.verdict == GOOD and examined.header is not None:
                kind = examined.header.type_number
                reason, expected, found = "header", type_name(FILE_HEADER), type_name(kind)
        if reason:
            yield Damage(
                lsn=base,
                length=0,
                path=self.file.path,
                reason=reason,
                expected=expected,
                found=found,
                type_number=kind,
                next_lsn=base,
                found_by="",
                is_tail=False,
            )

    def entry(self, offset: int, examined: EntryCheck) -> LogEntry:
        """Make a ``LogEntry`` of a good entry that ``look`` has examined."""
        header = examined.header
        assert header is not None
        body = self.window.bytes_at(offset + examined.header_bytes, header.item_size)
        ok = None if header.type_number == ERASED else True
        return readable_entry(self.version, header, self.file.number << 32 | offset, body, ok)

    def entry_despite_checksum(self, offset: int, prev: int, end: int) -> LogEntry | None:
        """The entry that a header names although its checksum is wrong; None if there is no such header.

        Arguments:
            prev: the offset to which the entry must link; -1 for any.
            end: the offset at which the entry must end at the latest.
        """
        examined = look(self.window, offset, self.version, -1)
        header = examined.header
        if examined.verdict != BAD_CHECKSUM or header is None or prev not in (-1, header.prev_offset):
            return None
        start = offset + examined.header_bytes
        if start + header.item_size > end:
            return None
        body = self.window.bytes_at(start, header.item_size)
        try:
            return readable_entry(self.version, header, self.file.number << 32 | offset, body, False)
        except FormatError:
            # Entries of versions 1 to 5 are translated, which fails if their bytes make no sense.
            return None

    def broken_link(self, offset: int, examined: EntryCheck) -> Damage | None:
        """Report a good entry that does not point back to the previous one.

        Returns None if the cause was already reported: after lost or inserted bytes all links are off by the same
        number, so the second wrong link confirms the first.
        """
        off_by = examined.expected - examined.found
        broken_before, known = self._displaced
        if broken_before == examined.expected and known in (None, off_by):
            # The same distance as before: the bytes were only moved, and this was reported once.
            self._displaced = (offset, off_by)
            return None
        self._displaced = (offset, None)
        header = examined.header
        lsn = self.file.number << 32 | offset
        expected, found = f"0x{examined.expected:x}", f"0x{examined.found:x}"
        kind = header.type_number if header is not None else 0
        return Damage(
            lsn=lsn,
            length=0,
            path=self.file.path,
            reason=BAD_PREV,
            expected=expected,
            found=found,
            type_number=kind,
            next_lsn=lsn,
            found_by="",
            is_tail=False,
        )

    def damage(self, offset: int, examined: EntryCheck) -> Damage:
        """The stretch from a bad entry to the next good one."""
        found = next_good(self.window, offset, self.version, examined, self._budget)
        size = self.window.size_bytes
        end = found[0] if found is not None else size
        base = self.file.number << 32
        header: EntryHeader | None = examined.header
        reason = examined.verdict
        # A crash can cut only the last file: all others were synced before (R-LOG-13).
        is_tail = found is None and self.is_last
        if offset == 0:
            # A bad header with nothing after it is a file that JE was about to begin; if data follows, JE refuses it.
            is_tail = is_tail and size <= FILE_HEADER_BYTES
            reason = "short" if size < FILE_HEADER_BYTES else "header"
        expected, actual = _compared(examined)
        return Damage(
            lsn=base | offset,
            length=end - offset,
            path=self.file.path,
            reason=reason,
            expected=expected,
            found=actual,
            type_number=header.type_number if header is not None else 0,
            next_lsn=NULL_LSN if found is None else base | end,
            found_by=found[1] if found is not None else AT_END_OF_LOG if self.is_last else BY_NEXT_FILE,
            is_tail=is_tail,
        )


def _compared(examined: EntryCheck) -> tuple[str, str]:
    """The two numbers of a verdict, in a readable form."""
    if examined.verdict == "checksum":
        return f"0x{examined.expected:08x}", f"0x{examined.found:08x}"
    if examined.verdict == CUT:
        return plural(examined.expected, "byte"), plural(examined.found, "byte")
    if examined.verdict == "type":
        # Version 6 repeats the version in the flags of each entry.
        expected = f"version {examined.expected} in the flags" if examined.expected else "a known entry type"
        return expected, str(examined.found)
    return "0 or more", str(examined.found)


def unsupported_version(file: str, version: int, consequence: str) -> UnsupportedError:
    """The error for a file of a log version that this program does not read."""
    return UnsupportedError(
        "log version not supported",
        file=file,
        expected=f"{OLDEST_VERSION} to {NEWEST_VERSION}",
        found=str(version),
        consequence=consequence,
        hint="it may need a newer release of jetool; see jetool --version"
        if NEWEST_VERSION < version < _NEWEST_CREDIBLE
        else "no release of JE has that version: restore the file from a backup or a replica",
    )


def _header_sum_matches(start: bytes, version: int) -> bool:
    return entry_checksum(start, version) == int.from_bytes(start[:CHECKSUM_BYTES], "little")


def _likely_version(start: bytes, named: int) -> int:
    """The version of a file with a damaged header, if the header allows to determine it; otherwise 0. See the rules
    above.
    """
    for version in range(OLDEST_VERSION, NEWEST_VERSION + 1):
        if _header_sum_matches(start[:VERSION_AT] + version.to_bytes(4, "little"), version):
            return version
    return named if is_supported(named) else 0


def _after(item: LogEntry | Damage) -> tuple[int, int]:
    """The offset that the next link must have (-1 for any), and the offset of the next entry."""
    if isinstance(item, LogEntry):
        return offset_of(item.lsn), offset_of(item.lsn) + item.total_bytes
    # The next link leads to the bad entry, or into lost bytes: it cannot be compared.
    return -1, offset_of(item.lsn) + item.length
