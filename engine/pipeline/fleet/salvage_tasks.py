"""What executors do for salvage: functions over Arrow batches, for ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from engine.format.bytecursor import join_two_part_key, split_two_part_key
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.pipeline.fleet import salvage_scan as scan
from engine.pipeline.inventory import LogPart
from engine.pipeline.worker import settle_worker

# Where records come from: recovery, or the log.
TREE: Final = "tree"
LOG: Final = "log"

ROWS: Final = (
    "source string, env string, db string, dups boolean, key binary, data binary, vlsn bigint, lsn bigint, "
    "deleted boolean, from string"
)


RECORDS: Final = "source string, environment string, db string, key binary, data binary, vlsn bigint, from string"


def scan_task(tasks: list[list[LogPart]], surveys: Mapping[str, scan.LogSurvey], ids: Iterator[Any]) -> Iterator[Any]:
    """Versions out of the parts of tasks; batches of task numbers come in."""
    settle_worker()
    schema = scan.arrow(scan.VERSION_SCHEMA)
    for number in _numbers(ids):
        rows = (row for part in tasks[number] for row in scan.versions(part, surveys[part.env]))
        yield from scan.batches(rows, schema)


def ends_task(tasks: list[list[LogPart]], ids: Iterator[Any]) -> Iterator[Any]:
    """Ends of transactions, likewise."""
    settle_worker()
    schema = scan.arrow(scan.END_SCHEMA)
    for number in _numbers(ids):
        yield from scan.batches((row for part in tasks[number] for row in scan.ends(part)), schema)


def _numbers(batches: Iterator[Any]) -> Iterator[int]:
    return (number for batch in batches for number in batch.column(0).to_pylist())


def fold(batches: Iterator[Any]) -> Iterator[Any]:
    """Records of recovery as versions; with duplicates key and data become one key."""
    import pyarrow as pa

    for batch in batches:
        columns = batch.to_pydict()
        count = batch.num_rows
        pairs = list(zip(columns["dups"], columns["key"], columns["data"], strict=True))
        columns["key"] = [join_two_part_key(key, data) if dups else key for dups, key, data in pairs]
        columns["data"] = [b"" if dups else data for dups, _, data in pairs]
        columns |= {"lsn": [NULL_LSN] * count, "deleted": [False] * count, "from": [TREE] * count}
        yield pa.RecordBatch.from_pydict(columns, schema=scan.arrow(ROWS))


def unfold(batches: Iterator[Any]) -> Iterator[Any]:
    """Live versions as records; with duplicates one key becomes key and data."""
    import pyarrow as pa

    for batch in batches:
        columns = batch.to_pydict()
        split = [
            split_two_part_key(key) if dups else (key, data or b"")
            for dups, key, data in zip(columns["dups"], columns["key"], columns["data"], strict=True)
        ]
        vlsns = [None if vlsn == NULL_VLSN else vlsn for vlsn in columns["vlsn"]]
        values = (
            columns["source"], columns["env"], columns["db"], [key for key, _ in split], [data for _, data in split],
            vlsns, columns["from"],
        )  # fmt: skip
        schema = scan.arrow(RECORDS)
        arrays = [pa.array(value, field.type) for value, field in zip(values, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
