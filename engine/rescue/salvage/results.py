"""Results of a salvage: records and findings."""

from __future__ import annotations

from typing import NamedTuple

from engine.rescue.salvage.databases import SalvageDb


class SalvagedDatabase(NamedTuple):
    """A database of the result.

    Attributes:
        source: index of the source.
        db: the properties of the database, as far as they are known.
        orphan: no MapLN names it, so its records belong to an unknown database.
        nameless: the name of the database is lost, so it may be one of JE's own.
        local: the database is not replicated, so only one node of its source has it.
    """

    source: int
    db: SalvageDb
    orphan: bool
    local: bool = False
    nameless: bool = False


class SalvagedRecord(NamedTuple):
    """A record and its origin.

    Attributes:
        database: index of its database.
        expiration: days, or negative hours, since 1970; 0 for none.
        env: the environment from which it comes.
        origin: ``tree``: recovery; ``log``: an LN; ``slot``: its BIN had the data embedded.
        lsn, vlsn, txn, time_ms: of the version, and of its Commit; NULL_LSN, NULL_VLSN and None if unknown.
        stood_in: a newer version is lost.
        confirmed: the version is the newest: no damage can hide a newer version or a deletion, and the database has a
            name.
    """

    database: int
    key: bytes
    data: bytes
    expiration: int
    env: str
    origin: str
    lsn: int
    vlsn: int
    txn: int | None
    time_ms: int | None
    stood_in: bool
    confirmed: bool


class LostVersion(NamedTuple):
    """A key whose newest version cannot be read.

    Attributes:
        stood_in: an older version was saved in its place.
        older_lsn: LSN of the older version; NULL_LSN if there is no older version.
    """

    database: int
    key: bytes
    env: str
    lsn: int
    stood_in: bool
    older_lsn: int


class DoubtfulVersion(NamedTuple):
    """A version newer than the saved version, whose transaction has neither Commit nor Abort in the log."""

    database: int
    key: bytes
    env: str
    lsn: int
    txn: int
    data: bytes | None


Salvaged = SalvagedRecord | LostVersion | DoubtfulVersion
