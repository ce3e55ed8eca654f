"""``jelog``: the rows of dump-log, pruned and filtered."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.errors import UsageError
from engine.fields import row_of, shape_of
from engine.format.entry_fields import ENTRY_SHAPE
from engine.log.entry import Damage
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.pipeline.inventory import parts_of
from engine.pipeline.log_columns import BY_NAME, ColumnFiller, ColumnLimits, wants_file
from engine.pipeline.session import Session
from engine.pipeline.sources import register
from engine.storage.disk import DiskStorage
from jetool.commands.dump_log.renderer import decoded
from jetool.commands.dump_log.rows import BadStretch, BodyView, bad_stretch, entry_row
from jetool.output.shape import row_to_json
from tests.pipeline.fleet_support import environments
from tests.support.tools import needs

VIEW = BodyView(data=True)
# Damaged in the middle, at the end, and in files before the last one; rolled back; whole.
CUT = ("corrupt-middle", "corrupt-older-file", "torn-empty-next-file", "erased", "multi-ckpt-crash")


def dumped(env: Path) -> Iterator[dict[str, Any]]:
    """The records that ``dump-log --data --format ndjson`` prints."""
    storage = DiskStorage(str(env))
    for item in scan_log(storage, list_log_files(storage), marker=True).entries():
        if isinstance(item, Damage):
            yield row_to_json(row_of(bad_stretch(item))) | {"file": item.lsn >> 32}
        else:
            record, error = decoded(item, VIEW)
            yield row_to_json(entry_row(item, record, error, VIEW))


def same(value: Any, wanted: Any) -> bool:
    if isinstance(value, datetime.datetime):
        return value == datetime.datetime.fromisoformat(wanted)
    return bool(value == wanted)


def test_rows_are_those_of_dump_log_over_all_fixtures(session: Session, corpus: Path) -> None:
    register(session.spark)
    root = corpus / "je"
    paths = f"{root}/*/*/env,{root}/*/*/node?/env"
    frame = session.spark.read.format("jelog").option("data", "true").option("partitionBytes", "4000000").load(paths)
    table = frame.toArrow()
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row["environment"], []).append(row)
    found = environments(corpus)
    assert sorted(rows) == sorted(str(env) for env in found)
    assert len(found) == 114
    checked = 0
    for env in found:
        ours = sorted(rows[str(env)], key=lambda row: (row["file"], row["offset"]))
        for row, wanted in zip(ours, dumped(env), strict=True):
            for name in BY_NAME:
                if name in wanted:
                    assert same(row[name], wanted[name]), (str(env), row["lsn"], name, row[name], wanted[name])
                    checked += 1
    assert checked > 2_000_000


def test_a_large_file_is_read_in_parts(corpus: Path) -> None:
    """Each entry and each damage once, wherever the file is cut."""
    needs("Spark")
    from pyspark.sql.types import StringType, StructField, StructType

    from engine.pipeline import log_source

    schema = StructType([StructField(name, StringType()) for name in ("environment", "lsn", "type", "reason")])
    envs = [str(corpus / "je/je-18.3.20" / name / "env") for name in CUT]

    def read(part_bytes: int) -> tuple[int, Counter[tuple[Any, ...]]]:
        reader = log_source.LogSourceReader(schema, envs, 1, None, least_cut_bytes=part_bytes)
        tasks = reader.partitions()
        batches = (batch for task in tasks for batch in reader.read(task))
        return len(tasks), Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    tasks, whole = read(1 << 30)
    cut, rows = read(3001)
    assert cut > 2 * tasks
    assert rows == whole
    assert {row[0] for row in rows} == set(envs)
    assert any(row[-1] for row in rows)


def test_columns_are_named_as_in_dump_log() -> None:
    needs("Spark")
    of_dump_log = {field.name for shape in (ENTRY_SHAPE, shape_of(BadStretch)) for field in shape.fields}
    assert set(BY_NAME) - of_dump_log == {"environment", "total_size"}


def test_nothing_is_lost_where_a_field_is_null(corpus: Path) -> None:
    """A null of ours is a field that dump-log leaves out, not one that we cannot find."""
    env = corpus / "je/je-18.3.20/schema-crash/env"
    filling = ColumnFiller(tuple(name for name in BY_NAME if name not in ("environment", "path")), {})
    storage = DiskStorage(str(env))
    items = list(scan_log(storage, list_log_files(storage), marker=True).entries())
    count, columns = filling.fill(items)
    assert count == len(items)
    names = {"db", "txn", "node", "level", "data_size", "deleted", "embedded", "last_lsn", "abort_lsn", "dtvlsn"}
    for index, wanted in enumerate(dumped(env)):
        for name in names:
            assert columns[name][index] == wanted.get(name), (wanted["lsn"], name)


def test_only_the_columns_of_the_schema_are_built(session: Session, golden_dir: Path) -> None:
    register(session.spark)
    read = session.spark.read.format("jelog").schema("size int, type string")
    rows = read.load(str(golden_dir / "je-17" / "txn-crash")).collect()
    assert rows[0].asDict() == {"size": 24, "type": "FileHeader"}
    assert len(rows) == 1221


@pytest.mark.parametrize(
    ("condition", "pushed"),
    [
        ("type in ('Commit', 'Abort')", True),
        ("vlsn > 100 and vlsn <= 200", True),
        ("txn = -13", True),
        ("replicated and not invisible", False),
        ("invisible = true", True),
        ("key_hex = '00000001' or type = 'Commit'", False),
        ("db = -258 and deleted = true", True),
        ("file = 0 and offset >= 1000", True),
        ("path = '00000000.jdb'", True),
        ("environment like '%rollback'", False),
        ("time > timestamp '2020-01-01'", False),
        ("reason is null", False),
        ("level is not null", True),
    ],
)
def test_conditions_choose_the_same_rows_pushed_down_or_not(
    session: Session, golden_dir: Path, condition: str, pushed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    register(session.spark)
    spark, path = session.spark, str(golden_dir / "je-17" / "ha-rollback")
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "true"
    whole = spark.read.format("jelog").load(path)
    frame = spark.read.format("jelog").option("pushDown", "true").load(path).where(condition)
    frame.explain()
    plan = capsys.readouterr().out
    assert "Scan" in plan
    assert (" Filter " not in plan) is pushed, plan
    # A table in memory: nothing is handed down to the source.
    table = spark.read.format("jelog").load(path).toArrow()
    plain = spark.createDataFrame(table).where(condition).select("lsn").collect()
    assert sorted(frame.select("lsn").collect()) == sorted(plain)
    assert plain or condition == "txn = -13" or "deleted" in condition
    # Without the option a frame is for any number of queries, one with conditions before one without.
    assert (whole.where(condition).count(), whole.count()) == (len(plain), table.num_rows)


def test_a_condition_on_the_file_leaves_other_files_unread(session: Session, golden_dir: Path, tmp_path: Path) -> None:
    register(session.spark)
    env = golden_dir / "je-17" / "corrupt-middle"
    part = parts_of(str(env), list_log_files(DiskStorage(str(env))))
    wanted = [
        file.number
        for file in part.files
        if wants_file({"file": ColumnLimits(low=4)}, str(env), file.path, file.number)
    ]
    assert wanted == [4, 5]
    assert not wants_file({"environment": ColumnLimits(frozenset(("/elsewhere",)))}, str(env), "00000000.jdb", 0)
    read = session.spark.read.format("jelog").option("pushDown", "true")
    frame = read.load(str(env)).where("file >= 4").select("file").distinct()
    assert sorted(row.file for row in frame.collect()) == [4, 5]


def test_limits_join() -> None:
    both = ColumnLimits(frozenset((1, 2, 3)), low=2).both(ColumnLimits(frozenset((2, 3, 4)), high=2))
    assert both == ColumnLimits(frozenset((2, 3)), 2, 2)
    assert [both.meets(value) for value in (1, 2, 3, None)] == [False, True, False, False]
    assert ColumnLimits().meets(0)
    assert not ColumnLimits().meets(None)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("typ string", "no column typ"),
        ("type int", "column type of jelog is of another type: expected string, found int"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused(session: Session, golden_dir: Path, schema: str, text: str) -> None:
    register(session.spark)
    with pytest.raises(Exception, match=text):
        session.spark.read.format("jelog").schema(schema).load(str(golden_dir / "je-17/empty")).collect()


def test_a_path_is_needed_and_must_match(session: Session, tmp_path: Path) -> None:
    register(session.spark)
    with pytest.raises(Exception, match="load needs the path"):
        session.spark.read.format("jelog").load().collect()
    with pytest.raises(Exception, match="no directory matches"):
        session.spark.read.format("jelog").load(f"{tmp_path}/*/none").collect()
    with pytest.raises(Exception, match="no Berkeley DB JE environment"):
        session.spark.read.format("jelog").load(str(tmp_path)).collect()


def test_usage_errors_are_ours() -> None:
    needs("Spark")
    from engine.pipeline.log_source import LogSource

    with pytest.raises(UsageError, match="files of this machine"):
        LogSource({"path": "/data/a,hdfs://host/b"})
    with pytest.raises(UsageError, match="partitionBytes has another value: expected a whole number above 0"):
        LogSource({"path": "/", "partitionBytes": "many"})
