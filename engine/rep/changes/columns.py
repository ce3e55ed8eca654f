"""Changes as rows of columns: for the Spark source ``jegroup``, and for the Avro and Parquet files of a stream.

Each change is one row, which repeats the columns of its transaction: the commit at VLSN 140 of transaction -41, which
changed two records at VLSNs 138 and 139, gives the rows (140, 138, -41, ...) and (140, 139, -41, ...). Types are those
of Spark SQL; a column that is not in ``REQUIRED`` may be null.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from engine.rep.changes.transactions import CommittedTransaction, RecordChange

COLUMNS: Final = {
    "commit_vlsn": "bigint", "vlsn": "bigint", "txn": "bigint", "master": "int", "time": "timestamp", "op": "string",
    "db": "string", "db_id": "bigint", "key": "binary", "data": "binary", "expiration": "int", "old_name": "string",
    "torn": "boolean",
}  # fmt: skip
REQUIRED: Final = frozenset(("commit_vlsn", "vlsn", "txn", "master", "time", "op", "db_id", "torn"))
# Operations of rows without a change: a torn transaction, and a retraction.
TORN: Final = "torn"
RETRACT: Final = "retract"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
Values = tuple[Any, ...]


def moment_of(transaction: CommittedTransaction) -> datetime:
    """The commit time of a transaction, for the column ``time``."""
    return _EPOCH + timedelta(milliseconds=transaction.time_ms)


def change_values(transaction: CommittedTransaction, changes: Iterable[RecordChange]) -> Iterator[Values]:
    """A row for each change of a transaction, with a value for each of ``COLUMNS``."""
    point, torn, moment = transaction.point, transaction.torn, moment_of(transaction)
    for vlsn, op, db_id, db, key, data, expiration, old_name in changes:
        yield (
            point.vlsn, vlsn, point.txn_id, point.master_id, moment, op, db, db_id, key, data, expiration or None,
            old_name, torn,
        )  # fmt: skip


def torn_values(transaction: CommittedTransaction) -> Values:
    """The row of a transaction that began before the stream and has no change in it."""
    point = transaction.point
    return (
        point.vlsn, point.vlsn, point.txn_id, point.master_id, moment_of(transaction), TORN, None, 0, None, None, None,
        None, True,
    )  # fmt: skip


def retraction_values(to_vlsn: int, moment: datetime) -> Values:
    """The row that retracts all commits after ``to_vlsn`` in earlier rows."""
    return (to_vlsn, to_vlsn, 0, 0, moment, RETRACT, None, 0, None, None, None, None, False)
