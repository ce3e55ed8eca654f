"""Assembles entries of the stream into transactions, with bounded memory.

A feeder sends entries in the order in which transactions log them; each transaction ends in a Commit or an Abort.
Entries are kept until then, or until a Commit may be yielded. If they exceed the memory limit, all of them are spilled
to a temporary file, which is truncated when none of its entries is needed.

A transaction that began before the stream is *torn*. If entries have their log form, its first received entry shows
this by naming a previous entry, since only the first entry of a transaction names none. In the form for replication no
entry names a previous one; then a transaction counts as torn unless its id is newer than all ids seen until a thousand
transactions had ended.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from struct import Struct
from typing import IO, Final

from engine.errors import FormatError, StorageError
from engine.format.entry.ln import HAS_EXPIRATION, LN
from engine.format.entry.ln_content import NameOperation
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import ABORT, COMMIT, NAME_LNS, TRANSACTIONAL, TXN_ENDS, type_name
from engine.format.fast.ln import transaction_of
from engine.format.lsn import NULL_LSN
from engine.rep.changes.database_names import RENAME
from engine.rep.changes.position import CommitPoint, Torn
from engine.rep.wire.entries import WireEntry
from engine.storage.scratch import nameless_file, read_kept, write_kept

MEMORY_BYTES: Final = 64 << 20
# Memory of an entry besides its body.
_ENTRY_BYTES: Final = 150
_SETTLED_ENDS: Final = 1000
_STORED: Final = Struct("<qBiI")
_READ_BYTES: Final = 1 << 20
# The first entry of a stream creates the group database, in a transaction of its own.
_WHOLE_FROM: Final = 2
_MOST_OPEN: Final = 1_000_000


class Spool:
    """A temporary file of entries; it has no name, so it disappears with the process."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._users = 0
        self._end = 0

    def add(self, entries: list[WireEntry]) -> tuple[int, int]:
        """Write entries and return their location.

        Raises:
            StorageError: there is no room.
        """
        parts = []
        for vlsn, type_number, log_version, body in entries:
            parts += [_STORED.pack(vlsn, type_number, log_version, len(body)), body]
        data = b"".join(parts)
        try:
            if self._file is None:
                self._file = nameless_file()
            write_kept(self._file.fileno(), data, self._end)
        except OSError as error:
            raise StorageError(
                "cannot write a temporary file",
                file=tempfile.gettempdir(),
                found=error.strerror,
                consequence="the stream has ended before a large transaction",
                hint="make room there, or name another directory with TMPDIR",
            ) from error
        self._users += 1
        self._end += len(data)
        return self._end - len(data), len(data)

    def read(self, place: tuple[int, int]) -> Iterator[WireEntry]:
        """The entries at a location.

        Raises:
            StorageError: they cannot be read.
        """
        assert self._file is not None
        at, left = place
        data = b""
        while left or data:
            # ``data`` ends within an entry, so the following bytes are appended.
            if left and (len(data) < _STORED.size or len(data) < _STORED.size + _STORED.unpack_from(data)[3]):
                piece = read_kept(self._file.fileno(), min(max(_READ_BYTES, len(data)), left), at)
                data += piece
                at += len(piece)
                left -= len(piece)
                continue
            pos = 0
            while len(data) - pos >= _STORED.size:
                vlsn, type_number, log_version, length = _STORED.unpack_from(data, pos)
                end = pos + _STORED.size + length
                if end > len(data):
                    break
                yield WireEntry(vlsn, type_number, log_version, data[pos + _STORED.size : end])
                pos = end
            data = data[pos:]

    def release(self, places: int) -> None:
        """Note that a number of locations are no longer needed."""
        self._users -= places
        if not self._users and places and self._file is not None:
            self._end = 0
            self._file.truncate(0)

    def close(self) -> None:
        """Give the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None


class TxnAssembly:
    """The received part of one transaction.

    Attributes:
        first_vlsn: VLSN of its first entry.
        torn: the transaction may have begun before the stream.
        named: the transaction changes names of databases.
        commit: the Commit, once received; ``restart`` belongs to it.
    """

    __slots__ = ("_places", "_recent", "_spool", "commit", "first_vlsn", "named", "restart", "size_bytes", "torn")

    def __init__(self, spool: Spool, first_vlsn: int, *, torn: bool) -> None:
        self._spool = spool
        self._places: list[tuple[int, int]] = []
        self._recent: list[WireEntry] = []
        self.first_vlsn = first_vlsn
        self.torn = torn
        self.named = False
        self.size_bytes = 0
        self.commit: tuple[int, TxnEnd] | None = None
        self.restart = 0

    def __iter__(self) -> Iterator[WireEntry]:
        """The entries of the transaction, in order."""
        for place in self._places:
            yield from self._spool.read(place)
        yield from self._recent

    def add(self, entry: WireEntry) -> int:
        """Add an entry and return the memory that it takes."""
        self._recent.append(entry)
        size = _ENTRY_BYTES + len(entry.body)
        self.size_bytes += size
        return size

    def spill(self) -> None:
        """Out of memory."""
        if self._recent:
            self._places.append(self._spool.add(self._recent))
            self._recent = []
        self.size_bytes = 0

    def release(self) -> None:
        """Release the transaction; it is no longer needed."""
        self._spool.release(len(self._places))
        self._places, self._recent = [], []

    @property
    def is_empty(self) -> bool:
        """Whether no record of the transaction was received, only its end."""
        return not self._places and not self._recent

    @property
    def point(self) -> CommitPoint:
        """The commit of the transaction."""
        assert self.commit is not None
        vlsn, end = self.commit
        return CommitPoint(vlsn, end.id, end.master_id, end.dtvlsn, self.restart)


class Assembler:
    """Assembles the entries of one connection into transactions.

    Arguments:
        torn: facts for recognising transactions that began before the stream.
        done: the last commit that was yielded; transactions up to it are skipped.
        log_version: the version in which the feeder rewrites entries.
        memory_bytes: most bytes held in memory.

    Attributes:
        last_vlsn: VLSN of the last entry.
        durable: the VLSN up to which everything is known to be durable.
    """

    def __init__(self, torn: Torn, done: int, log_version: int, memory_bytes: int = MEMORY_BYTES) -> None:
        self.torn = torn
        self.last_vlsn = 0
        self.durable = 0
        self._done = done
        self._log_version = log_version
        self._memory_bytes = memory_bytes
        self._spool = Spool()
        # Open transactions by id, in the order of their first entries.
        self._open: dict[int, TxnAssembly] = {}
        self._loose: TxnAssembly | None = None
        self._held: dict[int, TxnAssembly] = {}
        self._size = 0

    def start(self, vlsn: int) -> None:
        """Note the VLSN at which the stream begins."""
        self.last_vlsn = vlsn - 1

    def take(self, entries: list[WireEntry]) -> list[TxnAssembly]:
        """Take entries and return the transactions that they commit.

        Raises:
            FormatError: a VLSN is missing or repeated, or an entry is malformed.
            StorageError: the memory limit is reached and the disk is full.
        """
        committed: list[TxnAssembly] = []
        try:
            for entry in entries:
                vlsn, type_number, log_version, body = entry
                if vlsn != self.last_vlsn + 1:
                    raise FormatError("VLSN of the stream", expected=str(self.last_vlsn + 1), found=str(vlsn))
                self.last_vlsn = vlsn
                if type_number in TXN_ENDS:
                    self._ended(entry, committed)
                    continue
                if type_number in TRANSACTIONAL:
                    txn_id = transaction_of(body, 0, log_version)
                    if txn_id is None:
                        txn_id = _decoded(entry).txn_id
                    gathered = self._open.get(txn_id or 0) or self._began(entry, txn_id or 0)
                else:
                    # An operation outside of transactions is effective at once; it is yielded together with the next
                    # committed transaction.
                    gathered = self._loose = self._loose or TxnAssembly(self._spool, vlsn, torn=False)
                if type_number in NAME_LNS:
                    gathered.named = True
                self._size += gathered.add(entry)
                if self._size > self._memory_bytes:
                    self._spill()
        except IndexError as error:
            raise FormatError("an entry of the stream", expected="the fields of its type", found=str(error)) from error
        return committed

    def release(self, gathered: TxnAssembly) -> None:
        """Note that a transaction was yielded."""
        self._held.pop(gathered.point.vlsn)
        self._size -= gathered.size_bytes
        gathered.release()

    def close(self) -> None:
        """Release the temporary file."""
        self._spool.close()

    def _ended(self, entry: WireEntry, committed: list[TxnAssembly]) -> None:
        end = entry.record()
        assert isinstance(end, TxnEnd)
        self.durable = max(self.durable, end.dtvlsn)
        if self.torn.ends < _SETTLED_ENDS:
            # Ids fall.
            self.torn = self.torn._replace(ends=self.torn.ends + 1, newest_txn=min(self.torn.newest_txn, end.id))
        gathered = self._open.pop(end.id, None)
        if entry.type_number == ABORT or entry.vlsn <= self._done:
            self._drop(gathered)
            if entry.type_number == COMMIT:
                self._drop(self._loose)
                self._loose = None
            return
        if gathered is None:
            # No record was received: a commit of the master itself for the DTVLSN, or a transaction whose records all
            # precede the stream.
            torn = self.torn.start > _WHOLE_FROM and end.last_lsn != NULL_LSN
            gathered = TxnAssembly(self._spool, entry.vlsn, torn=torn)
        gathered.commit = entry.vlsn, end
        gathered.restart = next((other.first_vlsn for other in self._open.values()), entry.vlsn + 1)
        if self._loose is not None:
            for before in self._loose:
                self._size += gathered.add(before)
                gathered.named = gathered.named or before.type_number in NAME_LNS
            self._drop(self._loose)
            self._loose = None
        self._held[entry.vlsn] = gathered
        committed.append(gathered)

    def _drop(self, gathered: TxnAssembly | None) -> None:
        if gathered is not None:
            self._size -= gathered.size_bytes
            gathered.release()

    def _began(self, entry: WireEntry, txn_id: int) -> TxnAssembly:
        if len(self._open) >= _MOST_OPEN:
            raise FormatError("transactions that are open at once", expected=f"up to {_MOST_OPEN}", found="more")
        gathered = self._open[txn_id] = TxnAssembly(self._spool, entry.vlsn, torn=self._is_torn(entry, txn_id))
        return gathered

    def _is_torn(self, entry: WireEntry, txn_id: int) -> bool:
        """Whether a transaction may have begun before the stream; ``entry`` is its first received entry."""
        torn = self.torn
        if torn.start <= _WHOLE_FROM or (torn.ends >= _SETTLED_ENDS and txn_id < torn.newest_txn):
            return False
        record = _decoded(entry)
        if isinstance(record.tail, NameOperation) and record.tail.operation == RENAME:
            # This is not the first entry of a renaming: the deletion of the old name came first, and is not replicated.
            return False
        # An entry in the form for replication has the agreed version, and at most the flag for an expiration.
        as_logged = record.flags & ~HAS_EXPIRATION or record.flags2 or entry.log_version > self._log_version
        return not (as_logged and record.last_lsn == NULL_LSN)

    def _spill(self) -> None:
        for gathered in (*self._open.values(), *self._held.values(), self._loose):
            if gathered is not None:
                gathered.spill()
        self._size = 0


def _decoded(entry: WireEntry) -> LN:
    record = entry.record()
    if not isinstance(record, LN):
        raise FormatError(f"a {type_name(entry.type_number)} of the stream", expected="an LN", found="another body")
    return record
