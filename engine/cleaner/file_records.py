"""The records of internal databases about single files: summaries, expiration, reserved files (je-log-format.md 10.1 to
10.3).

When a file leaves the live log, its record in ``_jeReservedFilesDb`` is written first, then its FileSummaryLNs are
removed: a crash between the two leaves a reserved file with summaries, which have no effect. When a file is deleted, it
is deleted first and its records afterwards: records of a missing file are removed when they are found (R-CLN-14).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.catalog.catalog import Catalog
from engine.catalog.name_operations import DatabaseOptions, NamingOperations
from engine.cleaner import expiration, tracker
from engine.errors import DamageError, FormatError
from engine.format import tuples
from engine.format.bytecursor import sorted_pack
from engine.format.entry.internal_db import ReservedFile, encode_reserved_file, reserved_file_of
from engine.format.entry.ln_content import FileSummaryLN
from engine.format.entry_types import RESERVED_FILE_LN
from engine.format.fast.file_summary import SUMMARY_KEY_BYTES
from engine.format.lsn import NULL_LSN, file_of, format_lsn
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.keys import Key
from engine.tree.tree import bins, find_bin, next_bin, read_ln, slot_data
from engine.txn.manager import TxnManager
from engine.txn.payload import FILE_SUMMARY, USER, LeafKind, Payload, PutMode
from engine.txn.records import Records
from engine.txn.txn import Durability

RESERVED_FILES: Final = "_jeReservedFilesDb"
RESERVED_FILE: Final = LeafKind(
    insert=RESERVED_FILE_LN,
    insert_tx=RESERVED_FILE_LN,
    update=RESERVED_FILE_LN,
    update_tx=RESERVED_FILE_LN,
    delete=RESERVED_FILE_LN,
    delete_tx=RESERVED_FILE_LN,
    embeds=False,
)
_GONE: Final = FileSummaryLN(NULL_LSN, None, ())


class FileRecords:
    """Reads and writes the records of internal databases about single files.

    Arguments:
        ctx, catalog, naming, records, txns: the parts of the environment.
    """

    def __init__(
        self, ctx: TreeContext, catalog: Catalog, naming: NamingOperations, records: Records, txns: TxnManager
    ) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._naming = naming
        self._records = records
        self._txns = txns

    def reserved(self) -> dict[int, ReservedFile]:
        """The reserved files on record, including those that are missing.

        Raises:
            DamageError: a record cannot be read.
        """
        found = {}
        with self._ctx.latch:
            state = self._catalog.by_name(RESERVED_FILES)
            for node in bins(self._ctx, state) if state is not None else ():
                for index, key in enumerate(node.keys):
                    data = slot_data(self._ctx, node, index) if node.is_live(index) else None
                    if data is None:
                        continue
                    try:
                        number, record = reserved_file_of(node.db.order.unwrap(key), data)
                    except FormatError as error:
                        raise _unreadable(self._ctx, node.lsns[index], error) from error
                    found[number] = record
        return found

    def put_reserved(self, number: int, record: ReservedFile) -> None:
        """Record that a file has left the live log."""
        with self._ctx.latch:
            state = self._catalog.by_name(RESERVED_FILES)
        if state is None:
            # Environments of JE 7 and earlier have no such database.
            txn = self._txns.begin(durability=Durability.NO_SYNC)
            state = self._naming.create(RESERVED_FILES, DatabaseOptions(), txn, internal=True)
            self._txns.commit(txn)
        locker = self._txns.begin(transactional=False, durability=Durability.NO_SYNC)
        key = state.order.wrap(tuples.long_key(number))
        self._records.put(state, key, Payload(encode_reserved_file(record), RESERVED_FILE), locker, PutMode.OVERWRITE)
        self._txns.end_operation(locker)

    def remove_reserved(self, number: int) -> None:
        """Remove the record of a reserved file that is deleted, or back in the live log."""
        self._delete(RESERVED_FILES, [tuples.long_key(number)], Payload(None, RESERVED_FILE))

    def remove_summaries(self, number: int) -> None:
        """Remove every FileSummaryLN of a file."""
        with self._ctx.latch:
            state = self._catalog.by_name(tracker.DATABASE_NAME)
            keys = [] if state is None else [node_key for node_key, _ in _summaries(self._ctx, state, number)]
        self._delete(tracker.DATABASE_NAME, keys, Payload(None, FILE_SUMMARY, content=_GONE))

    def remove_expiration(self, number: int) -> None:
        """Remove the histogram of a file."""
        self._delete(expiration.DATABASE_NAME, [sorted_pack(number)], Payload(None, USER))

    def histogram(self, number: int) -> dict[int, int] | None:
        """Bytes of a file by the hour at which they expire; None if they were never counted."""
        with self._ctx.latch:
            state = self._catalog.by_name(expiration.DATABASE_NAME)
            key = b"" if state is None else state.order.wrap(sorted_pack(number))
            node = None if state is None else find_bin(self._ctx, state, key)
            index, exact = node.find(key) if node is not None else (0, False)
            if node is None or not exact or not node.is_live(index):
                return None
            data = slot_data(self._ctx, node, index)
        try:
            return expiration.decode_histogram(data or b"")
        except (FormatError, IndexError):
            return None

    def summarized(self) -> set[int]:
        """The numbers of all files that have summaries."""
        with self._ctx.latch:
            state = self._catalog.by_name(tracker.DATABASE_NAME)
            found = bins(self._ctx, state) if state is not None else ()
            return {
                int.from_bytes(key[:4], "big")
                for node in found
                for index, key in enumerate(node.keys)
                if node.is_live(index) and len(key) == SUMMARY_KEY_BYTES
            }

    def _delete(self, name: str, keys: list[Key], payload: Payload) -> None:
        with self._ctx.latch:
            state = self._catalog.by_name(name)
        if state is None or not keys:
            return
        locker = self._txns.begin(transactional=False, durability=Durability.NO_SYNC)
        for key in keys:
            self._records.delete(state, state.order.wrap(key), locker, payload)
        self._txns.end_operation(locker)
        if locker.deleted and self._txns.compress_later is not None:
            self._txns.compress_later(locker)


def _unreadable(ctx: TreeContext, lsn: int, error: FormatError) -> DamageError:
    path = next((file.path for file in ctx.access.files() if file.number == file_of(lsn)), None)
    return DamageError(
        f"record of a reserved file cannot be read, {error.what}",
        file=path,
        lsn=format_lsn(lsn),
        expected=error.expected,
        found=error.found,
        consequence="JE does not open the environment either",
    )


def obsolete_offsets(ctx: TreeContext, state: DatabaseState, number: int) -> set[int]:
    """All offsets of a file that its FileSummaryLNs record as obsolete (R-CLN-12).

    Unreadable summaries are skipped: a missing offset only costs a lookup in the tree.
    """
    found: set[int] = set()
    try:
        for _, lsn in _summaries(ctx, state, number):
            content = read_ln(ctx, state, lsn).content
            if isinstance(content, FileSummaryLN):
                found.update(content.offsets)
    except (DamageError, FormatError):
        return found
    return found


def _summaries(ctx: TreeContext, state: DatabaseState, number: int) -> Iterator[tuple[bytes, int]]:
    """Key and LSN of the summaries of a file, the newest first."""
    prefix = number.to_bytes(4, "big")
    node = find_bin(ctx, state, prefix)
    while node is not None:
        for index, key in enumerate(node.keys):
            if key[:4] == prefix and node.is_live(index):
                yield key, node.lsns[index]
        # Keys are file number and sequence number, so keys of this file are contiguous.
        if len(node) and node.keys[-1][:4] > prefix:
            return
        node = next_bin(ctx, node)
