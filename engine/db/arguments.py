"""Records, options and names of calls that write, checked before a lock is taken or a node changes.

``engine.arguments`` checks keys and data alone.
"""

from __future__ import annotations

from typing import Final

from engine.arguments import MOST_BYTES
from engine.catalog.name_operations import DatabaseOptions
from engine.errors import ArgumentError
from engine.tree.database_state import MOST_ENTRIES
from engine.txn.payload import PutMode

# The least value that JE accepts for je.nodeMaxEntries; nodes in existing logs may have fewer slots.
_LEAST_ENTRIES: Final = 4
_MOST_EXPIRATION: Final = (1 << 31) - 1


def check_record(key: bytes, data: bytes, expiration: int, mode: PutMode = PutMode.OVERWRITE) -> None:
    """Check a record that is about to be written; key and data are bytes already.

    Arguments:
        expiration: days since 1970, or negative hours; 0 for none.
        mode: what to do if a record exists, or does not.

    Raises:
        ArgumentError: the mode is not a PutMode; key and data are longer than a log entry can be; or the expiration is
            not a 32-bit number.
    """
    if len(key) + len(data) > MOST_BYTES:
        raise ArgumentError(
            "the record is too long",
            expected=f"{MOST_BYTES} bytes of key and data at most",
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
