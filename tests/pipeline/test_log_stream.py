"""``spark.readStream.format("jelog")``: entries come once, in as many batches as it takes, whatever is cut."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import needs

needs("Spark")

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StringType, StructField, StructType

from engine import Environment, EnvironmentConfig
from engine.errors import DamageError, UsageError
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.pipeline.log_source import LogSource
from engine.pipeline.log_stream_source import LogStreamReader, Ranges
from engine.pipeline.session import Session
from engine.pipeline.sources import register
from engine.storage.disk import DiskStorage
from tests.support.streaming import begun_again

SCHEMA = "environment string, file bigint, offset bigint, type string"


def _run_to_end(query: Any, out: str) -> None:
    query.start(out).awaitTermination()


def reader(env: Path, **options: str) -> LogStreamReader:
    words = [column.split() for column in SCHEMA.split(", ")]
    schema = StructType([StructField(name, StringType() if kind == "string" else LongType()) for name, kind in words])
    return LogSource({"path": str(env), **options}).streamReader(schema)


def rows_between(of: LogStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, int, str]]:
    found = []
    for partition in of.partitions(start, end):
        assert isinstance(partition, Ranges)
        for batch in of.read(partition):
            found += [(row["file"], row["offset"], row["type"]) for row in batch.to_pylist()]
    return found


def logged(env: Path) -> list[tuple[int, int]]:
    storage = DiskStorage(str(env))
    return [
        (item.lsn >> 32, item.lsn & 0xFFFFFFFF)
        for item in scan_log(storage, list_log_files(storage), marker=True).entries()
    ]


def test_a_log_cut_at_every_place_comes_once(golden_dir: Path, tmp_path: Path) -> None:
    """The file grows by a few hundred bytes at a time, also in the middle of entries."""
    source = golden_dir / "je-17" / "txn-crash" / "00000000.jdb"
    data = source.read_bytes()
    env = tmp_path / "env"
    env.mkdir()
    of = reader(env)
    offset: dict[str, dict[str, int]] = {}
    found: list[tuple[int, int, str]] = []
    for end in [*range(0, 30_000, 411), len(data)]:
        (env / source.name).write_bytes(data[:end])
        latest = of.latestOffset(offset, ReadAllAvailable())
        found += rows_between(of, offset, latest)
        assert rows_between(of, latest, latest) == []
        offset = latest
    assert [row[:2] for row in found] == logged(env)
    assert reader(env, startingOffset="latest").initialOffset() == offset


def test_new_files_and_a_writer(tmp_path: Path) -> None:
    env = tmp_path / "env"
    env.mkdir()
    of = reader(env)
    offset: dict[str, dict[str, int]] = {}
    found: list[tuple[int, int, str]] = []
    config = EnvironmentConfig(create=True)
    with Environment(str(env), config) as opened, opened.create_database("a") as database:
        for number in range(300):
            with opened.begin() as txn:
                database.put(b"k%d" % number, b"v" * 100, txn)
            if number % 60 == 0:
                latest = of.latestOffset(offset, ReadAllAvailable())
                found += rows_between(of, offset, latest)
                offset = latest
    latest = of.latestOffset(offset, ReadAllAvailable())
    found += rows_between(of, offset, latest)
    assert [row[:2] for row in found] == logged(env)
    assert sum(row[2] == "Commit" for row in found) >= 300


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda env: (env / "00000000.jdb").write_bytes(b""), "was cut"),
        (lambda env: (env / "00000000.jdb").rename(env / "00000007.jdb"), "were deleted"),
    ],
)
def test_lost_entries_are_not_passed_over(
    golden_dir: Path, tmp_path: Path, change: Callable[[Path], object], said: str
) -> None:
    env = tmp_path / "env"
    shutil.copytree(golden_dir / "je-17" / "txn-crash", env)
    of = reader(env)
    start = of.latestOffset({}, ReadAllAvailable())
    change(env)
    end = of.latestOffset(start, ReadAllAvailable())
    with pytest.raises(DamageError, match=said):
        of.partitions(start, end)
    assert len(reader(env, failOnDataLoss="false").partitions(start, end)) in (0, 1)


@pytest.mark.parametrize("fails", ["true", "false"])
def test_an_offset_within_an_entry(golden_dir: Path, fails: str) -> None:
    """The log was cut and written on after the last offset: a row of damage, and the stream goes on."""
    env = golden_dir / "je-17" / "txn-crash"
    of = reader(env, failOnDataLoss=fails)
    latest = of.latestOffset({}, ReadAllAvailable())
    everything = rows_between(of, {}, latest)
    _, at, _ = everything[100]
    found = rows_between(of, {str(env): {"file": 0, "offset": at + 3}}, latest)
    assert found[0][:2] == (0, at + 3)
    # Bytes before an entry can look like its beginning, so the next one may go with them.
    assert found[1:] in (everything[101:], everything[102:])


def test_options_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="startingOffset"):
        reader(tmp_path, startingOffset="yesterday")


def test_spark_writes_each_entry_once(session: Session, golden_dir: Path, tmp_path: Path) -> None:
    """Batches with a checkpoint into Parquet; the query is begun again between them, and the log grows."""
    register(session.spark)
    source = golden_dir / "je-17" / "txn-crash" / "00000000.jdb"
    data, env, out = source.read_bytes(), tmp_path / "env", str(tmp_path / "out")
    env.mkdir()
    for end in (9_001, 20_500, len(data)):
        (env / source.name).write_bytes(data[:end])
        frame = session.spark.readStream.format("jelog").schema(SCHEMA).load(str(env))
        query = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = query.trigger(availableNow=True)
        begun_again(partial(_run_to_end, query, out))
    rows = session.spark.read.parquet(out).collect()
    assert sorted((row["file"], row["offset"]) for row in rows) == logged(env)
