"""``jetool load``: records from files, datasets, JE dumps."""

from __future__ import annotations

from typing import Any

from engine.errors import plural
from jetool.commands.load import dump_files, pipeline, request_options, text_load
from jetool.commands.load.rows import LoadSummary
from jetool.frame import exits
from jetool.frame.command import Outputs, command, environment
from jetool.frame.environments import WRITE_EXITS
from jetool.frame.options import Run


def _check(_: Run, /, *, env: str, sources: tuple[str, ...], **options: Any) -> None:  # noqa: ARG001 - no option
    request_options.is_dump(sources, options)


@command(
    "load",
    check=_check,
    outputs=lambda: Outputs("document", (LoadSummary,)),
    features=("fields", "progress", "keys", "jobs", "lock", "cache", "order", "spark", "write"),
    examples=(
        ("A CSV file, on this machine", "jetool load /data/env orders.csv --db orders --create --key id"),
        (
            "A dataset, on a cluster",
            "jetool load /data/env hdfs:///orders --db orders --key id --master spark://head:7077",
        ),
        ("A dump that DbDump or jetool dump made", "jetool load /data/env orders.dump --db orders --create"),
        (
            "Pairs of lines into a database with duplicates",
            "jetool load /data/env a.txt --db a --create -T -c dupsort=1",
        ),
        ("From standard input, such as the output of jetool dump", "jetool load /data/b --db orders --create"),
        ("CSV from standard input", "jetool load /data/env - --input-format csv --db orders --key id"),
        ("Check a source without changing anything", "jetool load /data/env orders.csv --db orders --key id -n"),
    ),
    exits={
        exits.DONE: "all records were written, and are durable",
        exits.FINDINGS: "done, but records were rejected; the file of rejects has the reasons",
        **WRITE_EXITS,
        exits.INCOMPLETE: "stopped early: a source that cannot be read, a dump without its end, damage",
    },
)
@environment
@request_options.all_of_them
def load(run: Run, /, env: str, sources: tuple[str, ...], **options: Any) -> int:
    """Load records from files, datasets, a JE dump or standard input.

    CSV, JSON lines, Parquet, ORC and other sources of Spark become log files: Spark's tasks write them, and one step
    adds all of them to the environment or none. Local files are read and written by the same code in processes of this
    machine, without Spark, unless --engine spark, --master, --conf or spark-defaults.conf asks for Spark. If the
    database holds records, or the log is of a version later than 17, records are merged instead, in transactions of
    --batch records. An installation without pyarrow loads CSV and JSON lines in such transactions too.

    A JE dump is loaded as DbLoad does. After a bad line the records loaded so far stay, and the message gives their
    number. A large dump also becomes log files if the database holds no records, so an interrupted load leaves nothing
    behind. A page store (create --store derby) accepts JE dumps only.
    """
    if request_options.is_dump(sources, options):
        return dump_files.print_done(run, dump_files.load_dump(run, env, sources, options))
    with request_options.with_standard_input(request_options.request(env, sources, options)) as request:
        done = (pipeline.load if pipeline.is_installed() else text_load.load)(run, request)
    found = done.loaded
    # Finished files are moved into place without a transaction.
    transactions = 0 if found.files or run.dry_run else -(-(found.records + done.refused) // options["batch"])
    rejects = None if found.rejects is None else str(found.rejects)
    run.out.document(
        LoadSummary(
            db=options["name"],
            created=done.created,
            records=found.records,
            rejected=found.rejected + done.refused,
            transactions=transactions,
            dry_run=run.dry_run,
            read=found.read,
            duplicates=found.duplicates,
            files=found.files,
            bytes=found.size,
            rejects=rejects,
            value_schema=done.value_schema,
        )
    )
    if rejects is not None:
        run.messages.warning(f"{plural(found.rejected, 'record')} rejected", file=rejects, consequence="not loaded")
    return exits.FINDINGS if found.rejected + done.refused else exits.DONE
