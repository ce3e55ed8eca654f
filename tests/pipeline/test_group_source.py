"""``jegroup``: what a group commits as rows, each once, whatever is begun again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.streaming import begun_again
from tests.support.tools import needs

needs("Spark")

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import BinaryType, BooleanType, DataType, LongType, StringType, StructField, StructType

from engine.errors import RefusedError, UsageError
from engine.pipeline.group_source import GroupOptions, GroupReader, GroupStreamReader, Offset
from engine.pipeline.session import Session
from engine.pipeline.sources import register
from engine.rep.changes.feed import BEGIN, LATEST
from engine.rep.wire.entries import WireEntry
from tests.support.groups.group_double import GroupDouble
from tests.support.groups.subscribers import Reader, forked, group_of, operations, with_null_commit
from tests.support.groups.tcp_double import listening

KINDS = {"vlsn": LongType(), "op": StringType(), "db": StringType()}
SCHEMA = StructType([StructField(name, kind) for name, kind in KINDS.items()])


def full() -> list[WireEntry]:
    return with_null_commit(operations())


def wanted(log: list[WireEntry]) -> list[tuple[int, str, str | None]]:
    return [(change.vlsn, change.op, change.db) for change in Reader(group_of(log), BEGIN).read().changes]


def reader(addresses: str, **options: str) -> GroupStreamReader:
    return GroupStreamReader(SCHEMA, GroupOptions({"path": addresses, **options}, LATEST))


def test_batches_and_their_repetition() -> None:
    group = group_of(full())
    with listening(group) as addresses:
        of = reader(addresses, startingOffset="begin", maxChanges="5")
        offset, batches = of.initialOffset(), []
        while True:
            rows, end = of.read(offset)
            found = list(rows)
            if not found:
                break
            batches.append((offset, end, found))
            offset = end
        assert [row for *_, found in batches for row in found] == wanted(full())
        assert len(batches) > 4
        again = reader(addresses)
        for start, end, found in batches:
            # Spark writes offsets down as JSON.
            start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
            assert list(again.readBetweenOffsets(start, end)) == found
        assert list(again.readBetweenOffsets(offset, offset)) == []


def test_now_is_a_place() -> None:
    group = group_of(full()[:76])
    with listening(group) as addresses:
        of = reader(addresses)
        offset = of.initialOffset()
        assert (offset["vlsn"], offset["txn"]) == (76, 0)
        group.nodes[0].entries = full()
        found: list[Any] = []
        while len(found) < 1:
            rows, offset = of.read(offset)
            found += rows
        assert found == [(138, "insert", None)]


def test_a_batch_that_the_group_has_taken_back() -> None:
    group = group_of(full())
    with listening(group) as addresses:
        of = reader(addresses, startingOffset="begin", maxChanges="1000")
        start = of.initialOffset()
        end: Offset = start
        while end["vlsn"] < 76:
            _, end = of.read(end)
        group.nodes[0].entries = forked(full(), 60)[: end["vlsn"] - 2]
        with pytest.raises(RefusedError, match="checkpoint"):
            list(of.readBetweenOffsets({"state": "{}"}, end))


def test_the_batch_source_ends() -> None:
    group = group_of(full())
    with listening(group) as addresses:
        rows = GroupReader(SCHEMA, GroupOptions({"path": addresses, "db": "beta"}, BEGIN)).read(InputPartition(0))
        assert [row[1:] for row in rows] == [("create_database", "beta"), ("insert", "beta")]


def test_what_changes_mean_to_a_decoder() -> None:
    """As a decoder that knows their database shows them; without the option there are no such columns."""
    names = ("db", "key", "data", "decoded_key", "decoded_data", "known")
    kinds: list[DataType] = [BinaryType() if name in ("key", "data") else StringType() for name in names[:-1]]
    schema = StructType([StructField(name, kind) for name, kind in zip(names, [*kinds, BooleanType()], strict=True)])
    with listening(group_of(full())) as addresses:
        options = {"path": addresses, "decode": "heritrix"}
        rows = list(GroupReader(schema, GroupOptions(options, BEGIN)).read(InputPartition(0)))
        with pytest.raises(UsageError, match="no column decoded_key"):
            GroupReader(schema, GroupOptions({"path": addresses}, BEGIN))
    records = [row for row in rows if row[1] is not None]
    assert len(records) > 10
    assert all(row[3:] == (None, None, None) for row in rows if row[1] is None)
    for _, key, data, decoded_key, decoded_data, known in records:
        assert json.loads(decoded_key) == {"hex": key.hex()}
        assert json.loads(decoded_data) == (None if data is None else {"hex": data.hex()})
        assert known is False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "addresses of nodes"), ({"path": "a"}, "addresses of nodes"), ({"path": "a:0"}, "addresses of nodes"),
        ({"path": "a:1", "startingOffset": "x"}, "where to begin"), ({"path": "a:1", "maxChanges": "0"}, "a whole"),
        ({"path": "a:1", "decode": "auto"}, "not recognised"), ({"path": "a:1", "decode": "mysql"}, "no decoder"),
    ],
)  # fmt: skip
def test_options_that_make_no_sense(options: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        GroupOptions(options, BEGIN)


def test_spark_writes_each_change_once(session: Session, tmp_path: Path) -> None:
    """Batches with a checkpoint into Parquet; the query is begun again, and the group goes on between."""
    register(session.spark)
    log, out = full(), str(tmp_path / "out")
    group: GroupDouble = group_of(log[:40])
    with listening(group) as addresses:
        source = session.spark.readStream.format("jegroup").option("startingOffset", "begin").option("maxChanges", "4")

        def write() -> None:
            sink = source.load(addresses).writeStream.format("parquet")
            query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start(out)
            query.processAllAvailable()
            query.stop()

        for end in (60, 100, len(log)):
            group.nodes[0].entries = log[:end]
            begun_again(write)
        frame = session.spark.read.format("jegroup").load(addresses)
        assert frame.filter("op = 'insert' and db = 'dups'").count() == 4
    rows = session.spark.read.parquet(out).collect()
    assert sorted((row["vlsn"], row["op"], row["db"]) for row in rows) == sorted(wanted(log))
    assert {bytes(row["key"]) for row in rows if row["db"] == "dups" and row["key"]} == {b"d0", b"d1"}
