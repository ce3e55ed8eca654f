"""``jetool export``: a database as Parquet, CSV, JSON or ORC."""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import click

from engine.fields import Bool, Choices, FieldName, Int, SizeBytes, Text, record
from engine.rescue.points import Point, spell_point
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import decode_option, decoding_for
from jetool.frame.defaults.only_database import chosen_database, database_option
from jetool.frame.environments import READ_EXITS, as_of_option, open_to_read, reading_code
from jetool.frame.options import Run, out_option

FORMS: Final = ("parquet", "csv", "json", "orc")


@record("exported")
class ExportResult(NamedTuple):
    """What was exported."""

    db: Annotated[Text, "name of the database"]
    to: Annotated[Text, "where its records are"]
    as_: Annotated[Text, "the format", Choices(FORMS), FieldName("as")]
    records: Annotated[Int, "records written"]
    files: Annotated[Int | None, "files; null where they are not on this machine"]
    bytes: Annotated[SizeBytes | None, "their bytes"]
    complete: Annotated[Bool, "false when records may be missing"]
    reason: Annotated[Text | None, "why it is not complete; null when it is"]


@command(
    "export",
    outputs=lambda: Outputs("document", (ExportResult,)),
    features=("fields", "progress", "keys", "jobs", "cache", "spark"),
    examples=(
        ("As Parquet, keys and data as bytes", "jetool export /data/env --db orders --out /tmp/orders --as parquet"),
        ("As it was an hour ago", "jetool export /data/env --db orders --out /tmp/then --as csv --as-of time:-1h"),
        (
            "As CSV with readable text",
            "jetool export /data/env --db orders --out orders.csv --as csv --key-format tuple-long --data-format utf8",
        ),
    ),
    exits={
        exits.DONE: "every record was written",
        **READ_EXITS,
        exits.FINDINGS: "written, but committed transactions after a bad entry of the log are missing",
        exits.REFUSED: "the directory is not empty, or the environment has a restore marker",
        exits.UNSUPPORTED: "a log version that this program does not read; Spark or Java is missing",
        exits.INCOMPLETE: "damage that recovery has to read, a file that cannot be read or written, or Spark failed",
    },
)
@environment
@database_option
@out_option("A new directory, or a URL that Spark writes to.")
@click.option("--as", "kind", required=True, type=click.Choice(FORMS), help="The format.")
@click.option("--partitions", type=click.IntRange(1, 100_000), metavar="N", help="Number of files.  [default: by size]")
@as_of_option
@decode_option
def export(
    run: Run,
    env: str,
    name: str | None,
    to: str,
    kind: str,
    partitions: int | None,
    as_of: Point | None,
    decode: str | None,
) -> int:
    """Write every record of a database to files, on Spark, in key order from file to file.

    Columns are key and data. Parquet and ORC hold bytes, CSV and JSON hold hex. A column with another format than hex
    (--key-format, --data-format) is text in all four formats. --decode adds three columns: decoded_key and decoded_data
    as JSON, and known. The records are those that recovery would leave; recovery runs in memory. A local directory
    appears only when it is complete. Nothing in the environment is locked or changed.
    """
    from engine.pipeline.export import Columns
    from engine.pipeline.export import export as run_export
    from engine.pipeline.tables import require_new
    from jetool.frame.spark_session import session

    if "://" not in to:
        # Refuse an existing directory before Spark starts; Spark itself checks a URL.
        require_new(to)
    with open_to_read(run, env, as_of) as found:
        name = chosen_database(run, env, name, found.database_names())
        # Open the database once, so that a wrong name fails here with a clear message, not in a Spark job.
        found.open_database(name).close()
        code, unseen = reading_code(found), found.unseen
        # No decoder recognises the database: print a notice and leave the columns out.
        wanted = decode if decoding_for(run, found, decode) is not None else None
    columns = Columns(run.out.style.key_format, run.out.style.data_format)
    with session(run) as spark:
        done = run_export(
            spark,
            env,
            name,
            to,
            kind,
            columns,
            wanted,
            partitions=partitions,
            point=None if as_of is None else spell_point(as_of),
            listener=run.listener,
        )
    run.out.document(
        ExportResult(
            db=name,
            to=to,
            as_=kind,
            records=done.records,
            files=done.files,
            bytes=done.bytes,
            complete=unseen is None,
            reason=unseen,
        )
    )
    return code
