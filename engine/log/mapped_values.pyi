"""Reads data of users' records straight from maps of log files; exists only in the native build (``mapped_values.c``).

A read copies only the data out of the file: no copy of the whole entry, no record. General twins:
``access.is_user_entry`` and ``fast.ln.plain_data``. The same conditions are checked (type, size, checksum, visible,
database, no uncommon field); if one fails, or the bytes are not in a map (``storage.file_map``), the result is None.

Example: the LN at 5/0x82c of 142 bytes in database 3, in a map of file 5 of version 17. ``value_at({5: (map, 17)},
0x50000082c, 142, 3)`` is its data; with database 4, or a size of 141, it is None.
"""

from engine.storage.file_map import FileMap

def value_at(files: dict[int, tuple[FileMap, int]], lsn: int, size: int, db_id: int, /) -> bytes | None:
    """The data of a record.

    Arguments:
        files: by file number the map, and the log version.
        size: size of the entry in bytes.
    """

def values_at(
    files: dict[int, tuple[FileMap, int]], lsns: list[int], sizes: list[int], chosen: list[int], db_id: int, /
) -> list[bytes | None]:
    """Like ``value_at``, for chosen slots of a node; the memory of all of them is prefetched at once.

    Arguments:
        lsns, sizes: of all slots.
        chosen: indexes of the slots.

    Raises:
        IndexError: a slot does not exist.
    """
