"""Output records of transactions of a running group: the changes of each, then its commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, NamedTuple

from engine.fields import (
    ABSENT,
    Absent,
    Bool,
    Choices,
    Data,
    Expiration,
    Int,
    Json,
    Key,
    Like,
    SizeBytes,
    Text,
    Time,
    Vlsn,
    record,
)
from engine.inspect.contents import DecodingPlan
from engine.rep.changes.subscriber import Retraction
from engine.rep.changes.transactions import DELETE, INSERT, OPERATIONS, PUT, UPDATE, CommittedTransaction, RecordChange
from jetool.frame.decode_option import DecodedFields, decoded
from jetool.output.jsonl import line, record_line
from jetool.output.shape import PLAIN, Style

_OF_RECORDS: Final = frozenset((INSERT, UPDATE, DELETE, PUT))


@record("change")
class StreamedChange(NamedTuple):
    """One change; its transaction follows."""

    vlsn: Annotated[Vlsn, "its VLSN"]
    txn: Annotated[Int, "its transaction"]
    op: Annotated[Text, "what was done", Choices(OPERATIONS)]
    db: Annotated[Text | None, "name of the database, after the change; null when the stream has not given it"]
    db_id: Annotated[Int, "id of the database"]
    key: Annotated[Key | None, "the key, or the first one of a range; null for an operation on a database"]
    data: Annotated[
        Data | None,
        "the data; of a deletion null, or the data item among sorted duplicates; of a range the"
        " key before which it ends, null for none",
    ]
    expires: Annotated[Expiration, "when it expires; null for never"]
    old_name: Annotated[Text | None, "name before a renaming; null otherwise"]
    decoded_key: Annotated[Json | Absent, Like(DecodedFields)] = ABSENT
    decoded_data: Annotated[Json | Absent | None, Like(DecodedFields)] = ABSENT
    known: Annotated[Bool | Absent, Like(DecodedFields)] = ABSENT


@record("transaction")
class StreamedTransaction(NamedTuple):
    """The end of a transaction: the changes before it are complete and committed."""

    vlsn: Annotated[Vlsn, "VLSN of the Commit"]
    txn: Annotated[Int, "its id"]
    master: Annotated[Int, "node id of the master that committed it"]
    time: Annotated[Time, "when, by the clock of the node that it came from"]
    changes: Annotated[Int, "how many changes were printed"]
    torn: Annotated[Bool, "it may have begun before the stream did: changes may be missing"]


@record("retraction")
class StreamRetraction(NamedTuple):
    """With --fast: the group's history has changed; what was printed after the given commit is no longer valid."""

    to_vlsn: Annotated[Vlsn, "the commit; transactions up to it remain valid"]
    from_vlsn: Annotated[Vlsn, "the last commit that was read before"]
    commits: Annotated[Int, "how many commits are taken back, the master's own included"]


@record("file")
class ChangeFile(NamedTuple):
    """With --out: a completed file."""

    path: Annotated[Text, "where it is"]
    first_vlsn: Annotated[Vlsn, "first commit in it"]
    last_vlsn: Annotated[Vlsn, "last commit in it"]
    transactions: Annotated[Int, "transactions in it"]
    changes: Annotated[Int, "their changes"]
    bytes: Annotated[SizeBytes, "its size"]


WHY_ENDED: Final = ("limit", "idle", "behind", "signal")


@record("summary")
class StreamSummary(NamedTuple):
    """The end of the stream."""

    group: Annotated[Text | None, "name of the group; null when it was never reached"]
    transactions: Annotated[Int, "transactions above"]
    changes: Annotated[Int, "their changes"]
    retractions: Annotated[Int, "retractions above"]
    connections: Annotated[Int, "connections to masters that it took"]
    last_vlsn: Annotated[Vlsn | None, "last commit that was read, printed or not: the place to go on from"]
    ended: Annotated[Text, "why it has ended; behind: by --until-idle, before everything was read", Choices(WHY_ENDED)]


def streamed_change(change: RecordChange, txn: int, decoding: DecodingPlan | None = None) -> StreamedChange:
    """A change as it is printed; decoded if it is one of a record whose database is known by name."""
    means = DecodedFields()
    if decoding is not None and change.op in _OF_RECORDS and change.db is not None and change.key is not None:
        means = decoded(decoding.record(change.db, change.key, change.data))
    return StreamedChange(
        vlsn=change.vlsn,
        txn=txn,
        op=change.op,
        db=change.db,
        db_id=change.db_id,
        key=change.key,
        data=change.data,
        expires=change.expiration,
        old_name=change.old_name,
        decoded_key=means.decoded_key,
        decoded_data=means.decoded_data,
        known=means.known,
    )


def streamed_transaction(transaction: CommittedTransaction, changes: int) -> StreamedTransaction:
    """The end of a transaction as it is printed."""
    point = transaction.point
    return StreamedTransaction(
        vlsn=point.vlsn,
        txn=point.txn_id,
        master=point.master_id,
        time=transaction.time_ms,
        changes=changes,
        torn=transaction.torn,
    )


def stream_retraction(retraction: Retraction) -> StreamRetraction:
    """A retraction as it is printed."""
    return StreamRetraction(to_vlsn=retraction.to_vlsn, from_vlsn=retraction.from_vlsn, commits=retraction.commits)


def is_plain(style: Style) -> bool:
    """Whether ``fast_lines`` can replace the NDJSON encoder."""
    return style.key_format == "hex" and style.data_format == "hex"


def fast_lines(changes: Iterable[RecordChange], txn: int, names: dict[str | None, str]) -> bytes:
    """Changes as lines of NDJSON, equal to the encoder's output for ``streamed_change`` in the plain style.

    Arguments:
        names: cache of database names as JSON; new names are added.
    """
    found = []
    for change in changes:
        vlsn, op, db_id, db, key, data, expiration, _ = change
        if expiration or key is None:
            found.append(record_line(streamed_change(change, txn), PLAIN).decode("utf-8"))
            continue
        name = names.get(db)
        if name is None:
            name = names[db] = line(db).decode("utf-8")
        value = "null" if data is None else f'"{data.hex()}"'
        found.append(
            f'{{"rec":"change","vlsn":{vlsn},"txn":{txn},"op":"{op}","db":{name},"db_id":{db_id},"key":"{key.hex()}",'
            f'"data":{value},"expires":null,"old_name":null}}\n'
        )
    return "".join(found).encode("utf-8")
