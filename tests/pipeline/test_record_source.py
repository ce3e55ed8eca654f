"""``jerecords``: the records that recovery leaves, whatever the number of key ranges."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.tools import needs

needs("Spark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from engine import Environment, EnvironmentConfig
from engine.catalog.name_operations import DatabaseOptions
from engine.inspect.key_ranges import cut_keys
from engine.pipeline import record_source
from engine.pipeline.record_source import RecordSourceReader
from engine.pipeline.recovered_once import RecoveredView, opened_view
from engine.pipeline.session import Session
from engine.pipeline.sources import register
from tests.pipeline.fleet_support import environments, manifest
from tests.support.harness import run


def digest(records: list[tuple[bytes, bytes]]) -> str:
    """The digest that manifests give: lengths as four bytes, big-endian, before key and data."""
    found = hashlib.sha256()
    for record in records:
        for part in record:
            found.update(len(part).to_bytes(4, "big") + part)
    return found.hexdigest()


@pytest.mark.parametrize("partitions", [1, 3])
def test_records_are_those_of_the_manifests(session: Session, corpus: Path, partitions: int) -> None:
    register(session.spark)
    wanted: dict[str, dict[str, Any]] = {}
    for env in environments(corpus, "18.3.20"):
        facts = manifest(env)
        if facts["onOpen"]["forWriting"] == "ok" and not re.search("ttl|schema-crash|corrupt", str(env)):
            wanted[str(env)] = {db["name"]: db for db in facts["databases"]}
    read = session.spark.read.format("jerecords").option("partitions", str(partitions))
    rows: dict[tuple[str, str], list[tuple[bytes, bytes]]] = {}
    for row in read.load(",".join(wanted)).toArrow().to_pylist():
        rows.setdefault((row["environment"], row["db"]), []).append((row["key"], row["data"]))
    checked = 0
    for path, dbs in wanted.items():
        for name, facts in dbs.items():
            found = rows.get((path, name), [])
            assert len(found) == facts["records"], (path, name)
            # Rows come in the order of the database, also where a class makes it.
            assert digest(found) == facts["sha256"], (path, name)
            checked += 1
    assert checked > 60


def test_ranges_cover_every_record_once(tmp_path: Path) -> None:
    with Environment(str(tmp_path), EnvironmentConfig(create=True, node_max_entries=8)) as env:
        with env.create_database("d") as db, env.begin() as txn:
            for number in range(3000):
                db.put(f"{number * 7919 % 3000:06d}".encode(), b"v", txn)
            assert cut_keys(env.engine, db, 1) == []
        with env.open_database("d") as db:
            for count in (2, 3, 7, 64):
                cuts = cut_keys(env.engine, db, count)
                assert len(cuts) <= count - 1
                assert len(cuts) >= count // 2
                bounds = [None, *cuts, None]
                sizes = [len(list(db.items(start=a, end=b))) for a, b in pairwise(bounds)]
                assert sum(sizes) == 3000
                assert max(sizes) < 4 * 3000 / len(sizes)


CONDITIONS: list[tuple[list[Filter], Callable[[str, bytes], bool]]] = [
    ([EqualTo(("key",), bytearray(b"000700"))], lambda _, key: key == b"000700"),
    ([EqualTo(("key",), b"0007")], lambda _, key: key == b"0007"),
    ([In(("key",), (b"000007", None, b"002999"))], lambda _, key: key in (b"000007", b"002999")),
    (
        [GreaterThan(("key",), b"002990"), LessThanOrEqual(("key",), b"002995")],
        lambda _, key: b"002990" < key < b"002996",
    ),
    ([GreaterThanOrEqual(("key",), b"002990")], lambda _, key: key >= b"002990"),
    ([LessThan(("key",), b"000003"), EqualTo(("db",), "d")], lambda db, key: db == "d" and key < b"000003"),
    ([EqualTo(("key",), b"000001"), EqualTo(("key",), b"000002")], lambda _, key: False),
    ([In(("db",), ("e", "none")), Not(EqualTo(("key",), b"000001"))], lambda db, key: db == "e" and key != b"000001"),
    ([EqualTo(("environment",), "elsewhere")], lambda _, key: False),
    ([StringStartsWith(("environment",), "/"), LessThan(("data",), b"v")], lambda _, key: True),
]


def test_conditions_say_where_to_look(tmp_path: Path) -> None:
    """Every row that meets them is read, and of one key little more; with duplicates, and in the order of a class."""
    rows: list[tuple[str, bytes]] = []
    with Environment(str(tmp_path), EnvironmentConfig(create=True, node_max_entries=8)) as env:
        for name, options in (("d", DatabaseOptions()), ("e", DatabaseOptions(duplicates=True))):
            with env.create_database(name, options) as db, env.begin() as txn:
                for number in range(3000):
                    db.put(b"%06d" % (number // 2 if name == "e" else number), b"%d" % number, txn)
                rows += [(name, key) for key, _ in db.items(txn=txn)]
    schema = StructType([StructField(name, kind) for name, kind in (("db", StringType()), ("key", BinaryType()))])
    for filters, meets in CONDITIONS:
        reader = RecordSourceReader(schema, [str(tmp_path)], None, 5, push_down=True)
        assert list(reader.pushFilters(filters)) == filters
        found = [
            (row["db"], row["key"])
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        assert [row for row in found if meets(*row)] == [row for row in rows if meets(*row)], filters
        if any(isinstance(one, EqualTo) and one.attribute == ("key",) for one in filters):
            assert len(found) <= 3, filters


def test_a_narrow_range_reads_only_its_own_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of the log that a query reads: its records, the BINs that hold them, and the way down to these."""
    config = EnvironmentConfig(create=True, node_max_entries=8)
    with Environment(str(tmp_path), config) as env, env.create_database("d") as db, env.begin() as txn:
        for number in range(3000):
            db.put(b"%06d" % number, b"too long to be part of a BIN", txn)
    reads: list[int] = []

    @contextmanager
    def watched(view: RecoveredView) -> Iterator[Environment]:
        with opened_view(view) as env:
            yield env
            reads.append(env.engine.access.reads)

    monkeypatch.setattr(record_source, "opened_view", watched)
    schema = StructType([StructField("key", BinaryType()), StructField("data", BinaryType())])

    def query(*filters: Filter) -> tuple[int, int]:
        """Records and entries that are read; the plan and four ranges, of which a narrow query needs one."""
        reads.clear()
        reader = RecordSourceReader(schema, [str(tmp_path)], "d", 4, push_down=True)
        reader.pushFilters(list(filters))
        partitions = reader.partitions()
        assert len(partitions) == (1 if filters else 4)
        return sum(len(batch) for one in partitions for batch in reader.read(one)), sum(reads)

    records, everything = query()
    assert records == 3000
    assert everything > 3000 + 3000 // 8
    # Opening the environment, once for the plan and once for the task, and one way down the tree.
    nothing = query(EqualTo(("key",), b"001500+"))
    assert nothing[0] == 0
    assert nothing[1] < everything // 50
    for filters, count in (
        ([EqualTo(("key",), b"001500")], 1),
        ([GreaterThanOrEqual(("key",), b"001500"), LessThan(("key",), b"001510")], 10),
        # A prefix, as a range.
        ([GreaterThanOrEqual(("key",), b"0015"), LessThan(("key",), b"0016")], 100),
    ):
        found, entries = query(*filters)
        assert found == count
        # BINs are at least half full; two more are at the ends, with the node above.
        assert entries - nothing[1] <= count + count // 4 + count // 16 + 4, filters


