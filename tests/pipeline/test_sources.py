"""The data sources together: options that do not exist, errors in one line, and ``register`` on a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.errors import UnsupportedError, UsageError
from engine.pipeline import java
from engine.pipeline.session import Session
from engine.pipeline.source_options import loaded_paths
from engine.pipeline.sources import register
from tests.support import harness
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S

# A program with a session of its own, as a notebook has it. The second argument is a Python without pyarrow.
NOTEBOOK = """
import sys
from pyspark.sql import SparkSession
from engine.errors import UnsupportedError
from engine.pipeline.sources import register

spark = SparkSession.builder.master(sys.argv[1]).config("spark.ui.enabled", "false").getOrCreate()
context = spark.sparkContext
whole, context.pythonExec = context.pythonExec, sys.argv[2]
try:
    register(spark)
except UnsupportedError as error:
    print(error, "|", error.hint)
context.pythonExec = whole
register(spark)
register(spark)
print([name.rpartition("/")[2] for name in context.listFiles])
found = context.parallelize([0], 1).map(lambda _: __import__("engine").__file__).first()
print(found.endswith(("engine.zip/package/engine/__init__.py", "engine.native/package/engine/__init__.py")))
print(spark.read.format("jelog").load(sys.argv[3]).count())
"""


def source(name: str, **options: str) -> Any:
    """A data source, as Spark makes it."""
    needs("Spark")
    from engine.pipeline.group_source import GroupSource
    from engine.pipeline.log_source import LogSource
    from engine.pipeline.record_source import RecordSource

    kinds = {"jelog": LogSource, "jerecords": RecordSource, "jegroup": GroupSource}
    return kinds[name]({"path": "localhost:1" if name == "jegroup" else "/", **options})


@pytest.mark.parametrize(
    ("name", "option", "nearest"),
    [
        ("jerecords", "as_of", "asOf"),
        ("jerecords", "asOff", "asOf"),
        ("jerecords", "on-damage", "onDamage"),
        ("jerecords", "partition", "partitions"),
        ("jelog", "start", "startingOffset"),
        ("jelog", "decoder", "decode"),
        ("jelog", "push_down", "pushDown"),
        ("jegroup", "starting_offset", "startingOffset"),
        ("jegroup", "tls-ca", "tlsCa"),
        ("jerecords", "header", None),
        ("jelog", "db", None),
    ],
)
def test_an_unknown_option_is_refused_and_the_nearest_is_named(name: str, option: str, nearest: str | None) -> None:
    with pytest.raises(UsageError, match=f"{name} has no option '{option}': its options are .*; nothing was read") as e:
        source(name, **{option: "true"})
    assert e.value.hint == (f'.option("{nearest}", ...), which is the nearest' if nearest else "leave it out")


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        ("jerecords", "asof", "yesterday"), ("jerecords", "partitions", "0"), ("jerecords", "partitions", "²"),
        ("jerecords", "onDamage", "perhaps"), ("jerecords", "pushDown", "yes"), ("jerecords", "decode", "mysql"),
        ("jelog", "data", "1"), ("jelog", "partitionBytes", "64m"), ("jelog", "failOnDataLoss", "no"),
        ("jelog", "startingOffset", "yesterday"), ("jegroup", "internal", "1"), ("jegroup", "timeout", "1.5"),
        ("jegroup", "tlsCheckHost", "maybe"), ("jegroup", "maxChanges", "-1"),
    ],
)  # fmt: skip
def test_values_are_checked(name: str, option: str, value: str) -> None:
    with pytest.raises(UsageError, match=value):
        source(name, **{option: value})


def test_options_in_any_case_and_those_of_spark_are_accepted() -> None:
    assert source("jerecords", ASOF="commits:-1", ondamage="IGNORE", owner="root", provider="jerecords")
    assert loaded_paths({"path": "a, b,"}) == ["a", "b"]
    assert loaded_paths({"paths": '["a,b", "c"]'}) == ["a,b", "c"]


def test_a_session_of_spark_connect_is_refused() -> None:
    needs("Spark")
    remote: Any = SimpleNamespace()
    with pytest.raises(UnsupportedError, match="Spark Connect cannot send this package"):
        register(remote)


def test_errors_are_one_line_without_a_traceback(session: Session, golden_dir: Path) -> None:
    """When the source is made, when it is planned, in a task, and in a stream; a user's own errors keep theirs."""
    from pyspark.errors import PySparkException

    spark, env = session.spark, golden_dir / "je-17/txn-crash"
    register(spark)

    def said(action: Any) -> str:
        with pytest.raises(PySparkException) as caught:
            action()
        return str(caught.value)

    def line(action: Any) -> str:
        text = said(action)
        assert "Traceback" not in text
        (found,) = (one for one in text.splitlines() if "engine.errors" in one)
        return found

    records = spark.read.format("jerecords")
    assert line(lambda: records.option("as_of", "x").load(str(env))).endswith(
        "engine.errors.UsageError: jerecords has no option 'as_of': its options are asOf, db, decode, onDamage, "
        'partitions, pushDown; nothing was read; next: .option("asOf", ...), which is the nearest'
    )
    damaged = str(golden_dir / "je-17/corrupt-middle")
    read = spark.read.format("jerecords").load(damaged)
    assert "engine.errors.DamageError: the log is damaged in" in line(read.count)
    assert "; next: jetool verify" in line(read.count)
    group = spark.read.format("jegroup").load("127.0.0.1:1")
    assert "engine.errors.NotFoundError: no node answers" in line(group.count)
    stream = spark.readStream.format("jelog")
    assert "no directory matches /nowhere/*; next:" in line(lambda: stream.load("/nowhere/*"))
    assert "startingOffset is an option of spark.readStream" in line(
        lambda: spark.read.format("jelog").option("startingOffset", "latest").load(str(env)).count()
    )
    query = stream.schema("kind string").load(str(env)).writeStream.format("noop").trigger(availableNow=True)
    assert "engine.errors.UsageError: jelog has no column kind" in line(query.start().awaitTermination)
    assert "ZeroDivisionError" in (own := said(spark.sparkContext.parallelize([0], 1).map(lambda x: 1 / x).collect))
    assert "Traceback" in own


def test_register_ships_the_package_and_says_what_executors_lack(
    tmp_path: Path, golden_dir: Path, cluster: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['pyarrow'] = None\n")
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}:$PYTHONPATH exec {sys.executable} "$@"\n')
    bare.chmod(0o755)
    home = str(java.find().home_for_spark(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, cluster, str(bare), str(golden_dir / "je-17/empty")],
        capture_output=True, text=True, timeout=4 * PATIENCE_S,
        env=harness.environment(JAVA_HOME=home, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable),
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert len(lines) == 4, done
    assert lines[0].startswith(f"the executors lack the Python package pyarrow: {sys.executable} on ")
    assert "; no data source was registered | on each of these machines: " in lines[0]
    assert f"{sys.executable} -m pip install 'pyarrow>=18'" in lines[0]
    assert lines[1:3] == ["['engine.zip']", "True"]
    assert int(lines[3]) > 0
