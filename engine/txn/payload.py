"""The data that a put or a deletion writes, and the entry types of each kind of record.

The entry types of a kind depend on whether the record existed and whether a transaction writes: a user's new record in
a transaction is an INS_LN_TX, its non-transactional deletion a DEL_LN; a database's root is a MapLN in all cases.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from engine.format.entry.ln import Content, Tail
from engine.format.entry_types import (
    DEL_LN,
    DEL_LN_TX,
    FILE_SUMMARY_LN,
    INS_LN,
    INS_LN_TX,
    MAP_LN,
    NAME_LN,
    NAME_LN_TX,
    UPD_LN,
    UPD_LN_TX,
)
from engine.tree.bin_node import Times


class PutMode(Enum):
    """What a put does if a record exists, or does not; NEW_KEY is for callers of ``engine.db``, which converts it."""

    OVERWRITE = "overwrite"
    INSERT_ONLY = "insert only"
    UPDATE_ONLY = "update only"
    NEW_KEY = "new key"


class LeafKind:
    """The entry types of a kind of record: insertion, update, deletion, each without and with a transaction.

    Neither this class nor ``Payload`` is a NamedTuple: every put reads their fields, which costs nothing in a compiled
    class.
    """

    __slots__ = ("delete", "delete_tx", "embeds", "insert", "insert_tx", "update", "update_tx")

    def __init__(
        self, *, insert: int, insert_tx: int, update: int, update_tx: int, delete: int, delete_tx: int, embeds: bool
    ) -> None:
        self.insert = insert
        self.insert_tx = insert_tx
        self.update = update
        self.update_tx = update_tx
        self.delete = delete
        self.delete_tx = delete_tx
        self.embeds = embeds


USER: Final = LeafKind(
    insert=INS_LN,
    insert_tx=INS_LN_TX,
    update=UPD_LN,
    update_tx=UPD_LN_TX,
    delete=DEL_LN,
    delete_tx=DEL_LN_TX,
    embeds=True,
)
MAP: Final = LeafKind(
    insert=MAP_LN,
    insert_tx=MAP_LN,
    update=MAP_LN,
    update_tx=MAP_LN,
    delete=MAP_LN,
    delete_tx=MAP_LN,
    embeds=False,
)
NAME: Final = LeafKind(
    insert=NAME_LN,
    insert_tx=NAME_LN_TX,
    update=NAME_LN,
    update_tx=NAME_LN_TX,
    delete=NAME_LN,
    delete_tx=NAME_LN_TX,
    embeds=False,
)
FILE_SUMMARY: Final = LeafKind(
    insert=FILE_SUMMARY_LN,
    insert_tx=FILE_SUMMARY_LN,
    update=FILE_SUMMARY_LN,
    update_tx=FILE_SUMMARY_LN,
    delete=FILE_SUMMARY_LN,
    delete_tx=FILE_SUMMARY_LN,
    embeds=False,
)


class EntryMarks(NamedTuple):
    """Fields of a replayed LN that are the same on every node; used since v19.

    Attributes:
        times: times of the record.
        flags2: TOMBSTONE and BEFORE_IMAGE, as in the entry.
    """

    times: Times
    flags2: int


class Payload:
    """The data that a put writes; immutable.

    Attributes:
        data: None is a deletion.
        expiration: days, or negative hours, since 1970; 0 for none.
        content, tail: for internal records.
        keeps_expiration: an update keeps the record's expiration, unless it has expired.
        marks: for a replayed LN; None: the entry gets the current time.
        refresh: creates the content when the entry is logged, under the log write latch, for content that counts the
            entry itself; its encoded size must not depend on the time of the call.
    """

    __slots__ = ("content", "data", "expiration", "keeps_expiration", "kind", "marks", "refresh", "tail")

    def __init__(
        self,
        data: bytes | None,
        kind: LeafKind = USER,
        expiration: int = 0,
        content: Content | None = None,
        tail: Tail | None = None,
        refresh: Callable[[], Content] | None = None,
        keeps_expiration: bool = False,
        marks: EntryMarks | None = None,
    ) -> None:
        self.data = data
        self.kind = kind
        self.expiration = expiration
        self.content = content
        self.tail = tail
        self.refresh = refresh
        self.keeps_expiration = keeps_expiration
        self.marks = marks


def user_payload(data: bytes, expiration: int, update_expiration: bool = False) -> Payload:
    """A user's record."""
    return Payload(data, USER, expiration, keeps_expiration=not update_expiration)
