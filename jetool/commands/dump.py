"""``jetool dump``: a whole database, in the format of DbDump or as rows."""

from __future__ import annotations

import click

from engine.errors import UsageError
from engine.rescue.points import Point
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decoded_shape
from jetool.frame.defaults.only_database import chosen_database, database_option
from jetool.frame.environments import READ_EXITS, as_of_option, open_to_read, reading_code
from jetool.frame.options import Run
from jetool.frame.record_output import DumpEnd, PrintedRecord, print_dump


def _check(run: Run, *, printable: bool, **_: object) -> None:
    je = run.out.format == "je"
    if printable and not je:
        raise UsageError("--printable is for --format je", hint="use --key-format and --data-format instead")
    if je and run.out.selected is not None:
        raise UsageError("--fields is not for --format je", hint="use --format ndjson or csv")


@command(
    "dump",
    check=_check,
    outputs=lambda: Outputs("stream", (decoded_shape(PrintedRecord, None),), DumpEnd),
    formats=("je", "ndjson", "json", "csv"),
    features=("fields", "progress", "keys", "cache", "order"),
    examples=(
        (
            "As DbDump writes it, into a file that appears when it is complete",
            "jetool dump /data/env --db orders --output orders.dump",
        ),
        ("Into another environment", "jetool dump /data/env --db orders | jetool load /data/new --db orders --create"),
        ("Readable lines for a script", "jetool dump /data/env --db orders --format ndjson --key-format utf8"),
    ),
    exits={exits.DONE: "the whole database was written", **READ_EXITS},
)
@environment
@database_option
@click.option(
    "-p", "--printable", is_flag=True, help="Print printable bytes as they are (DbDump -p); only with --format je."
)
@as_of_option
def dump(run: Run, env: str, name: str | None, printable: bool, as_of: Point | None) -> int:
    """Print every record of one database, in key order.

    --format je prints exactly what DbDump prints, and DbLoad loads it. The records are those that recovery would leave;
    recovery runs in memory. Nothing is created or changed.
    """
    with open_to_read(run, env, as_of) as found:
        name = chosen_database(run, env, name, found.database_names())
        with found.open_database(name) as db:
            print_dump(run, name, db.items(), duplicates=db.duplicates, printable=printable, unseen=found.unseen)
    return reading_code(found)
