"""The descriptor of an index in the catalogue (SYSCONGLOMERATES.DESCRIPTOR): which columns of the table it is on.

A short format id (387), then a hash table of Derby: short format id (313), int number of pairs, and for each pair a
name and a value. Both begin with a short format id: 1 is a string, 303 an int. ``keyLength`` is the number of columns,
``bcp0``, ``bcp1``, … are their positions in the table, counted from 1. The other pairs (``isUnique``, ``isAsc0``,
``indexType``, …) are not needed here; later releases added some.

Example: ``keyLength`` 2, ``bcp0`` 3 and ``bcp1`` 2 stand for an index on the third and the second column.
"""

from __future__ import annotations

from engine.derby.format.codec import FieldCursor
from engine.errors import FormatError

_DESCRIPTOR = 387
_HASH_TABLE = 313
_INT = 303
_STRING = 1


def base_columns(data: bytes) -> tuple[int, ...]:
    """The columns of an index as positions in the table, from 0. FormatError when it is something else."""
    cursor = FieldCursor(data)
    _require(cursor.short(), _DESCRIPTOR)
    _require(cursor.short(), _HASH_TABLE)
    pairs: dict[str, int | str] = {}
    # Each round takes bytes, or raises.
    for _ in range(cursor.fixed_int()):
        _require(cursor.short(), _STRING)
        name = cursor.string()
        kind = cursor.short()
        if kind not in (_INT, _STRING):
            raise FormatError("a value of an index descriptor is neither a number nor a string", found=str(kind))
        pairs[name] = cursor.fixed_int() if kind == _INT else cursor.string()
    columns = []
    length = pairs.get("keyLength")
    if not isinstance(length, int) or not 0 < length <= len(pairs):
        raise FormatError("an index descriptor does not state how many columns the index has", found=str(length))
    for at in range(length):
        position = pairs.get(f"bcp{at}")
        if not isinstance(position, int) or position < 1:
            raise FormatError(f"an index descriptor has no position for column {at + 1}", found=str(position))
        columns.append(position - 1)
    return tuple(columns)


def _require(found: int, expected: int) -> None:
    if found != expected:
        raise FormatError("an index descriptor has another form", expected=str(expected), found=str(found))