@pytest.mark.parametrize("point", ["commits:-3", "txn:{txn}", "lsn:0x1/0x0"])
def test_records_as_of_a_point(session: Session, corpus: Path, tmp_path: Path, point: str) -> None:
    """As ``scan --as-of`` prints them, of every database, whatever the number of tasks."""
    register(session.spark)
    env = tmp_path / "env"
    with Environment(str(env), EnvironmentConfig(create=True, file_max_bytes=20_000)) as opened:
        txn_id = 0
        for name in ("one", "two"):
            with opened.create_database(name) as db:
                for number in range(300):
                    with opened.begin() as txn:
                        db.put(f"{number % 120:04d}".encode(), b"%d" % number * 9, txn)
                        txn_id = txn.id if number == 200 and name == "one" else txn_id
        opened.rename_database("one", "later")
    point = point.format(txn=txn_id)
    names = run("dbs", env, "--as-of", point, "--format", "ndjson").lines()
    wanted = []
    for name in sorted(row["name"] for row in names if "name" in row):
        rows = run("scan", env, "--db", name, "--as-of", point, "--format", "ndjson").lines()
        wanted += [(name, row["key"], row["data"]) for row in rows if row["rec"] == "record"]
    read = session.spark.read.format("jerecords").option("asOf", point).option("partitions", "3")
    found = [(row["db"], row["key"].hex(), row["data"].hex()) for row in read.load(str(env)).toArrow().to_pylist()]
    assert sorted(found) == wanted
    assert wanted
    # The renaming is a later transaction.
    assert {name for name, _, _ in wanted} <= {"one", "two"}


