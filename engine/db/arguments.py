"""Arguments of calls that write or search, checked before a lock is taken or a node changes.

Keys and data are ``bytes``; ``bytearray`` and ``memoryview`` are copied, so that a later change to them cannot reach a
node. Everything else is refused: ``str`` has no single encoding, and None is not the empty key.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from engine.catalog.name_operations import DatabaseOptions
from engine.errors import ArgumentError
from engine.tree.database_state import MOST_ENTRIES
from engine.txn.payload import PutMode

BytesLike: TypeAlias = bytes | bytearray | memoryview
# A log entry has a signed size of four bytes; everything in it besides key and data takes less than this.
_MOST_BYTES: Final = (1 << 31) - (1 << 12)
# The least value that JE accepts for je.nodeMaxEntries; nodes in existing logs may have fewer slots.
_LEAST_ENTRIES: Final = 4
_MOST_EXPIRATION: Final = (1 << 31) - 1


def bytes_of(value: object, what: str) -> bytes:
    """Key or data as bytes.

    Arguments:
        what: the name of the argument in the message.

    Raises:
        ArgumentError: the value has another type, or is longer than a log entry can be.
    """
    if type(value) is not bytes:
        if not isinstance(value, BytesLike):
            raise ArgumentError(
                f"wrong type for the {what}",
                expected="bytes, bytearray or memoryview",
                found="None" if value is None else type(value).__name__,
                consequence=f"encode it, as in {what.split()[-1]}.encode()"
                if isinstance(value, str)
                else "nothing was changed",
            )
        value = bytes(value)
    if len(value) > _MOST_BYTES:
        raise ArgumentError(
            f"the {what} is too long",
            expected=f"{_MOST_BYTES} bytes at most",
            found=str(len(value)),
            consequence="nothing was changed",
        )
    return value


def check_record(key: bytes, data: bytes, expiration: int, mode: PutMode = PutMode.OVERWRITE) -> None:
    """Check a record that is about to be written; key and data are bytes already.

    Arguments:
        expiration: days since 1970, or negative hours; 0 for none.
        mode: what to do if a record exists, or does not.

    Raises:
        ArgumentError: the mode is not a PutMode; key and data are longer than a log entry can be; or the expiration is
            not a 32-bit number.
    """
    if len(key) + len(data) > _MOST_BYTES:
        raise ArgumentError(
            "the record is too long",
            expected=f"{_MOST_BYTES} bytes of key and data at most",
            found=str(len(key) + len(data)),
            consequence="nothing was changed",
        )
    if not isinstance(mode, PutMode):
        raise ArgumentError(
            "the mode is not a PutMode", expected="PutMode", found=repr(mode)[:40], consequence="nothing was changed"
        )
    if expiration and (not isinstance(expiration, int) or abs(expiration) > _MOST_EXPIRATION):
        raise ArgumentError(
            "the expiration is not a number of days or hours",
            expected=f"-{_MOST_EXPIRATION} to {_MOST_EXPIRATION}",
            found=repr(expiration)[:40],
            consequence="nothing was changed",
        )


def check_options(options: DatabaseOptions) -> None:
    """Check the options of a new database.

    Raises:
        ArgumentError: JE does not support that node size.
    """
    entries = options.max_entries
    if not isinstance(entries, int) or not _LEAST_ENTRIES <= entries <= MOST_ENTRIES:
        raise ArgumentError(
            "nodes cannot have that number of entries",
            expected=f"{_LEAST_ENTRIES} to {MOST_ENTRIES}",
            found=repr(entries)[:40],
            consequence="nothing was changed",
        )


def name_of(value: object) -> str:
    """The name of a database.

    Raises:
        ArgumentError: the name is not a ``str``.
    """
    if not isinstance(value, str):
        raise ArgumentError(
            "the name of a database is not text",
            expected="str",
            found=type(value).__name__,
            consequence="nothing was changed",
        )
    return value
