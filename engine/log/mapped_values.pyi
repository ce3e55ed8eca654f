"""Data of users' records straight from maps of log files; there only in the native build (``mapped_values.c``).

A read takes nothing but the data out of the file: no copy of the whole entry, no record. General twins:
``access.is_user_entry`` and ``fast.ln.plain_data``. The same is asked here (type, size, checksum, visible, database,
no uncommon field); where one of it is not so, or the bytes are not in a map (``storage.file_map``), the answer is None.

Example: the LN at 5/0x82c of 142 bytes in database 3, in a map of file 5 of version 17. ``value_at({5: (map, 17)},
0x50000082c, 142, 3)`` is its data; with database 4, or a size of 141, it is None.
"""

from engine.storage.file_map import FileMap

def value_at(files: dict[int, tuple[FileMap, int]], lsn: int, size: int, db_id: int, /) -> bytes | None:
    """The data of a record.

    Arguments:
        files: by number: maps, and the versions of the logs.
        size: bytes of the entry.
    """

def values_at(
    files: dict[int, tuple[FileMap, int]], lsns: list[int], sizes: list[int], chosen: list[int], db_id: int, /
) -> list[bytes | None]:
    """The same for chosen slots of a node; the memory of all of them is asked for at once.

    Arguments:
        lsns, sizes: of all slots.
        chosen: which ones.

    Raises:
        IndexError: there is no such slot.
    """