def test_after_a_crash_there_are_few_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would replay the whole log."""
    monkeypatch.setattr(record_source, "LEAST_TASK_BYTES", 10_000)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    schema = StructType([StructField("key", BinaryType())])
    config = EnvironmentConfig(create=True, node_max_entries=8, file_max_bytes=20_000, checkpoint_bytes=1 << 40)
    env = Environment(str(tmp_path), config)
    with env.create_database("d") as db:
        for number in range(3000):
            db.put(b"%06d" % number, b"value")
    env.sync()
    env.engine.crash()
    reader = RecordSourceReader(schema, [str(tmp_path)], "d", None)
    crashed = reader.partitions()
    Environment(str(tmp_path), config).close()
    closed = reader.partitions()
    assert len(crashed) == 2
    assert len(closed) > 2 * len(crashed)
    assert [sum(len(batch) for task in tasks for batch in reader.read(task)) for tasks in (crashed, closed)] == [
        3000
    ] * 2


def test_one_key_of_many(session: Session, corpus: Path) -> None:
    """The answer is that of a whole read, whether or not Spark's condition limits what is read."""
    register(session.spark)
    path = str(corpus / "je/je-18.3.20/dups/env")
    frame = session.spark.read.format("jerecords").load(path)
    rows = session.spark.read.format("jerecords").load(path).collect()
    wanted = rows[len(rows) // 2]
    condition = f"key = X'{bytes(wanted['key']).hex()}' and db = '{wanted['db']}'"
    expected = [row for row in rows if (row["db"], row["key"]) == (wanted["db"], wanted["key"])]
    assert frame.where(condition).collect() == expected
    # The next query of the same frame has no conditions.
    assert frame.count() == len(rows) > len(expected)
    limited = session.spark.read.format("jerecords").option("pushDown", "true")
    assert limited.load(path).where(condition).collect() == expected
    with pytest.raises(Exception, match="the option pushDown has another value: expected true or false"):
        limited.option("pushDown", "perhaps").load(path).count()


def test_a_point_that_is_none(session: Session, golden_dir: Path) -> None:
    register(session.spark)
    with pytest.raises(Exception, match="not a point"):
        session.spark.read.format("jerecords").option("asOf", "yesterday").load(
            str(golden_dir / "je-17/empty")
        ).collect()


def test_a_database_that_is_not_there(session: Session, golden_dir: Path) -> None:
    register(session.spark)
    with pytest.raises(Exception, match="no database 'none'"):
        session.spark.read.format("jerecords").option("db", "none").load(str(golden_dir / "je-17/empty")).collect()
    with pytest.raises(Exception, match="the option partitions has another value: expected a whole number"):
        session.spark.read.format("jerecords").option("partitions", "0").load(str(golden_dir / "je-17/empty")).collect()


def test_commits_after_damage_are_not_dropped_without_a_word(session: Session, corpus: Path) -> None:
    register(session.spark)
    env = str(corpus / "je/je-18.3.20/corrupt-middle/env")
    read = session.spark.read.format("jerecords").option("db", "accounts")
    with pytest.raises(Exception, match="3 committed transactions after damage at 0x5/0x80e are not seen"):
        read.load(env).collect()
    with pytest.raises(Exception, match="the option onDamage has another value: expected fail or ignore"):
        read.option("onDamage", "perhaps").load(env).collect()
    with Environment(env, EnvironmentConfig(read_only=True)) as opened, opened.open_database("accounts") as db:
        assert read.option("onDamage", "ignore").load(env).count() == len(list(db.items()))
