"""The tables of a database, and their rows, without Derby.

Four tables of the catalogue are read: SYSCONGLOMERATES names the container of each table (``engine.derby.catalog``),
SYSSCHEMAS, SYSTABLES and SYSCOLUMNS give names, columns and types. Their own ids are the same in every database.

The rows are those that recovery leaves: it runs in memory. If it stops at damage, the rows are those on disk, where
changes of open transactions may be among them, and committed ones may be missing (``SqlTables.problem``).

    with SqlTables(database) as found:
        for table in found.tables():
            for row in found.rows(table):
                ...

Example: table ``APP.ACCT`` has the columns ID INTEGER, NAME VARCHAR(80) and BAL INTEGER in container 0x450; the row at
``(1,7)`` is ``[0, "base", 0]``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from engine.derby import catalog
from engine.derby.cache import NoLog, PageCache
from engine.derby.containers import Container, Containers
from engine.derby.database import DerbyDatabase
from engine.derby.format.container import ContainerKey
from engine.derby.format.sql_type import SqlType, SqlValue, decode_text, decode_type, decode_value
from engine.derby.recovery.manager import RecoveryOptions, recover_locked
from engine.derby.sql.heap_rows import LostRows, WholeRow, heap_rows
from engine.errors import DamageError, FormatError, JetoolError, NotFoundError, RefusedError
from engine.events import SILENT, Listener
from engine.storage.overlay import OverlayStorage

# Ids of tables of the catalogue, the same in every database.
_SYSTABLES: Final = "80000018-00d0-fd77-3ed8-000a0a0b1900"
_SYSCOLUMNS: Final = "8000001e-00d0-fd77-3ed8-000a0a0b1900"
_SYSSCHEMAS: Final = "80000022-00d0-fd77-3ed8-000a0a0b1900"
USER_TABLE: Final = "T"
SYSTEM_TABLE: Final = "S"
_KINDS: Final = (USER_TABLE, SYSTEM_TABLE)
_LONG_BYTES: Final = 8
_INT_BYTES: Final = 4
_TRUE: Final = b"\x01"


class SqlColumn(NamedTuple):
    """A column of a table.

    Attributes:
        number: its position, counted from 1.
        kind: its type; None if the catalogue's description cannot be read.
    """

    number: int
    name: str
    kind: SqlType | None


class SqlTable(NamedTuple):
    """A table with a container.

    Attributes:
        schema, name: as in the catalogue, usually in capitals.
        is_system: a table of the catalogue.
        container: number of its container in segment 0.
        columns: in their order.
    """

    schema: str
    name: str
    is_system: bool
    container: int
    columns: tuple[SqlColumn, ...]

    @property
    def full_name(self) -> str:
        """Schema and name, with a dot between them."""
        return f"{self.schema}.{self.name}"


class SqlRow(NamedTuple):
    """A row.

    Attributes:
        page, record_id: its location.
        values: by column; None is null.
        problems: columns whose value is not of the type of the column, by name; the value is in hex.
    """

    page: int
    record_id: int
    values: list[SqlValue | None]
    problems: dict[str, str]


class SqlTables:
    """The tables of a database, read in memory.

    Arguments:
        database: the database; it is only read.
        listener: hears of the steps of recovery.

    Attributes:
        problem: why the rows are those on disk; None if they are those after recovery.
        lost_commits: committed transactions after the end of the log, which are not seen.
        damages: what could not be read of the catalogue.

    Raises:
        RefusedError: the database is encrypted, or its release is not known.
    """

    def __init__(self, database: DerbyDatabase, listener: Listener = SILENT) -> None:
        database.require_clear()
        self.problem: str | None = None
        self.lost_commits = 0
        self.damages: list[LostRows] = []
        overlay = OverlayStorage(database.storage)
        try:
            self.lost_commits = recover_locked(overlay, RecoveryOptions(accept_loss=True), None, listener).lost_commits
        except (DamageError, FormatError, RefusedError) as error:
            # Half of a recovery is worse than none.
            overlay = OverlayStorage(database.storage)
            self.problem = error.what
        self._database = DerbyDatabase(overlay)
        self._containers = Containers(self._database)
        self._cache = PageCache(self._containers, NoLog())

    def __enter__(self) -> SqlTables:
        return self

    def __exit__(self, *_: object) -> None:
        self._containers.close()

    def tables(self) -> list[SqlTable]:
        """All tables, those of the catalogue too, by name.

        Raises:
            DamageError: the catalogue cannot be found.
        """
        self.damages.clear()
        homes = self._homes()
        schemas = {row[0]: row[1] for row in self._texts(homes, _SYSSCHEMAS, 2)}
        columns: dict[str, list[SqlColumn]] = {}
        for values in self._values(homes, _SYSCOLUMNS):
            column = _column(values)
            if column is not None:
                columns.setdefault(column[0], []).append(column[1])
        found = [
            SqlTable(
                schema=schemas.get(schema, schema),
                name=name,
                is_system=kind == SYSTEM_TABLE,
                container=homes[table_id],
                columns=tuple(sorted(columns.get(table_id, ()), key=lambda one: one.number)),
            )
            for table_id, name, kind, schema in self._texts(homes, _SYSTABLES, 4)
            if kind.strip() in _KINDS and table_id in homes
        ]
        return sorted(found, key=lambda one: (one.is_system, one.full_name))

    def rows(self, table: SqlTable) -> Iterator[SqlRow | LostRows]:
        """The rows of a table in the order of its pages, and what could not be read, in its place.

        Page 0 stands for the container itself, if it has no file or no readable header.
        """
        for found in self._heap(table.container):
            yield found if isinstance(found, LostRows) else _row(table, found)

    def page_count(self, table: SqlTable) -> int:
        """The number of pages of a table's container; 0 if it has no file."""
        try:
            return self._cache.page_count(self._home(table.container))
        except JetoolError:
            return 0

    def _home(self, number: int) -> Container:
        found = self._containers.find(ContainerKey(0, number))
        if found is None:
            raise NotFoundError(f"container {number} has no file", file=self._database.storage.root)
        return found

    def _heap(self, container: int) -> Iterator[WholeRow | LostRows]:
        try:
            home = self._home(container)
        except (DamageError, NotFoundError) as error:
            yield LostRows(0, None, error.what)
            return
        yield from heap_rows(self._cache, home)

    def _homes(self) -> dict[str, int]:
        """The container of the rows of each table, by the table's id."""
        number = catalog.number_of(self._database)
        if number is None:
            raise FormatError("a page store has no SQL catalogue")
        homes: dict[str, int] = {}
        for found in self._heap(number):
            if isinstance(found, LostRows):
                self.damages.append(found)
                continue
            values = found.values
            if len(values) > 4 and values[4] != _TRUE and len(values[2] or b"") == _LONG_BYTES:
                table_id = _text(values[1])
                if table_id is not None:
                    homes[table_id] = int.from_bytes(values[2] or b"", "big", signed=True)
        if _SYSTABLES not in homes:
            raise DamageError(
                "the SQL catalogue does not name its own tables"
                + (
                    f": page {self.damages[0].page} of container {number}: {self.damages[0].problem}"
                    if self.damages
                    else ""
                ),
                file=self._database.storage.root,
                consequence="no table can be found by its name",
                hint=f"jetool verify {self._database.storage.root} names the damaged pages",
            )
        return homes

    def _values(self, homes: dict[str, int], table_id: str) -> Iterator[list[bytes | None]]:
        for found in self._heap(homes[table_id]) if table_id in homes else ():
            if isinstance(found, LostRows):
                self.damages.append(found)
            else:
                yield found.values

    def _texts(self, homes: dict[str, int], table_id: str, count: int) -> Iterator[list[str]]:
        """The first columns of a table of the catalogue, as texts."""
        for values in self._values(homes, table_id):
            texts = [text for value in values[:count] if (text := _text(value)) is not None]
            if len(texts) == count:
                yield texts


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else decode_text(value)
    except FormatError:
        return None


def _column(values: list[bytes | None]) -> tuple[str, SqlColumn] | None:
    """The id of the table, and a column of it; None if the row of the catalogue has another form."""
    if len(values) < 4:
        return None
    table_id, name, number = _text(values[0]), _text(values[1]), values[2] or b""
    if table_id is None or name is None or len(number) != _INT_BYTES:
        return None
    try:
        kind = decode_type(values[3] or b"")
    except FormatError:
        kind = None
    return table_id, SqlColumn(number=int.from_bytes(number, "big", signed=True), name=name, kind=kind)


def _row(table: SqlTable, found: WholeRow) -> SqlRow:
    values: list[SqlValue | None] = []
    problems: dict[str, str] = {}
    for column in table.columns:
        # A column that was added later is null in rows that were not written since.
        data = found.values[column.number - 1] if 0 < column.number <= len(found.values) else None
        try:
            values.append(None if data is None else decode_value(column.kind, data))
        except FormatError as error:
            values.append((data or b"").hex())
            problems[column.name] = error.what
    return SqlRow(page=found.location.page, record_id=found.location.record_id, values=values, problems=problems)
