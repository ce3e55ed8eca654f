"""The transactions and changes that a stream yields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import split_two_part_key
from engine.format.entry.internal_db import RecordExtinction, decode_extinct_scan
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import NameLN
from engine.format.entry_types import (
    DEL_DUP_LNS,
    DELETIONS,
    EXTINCT_SCAN_LNS,
    INSERTIONS,
    NAME_LNS,
    REPLACEMENTS,
    STREAM_RECORDS,
)
from engine.rep.changes.database_names import DatabaseNames, NameChange
from engine.rep.changes.position import CommitPoint
from engine.rep.peers import PeerError
from engine.rep.wire.entries import WireEntry
from engine.tree.database_state import INTERNAL_PREFIX

INSERT: Final = "insert"
UPDATE: Final = "update"
DELETE: Final = "delete"
# Log versions before 8 do not show whether the record existed.
PUT: Final = "put"
# Discards all records of a range at once (discardExtinctRecords); no deletions follow.
DISCARD: Final = "discard"
# Discards the records of a range that a filter chooses; the filter is code of the application.
DISCARD_SOME: Final = "discard_some"
DATABASE_OPERATIONS: Final = ("create", "remove", "truncate", "rename", "update_config")
OPERATIONS: Final = (
    INSERT,
    UPDATE,
    DELETE,
    PUT,
    DISCARD,
    DISCARD_SOME,
    *(f"{word}_database" for word in DATABASE_OPERATIONS),
)
# Makes a record without calling its constructor, which matters for millions of records.
_new_tuple: Final = tuple.__new__
_WORDS: Final = (
    dict.fromkeys(INSERTIONS, INSERT)
    | dict.fromkeys(REPLACEMENTS, UPDATE)
    | dict.fromkeys(DELETIONS | DEL_DUP_LNS, DELETE)
)


class RecordChange(NamedTuple):
    """One change of a transaction.

    Attributes:
        op: a word of ``OPERATIONS``.
        db: the name of the database after the change; None if unknown.
        key, data: the record; data is None for a deletion, and both are None for changes of databases. For a discarded
            range: the first key, and the key before which it ends; None: no bound.
        expiration: days since 1970, or minus hours; 0 for none.
        old_name: previous name of a renamed database, if known.
    """

    vlsn: int
    op: str
    db_id: int
    db: str | None
    key: bytes | None
    data: bytes | None
    expiration: int
    old_name: str | None


class CommittedTransaction:
    """A transaction that has committed.

    Arguments:
        point: the commit of the transaction.
        time_ms: commit time by the clock of the node that sent it.
        torn: some of its records may precede the start of the stream.
        entries: the records of the transaction in order, and nothing else.
        names: databases by id, after this transaction.
        name_changes: the operations of the transaction on names, by VLSN.
    """

    def __init__(
        self,
        point: CommitPoint,
        time_ms: int,
        entries: Iterable[WireEntry],
        names: DatabaseNames,
        name_changes: dict[int, NameChange],
        *,
        torn: bool,
    ) -> None:
        self.point = point
        self.time_ms = time_ms
        self.torn = torn
        self._entries = entries
        self._names = names
        self._name_changes = name_changes

    def changes(self, *, internal: bool = False) -> Iterator[RecordChange]:
        """The changes of the transaction; valid until the next transaction is requested.

        Arguments:
            internal: include changes of JE's own databases.

        Raises:
            PeerError: the master has sent invalid data.
        """
        try:
            yield from self._changes(internal=internal)
        except FormatError as error:
            what = f"a change of transaction {self.point.txn_id} makes no sense"
            raise PeerError(what, found=str(error)) from error

    def _changes(self, *, internal: bool) -> Iterator[RecordChange]:
        names = self._names
        for entry in self._entries:
            vlsn, type_number, _, _ = entry
            if type_number in STREAM_RECORDS:
                record = entry.record()
                assert isinstance(record, LN)
                found = names.get(record.db_id)
                if found is None:
                    name, duplicates = None, None
                else:
                    name, duplicates = found
                    if name.startswith(INTERNAL_PREFIX) and not internal:
                        continue
                key, data = record.key, record.data
                word = _WORDS.get(type_number) or (DELETE if data is None else PUT)
                if duplicates:
                    key, data = _split(key, data)
                yield _new_tuple(RecordChange, (vlsn, word, record.db_id, name, key, data, record.expiration, None))
            elif type_number in EXTINCT_SCAN_LNS:
                yield from self._discarded(entry)
            elif type_number in NAME_LNS:
                change = self._name_changes[vlsn]
                if internal or not change.name.startswith(INTERNAL_PREFIX):
                    word = f"{change.operation}_database"
                    yield RecordChange(
                        vlsn=vlsn,
                        op=word,
                        db_id=change.db_id,
                        db=change.name,
                        key=None,
                        data=None,
                        expiration=0,
                        old_name=change.old,
                    )

    def _discarded(self, entry: WireEntry) -> Iterator[RecordChange]:
        """The changes of a task that discards a range, one per database. A task that completes a removal gives none."""
        record = entry.record()
        assert isinstance(record, LN)
        task = decode_extinct_scan(record.data) if record.data is not None else None
        if not isinstance(task, RecordExtinction):
            return
        for db_id in task.db_ids:
            found = self._names.get(db_id)
            yield RecordChange(
                vlsn=entry.vlsn,
                op=DISCARD_SOME if task.filter is not None else DISCARD,
                db_id=db_id,
                db=None if found is None else found.name,
                key=task.begin_key,
                data=task.end_key,
                expiration=0,
                old_name=None,
            )


def name_records(entries: Iterable[WireEntry]) -> list[tuple[int, LN]]:
    """The name operations of a transaction, each with its VLSN.

    Raises:
        FormatError: an entry is malformed.
    """
    found = []
    for entry in entries:
        if entry.type_number in NAME_LNS:
            record = entry.record()
            if not isinstance(record, LN) or not isinstance(record.content, NameLN):
                raise FormatError("a name in the stream", expected="a NameLN", found=type(record).__name__)
            found.append((entry.vlsn, record))
    return found


def _split(key: bytes, data: bytes | None) -> tuple[bytes, bytes | None]:
    """Split the stored key of a database with duplicates into key and data item."""
    try:
        return split_two_part_key(key)
    except (FormatError, IndexError):
        return key, data
