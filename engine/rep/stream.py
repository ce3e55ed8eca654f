"""Entries of the replication stream: their transport form, and reading them from a log by VLSN.

Rules (je-log-format.md 7.6, R-SYNC-2, R-SYNC-30):

* In transport form an entry has no LSNs of its sender: an LN keeps transaction, database, key, data and expiration;
  Commit and Abort lose ``last_lsn``. Entries of older log versions are rewritten for version 17, so the same form is
  compared and sent.
* Two nodes agree at a VLSN when type and form are the same. The time of a Commit or Abort does not count: JE's replicas
  log their own.
* Readers skip invisible entries, whose VLSNs are reused after the rollback. JE leaves rolled-back Matchpoints visible;
  they are recognised by the following RollbackStart, and skipped too. In the remaining stream every VLSN is one more
  than the previous VLSN; anything else is damage. A file may be missing in between: the cleaner may delete files
  without entries of the stream.

Example: ``UPD_LN_TX 0x0/0x6f9 VLSN 5 txn -13 abort_lsn 0x0/0x67b prior_size 91`` is sent as flags 0, flags2 0, database
-257, transaction -13, key and data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from engine.db.engine import Engine
from engine.errors import DamageError, FormatError, NotFoundError, UnsupportedError
from engine.format.codecs import decode_body, encode_body
from engine.format.entry.ln import HAS_EXPIRATION, LN
from engine.format.entry.rollback import decode_rollback_start
from engine.format.entry.txn_end import TxnEnd, decode_txn_end
from engine.format.entry_types import MATCHPOINT, ROLLBACK_START, TXN_ENDS, type_name
from engine.format.header import REPLICATED, is_invisible
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.format.versions import WRITTEN_VERSION
from engine.format.vlsn import NULL_VLSN
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RawEntry, forward
from engine.vlsn.entry_waiters import LogItem
from engine.vlsn.scanner import ForwardScanner

_LEAST_VERSION: Final = 8


class StreamEntry(NamedTuple):
    """An entry in its transport form; ``body`` has log version 17."""

    vlsn: int
    type_number: int
    body: bytes

    def agrees(self, other: StreamEntry | None) -> bool:
        """Whether another node's entry is the same (R-SYNC-2)."""
        if other is None or self[:2] != other[:2]:
            return False
        if self.type_number in TXN_ENDS:
            return _without_time(self.body) == _without_time(other.body)
        return self.body == other.body


def _without_time(body: bytes) -> TxnEnd:
    return decode_txn_end(body, WRITTEN_VERSION)._replace(time=0)


def to_stream(vlsn: int, type_number: int, version: int, body: bytes) -> StreamEntry:
    """Convert an entry to the form that is sent and compared.

    Raises:
        UnsupportedError: the log version has no such form. FormatError: the body does not fit the type of the entry.
    """
    if version < _LEAST_VERSION:
        raise UnsupportedError(
            "entries of this log version cannot be sent to another node",
            expected=f"log version {_LEAST_VERSION} or later",
            found=str(version),
        )
    record = decode_body(type_number, version, body)
    if isinstance(record, LN):
        record = record._replace(
            flags=record.flags & HAS_EXPIRATION, flags2=0, flags3=0, abort_lsn=NULL_LSN, last_lsn=NULL_LSN,
            abort_key=None, abort_data=None, abort_vlsn=NULL_VLSN, abort_expiration=0, prior_size=0, prior_file=-1,
        )  # fmt: skip
    elif isinstance(record, TxnEnd):
        record = record._replace(last_lsn=NULL_LSN, master_term=0)
    return StreamEntry(vlsn, type_number, encode_body(type_number, WRITTEN_VERSION, record))


