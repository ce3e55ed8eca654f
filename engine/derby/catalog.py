"""The one table of the SQL catalogue that a check needs: SYSCONGLOMERATES, which names every container in use.

Its container number stands in ``service.properties`` (``SysconglomeratesIdentifier``). Its columns begin with schema
id, table id and conglomerate number (long). A conglomerate number is the container number of a table or of an index;
several constraints may share one index. Rows are read from the pages as they are on disk, so the answer holds for a
database with nothing to redo or undo only.
"""

from __future__ import annotations

from engine.derby.database import DerbyDatabase
from engine.derby.format import container, page, row
from engine.derby.format.container import ContainerKey
from engine.errors import FormatError

PROPERTY = "SysconglomeratesIdentifier"
_NUMBER_COLUMN = 2
_NUMBER_BYTES = 8
_HEADER_BYTES = container.HEADER_OFFSET + container.HEADER_SIZE


def conglomerates(database: DerbyDatabase) -> set[int] | None:
    """Container numbers of all tables and indexes, or None when the table cannot be found or read."""
    text = database.properties.get(PROPERTY, "")
    if not text.isdigit():
        return None
    path = container.path_of(ContainerKey(0, int(text)))
    if database.storage.stat(path) is None:
        return None
    file = database.storage.open(path)
    try:
        size = container.header_in(file.read(0, _HEADER_BYTES)).page_size
        found: set[int] = set()
        # Page 0 is the allocation page.
        for number in range(1, file.size() // size):
            found |= _numbers_on(file.read(number * size, size))
        return found
    except FormatError:
        # Damage is reported page by page in ``verify_pages``.
        return None
    finally:
        file.close()


def _numbers_on(data: bytes) -> set[int]:
    """The conglomerate numbers of the rows of one page."""
    header = page.read_page_header(data)
    if header.page_format != page.STORED or header.status != page.VALID or header.overflow:
        return set()
    found = set()
    for stored in page.decode(data).rows:
        one = row.decode_row(stored.record)
        if one.header.deleted or len(one.fields) <= _NUMBER_COLUMN:
            continue
        value = one.fields[_NUMBER_COLUMN].data
        if value is not None and len(value) == _NUMBER_BYTES:
            found.add(int.from_bytes(value, "big", signed=True))
    return found
