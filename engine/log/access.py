"""Entries by LSN: random reads for trees, transaction chains and undo (R-LOG-21, R-LOG-40 to R-LOG-45).

A read looks first into the writer's buffer (``UnwrittenLog``), then into the file. Every read verifies the checksum. A
mismatch in a file is permanent: each read reports it. A mismatch in the buffer is temporary: the writer stops, so that
the damage never reaches the file. Files stay open, and their versions cached, until ``close``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from engine.errors import DamageError, JetoolError, NotFoundError, UnsupportedError
from engine.format.entry.file_header import FILE_HEADER_BYTES, VERSION_AT
from engine.format.entry_types import ERASED, is_valid_type
from engine.format.fast.ln import is_user_entry
from engine.format.header import (
    CHECKSUM_BYTES,
    FLAGS_AT,
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    SIZE_AT,
    TYPE_AT,
    VLSN_AT,
    decode_header,
    entry_checksum,
    header_bytes,
)
from engine.format.lsn import NULL_LSN, file_of, format_lsn, is_null, offset_of
from engine.format.versions import is_supported
from engine.log.entry import LogEntry, readable_entry
from engine.log.files import LogFile, log_file_name
from engine.native import new_read_ahead, value_at, values_at
from engine.storage.base import ReadFile, Storage
from engine.storage.disk import map_of

if TYPE_CHECKING:
    from engine.native import core
    from engine.storage.bytes_ahead import BytesAhead

# Enough for most nodes of 128 slots.
_FIRST_READ_BYTES: Final = 4096
# Limits for entries that are read together: the largest gap between two neighbours, and the largest number of bytes.
_GAP_BYTES: Final = 4096
_GROUP_BYTES: Final = 256 << 10


class UnwrittenLog(Protocol):
    """Bytes that were logged but are not in the file yet."""

    def find(self, file_number: int, offset: int) -> bytes | None:
        """The bytes from ``offset`` on, at least one whole entry; None if they are in the file already."""

    def may_hold(self, file_number: int, offset: int) -> bool:
        """Whether ``find`` may find bytes at an offset; False means that they are in the file."""

    def invalidate(self, failure: JetoolError) -> None:
        """Called when the found bytes are damaged: they must not reach the file (R-LOG-40)."""


PIECE_BYTES: Final = 1 << 20


class LogAccess:
    """Reads single entries of a log.

    Arguments:
        storage: the environment.
        files: the log files; files that the writer makes are added.
        piece_bytes: how much a pass over a file reads at a time.

    Attributes:
        unwritten: the writer's buffer.
        on_damage: called for every bad entry in a file, before the error is raised.
        reads: number of entries read by LSN.
        ahead_reads: number of these that a thread had read before.
        at_lsn: the last entry read, here or by a pass; error messages name it.
    """

    __slots__ = (
        "_ahead",
        "_expected",
        "_files",
        "_in_files",
        "_mapped",
        "_open",
        "_storage",
        "_versions",
        "ahead_reads",
        "at_lsn",
        "on_damage",
        "piece_bytes",
        "reads",
        "unwritten",
    )

    def __init__(self, storage: Storage, files: tuple[LogFile, ...], piece_bytes: int = PIECE_BYTES) -> None:
        self.piece_bytes = piece_bytes
        self._storage = storage
        self._files = {file.number: file for file in files}
        # A file that exists only in the writer's buffer so far.
        self._expected = -1
        self._open: dict[int, ReadFile] = {}
        # Maps of the open files with their versions, for ``value_at``.
        self._mapped: dict[int, tuple[core.FileMap, int]] = {}
        self._versions: dict[int, int] = {}
        # Everything below this LSN is in the files; it only grows.
        self._in_files = 0
        self.unwritten: UnwrittenLog | None = None
        self._ahead: BytesAhead | None = None
        self.on_damage: Callable[[DamageError], None] | None = None
        self.reads = 0
        self.ahead_reads = 0
        self.at_lsn = NULL_LSN

    @property
    def storage(self) -> Storage:
        """The storage of the environment."""
        return self._storage

    def files(self) -> list[LogFile]:
        """The files in ascending order."""
        return [self._files[number] for number in sorted(self._files)]

    def has_file(self, number: int) -> bool:
        """Whether a file with this number exists, or is about to be created."""
        return number in self._files or number == self._expected

    def expect(self, number: int, version: int) -> None:
        """Note a file that the writer has begun; all of it is still in the buffer."""
        self._expected = number
        self._versions[number] = version

    def add(self, file: LogFile, version: int) -> None:
        """Add a file that has been created."""
        self._files[file.number] = file
        self._versions[file.number] = version

    def forget(self, number: int) -> None:
        """Forget a file that was deleted."""
        self.end_ahead()
        self._files.pop(number, None)
        self._mapped.pop(number, None)
        handle = self._open.pop(number, None)
        if handle is not None:
            handle.close()

    def read(self, lsn: int, *, allow_invisible: bool = False) -> LogEntry:
        """The entry at an LSN.

        Raises:
            DamageError: the file does not exist, there is no good entry at that place, or the entry is invisible and
                the caller did not allow that (R-LOG-42, R-LOG-45).
        """
        self.reads += 1
        self.at_lsn = lsn
        number, offset = file_of(lsn), offset_of(lsn)
        if is_null(lsn):
            raise DamageError("a reference to no entry", lsn=format_lsn(lsn), consequence="the log contradicts itself")
        # Search the buffer first: between both searches an entry can only move from the buffer to the file (R-LOG-21).
        data = self.unwritten.find(number, offset) if self.unwritten is not None else None
        version = self.version_of(number, lsn)
        entry = (
            self._unwritten_entry(data, lsn, version)
            if data is not None
            else self._from_file(number, offset, lsn, version)
        )
        # The entry was rolled back: a tree that still leads here was not recovered according to the log (R-LOG-42).
        if entry.invisible and not allow_invisible:
            raise DamageError(
                "an entry that replication rolled back is still referred to",
                file=self._name(number),
                lsn=format_lsn(lsn),
                hint="run jetool verify",
            )
        return entry

    def user_entry(self, lsn: int, size: int) -> bytes | None:
        """The whole entry of a user's record, faster than ``read``. None: call ``read``, which returns it or raises the
        error.

        Arguments:
            size: size of the entry in bytes.
        """
        self.reads += 1
        number, offset = lsn >> 32, lsn & 0xFFFFFFFF
        # A transient LSN: the record is in memory only and has no entry (R-TREE-60).
        if number < 0:
            return None
        unwritten = self.unwritten
        data = unwritten.find(number, offset) if unwritten is not None else None
        if data is None:
            data = self.handle(number).read(offset, size)
            self._note_map(number)
        return data if is_user_entry(data, size, self.version_of(number)) else None

    def user_data(self, lsn: int, size: int, db_id: int) -> bytes | None:
        """The data of a user's record, straight from the map of its file; None: use ``user_entry`` instead.

        Arguments:
            size: size of the entry in bytes; 0 if not known.
            db_id: the database.
        """
        if value_at is None or not self._mapped:
            return None
        if lsn >= self._in_files:
            if self._is_unwritten(lsn >> 32, lsn + 1):
                return None
            self._in_files = lsn + 1
        data = value_at(self._mapped, lsn, size, db_id)
        if data is not None:
            self.reads += 1
        return data

    def user_values(
        self, lsns: list[int], sizes: list[int], chosen: list[int], db_id: int, *, in_memory: bool = False
    ) -> list[bytes | None] | None:
        """Like ``user_data``, for the chosen slots of a node; None as a whole if no slot can be read this way.

        Arguments:
            in_memory: only from maps, without a read of a file.
        """
        if values_at is None or not self._mapped:
            return None
        # If the latest entry may still be in the buffer, the caller reads all entries in the ordinary way.
        if self._may_be_unwritten([lsns[at] for at in chosen]):
            return None
        found = values_at(self._mapped, lsns, sizes, chosen, db_id, in_memory)
        self.reads += len([data for data in found if data is not None])
        return found

    def maps_of(self, lsns: list[int]) -> dict[int, tuple[core.FileMap, int]]:
        """The maps by file number, with log versions, for reading entries ahead; none if an entry may not be in its
        file yet.
        """
        return {} if self._may_be_unwritten(lsns) else self._mapped

    def user_entries(self, lsns: list[int], sizes: list[int]) -> list[bytes | None]:
        """Like ``user_entry``, for ascending LSNs; entries that are close together are read at once."""
        found: list[bytes | None] = []
        at = 0
        while at < len(lsns):
            start, number = lsns[at], lsns[at] >> 32
            end = start + sizes[at]
            following = at + 1
            while (
                following < len(lsns)
                and lsns[following] - end <= _GAP_BYTES
                and lsns[following] + sizes[following] - start <= _GROUP_BYTES
                and lsns[following] >> 32 == number
            ):
                end = lsns[following] + sizes[following]
                following += 1
            # A group of one gains nothing; a group that reaches into the buffer cannot be read from the file.
            if following == at + 1 or number < 0 or self._is_unwritten(number, end):
                found += [self.user_entry(lsns[one], sizes[one]) for one in range(at, following)]
            else:
                data, version = self.handle(number).read(start & 0xFFFFFFFF, end - start), self.version_of(number)
                self._note_map(number)
                self.reads += following - at
                for one in range(at, following):
                    entry = data[lsns[one] - start : lsns[one] - start + sizes[one]]
                    found.append(entry if is_user_entry(entry, sizes[one], version) else None)
            at = following
        return found

    def _note_map(self, number: int) -> None:
        """Called after a read of a file: from now on ``user_data`` uses the map that the file has now."""
        if value_at is None:
            return
        found = map_of(self._open[number])
        if found is not None:
            self._mapped[number] = found, self.version_of(number)
        else:
            self._mapped.pop(number, None)

    def _may_be_unwritten(self, lsns: list[int]) -> bool:
        """Whether the latest of some entries may not be in the file yet."""
        last = max(lsns)
        return self._is_unwritten(last >> 32, last + 1)

    def _is_unwritten(self, number: int, end: int) -> bool:
        """Whether bytes before an LSN, in the same file, may not be in the file yet."""
        unwritten = self.unwritten
        return unwritten is not None and unwritten.may_hold(number, (end & 0xFFFFFFFF) - 1)

    def version_of(self, number: int, lsn: int | None = None) -> int:
        """The log version of a file."""
        version = self._versions.get(number)
        if version is None:
            head = self._handle(number, lsn).read(0, FILE_HEADER_BYTES)
            version = int.from_bytes(head[VERSION_AT:], "little", signed=True)
            if not is_supported(version):
                # A file of a newer, unknown version has an intact header; otherwise the number is not a version.
                if len(head) < FILE_HEADER_BYTES or entry_checksum(head, version) != int.from_bytes(
                    head[:CHECKSUM_BYTES], "little"
                ):
                    raise DamageError(
                        "the header of a log file is damaged", file=self._name(number), lsn=format_lsn(number << 32)
                    )
                raise UnsupportedError("log version not supported", file=self._name(number), found=str(version))
            self._versions[number] = version
        return version

    def handle(self, number: int) -> ReadFile:
        """The open file of that number."""
        return self._handle(number, None)

    def begin_ahead(self) -> bool:
        """Allow ``read_ahead``, until ``end_ahead``, ``forget`` or ``close``; returns whether this build can do it.

        Nothing may be written to the log meanwhile.
        """
        if new_read_ahead is None or self.unwritten is not None:
            return False
        from engine.storage.bytes_ahead import BytesAhead

        self._ahead = BytesAhead(_FIRST_READ_BYTES)
        return True

    def has_room_ahead(self) -> bool:
        """Whether ``read_ahead`` can begin another batch."""
        return self._ahead is not None and self._ahead.has_room()

    def read_ahead(self, lsns: list[int]) -> bool:
        """Begin to read entries that ``read`` will be asked for; returns whether there is a thread for it."""
        if self._ahead is None:
            return False
        found = [(lsn, self._open.get(lsn >> 32), lsn & 0xFFFFFFFF) for lsn in lsns]
        # A file is opened by the first read of one of its entries.
        return self._ahead.begin([(lsn, file, offset) for lsn, file, offset in found if file is not None])

    def skip_ahead(self) -> None:
        """Forget what was read ahead; the caller goes on elsewhere."""
        if self._ahead is not None:
            self._ahead.skip()

    def end_ahead(self) -> None:
        """Forget what was read ahead, and end its threads."""
        if self._ahead is not None:
            self._ahead.drop()
            self._ahead = None

    def close(self) -> None:
        """Close all files."""
        self.end_ahead()
        self._mapped.clear()
        for handle in self._open.values():
            handle.close()
        self._open.clear()

    def _handle(self, number: int, lsn: int | None) -> ReadFile:
        handle = self._open.get(number)
        if handle is not None:
            return handle
        file = self._files.get(number)
        try:
            if file is None:
                raise NotFoundError("no such file")
            handle = self._storage.open(file.path)
        except NotFoundError:
            raise DamageError(
                f"log file {log_file_name(number)} is missing",
                lsn=None if lsn is None else format_lsn(lsn),
                consequence="a live record or tree node refers to it",
                hint="restore the file from a backup; jetool verify shows what else is damaged",
            ) from None
        self._open[number] = handle
        return handle

    def _unwritten_entry(self, data: bytes, lsn: int, version: int) -> LogEntry:
        try:
            return self._entry_of(data, lsn, version)
        except DamageError as error:
            assert self.unwritten is not None
            # Damage in memory disappears with the process, provided that it is not written (R-LOG-40).
            self.unwritten.invalidate(error)
            raise

    def _from_file(self, number: int, offset: int, lsn: int, version: int) -> LogEntry:
        handle = self._handle(number, lsn)
        ahead = self._ahead.take(lsn) if self._ahead is not None else None
        if ahead is None:
            data = handle.read(offset, _FIRST_READ_BYTES)
        else:
            data = ahead
            self.ahead_reads += 1
        if len(data) >= HEADER_WITH_VLSN_BYTES:
            size = int.from_bytes(data[SIZE_AT:VLSN_AT], "little", signed=True)
            length = header_bytes(data[FLAGS_AT], version)
            # A damaged size must not make this read more than the file holds.
            if size + length > len(data) and length + size <= handle.size() - offset:
                data = handle.read(offset, length + size)
        try:
            return self._entry_of(data, lsn, version)
        except DamageError as error:
            if self.on_damage is not None:
                self.on_damage(error)
            raise

    def _entry_of(self, data: bytes, lsn: int, version: int) -> LogEntry:
        if len(data) < HEADER_BYTES or not is_valid_type(data[TYPE_AT], version):
            raise self._bad(lsn, "no entry begins here")
        length = header_bytes(data[FLAGS_AT], version)
        if len(data) < length:
            raise self._bad(lsn, "the file ends inside the entry")
        header = decode_header(data, 0, version)
        end = length + header.item_size
        if header.item_size < 0 or end > len(data):
            raise self._bad(lsn, "the file ends inside the entry")
        entry = data[:end]
        ok: bool | None = None
        # JE overwrites the body of an erased entry and leaves its checksum (je-log-format.md 6.13).
        if header.type_number != ERASED:
            ok = entry_checksum(entry, version) == header.checksum
            if not ok:
                raise self._bad(lsn, "the checksum does not match")
        return readable_entry(version, header, lsn, entry[length:], ok)

    def _bad(self, lsn: int, what: str) -> DamageError:
        return DamageError(
            what,
            file=self._name(file_of(lsn)),
            lsn=format_lsn(lsn),
            consequence="a record or tree node that refers to it cannot be read",
            hint="run jetool verify",
        )

    def _name(self, number: int) -> str:
        file = self._files.get(number)
        return f"{self._storage.root}/{file.path if file is not None else f'{log_file_name(number)}'}"
