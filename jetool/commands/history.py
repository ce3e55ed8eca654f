"""``jetool history``: all versions of one key."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, NamedTuple

import click

from engine.contents.base import unknown
from engine.errors import DamageError, NotFoundError, RefusedError, StorageError, UnsupportedError, UsageError
from engine.fields import ABSENT, Absent, Bool, Choices, Data, Int, Json, Key, Like, Lsn, Text, Time, Vlsn, record
from engine.format.entry.ln import LN
from engine.inspect.contents import DecodingPlan
from engine.inspect.fates import FATES, NON_TRANSACTIONAL, LogFates, read_history
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from jetool.frame import exits, params
from jetool.frame.command import Outputs, command, environment
from jetool.frame.decode_option import DecodedFields, decode_option, decoded, decoded_shape, decoding_for_log
from jetool.frame.defaults.only_database import chosen_database
from jetool.frame.environments import open_to_read
from jetool.frame.kinds import require_je
from jetool.frame.log_damage import LOG_EXITS, report_damage
from jetool.frame.options import Run


@record("version")
class VersionRow(NamedTuple):
    """One version of a record."""

    lsn: Annotated[Lsn, "where it is in the log"]
    type: Annotated[Text, "type of the entry; migrated copies keep that of the record"]
    txn: Annotated[Int | None, "transaction that wrote it; null for none"]
    fate: Annotated[Text, "what became of that transaction", Choices((*FATES, NON_TRANSACTIONAL))]
    time: Annotated[Time | None, "when the transaction ended"]
    deleted: Annotated[Bool, "the record was deleted"]
    db: Annotated[Int, "id of the database"]
    key: Annotated[Key, "the key; with sorted duplicates key and data item, as the log holds them"]
    data: Annotated[Data | None, "the data; null for a deletion"]
    abort_lsn: Annotated[Lsn, "the version before the transaction"]
    vlsn: Annotated[Vlsn, "VLSN of a replicated version"]
    invisible: Annotated[Bool, "a rollback has made it invisible"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


@record("summary")
class HistorySummary(NamedTuple):
    """The end of the history."""

    versions: Annotated[Int, "versions found in the log"]
    committed: Annotated[Int, "those that committed, or needed no commit"]
    printed: Annotated[Int, "versions above"]


@command(
    "history",
    outputs=lambda: Outputs("stream", (VersionRow,), HistorySummary),
    features=("fields", "progress", "times", "keys", "jobs"),
    examples=(
        ("Who changed this record, and when", "jetool history /data/env user0001 --db users"),
        (
            "The last two versions with their data, newest first",
            "jetool history /data/env user0001 --db users --reverse --limit 2 --data-format utf8",
        ),
    ),
    exits={**LOG_EXITS, exits.NOT_FOUND: "no environment, no database of the name, no version of the key in the log"},
)
@environment
@click.argument("key", type=params.KEY, help="The key: text, or 0x and hex; --key-format reads other forms.")
@click.option(
    "-s",
    "--db",
    "name",
    type=params.DATABASE,
    metavar="NAME|ID",
    help="The database by name, or by id (id:7, or 7 unless a database is named 7), also after its removal.  "
    "[default: the only one]",
)
@click.option("--reverse", is_flag=True, help="Newest first.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Print N versions at most.")
@decode_option
def history(
    run: Run, env: str, key: bytes, name: str | None, reverse: bool, limit: int | None, decode: str | None
) -> int:
    """Print all versions of KEY in the log, each with the fate of its transaction.

    The whole log is read, and reading continues after damage. Versions in files that the cleaner deleted are not
    listed; a copy that the cleaner made of a live version is listed as a separate version. Nothing is created or
    changed.
    """
    storage = DiskStorage(env)
    require_je(storage)
    files = list_log_files(storage)
    if name is None:
        name = chosen_database(run, env, None, _databases(run, env))
    found, fates = read_history(storage, files, (name,), key, run.jobs, run.listener)
    if not found:
        raise NotFoundError(
            f"the log has no version of the key {params.key_as_typed(key)}",
            file=env,
            hint=f"jetool scan {env} --db {name} shows the existing keys",
        )
    decoding = decoding_for_log(run, storage, decode)
    shape = decoded_shape(VersionRow, decoding)
    rows = [_version(decoding, fates, entry, record) for entry, record in found]
    committed = sum(fates.fate_of(entry, record) in ("committed", NON_TRANSACTIONAL) for entry, record in found)
    with run.out.stream(shape) as stream:
        printed = list(islice(reversed(rows) if reverse else rows, limit))
        for row in printed:
            stream.row(row)
        stream.end(HistorySummary(versions=len(rows), committed=committed, printed=len(printed)))
    return report_damage(run, env, fates.damages)


def _databases(run: Run, env: str) -> list[str]:
    """Names of the databases. UsageError if the environment cannot be recovered: only its log can be read then."""
    try:
        with open_to_read(run, env) as found:
            return found.database_names()
    except (DamageError, RefusedError, StorageError, UnsupportedError) as error:
        raise UsageError(
            "the databases cannot be listed without recovery, so name one with --db",
            file=env,
            found=error.what,
            hint="--db NAME or --db ID; jetool dump-log prints the log with the ids",
        ) from error


def _version(decoding: DecodingPlan | None, fates: LogFates, entry: LogEntry, found: LN) -> VersionRow:
    txn = fates.txns.get(found.txn_id) if found.txn_id is not None else None
    meaning = decoding.logged(found.db_id, found.key, found.data) if decoding is not None else None
    if decoding is not None and meaning is None:
        meaning = unknown(found.key, found.data or b"")
    means = decoded(meaning)
    return VersionRow(
        lsn=entry.lsn,
        type=entry.type_name,
        txn=found.txn_id,
        fate=fates.fate_of(entry, found),
        time=txn.time_ms if txn else None,
        deleted=found.data is None,
        db=found.db_id,
        key=found.key,
        data=found.data,
        abort_lsn=found.abort_lsn,
        vlsn=entry.vlsn,
        invisible=entry.invisible,
        decoded_key=means.decoded_key,
        decoded_data=means.decoded_data,
        known=means.known,
    )
