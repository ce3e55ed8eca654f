"""``dbs``, ``scan`` and ``dump`` of the tables of a Derby database, read without Derby."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from engine.derby.database import DerbyDatabase
from engine.derby.sql.heap_rows import LostRows
from engine.derby.sql.tables import SqlColumn, SqlRow, SqlTable, SqlTables
from engine.errors import NotFoundError, UsageError, plural
from engine.fields import ABSENT, Row, Shape, named_row, shape_of, shape_of_columns
from jetool.commands.derby_log_ends import note_holder
from jetool.commands.sql_tables.rows import SYSTEM, USER, LostSqlRows, SqlRowFields, SqlTableRow
from jetool.frame import exits
from jetool.frame.defaults.only_database import chosen_database
from jetool.frame.options import Run
from jetool.frame.record_output import DumpEnd, ScanSummary, completeness
from jetool.output.shape import Style, printable, to_text

if TYPE_CHECKING:
    from engine.storage.base import Storage

# Kinds of columns in CSV by the name of the SQL type; the others are text.
_KINDS: Final = {
    "SMALLINT": "int",
    "INTEGER": "int",
    "BIGINT": "int",
    "BOOLEAN": "bool",
    "REAL": "float",
    "DOUBLE": "float",
}

_STEP: Final = 512


class _Tally:
    """What was read of a table, or of several: rows, places without rows, and values of another type."""

    def __init__(self, run: Run, found: SqlTables) -> None:
        self._run = run
        self._found = found
        self.rows = self._odd = 0
        self._lost = 0
        self._first: LostRows | None = None
        for one in found.damages:
            self.add(one)

    def add(self, one: SqlRow | LostRows) -> None:
        if isinstance(one, LostRows):
            self._lost += 1
            self._first = self._first or one
        else:
            self.rows += 1
            self._odd += len(one.problems)
            if self.rows % _STEP == 0:
                self._run.listener.step("read", self.rows, 0)

    def reason(self, root: str, what: str) -> str | None:
        """Why rows may be missing or wrong; None if they are not. Damage is a warning too."""
        reasons = []
        if self._first is not None:
            first = self._first
            place = f"page {first.page}" + ("" if first.record_id is None else f", row {first.record_id}")
            lost = f"{plural(self._lost, 'place')} of {what} cannot be read, the first is {place}: {first.problem}"
            self._warn(root, lost, "the rows there are missing")
            reasons.append(lost)
        if self._odd:
            odd = f"{plural(self._odd, 'value')} of {what} not of the column's type"
            self._warn(root, odd, "shown in hex")
            reasons.append(odd)
        if self._found.problem:
            reasons.append(f"recovery stops: {self._found.problem}")
        if self._found.lost_commits:
            commits = f"{plural(self._found.lost_commits, 'committed transaction')} after the end of the log: not seen"
            self._warn(root, commits, None)
            reasons.append(commits)
        return "; ".join(reasons) or None

    def _warn(self, root: str, what: str, consequence: str | None) -> None:
        self._run.messages.warning(what, file=root, consequence=consequence, hint=f"jetool verify {root}")


def print_tables(run: Run, storage: Storage, names: tuple[str, ...], *, count: bool, internal: bool) -> int:
    """List the tables. NotFoundError if a named table does not exist."""
    with _open(run, storage) as found:
        tables = found.tables()
        wanted = {_named(tables, name, storage.root).full_name for name in names}
        chosen = [one for one in tables if (one.full_name in wanted if names else internal or not one.is_system)]
        tally, rows = _Tally(run, found), []
        for table in chosen:
            before = tally.rows
            for one in found.rows(table) if count else ():
                tally.add(one)
            rows.append(_table(found, table, tally.rows - before if count else None))
        reason = tally.reason(storage.root, "the database")
    run.out.table(SqlTableRow, rows, completeness(reason))
    return exits.FINDINGS if reason else exits.DONE


def scan_table(run: Run, storage: Storage, name: str | None, limit: int | None) -> int:
    """Print rows of a table in the order of its pages."""
    with _open(run, storage) as found:
        table = _chosen(run, found, name, storage.root)
        tally, left_out = _Tally(run, found), None
        layout = _Layout(run, table)
        with run.out.stream(*layout.shapes, line=_line) as stream:
            for one in found.rows(table):
                if limit is not None and tally.rows >= limit:
                    left_out = "--limit left some out"
                    break
                tally.add(one)
                stream.rows(layout.output(one))
            damage = tally.reason(storage.root, table.full_name)
            reason = damage or left_out
            stream.end(ScanSummary(records=tally.rows, complete=reason is None, reason=reason))
    return exits.FINDINGS if damage else exits.DONE


def dump_tables(run: Run, storage: Storage, name: str | None, directory: str | None) -> int:
    """Print a whole table, or write each table of a user to a file.

    Raises:
        UsageError: the format is that of DbDump.
    """
    from jetool.commands.dump.directory import dump_directory

    if run.out.format == "je":
        raise UsageError(
            "a table of an SQL database has no form in the format of DbDump",
            file=storage.root,
            hint="--format csv or --format ndjson",
        )
    reasons: list[str] = []
    with _open(run, storage) as found:

        def dump_one(run: Run, name: str) -> int:
            table = _named(tables, name, storage.root)
            tally = _Tally(run, found)
            layout = _Layout(run, table)
            with run.out.stream(*layout.shapes) as stream:
                for one in found.rows(table):
                    tally.add(one)
                    stream.rows(layout.output(one))
                reason = tally.reason(storage.root, table.full_name)
                reasons.extend([reason] if reason else [])
                end = DumpEnd(db=name, duplicates=False, records=tally.rows, complete=reason is None, reason=reason)
                stream.end(end)
            return tally.rows

        if directory is None:
            table = _chosen(run, found, name, storage.root)
            tables = [table]
            dump_one(run, table.full_name)
        else:
            tables = found.tables()
            users = [one.full_name for one in tables if not one.is_system]
            dump_directory(run, directory, users, dump_one, lambda: "; ".join(reasons) or None)
    return exits.FINDINGS if reasons else exits.DONE


@contextmanager
def _open(run: Run, storage: Storage) -> Iterator[SqlTables]:
    """The tables as recovery leaves them. Warns about what is not visible."""
    database = DerbyDatabase(storage)
    note_holder(run, database)
    with SqlTables(database, run.listener) as found:
        if found.problem:
            run.messages.warning(
                f"recovery stops: {found.problem}",
                file=storage.root,
                consequence="the rows are those on disk: committed ones may be missing, uncommitted ones among them",
                hint=f"jetool verify {storage.root}",
            )
        yield found


def _chosen(run: Run, found: SqlTables, name: str | None, root: str) -> SqlTable:
    tables = found.tables()
    users = [one.full_name for one in tables if not one.is_system]
    return _named(tables, chosen_database(run, root, name, users), root)


def _named(tables: list[SqlTable], name: str, root: str) -> SqlTable:
    """The table of a name: with its schema, or alone if only one schema has it; in capitals if it is typed so."""
    for typed in dict.fromkeys((name, name.upper())):
        found = [one for one in tables if typed in (one.full_name, one.name)]
        exact = [one for one in found if one.full_name == typed]
        if len(exact or found) == 1:
            return (exact or found)[0]
        if found:
            several = ", ".join(one.full_name for one in found)
            raise UsageError(f"several schemas have a table {name!r}", file=root, found=several)
    raise NotFoundError(f"no table {name!r}", file=root, hint=f"jetool dbs {root}")


def _table(found: SqlTables, table: SqlTable, records: int | None) -> SqlTableRow:
    return SqlTableRow(
        name=table.full_name,
        kind=SYSTEM if table.is_system else USER,
        container=table.container,
        pages=found.page_count(table),
        records=records,
        columns=[_declaration(one) for one in table.columns],
    )


def _declaration(column: SqlColumn) -> str:
    if column.kind is None:
        return column.name
    return f"{column.name} {column.kind.text}{'' if column.kind.nullable else ' NOT NULL'}"


class _Layout:
    """How the rows of a table are printed: in CSV each of its columns is a column, unless fields were chosen."""

    def __init__(self, run: Run, table: SqlTable) -> None:
        self._table = table
        self._columns: list[tuple[str, str]] | None = None
        self.shapes: tuple[Shape, ...] = shape_of(SqlRowFields), shape_of(LostSqlRows)
        if run.out.format == "csv" and run.out.selected is None:
            from jetool.output.csv import cell

            kinds = [_KINDS.get(one.kind.name, "text") if one.kind else "text" for one in table.columns]
            # Names of columns come from disk, as values do.
            names = [cell("text", one.name, run.out.style) for one in table.columns]
            self._columns = list(zip(names, kinds, strict=True))
            self.shapes = (shape_of_columns("row", "A row of the table.", self._columns),)

    def output(self, one: SqlRow | LostRows) -> list[tuple[str, Row]]:
        """What is printed of a row; among columns of the table nothing of a place without rows."""
        if isinstance(one, LostRows):
            bad = LostSqlRows(page=one.page, record_id=one.record_id, problem=one.problem)
            return [] if self._columns is not None else [named_row(bad)]
        if self._columns is not None:
            cells = zip(self._columns, one.values, strict=True)
            return [
                ("row", [(name, "text" if isinstance(value, str) else kind, value) for (name, kind), value in cells])
            ]
        values = {column.name: value for column, value in zip(self._table.columns, one.values, strict=True)}
        problems = one.problems or ABSENT
        return [named_row(SqlRowFields(page=one.page, record_id=one.record_id, values=values, problems=problems))]


def _line(rec: str, row: Row, style: Style) -> str:
    """A row as ``column=value``; a place that cannot be read as such."""
    found = {name: value for name, _, value in row}
    if rec != "row":
        place = "" if found.get("record_id") is None else f" row {found['record_id']}"
        return f"BAD page {found['page']}{place}: {found['problem']}"
    if "values" not in found:
        return "  ".join(to_text(kind, value, style) for _, kind, value in row)
    cells = [
        f"{printable(name)}={'-' if value is None else to_text('json', value, style)}"
        for name, value in found["values"].items()
    ]
    return "  ".join(cells)