class StreamReader:
    """Reads the visible stream of an open environment forward, concurrently with writers.

    Arguments:
        engine: the environment; it has a VLSN index.
        vlsn: the first VLSN to read; in the range of the index, or the one after it.

    Attributes:
        next_vlsn: the next VLSN to read.

    Raises:
        NotFoundError: the VLSN is before the range.
    """

    def __init__(self, engine: Engine, vlsn: int) -> None:
        index, writer = engine.vlsn_index, engine.writer
        assert index is not None
        assert writer is not None
        assert engine.cleaner is not None
        self._engine, self._index, self._writer = engine, index, writer
        # Protected before the index is searched, so that the file is not deleted meanwhile (R-CLN-41).
        self._protection = engine.cleaner.protect_from("a reader of the stream", 0)
        self._access = LogAccess(engine.storage, ())
        self.next_vlsn = vlsn
        if index.range.contains(vlsn):
            self._lsn = ForwardScanner(index).start(vlsn)
        elif vlsn == index.latest_allocated + 1:
            with writer.latch:
                self._lsn = writer.next_lsn if index.range.is_empty else index.lte_lsn(index.range.last)
        else:
            self._protection.release()
            raise NotFoundError(f"VLSN {vlsn} is not in the log", expected=str(index.range), found=str(vlsn))
        self._protection.move_to(file_of(self._lsn))

    def read(self) -> Iterator[StreamEntry]:
        """The entries now in the log, from ``next_vlsn`` on. Call it again for later entries.

        Raises:
            DamageError: a VLSN is missing, or the log is damaged.
        """
        for raw in self.raw():
            yield form_of(raw)

    def raw(self) -> Iterator[RawEntry]:
        """The entries that iteration yields, in their log form."""
        for raw in self._raw():
            self.next_vlsn = raw.vlsn + 1
            yield raw

    def skip(self, item: LogItem) -> None:
        """Skip the entry at ``next_vlsn``, which was read from elsewhere."""
        self.next_vlsn, self._lsn = item.vlsn + 1, item.lsn
        self._protection.move_to(item.lsn >> 32)

    def close(self) -> None:
        """Give the files back."""
        self._access.close()
        self._protection.release()

    def _raw(self) -> Iterator[RawEntry]:
        with self._writer.latch:
            # Flush the writer's buffers first: the files are read directly, and a new file may not exist before its
            # first flush.
            self._writer.flush(sync=False)
            end = self._writer.next_lsn
            files = self._engine.log_files()
        if len(files) != len(self._access.files()) or files[-1].number != self._access.files()[-1].number:
            # The reader has file handles of its own: those of the environment may only be used under its latch.
            self._access.close()
            self._access = LogAccess(self._engine.storage, tuple(files))
        self._protection.move_to(file_of(self._lsn))
        for raw in _standing(forward(self._access, LogRange(self._lsn, end), None, gaps=True)):
            self._lsn = raw.lsn
            # The scan starts at the index mapping at or before the VLSN (R-VLSN-25), so earlier entries may come first.
            if raw.vlsn < self.next_vlsn:
                continue
            if raw.vlsn != self.next_vlsn:
                raise DamageError(
                    "a VLSN is missing in the log",
                    lsn=format_lsn(raw.lsn),
                    expected=str(self.next_vlsn),
                    found=f"{raw.vlsn} ({type_name(raw.type_number)})",
                    consequence="the replication stream cannot be read on",
                    hint="run jetool vlsn check",
                )
            yield raw


def _standing(entries: Iterable[RawEntry]) -> Iterator[RawEntry]:
    """The replicated entries that were not rolled back.

    Between a rolled-back Matchpoint and its RollbackStart the only visible entries are other such Matchpoints.
    """
    held: list[RawEntry] = []
    for raw in entries:
        if raw.type_number == ROLLBACK_START:
            to = decode_rollback_start(raw.body, raw.version).matchpoint_vlsn
            held = [matchpoint for matchpoint in held if matchpoint.vlsn <= to]
        elif not raw.flags & REPLICATED or is_invisible(raw.flags, raw.version):
            continue
        elif raw.type_number == MATCHPOINT:
            held.append(raw)
        else:
            # An entry other than a RollbackStart follows, so the Matchpoints held back were not rolled back.
            yield from held
            held.clear()
            yield raw
    yield from held


def form_of(raw: RawEntry) -> StreamEntry:
    """The form of an entry of this node's own log.

    Raises:
        DamageError: the entry is malformed. UnsupportedError: see ``to_stream``.
    """
    try:
        return to_stream(raw.vlsn, raw.type_number, raw.version, raw.body)
    except FormatError as error:
        raise DamageError(
            "an entry of the replication stream is malformed",
            lsn=format_lsn(raw.lsn),
            found=str(error),
            consequence="the stream cannot be read on, nor compared",
            hint="run jetool verify; restore this node from another node",
        ) from error


def entry_at(engine: Engine, vlsn: int) -> tuple[int, StreamEntry]:
    """LSN and form of the visible entry at a VLSN of the range; errors as ``raw_at``."""
    raw = raw_at(engine, vlsn)
    return raw.lsn, form_of(raw)


def last_end(engine: Engine) -> TxnEnd | None:
    """The last Commit or Abort of the stream in the log."""
    last = engine.stream_range.last_txn_end
    if last <= 0:
        return None
    raw = raw_at(engine, last)
    return decode_txn_end(raw.body, raw.version)


def new_term(engine: Engine) -> int:
    """The term of a master that was not elected: the current time, or the last term of the log if that is later."""
    end = last_end(engine)
    return max(engine.now_ms(), end.master_term if end is not None else 0)


def raw_at(engine: Engine, vlsn: int) -> RawEntry:
    """The visible entry at a VLSN of the range.

    Raises:
        NotFoundError: the VLSN is not in the range. DamageError: the entry is not in the log.
    """
    reader = StreamReader(engine, vlsn)
    try:
        for raw in reader.raw():
            return raw
    finally:
        reader.close()
    raise DamageError(f"VLSN {vlsn} is not in the log", file=engine.home, hint="run jetool vlsn check")
