"""``jetool scan``: records of a database by range or prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.errors import UsageError
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoding_for
from jetool.frame.defaults.only_database import chosen_database, database_option
from jetool.frame.environments import READ_EXITS, as_of_option, open_to_read, reading_code, require_byte_order
from jetool.frame.options import Run
from jetool.frame.record_output import PrintedRecord, ScanSummary, end_of_range, note_prefix, print_range

if TYPE_CHECKING:
    from engine.rescue.points import Point


def _check(_: Run, *, first: bytes | None, last: bytes | None, prefix: bytes | None, **__: object) -> None:
    if prefix is not None and (first is not None or last is not None):
        raise UsageError("--prefix does not go with --from or --to", hint="give one or the other")


def _outputs() -> Outputs:
    from jetool.commands.sql_tables.rows import LostSqlRows, SqlRowFields

    return Outputs("stream", (PrintedRecord, SqlRowFields, LostSqlRows), ScanSummary)


@command(
    "scan",
    check=_check,
    outputs=_outputs,
    features=("fields", "progress", "keys", "cache", "order"),
    examples=(
        ("The last ten records", "jetool scan /data/env --db orders --reverse --limit 10"),
        (
            "A range, with keys that JE's LongBinding wrote",
            "jetool scan /data/env --db journal --key-format tuple-long --from 4700 --to 4799",
        ),
        (
            "All keys that begin with a word",
            "jetool scan /data/env --db users --prefix alice --key-format utf8 --fields key",
        ),
        ("What the records mean to their application", "jetool scan /data/env --db 350001 --decode auto --limit 5"),
        ("Rows of a table of Derby, without Derby", "jetool scan /data/derbydb --db APP.ORDERS --limit 5"),
    ),
    exits={exits.DONE: "the range was read; it may be empty", **READ_EXITS},
)
@environment
@database_option
@click.option("--from", "first", type=params.KEY, help="The first key (inclusive).")
@click.option("--to", "last", type=params.KEY, help="The last key (inclusive).")
@click.option("--prefix", type=params.KEY, help="Only keys with this prefix; not with --from or --to.")
@click.option("--reverse", is_flag=True, help="The largest key first.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Stop after N records.")
@as_of_option
@decode_option
def scan(
    run: Run,
    env: str,
    name: str | None,
    first: bytes | None,
    last: bytes | None,
    prefix: bytes | None,
    reverse: bool,
    limit: int | None,
    as_of: Point | None,
    decode: str | None,
) -> int:
    """Print records in key order: all records, a range of keys, or the keys with a prefix.

    The records are those that recovery would leave; recovery runs in memory. Nothing is created or changed.

    The tables of a Derby database have no keys: their rows come in the order of the pages, with the values by column.
    """
    end = end_of_range(last)
    with open_to_read(run, env, as_of) as found:
        name = chosen_database(run, env, name, found.database_names())
        with found.open_database(name) as db:
            require_byte_order(db, {"from": first, "to": last, "prefix": prefix})
            decoding = decoding_for(run, found, decode)
            records = db.items(first, end, prefix=prefix, reverse=reverse)
            if not print_range(run, records, limit, found.unseen, db=name, decoding=decoding) and prefix is not None:
                note_prefix(run, env, prefix)
    return reading_code(found)
