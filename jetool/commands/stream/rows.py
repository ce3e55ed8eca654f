"""Transactions of a running group as rows: the changes of one, then its commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.rep.changes.subscriber import Retraction
from engine.rep.changes.transactions import OPERATIONS, Change, Transaction
from jetool.output.jsonl import line
from jetool.output.shape import Field, Row, Shape, Style, row_to_json

CHANGE: Final = Shape(
    "change",
    "One change; its transaction follows.",
    (
        Field("vlsn", "vlsn", "its VLSN"),
        Field("txn", "int", "its transaction"),
        Field("op", "text", "what was done", choices=OPERATIONS),
        Field("db", "text", "name of the database, after the change; null when the stream has not told it", null=True),
        Field("db_id", "int", "id of the database"),
        Field("key", "key", "the key, or the first one of a range; null for an operation on a database", null=True),
        Field(
            "data",
            "data",
            "the data; of a deletion null, or the data item among sorted duplicates; of a range the"
            " key before which it ends, null for none",
            null=True,
        ),
        Field("expires", "expiration", "when it expires; null for never"),
        Field("old_name", "text", "name before a renaming; null otherwise", null=True),
    ),
)
TRANSACTION: Final = Shape(
    "transaction",
    "The end of a transaction: the changes before it are whole and committed.",
    (
        Field("vlsn", "vlsn", "VLSN of the Commit"),
        Field("txn", "int", "its id"),
        Field("master", "int", "node id of the master that committed it"),
        Field("time", "time", "when, by the clock of the node that it came from"),
        Field("changes", "int", "how many changes were printed"),
        Field("torn", "bool", "it may have begun before the stream did: changes may be missing"),
    ),
)
RETRACTION: Final = Shape(
    "retraction",
    "With --fast: the group has another history; what was printed after a commit does not count.",
    (
        Field("to_vlsn", "vlsn", "the commit; what is up to it stands"),
        Field("from_vlsn", "vlsn", "the last commit that was read before"),
        Field("commits", "int", "how many commits are taken back, the master's own included"),
    ),
)
FILE: Final = Shape(
    "file",
    "With --to: a file that is complete.",
    (
        Field("path", "text", "where it is"),
        Field("first_vlsn", "vlsn", "first commit in it"),
        Field("last_vlsn", "vlsn", "last commit in it"),
        Field("transactions", "int", "transactions in it"),
        Field("changes", "int", "their changes"),
        Field("bytes", "size_bytes", "its size"),
    ),
)
WHY_ENDED: Final = ("limit", "idle", "behind", "signal")
SUMMARY: Final = Shape(
    "summary",
    "The end of the stream.",
    (
        Field("group", "text", "name of the group; null when it was never reached", null=True),
        Field("transactions", "int", "transactions above"),
        Field("changes", "int", "their changes"),
        Field("retractions", "int", "retractions above"),
        Field("connections", "int", "connections to masters that it took"),
        Field("last_vlsn", "vlsn", "last commit that was read, printed or not: the place to go on from", null=True),
        Field(
            "ended", "text", "why it has ended; behind: by --until-idle, before everything was read", choices=WHY_ENDED
        ),
    ),
)


def change_row(change: Change, txn: int) -> Row:
    """A change as a row."""
    return CHANGE.row(
        (
            change.vlsn, txn, change.op, change.db, change.db_id, change.key, change.data, change.expiration,
            change.old_name,
        )
    )  # fmt: skip


def transaction_row(transaction: Transaction, changes: int) -> Row:
    """The end of a transaction as a row."""
    point = transaction.point
    return TRANSACTION.row((point.vlsn, point.txn_id, point.master_id, transaction.time_ms, changes, transaction.torn))


def retraction_row(retraction: Retraction) -> Row:
    """A retraction as a row."""
    return RETRACTION.row((retraction.to_vlsn, retraction.from_vlsn, retraction.commits))


def is_plain(style: Style) -> bool:
    """Whether ``fast_lines`` may take the place of the encoder of NDJSON."""
    return style.key_format == "hex" and style.data_format == "hex"


def fast_lines(changes: Iterable[Change], txn: int, names: dict[str | None, str]) -> bytes:
    """Changes as lines of NDJSON, as its encoder makes them of ``change_row`` in the plain style.

    Arguments:
        names: names of databases as JSON; those that are met are added.
    """
    found = []
    for vlsn, op, db_id, db, key, data, expiration, old_name in changes:
        if expiration or key is None:
            values = (vlsn, txn, op, db, db_id, key, data, expiration, old_name)
            found.append(line({"rec": CHANGE.rec} | row_to_json(CHANGE.row(values))).decode("utf-8") + "\n")
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
