"""``jetool dump``: a whole database, in the format of DbDump or as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from engine.errors import UsageError
from jetool.commands.dump.directory import DumpedFile, DumpedFiles, dump_directory, refuse_beside_all
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoding_for
from jetool.frame.defaults.only_database import chosen_database, database_option
from jetool.frame.environments import READ_EXITS, as_of_option, open_to_read, reading_code
from jetool.frame.options import Run
from jetool.frame.record_output import DumpEnd, PrintedRecord, print_dump

if TYPE_CHECKING:
    from engine.rescue.points import Point


def _check(
    run: Run, *, printable: bool, name: str | None, decode: str | None, directory: str | None, **_: object
) -> None:
    je = run.out.format == "je"
    if printable and not je:
        raise UsageError("--printable is for --format je", hint="use --key-format and --data-format instead")
    if je and run.out.selected is not None:
        raise UsageError("--fields is not for --format je", hint="use --format ndjson or csv")
    if je and decode is not None:
        raise UsageError("--decode is not for --format je", hint="use --format ndjson, json or csv")
    if directory is not None:
        refuse_beside_all(run, name)


def _outputs() -> Outputs:
    from jetool.commands.sql_tables.rows import LostSqlRows, SqlRowFields

    return Outputs("stream", (PrintedRecord, SqlRowFields, LostSqlRows), DumpEnd, several=(DumpedFile, DumpedFiles))


@command(
    "dump",
    check=_check,
    outputs=_outputs,
    formats=("je", "ndjson", "json", "csv"),
    features=("fields", "progress", "keys", "cache", "order"),
    examples=(
        (
            "As DbDump writes it, into a file that appears when it is complete",
            "jetool dump /data/env --db orders --output orders.dump",
        ),
        ("Every database, one file each", "jetool dump /data/env --all /backup/dumps"),
        ("Into another environment", "jetool dump /data/env --db orders | jetool load /data/new --db orders --create"),
        ("Readable lines for a script", "jetool dump /data/env --db orders --format ndjson --key-format utf8"),
        ("Every table of a Derby database, also of a damaged one", "jetool dump /data/derbydb --all /out --format csv"),
    ),
    exits={
        exits.DONE: "the whole database was written",
        **READ_EXITS,
        exits.REFUSED: "the environment has a restore marker, or DIR is not empty",
    },
)
@environment
@database_option
@click.option(
    "-p", "--printable", is_flag=True, help="Print printable bytes as they are (DbDump -p); only with --format je."
)
@click.option(
    "--all", "directory", metavar="DIR", help="Write every database to a file of its own in DIR, a new directory."
)
@as_of_option
@decode_option
def dump(
    run: Run,
    env: str,
    name: str | None,
    printable: bool,
    directory: str | None,
    as_of: Point | None,
    decode: str | None,
) -> int:
    """Print every record of one database, in key order.

    --format je prints exactly what DbDump prints, and DbLoad loads it. The records are those that recovery would leave;
    recovery runs in memory. Nothing in the environment is created or changed.

    With --all each database becomes a file DIR/NAME.dump (.ndjson, .json, .csv), and the files are listed. In a file
    name, bytes other than letters, digits, dots, dashes and underscores are written as %xx. DIR appears when it is
    complete; nothing is overwritten.

    Of a Derby database it prints tables, with --format csv, ndjson or json: the values by column, bytes in hex. Pages
    that cannot be read are named, and the rows of all others are printed.
    """
    with open_to_read(run, env, as_of) as found:
        decoding = decoding_for(run, found, decode)

        def dump_one(run: Run, name: str) -> int:
            with found.open_database(name) as db:
                return print_dump(
                    run,
                    name,
                    db.items(),
                    duplicates=db.duplicates,
                    printable=printable,
                    unseen=found.unseen,
                    decoding=decoding,
                )

        names = found.database_names()
        if directory is not None:
            dump_directory(run, directory, names, dump_one, lambda: found.unseen)
        else:
            dump_one(run, chosen_database(run, env, name, names))
    return reading_code(found)
