"""Writing the log (R-LOG-1 to R-LOG-28).

Rules:

* One mutex, the log write latch, covers all steps of placing an entry: flip (beginning a new file), LSN, prevOffset,
  counting, buffer (R-LOG-4).
* Bytes collect in a buffer, which is written to the file when it is full, at a flip and at a flush. Readers of an LSN
  search the buffer first (``find``). An entry larger than the buffer goes straight to the file.
* A flip writes everything, fsyncs the old file, then begins the new one: every file but the last is durable before its
  successor is written (R-LOG-13), and a commit syncs one file only.
* A new file is only a buffer until its first write, which holds the header and at least one whole entry. It goes to
  ``%08x.tmp``, is synced, and only then gets the name of a log file. So no kill leaves a header alone, or data without
  a header (R-LOG-16), and a file without entries is never created.
* An entry of the replication stream gets its VLSN under the same latch, so that VLSNs ascend with LSNs; its LSN is
  reported to the stream outside the latch (R-LOG-8, ``ReplicationStream``).
* While another thread is inside fsync, a full buffer is not written, since that would block. It may grow by the size of
  the write queue, and is written before and after each fsync (R-LOG-22). Readers find queued entries in the buffer.
* After a failed write or fsync the position on disk is unknown: the writer refuses everything from then on (R-LOG-7).

Example, file 0 at 9,999,980 bytes with ``je.log.fileMax`` 10,000,000: an entry of 30 bytes does not fit; file 0 is
synced, file 1 begins with its header (``lastEntryInPrevFileOffset`` = the last entry of file 0), the entry's LSN is
0x1/0x26.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from engine.errors import JetoolError, RefusedError, caused_by
from engine.format.entry.file_header import FILE_HEADER_BYTES, FileHeader, encode_file_header
from engine.format.entry_types import FILE_HEADER
from engine.format.fast.header import sealed
from engine.format.header import HEADER_BYTES, HEADER_WITH_VLSN_BYTES, PROVISIONAL_FLAGS, Provisional
from engine.format.lsn import NULL_LSN, make_lsn
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NEXT_VLSN, NULL_VLSN
from engine.log.access import LogAccess
from engine.log.files import LogFile, log_file_path, make_file
from engine.log.group_commit import UNGROUPED, GroupCommit, GroupSettings
from engine.log.latch import Latch, is_unexpected
from engine.storage.base import WriteFile

DEFAULT_FILE_MAX_BYTES: Final = 10_000_000
DEFAULT_BUFFER_BYTES: Final = 1 << 20
DEFAULT_QUEUE_BYTES: Final = 1 << 20

Marshal = Callable[[], bytes]
Clock = Callable[[], int]


class WriteObserver(Protocol):
    """Receives every entry, under the log write latch: utilization counts, VLSN tracking."""

    def logged(self, lsn: int, type_number: int, size: int, born_obsolete: bool) -> None:
        """An entry gets an LSN. ``born_obsolete``: the entry will never be read by its LSN (R-CLN-5)."""

    def obsolete_node(self, lsn: int, *, is_delta: bool) -> None:
        """A node version is no longer needed; exact."""

    def obsolete_ln(self, lsn: int, size: int) -> None:
        """An LN version is no longer needed; exact."""


class ReplicationStream(Protocol):
    """Assigns VLSNs to the entries that a replication group shares, and receives their LSNs."""

    def bump(self) -> int:
        """Allocate the next VLSN; called under the log write latch."""

    def note_allocated(self, vlsn: int) -> None:
        """A VLSN from the master is about to be logged; called under the log write latch."""

    def logged(self, vlsn: int, lsn: int, type_number: int, body: bytes) -> None:
        """An entry of the stream is in the log; called without the latch."""

    def fail(self, error: JetoolError) -> None:
        """An allocated VLSN may remain without an entry: end all waits for it."""


class LogWriter:
    """Appends entries to a log.

    Arguments:
        access: the readers' side, to which new files and the buffer are reported.
        end_lsn: the place of the next entry; offset 0 means that the file does not exist yet.
        last_lsn: the last entry; NULL_LSN in a new log.
        new_file: begin a new file with the first entry (older version in the last one, ImmutableFile).
        file_max, buffer_bytes: je.log.fileMax and je.log.bufferSize.
        queue_bytes: je.log.writeQueueSize; 0 without je.log.useWriteQueue.
        data_directories: je.log.nDataDirectories: files go to ``data001`` and so on in turn; 0 for none.
        clock: milliseconds since 1970, for file headers.
        version: log version of new files and of every entry; callers encode entries for it.
        observer: counts the logged entries.
        group: settings of group commit.
    """

    def __init__(
        self,
        access: LogAccess,
        end_lsn: int,
        last_lsn: int,
        *,
        new_file: bool = False,
        file_max: int = DEFAULT_FILE_MAX_BYTES,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
        queue_bytes: int = DEFAULT_QUEUE_BYTES,
        data_directories: int = 0,
        clock: Clock | None = None,
        version: int = WRITTEN_VERSION,
        observer: WriteObserver | None = None,
        group: GroupSettings = UNGROUPED,
    ) -> None:
        self.version = version
        self.latch = Latch()
        self.latch.unexpected = self.interrupted
        self.observer = observer
        self.stream: ReplicationStream | None = None
        self._access = access
        self._file_max = file_max
        self._data_directories = data_directories
        self._buffer_bytes = buffer_bytes
        self._queue_bytes = queue_bytes
        # Files that threads are syncing outside the latch, once per thread.
        self._syncing: list[WriteFile] = []
        self._clock = clock or (lambda: int(time.time() * 1000))
        self._number = end_lsn >> 32
        self._offset = end_lsn & 0xFFFFFFFF
        self._prev_offset = last_lsn & 0xFFFFFFFF if last_lsn != NULL_LSN else 0
        self.last_lsn = last_lsn
        self._flip_next = new_file
        # Entries that are not written yet, and the file offset of each.
        self._entries: list[bytes] = []
        self._starts: list[int] = []
        self._buffer_start = self._offset
        self._file: WriteFile | None = None
        # The path of a file that was begun and is not on disk yet.
        self._to_make: str | None = None
        self._failure: JetoolError | None = None
        self.group = GroupCommit(self._flush_for_sync, group)
        self.entries = self.flips = self.writes = 0
        access.unwritten = self

    @property
    def next_lsn(self) -> int:
        """The place of the next entry, unless it causes a flip."""
        return make_lsn(self._number, self._offset)

    @property
    def syncs(self) -> int:
        """The number of fsyncs for commits."""
        return self.group.syncs

    @property
    def failed(self) -> bool:
        """Whether a write has failed, so that nothing more can be logged."""
        return self._failure is not None

    def distance_from(self, lsn: int) -> int:
        """Bytes from an LSN to the end of the log, as if every file were full (R-CKPT-2)."""
        start = lsn if lsn != NULL_LSN else 0
        # Files that the cleaner has deleted count as full ones: the distance only decides when a checkpoint is due.
        return (self._number - (start >> 32)) * self._file_max + self._offset - (start & 0xFFFFFFFF)

    def log(
        self,
        type_number: int,
        body: bytes | Marshal,
        *,
        provisional: Provisional = Provisional.NO,
        obsolete_nodes: Sequence[tuple[int, bool]] = (),
        obsolete_lns: Sequence[tuple[int, int]] = (),
        born_obsolete: bool = False,
        vlsn: int = NULL_VLSN,
    ) -> int:
        """Append one entry.

        Arguments:
            type_number: entry type of the new entry.
            body: encoded for ``version``; or a function that encodes it under the latch, after counting; the size of
                its result must not depend on the time of the call (FileSummaryLN, R-LOG-3).
            provisional: flag of the entry.
            obsolete_nodes: LSNs of node versions that the entry replaces, and whether they are deltas.
            obsolete_lns: LSNs and entry sizes of LN versions that the entry replaces.
            born_obsolete: the entry itself is obsolete at once.
            vlsn: VLSN of the entry, for ``log_in_stream``.

        Returns:
            Its LSN.

        Raises:
            StorageError: the file cannot be written. RefusedError: an earlier write failed.
        """
        with self.latch:
            if self._failure is not None:
                self.check()
            # A function is called here only for the size, which the flip needs; it is called again after counting.
            data = body if isinstance(body, bytes) else body()
            size = (HEADER_BYTES if vlsn == NULL_VLSN else HEADER_WITH_VLSN_BYTES) + len(data)
            observer = self.observer
            if observer is not None:
                # Count before the LSN is fixed (R-LOG-4): a FileSummaryLN that is encoded below includes these counts.
                if obsolete_nodes:
                    for lsn, is_delta in obsolete_nodes:
                        observer.obsolete_node(lsn, is_delta=is_delta)
                if obsolete_lns:
                    for lsn, ln_size in obsolete_lns:
                        observer.obsolete_ln(lsn, ln_size)
            lsn = self._place(type_number, size, born_obsolete)
            if observer is not None and not isinstance(body, bytes):
                data = body()
            # Most entries are not provisional, and hashing an Enum member takes as long as all the rest.
            flags = 0 if provisional is Provisional.NO else PROVISIONAL_FLAGS[provisional]
            self._take(type_number, flags, data, vlsn, lsn)
            return lsn

    def log_all(self, type_number: int, bodies: list[bytes], born_obsolete: list[bool]) -> list[int]:
        """Append several entries of one type, which replace no other entries.

        Arguments:
            bodies, born_obsolete: one for each entry, as for ``log``.

        Returns, raises: see ``log``; after an error some entries may have been appended.
        """
        lsns: list[int] = []
        with self.latch:
            self.check()
            for at, body in enumerate(bodies):
                lsn = self._place(type_number, HEADER_BYTES + len(body), born_obsolete[at])
                self._take(type_number, 0, body, NULL_VLSN, lsn)
                lsns.append(lsn)
        return lsns

    def log_in_stream(
        self,
        type_number: int,
        body: bytes | Marshal,
        vlsn: int,
        *,
        obsolete_lns: Sequence[tuple[int, int]] = (),
        born_obsolete: bool = False,
    ) -> int:
        """Append one entry of the replication stream.

        Arguments:
            type_number, obsolete_lns, born_obsolete: see ``log``.
            body: encoded, or a function that encodes it under the latch once the VLSN is known.
            vlsn: NEXT_VLSN to allocate the next one; on a replica the VLSN from the master.

        Returns, raises: see ``log``.
        """
        stream = self.stream
        assert stream is not None
        try:
            with self.latch:
                self.check()
                # The latch is held from here until the entry has its LSN: VLSNs ascend with LSNs (R-LOG-10).
                if vlsn == NEXT_VLSN:
                    vlsn = stream.bump()
                else:
                    stream.note_allocated(vlsn)
                # A Commit holds the DTVLSN, which may be its own VLSN: it can be encoded only now.
                data = body() if callable(body) else body
                lsn = self.log(type_number, data, obsolete_lns=obsolete_lns, born_obsolete=born_obsolete, vlsn=vlsn)
        except JetoolError as error:
            # The VLSN is taken and no entry will have it; a thread that waits for it would wait forever.
            stream.fail(error)
            raise
        # Report outside the latch, since the index takes its own locks. VLSNs may arrive there out of order (R-LOG-6).
        stream.logged(vlsn, lsn, type_number, data)
        return lsn

    def flush(self, *, sync: bool) -> None:
        """Write everything logged so far to the file, and make it durable if asked (R-LOG-25, R-LOG-26)."""
        if sync:
            # Read without the latch: a flip in between has already synced the caller's entries.
            self.group.sync(self.next_lsn)
            return
        with self.latch:
            self.check()
            self._write_out()

    def force_new_file(self) -> None:
        """Make the next entry begin a new file."""
        with self.latch:
            self._flip_next = self._offset > FILE_HEADER_BYTES

    def continue_after(self, files: Sequence[LogFile], last_offset: int) -> None:
        """Continue the log after files that were written elsewhere; the next entry begins a file after them.

        Arguments:
            files: ascending, with this writer's log version, numbered above the current file.
            last_offset: offset of the last entry in the last of them.
        """
        with self.latch:
            self.check()
            # The current file must be durable before another file follows it (R-LOG-13).
            self._write_out()
            if self._file is not None:
                self._end_file()
            self._entries, self._starts, self._to_make = [], [], None
            for file in files:
                self._access.add(file, self.version)
            self._number, self._offset = files[-1].number, files[-1].size_bytes
            self._buffer_start, self._prev_offset = self._offset, last_offset
            self._flip_next = True

    def find(self, file_number: int, offset: int) -> bytes | None:
        """The entry at a place, if it is still in the buffer; None if it is in the file."""
        if not self.may_hold(file_number, offset):
            return None
        # Checked again under the latch: a write or a flip may have happened since.
        with self.latch:
            if file_number != self._number or offset < self._buffer_start:
                return None
            at = bisect_left(self._starts, offset)
            return self._entries[at] if at < len(self._starts) and self._starts[at] == offset else None

    def may_hold(self, file_number: int, offset: int) -> bool:
        """Whether an entry may still be in the buffer; called without the latch.

        Written entries stay written: both numbers only grow, and a file is written out before the next begins.
        """
        return file_number > self._number or (file_number == self._number and offset >= self._buffer_start)

    @property
    def failure(self) -> JetoolError | None:
        """The failure after which nothing can be written, or None."""
        return self._failure

    def check(self) -> None:
        """Raise after a failure."""
        if self._failure is not None:
            error = RefusedError(
                "the environment is invalid: a write failed, or a change was interrupted",
                found=str(self._failure),
                consequence="what was logged since is not known to be on disk",
                hint="close it and open it again; recovery finds the end of the log",
            )
            raise caused_by(error, self._failure)

    def invalidate(self, failure: JetoolError) -> None:
        """Refuse everything from now on."""
        with self.latch:
            # The first failure is the cause; later ones are not reported in its place.
            self._failure = self._failure or failure

    def interrupted(self, error: BaseException) -> None:
        """Refuse everything from now on, as after a failed write, if an exception has interrupted a change half way.

        Arguments:
            error: the exception. A ``JetoolError`` has no effect: it is raised only where no change is half made.
        """
        if is_unexpected(error):
            failure = RefusedError("a change was interrupted", found=f"{type(error).__name__}: {error}")
            self.invalidate(caused_by(failure, error))

    def close(self) -> None:
        """Write and sync what is left, and close the file."""
        with self.latch:
            try:
                if self._failure is None:
                    self._write_out()
                    if self._file is not None:
                        self._sync(self._file)
            finally:
                # Close the file even after a failure: the handle must not outlive the lock on the environment.
                self._let_go()
                self._access.unwritten = None

    def _place(self, type_number: int, size: int, born_obsolete: bool) -> int:
        """Allocate the LSN of the next entry and count the entry; begins a new file if it does not fit."""
        if self._flip_next or self._offset + size > self._file_max or self._offset < FILE_HEADER_BYTES:
            self._flip()
        # Computed after the flip, which may change the file number; inline, since this runs for every entry.
        lsn = self._number << 32 | self._offset
        if self.observer is not None:
            self.observer.logged(lsn, type_number, size, born_obsolete)
        return lsn

    def _take(self, type_number: int, flags: int, data: bytes, vlsn: int, lsn: int) -> None:
        """Append an entry to the buffer at its allocated place."""
        self._append(type_number, flags, data, vlsn)
        # Set under the latch, together with the append: a thread that sees this LSN finds the entry in the buffer.
        self.last_lsn = lsn
        self.entries += 1
        # A thread is in fsync: writing now would block, so the buffer may grow by the size of the queue (R-LOG-22).
        if self._offset - self._buffer_start >= self._buffer_bytes + (self._queue_bytes if self._syncing else 0):
            self._write_out()

    def _append(self, type_number: int, flags: int, body: bytes, vlsn: int = NULL_VLSN) -> None:
        entry = sealed(type_number, flags, self._prev_offset, body, vlsn)
        self._starts.append(self._offset)
        self._entries.append(entry)
        self._prev_offset = self._offset
        self._offset += len(entry)

    def _flip(self) -> None:
        """Begin a new file (R-LOG-12 to R-LOG-15); an empty environment begins with file 0."""
        first = self._offset == 0
        if not first and not self._flip_next and self._offset == FILE_HEADER_BYTES:
            return  # An entry larger than a file stands alone after the header.
        if not first:
            # The whole old file is on disk before the new one exists: only the last file can be torn (R-LOG-13).
            self._write_out()
            self._end_file()
        last_offset = 0 if first else self._prev_offset
        number = self._number if first else self._number + 1
        self._begin_file(number, last_offset)
        self.flips += 0 if first else 1

    def _end_file(self) -> None:
        self._sync(self._open())
        # This leaves the file open while another thread is still inside fsync on it.
        self._let_go()

    def _sync(self, file: WriteFile) -> None:
        try:
            file.sync()
        except JetoolError as error:
            self._failure = self._failure or error
            raise

    def _let_go(self) -> None:
        """Release the current file; a thread that is still syncing it closes it."""
        file, self._file = self._file, None
        if file is not None and file not in self._syncing:
            file.close()

    def _begin_file(self, number: int, last_offset: int) -> None:
        self._to_make = log_file_path(number, self._data_directories)
        header = FileHeader(self._clock(), number, last_offset, self.version)
        self._number, self._offset, self._prev_offset = number, 0, 0
        self._buffer_start, self._entries, self._starts, self._flip_next = 0, [], [], False
        # A stub with this number may exist, with an outdated pointer to the previous file (R-LOG-16).
        self._access.forget(number)
        self._access.expect(number, self.version)
        self._append(FILE_HEADER, 0, encode_file_header(header, self.version))
        # The first entry points to the header, whatever the header's own pointer to the previous file is (R-LOG-9).
        self._prev_offset = 0

    def _open(self) -> WriteFile:
        if self._file is None:
            file = next(f for f in self._access.files() if f.number == self._number)
            self._file = self._access.storage.open_rw(file.path)
        return self._file

    def _write_out(self) -> None:
        if not self._entries or (self._to_make is not None and len(self._entries) == 1):
            return
        data = b"".join(self._entries)
        try:
            if self._to_make is not None:
                make_file(self._access.storage, self._to_make, data)
                self._access.add(LogFile(self._number, self._to_make, len(data)), self.version)
                self._to_make = None
            else:
                self._open().write(self._buffer_start, data)
        except JetoolError as error:
            # A part of it may be on disk: no later entry may follow a gap (R-LOG-7).
            self._failure = error
            raise
        self.writes += 1
        # Empty the buffer after the write: until then readers find these entries in it.
        self._buffer_start, self._entries, self._starts = self._offset, [], []

    def _flush_for_sync(self) -> int:
        """Write out, and sync outside the latch; returns the LSN up to which everything is durable then."""
        with self.latch:
            self.check()
            self._write_out()
            # Read under the latch: the fsync does not cover entries logged during it.
            end = self.next_lsn
            if self._to_make is not None:
                # No entry since the flip, which has synced everything before.
                return end
            file = self._open()
            self._syncing.append(file)
        try:
            file.sync()
        except JetoolError as error:
            # Refuse everything: the system reports a failure only once, so a later sync may seem to succeed.
            self.invalidate(error)
            raise
        finally:
            with self.latch:
                # A flip may have released the file during the fsync; then the last thread that syncs it closes it.
                self._syncing.remove(file)
                if file is not self._file and file not in self._syncing:
                    file.close()
        self._drain_queue()
        return end

    def _drain_queue(self) -> None:
        """Write out entries that were kept only because a thread was syncing (R-LOG-22)."""
        with self.latch:
            if self._failure is None and not self._syncing and self._offset - self._buffer_start >= self._buffer_bytes:
                self._write_out()
