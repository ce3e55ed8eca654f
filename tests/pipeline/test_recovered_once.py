"""Recovering an environment once for all tasks: what they read is what each would have found by itself."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.pipeline.recovered_once import RecoveredView, opened_view, recovered_once
from tests.support import harness
from tests.support.waiting import PATIENCE_S

CRASHED = (
    "ckpt-crash-mid/env", "multi-ckpt-crash/env", "cleaned/env", "dups/env", "erased/env", "extinct/env",
    "ha-rollback/node1/env", "ha-rollback-hidden/node2/env", "rollback-four-periods/env",
)  # fmt: skip

# The second query finds a record that only the recovery of the first one holds.
APPLICATION = """
import sys
from pathlib import Path
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.pipeline.session import open_session
from engine.pipeline.settings import SparkSettings
from engine.pipeline.sources import register
from engine.storage.copy_on_write import CoverStorage
from engine.storage.disk import DiskStorage

master, env, place = sys.argv[1:]
conf = (("spark.driver.memory", "512m"), ("spark.executor.memory", "600m"), ("spark.local.dir", place))
with open_session(SparkSettings(master, conf, quick=True)) as session:
    register(session.spark)
    def count():
        read = session.spark.read.format("jerecords").schema("key binary").option("db", "d").option("partitions", "3")
        return read.load(env).count()
    print(count())
    covers = list(Path(place).rglob("jetool-recovered-*"))
    print(len(covers))
    storage = CoverStorage(DiskStorage(env), DiskStorage(str(covers[0])))
    with Environment(storage, EnvironmentConfig()) as opened, opened.open_database("d") as db:
        db.put(b"one more", b"record")
    print(count())
print(len(list(Path(place).rglob("jetool-recovered-*"))))
"""

worth_it = partial(recovered_once, least_bytes=1)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Spark's directory, and logs that are all worth it."""
    found = tmp_path / "spark"
    found.mkdir()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{found},/nowhere")
    return found


def records(view: RecoveredView) -> dict[str, list[tuple[bytes, bytes]]]:
    with opened_view(view) as env:
        found = {}
        for name in env.database_names():
            with env.open_database(name) as db:
                found[name] = list(db.items())
        return found


def fingerprint(env: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(env.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("name", CRASHED)
def test_all_read_what_one_recovery_found(corpus: Path, place: Path, name: str) -> None:
    env = corpus / "je/je-18.3.20" / name
    before = fingerprint(env)
    view = worth_it(str(env), None)
    assert view.cover is not None
    # A later query finds it again.
    assert worth_it(str(env), None) == view
    assert [str(path) for path in place.iterdir()] == [view.cover]
    found = records(view)
    assert found == records(view._replace(cover=None))
    assert any(found.values())
    with opened_view(view) as opened:
        # Nothing is left for the tasks to recover.
        assert opened.engine.recovery.last_entry_is_ckpt_end
    assert fingerprint(env) == before


def test_a_log_that_has_grown_is_recovered_anew(corpus: Path, place: Path, tmp_path: Path) -> None:
    env = tmp_path / "env"
    shutil.copytree(corpus / "je/je-18.3.20/ckpt-crash-plain/env", env)
    first = worth_it(str(env), None)
    with Environment(env) as opened, opened.create_database("later") as db:
        db.put(b"key", b"value")
    second = worth_it(str(env), None)
    assert first.cover != second.cover
    assert {"later"} == records(second).keys() - records(first).keys()
    assert len(list(place.iterdir())) == 2


@pytest.mark.parametrize("name", ["corrupt-middle", "corrupt-older-file", "restore-required"])
def test_a_damaged_log_is_read_as_it_is(corpus: Path, place: Path, name: str) -> None:
    """Whoever reads it finds what is wrong, and says it."""
    env = str(corpus / "je/je-18.3.20" / name / "env")
    assert worth_it(env, None) == RecoveredView(env, None, None)
    assert list(place.iterdir()) == []


def test_without_a_place_each_task_recovers(corpus: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = str(corpus / "je/je-18.3.20/ckpt-crash-mid/env")
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert worth_it(env, None).cover is None
    # An executor on another machine sees no such directory.
    assert records(RecoveredView(env, None, str(place / "elsewhere"))) == records(RecoveredView(env, None, None))


def test_little_to_recover_is_not_worth_it(corpus: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(place))
    assert recovered_once(str(corpus / "je/je-18.3.20/ckpt-crash-mid/env"), None).cover is None


def test_executors_of_a_cluster_read_what_the_driver_has_recovered(tmp_path: Path, cluster: str) -> None:
    path, place = tmp_path / "env", tmp_path / "spark"
    place.mkdir()
    env = Environment(str(path), EnvironmentConfig(create=True, checkpoint_bytes=1 << 40))
    with env.create_database("d") as db, env.begin() as txn:
        for number in range(700):
            db.put(b"%06d" % number, b"v" * 16_000, txn)
    env.sync()
    env.engine.crash()
    before = fingerprint(path)
    words = [sys.executable, "-c", APPLICATION, cluster, str(path), str(place)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=8 * PATIENCE_S, env=harness.environment())
    assert done.stdout.split() == ["700", "1", "701", "0"], done.stderr
    assert fingerprint(path) == before
