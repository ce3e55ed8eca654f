"""``jetool dbs``: the databases of an environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, NamedTuple

import click

from engine.db.environment import Environment
from engine.errors import NotFoundError
from engine.events import counted_in_parts
from engine.fields import Bool, Int, Lsn, Text, record
from engine.inspect.key_ranges import count_records
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import READ_EXITS, as_of_option, open_to_read, reading_code
from jetool.frame.options import Run
from jetool.frame.record_output import TableEnd, completeness

if TYPE_CHECKING:
    from engine.rescue.points import Point


@record("database")
class DatabaseRow(NamedTuple):
    """One database."""

    name: Annotated[Text, "its name"]
    id: Annotated[Int, "its id; that of a replicated database is negative"]
    duplicates: Annotated[Bool, "a key may have several data items, which are sorted"]
    key_prefixing: Annotated[Bool, "nodes store the common prefix of their keys once"]
    replicated: Annotated[Bool, "it belongs to the replication stream"]
    temporary: Annotated[Bool, "the next recovery removes it"]
    internal: Annotated[Bool, "it is one of JE's own"]
    comparator: Annotated[Text | None, "Java class that orders the keys; null for the order of bytes"]
    max_entries: Annotated[Int, "slots of a node"]
    created_version: Annotated[Int, "log version that it was created with; 0 when not known"]
    root_lsn: Annotated[Lsn, "where the root was last logged"]
    records: Annotated[Int | None, "records, with --count; expired ones are left out"]


def _outputs() -> Outputs:
    from jetool.commands.page_store import rows
    from jetool.commands.sql_tables.rows import SqlTableRow

    return Outputs("table", (DatabaseRow, rows.StoredTable, SqlTableRow), TableEnd)


@command(
    "dbs",
    outputs=_outputs,
    features=("fields", "progress", "jobs", "cache", "order"),
    examples=(
        ("Names and sizes", "jetool dbs /data/env --count --fields name,id,records"),
        ("All of them, JE's own too, for a script", "jetool dbs /data/env --internal --format ndjson"),
    ),
    exits={exits.DONE: "listed", **READ_EXITS},
)
@environment
@click.option("--count", is_flag=True, help="Count the records, by reading every leaf node.")
@click.option("--internal", is_flag=True, help="List JE's own databases too.")
@click.option(
    "--db", "names", multiple=True, type=params.DATABASE, metavar="NAME", help="Only the database of this name."
)
@as_of_option
def dbs(run: Run, env: str, count: bool, internal: bool, names: tuple[str, ...], as_of: Point | None) -> int:
    """List the databases as recovery would leave them.

    Recovery runs in memory: the list includes committed work after the last checkpoint, and no uncommitted work.
    Nothing is created or changed; a running environment can be read. Its writer does not wait, and its cleaner deletes
    no log file meanwhile.

    Of a Derby database it lists the tables with their columns and types; --internal adds those of the catalogue.
    """
    with open_to_read(run, env, as_of) as found:
        # The given name may be that of an internal database.
        listed = found.database_names(internal=internal or bool(names))
        absent = sorted(set(names) - set(listed))
        if absent:
            raise NotFoundError(f"no database {absent[0]!r}", file=env, hint=f"jetool dbs {env}")
        chosen = [name for name in listed if not names or name in names]
        rows = _rows(run, found, chosen, count=count)
    run.out.table(DatabaseRow, rows, completeness(found.unseen))
    return reading_code(found)


def _rows(run: Run, env: Environment, names: list[str], *, count: bool) -> list[DatabaseRow]:
    """The databases. Record counts are known only if every leaf node is read."""
    rows: list[DatabaseRow] = []
    before = 0
    for done, name in enumerate(names):

        def told(records: int, share: float, done: int = done, before: int = before) -> None:
            counted_in_parts(run.listener, "count", done + share, len(names), before + records)

        rows.append(_database(run, env, name, told if count else None))
        before += rows[-1].records or 0
    if count:
        counted_in_parts(run.listener, "count", len(names), len(names), before)
    return rows


def _database(run: Run, env: Environment, name: str, told: Callable[[int, float], None] | None) -> DatabaseRow:
    with env.open_database(name) as db:
        state, impl = db.state, db.state.impl
        return DatabaseRow(
            name=name,
            id=state.id,
            duplicates=state.duplicates,
            key_prefixing=state.prefixing,
            replicated=impl.replicated,
            temporary=state.temporary,
            internal=state.internal,
            comparator=state.order.comparator,
            max_entries=state.max_entries,
            created_version=impl.created_at_version,
            root_lsn=state.root_lsn,
            records=None if told is None else count_records(env.engine, db, run.jobs, told),
        )
