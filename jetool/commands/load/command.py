"""``jetool load``: records from files, datasets, JE dumps."""

from __future__ import annotations

from typing import Any, Final

from jetool.app import exits, kinds
from jetool.app.command import Outputs, command, environment
from jetool.app.opening import WRITE_EXITS
from jetool.app.options import Run
from jetool.commands.load import pipeline, request_options
from jetool.commands.load.dump_files import load_dump
from jetool.output.shape import Field, Shape

LOADED: Final = Shape(
    "loaded",
    "What was loaded.",
    (
        Field("db", "text", "name of the database"),
        Field("created", "bool", "the database was made"),
        Field("records", "int", "records written"),
        Field(
            "rejected", "int", "records that were not taken: bad ones, and with --no-overwrite those that were there"
        ),
        Field("transactions", "int", "transactions that wrote them, 0 when log files were written instead"),
        Field("dry_run", "bool", "nothing was changed"),
        Field("read", "int", "records read; records + rejected + duplicates"),
        Field("duplicates", "int", "records that gave way to another one with the same key"),
        Field("files", "int", "log files written, with --engine spark or local"),
        Field("bytes", "int", "their size"),
        Field("rejects", "text", "file with the bad records and the reasons", null=True),
        Field("value_schema", "text", "Avro schema of the values, with --value-format avro", null=True),
    ),
)


@command(
    "load",
    outputs=lambda: Outputs("document", (LOADED,)),
    features=("fields", "progress", "keys", "jobs", "lock", "spark", "write"),
    examples=(
        ("A CSV file, on this machine", "jetool load orders.csv /data/env --db orders --create --key id"),
        (
            "A dataset, on a cluster",
            "jetool load hdfs:///orders /data/env --db orders --key id --master spark://head:7077",
        ),
        ("A dump that DbDump or jetool dump made", "jetool load orders.dump /data/env --db orders --create"),
        ("From standard input, such as the output of jetool dump", "jetool load /data/b --db orders --create"),
        ("Check a source without changing anything", "jetool load orders.csv /data/env --db orders --key id -n"),
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

    CSV, JSON lines, Parquet, ORC and whatever Spark reads become log files, written by Spark's tasks and put into the
    environment in one step: all or nothing. Into a database that holds records, and after a log of a version later
    than 17, they are merged instead, in transactions of --batch records.

    A JE dump is loaded as DbLoad does. When a line is bad, what was loaded before it stays, and the message says how
    much that is. A page store (create --store derby) takes JE dumps only.
    """
    env, sources = request_options.in_order(env, sources)
    name: str | None = options["name"]
    overwrite, batch = not options["no_overwrite"], int(options["batch"])
    if request_options.is_dump(sources, options):
        create, plain = options["create"], options["plain"]
        file = sources[0] if sources else None
        dump = load_dump(run, env, file, name, create=create, plain=plain, overwrite=overwrite, batch=batch)
        read = dump.records + dump.rejected
        run.out.document(LOADED, LOADED.row((*dump, run.dry_run, read, 0, 0, 0, None, None)))
        return exits.FINDINGS if dump.rejected else exits.DONE
    if kinds.is_derby(env):
        raise kinds.not_for(kinds.DERBY, "sources other than a JE dump")
    done = pipeline.load(run, request_options.request(env, sources, options))
    found = done.loaded
    transactions = 0 if found.files or run.dry_run else -(-(found.records + done.refused) // batch)
    rejects = None if found.rejects is None else str(found.rejects)
    row = (
        name, done.created, found.records, found.rejected + done.refused, transactions, run.dry_run, found.read,
        found.duplicates, found.files, found.size, rejects, done.value_schema,
    )  # fmt: skip
    run.out.document(LOADED, LOADED.row(row))
    if rejects is not None:
        run.messages.warning(
            f"{found.rejected} records were rejected", file=rejects, consequence="they were not loaded"
        )
    return exits.FINDINGS if found.rejected + done.refused else exits.DONE
