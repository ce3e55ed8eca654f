"""``jetool history``: all versions of one key."""

from __future__ import annotations

from itertools import islice
from typing import Final

import click

from engine.contents.base import unknown
from engine.errors import NotFoundError
from engine.format.entry.ln import LN
from engine.inspect.contents import Decoding
from engine.inspect.fates import FATES, NON_TRANSACTIONAL, LogFates, read_history
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from jetool.app import exits, params
from jetool.app.command import Outputs, command, environment
from jetool.app.decoding import DECODED_FIELDS, decode_option, decoded_shape, decoding_for_log
from jetool.app.kinds import require_je
from jetool.app.log_damage import LOG_EXITS, report_damage
from jetool.app.options import Run
from jetool.output.shape import Field, Row, Shape

VERSION: Final = Shape(
    "version",
    "One version of a record.",
    (
        Field("lsn", "lsn", "where it is in the log"),
        Field("type", "text", "type of the entry; migrated copies keep that of the record"),
        Field("txn", "int", "transaction that wrote it; null for none", null=True),
        Field("fate", "text", "what became of that transaction", choices=(*FATES, NON_TRANSACTIONAL)),
        Field("time", "time", "when the transaction ended", null=True),
        Field("deleted", "bool", "the record was deleted"),
        Field("db", "int", "id of the database"),
        Field("key", "key", "the key; with sorted duplicates key and data item, as the log holds them"),
        Field("data", "data", "the data; null for a deletion", null=True),
        Field("abort_lsn", "lsn", "the version before the transaction"),
        Field("vlsn", "vlsn", "VLSN of a replicated version"),
        Field("invisible", "bool", "a rollback has made it invisible"),
        *DECODED_FIELDS,
    ),
)
SUMMARY: Final = Shape(
    "summary",
    "The end of the history.",
    (
        Field("versions", "int", "versions found in the log"),
        Field("committed", "int", "those that committed, or needed no commit"),
        Field("printed", "int", "versions above"),
    ),
)


@command(
    "history",
    outputs=lambda: Outputs("stream", (VERSION,), SUMMARY),
    features=("fields", "progress", "times", "keys", "jobs"),
    examples=(
        ("Who changed this record, and when", "jetool history /data/env user0001 --db users"),
        ("The last two versions with their data, newest first",
         "jetool history /data/env user0001 --db users --reverse --limit 2 --data-format utf8"),
    ),
    exits={**LOG_EXITS, exits.NOT_FOUND: "no environment, no database of the name, no version of the key in the log"},
)  # fmt: skip
@environment
@click.argument("key", type=params.KEY, help="The key: text, or 0x and hex; --key-format reads other forms.")
@click.option(
    "--db",
    "name",
    required=True,
    type=params.DATABASE,
    metavar="NAME|ID",
    help="The database; an id also after its removal. A number that is the name of one is a name; id:7 is an id.",
)
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N versions at most.")
@decode_option
def history(run: Run, env: str, key: bytes, name: str, reverse: bool, limit: int | None, decode: str | None) -> int:
    """Print all versions of KEY that are in the log, with the fate of the transaction of each.

    The whole log is read, also past damage. Versions that the cleaner has deleted are not there; copies that it
    made of a live version are versions of their own. Nothing is created or changed.
    """
    storage = DiskStorage(env)
    require_je(storage)
    files = list_log_files(storage)
    found, fates = read_history(storage, files, (name,), key, run.jobs, run.listener)
    if not found:
        raise NotFoundError(
            f"no version of the key {params.key_as_typed(key)} in the log",
            file=env,
            hint=f"jetool scan {env} --db {name} shows which keys there are",
        )
    decoding = decoding_for_log(run, storage, decode)
    shape = decoded_shape(VERSION, decoding)
    rows = [_row(shape, decoding, fates, entry, record) for entry, record in found]
    committed = sum(fates.fate_of(entry, record) in ("committed", NON_TRANSACTIONAL) for entry, record in found)
    with run.out.stream(shape) as stream:
        printed = list(islice(reversed(rows) if reverse else rows, limit))
        for row in printed:
            stream.row("version", row)
        stream.end(SUMMARY.row((len(rows), committed, len(printed))))
    return report_damage(run, env, fates.damages)


def _row(shape: Shape, decoding: Decoding | None, fates: LogFates, entry: LogEntry, record: LN) -> Row:
    txn = fates.txns.get(record.txn_id) if record.txn_id is not None else None
    meaning = decoding.logged(record.db_id, record.key, record.data) if decoding is not None else None
    if decoding is not None and meaning is None:
        meaning = unknown(record.key, record.data or b"")
    return shape.row(
        (
            entry.lsn, entry.type_name, record.txn_id, fates.fate_of(entry, record), txn.time_ms if txn else None,
            record.data is None, record.db_id, record.key, record.data, record.abort_lsn, entry.vlsn, entry.invisible,
            *(meaning or ()),
        )
    )  # fmt: skip
