"""Loads that die: the environment is as it was, and the same command works the next time."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.tools import needs

needs("Spark")

import pyarrow as pa
from pyarrow import parquet

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.pipeline.load import stage
from tests.pipeline.loads import contents
from tests.support import harness
from tests.support.children import child
from tests.support.harness import run
from tests.support.waiting import PATIENCE_S

RECORDS = 40_000


@pytest.fixture
def env(tmp_path: Path) -> Path:
    home = tmp_path / "env"
    with Environment(home, EnvironmentConfig(create=True)) as opened:
        opened.create_database("old").put(b"kept", b"as it was")
    return home


@pytest.fixture
def source(tmp_path: Path) -> Path:
    keys = [b"%016d" % (number * 7919 % RECORDS) for number in range(RECORDS)]
    table = pa.table({"k": keys, "v": [b"v" * 100] * RECORDS})
    directory = tmp_path / "source"
    directory.mkdir()
    for part in range(4):
        parquet.write_table(table.slice(part * RECORDS // 4, RECORDS // 4), directory / f"part-{part}.parquet")
    return directory


def words(source: Path, env: Path, engine: str, *more: str) -> list[str]:
    line = [str(env), str(source), "--db", "d", "--create", "--key", "k", "--engine", engine, "--progress", "json"]
    return [sys.executable, "-m", "jetool", "load", *line, "--json", "--conf", "spark.driver.memory=600m", *more]


def started(command: list[str]) -> AbstractContextManager[subprocess.Popen[str]]:
    return child(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/")


def wait_for(process: subprocess.Popen[str], step: str) -> None:
    """Read progress until a step is heard of."""
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("step") == step:
            return
    raise AssertionError(f"the load ended before {step}")


def files_of(env: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in env.glob("*.jdb")}


def check_unharmed(env: Path, before: dict[str, bytes]) -> None:
    assert files_of(env) == before
    assert contents(env, "old") == {b"kept": b"as it was"}
    assert run("verify", env, "--full").code == 0


def check_rerun(source: Path, env: Path) -> None:
    result = run("load", env, source, "--db", "d", "--create", "--key", "k", "--engine", "local", "--json")
    assert result.code == 0, result.err
    assert result.json()["records"] == RECORDS
    assert contents(env, "d") == {b"%016d" % number: b"v" * 100 for number in range(RECORDS)}
    assert not (env / stage.DIRECTORY).exists()


@pytest.mark.parametrize("step", ["read", "write"])
def test_the_driver_is_killed(env: Path, source: Path, step: str) -> None:
    before = files_of(env)
    with started(words(source, env, "local", "--jobs", "1")) as process:
        wait_for(process, step)
    assert (env / stage.DIRECTORY).exists()
    check_unharmed(env, before)
    check_rerun(source, env)


@pytest.mark.parametrize("step", ["read", "write"])
def test_an_interrupt_cleans_up(env: Path, source: Path, step: str) -> None:
    before = files_of(env)
    with started(words(source, env, "local", "--jobs", "1")) as process:
        wait_for(process, step)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 130
    assert not (env / stage.DIRECTORY).exists()
    check_unharmed(env, before)


def test_a_full_disk(env: Path, source: Path) -> None:
    before = files_of(env)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))

    command = words(source, env, "local", "--jobs", "1")
    done = subprocess.run(
        command, env=harness.environment(), capture_output=True, text=True, cwd="/", preexec_fn=limit, check=False
    )
    assert done.returncode == 7
    assert "the environment is as it was" in done.stderr
    assert "run the same command again" in done.stderr
    assert not (env / stage.DIRECTORY).exists()
    check_unharmed(env, before)
    check_rerun(source, env)


@pytest.mark.parametrize(
    ("step", "number"),
    [
        ("read", signal.SIGKILL),
        ("start spark", signal.SIGINT),
        ("read", signal.SIGINT),
        pytest.param("start spark", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("write", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("write", signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_load_on_spark_is_stopped(env: Path, source: Path, step: str, number: signal.Signals) -> None:
    needs("Spark", "Java")
    before = files_of(env)
    with started(words(source, env, "spark")) as process:
        wait_for(process, step)
        process.send_signal(number)
        process.communicate(timeout=4 * PATIENCE_S)
        assert process.returncode == (-9 if number == signal.SIGKILL else 130)
    check_unharmed(env, before)
    if number == signal.SIGINT:
        assert not (env / stage.DIRECTORY).exists()
    check_rerun(source, env)


@pytest.mark.parametrize(
    ("step", "deaths", "code"),
    [
        ("read", 1, 0),
        pytest.param("write", 2, 0, marks=pytest.mark.slow),
        ("write", 99, 7),
    ],
)
def test_a_worker_is_killed(env: Path, source: Path, tmp_path: Path, step: str, deaths: int, code: int) -> None:
    """Its task is done again, and what it has left does not count; when all attempts die, the load fails."""
    needs("Spark", "Java")
    before = files_of(env)
    (tmp_path / "deaths").mkdir()
    command = words(source, env, "spark", "--conf", "spark.python.daemon.module=tests.pipeline.dying_daemon")
    dying = {"JETOOL_DIES_IN": step, "JETOOL_DIES": str(tmp_path / "deaths"), "JETOOL_DEATHS": str(deaths)}
    done = subprocess.run(
        command, env=harness.environment(**dying), capture_output=True, text=True, cwd="/", check=False
    )
    assert done.returncode == code, done.stderr
    assert len(list((tmp_path / "deaths").iterdir())) >= min(deaths, 4)
    assert not (env / stage.DIRECTORY).exists()
    if code:
        assert "the log files could not be written: a Python worker was killed, each time" in done.stderr
        assert "see whether memory ran out" in done.stderr
        assert "the environment is as it was" in done.stderr
        check_unharmed(env, before)
        check_rerun(source, env)
    else:
        assert json.loads(done.stdout)["records"] == RECORDS
        assert contents(env, "d") == {b"%016d" % number: b"v" * 100 for number in range(RECORDS)}
        assert run("verify", env, "--full").code == 0


def test_a_cluster_of_two_workers(env: Path, source: Path, cluster: str) -> None:
    conf = ["--conf", "spark.executor.memory=600m", "--partitions", "4", "--master", cluster]
    with started(words(source, env, "spark", *conf)) as process:
        out, err = process.communicate(timeout=8 * PATIENCE_S)
    assert process.returncode == 0, err
    assert json.loads(out)["records"] == RECORDS
    assert contents(env, "d") == {b"%016d" % number: b"v" * 100 for number in range(RECORDS)}
    assert run("verify", env, "--full").code == 0


@pytest.mark.parametrize("more", [(), ("--no-overwrite",)], ids=["records are replaced", "they stay"])
def test_a_cluster_merges_as_this_machine_does(
    env: Path, source: Path, tmp_path: Path, cluster: str, more: tuple[str, ...]
) -> None:
    """Into a database that holds half of the keys, and others, with other values."""
    older = {b"%016d" % number: b"older" for number in range(RECORDS // 2, RECORDS * 3 // 2)}
    with Environment(env, EnvironmentConfig()) as opened, opened.create_database("d") as db, opened.begin() as txn:
        for key, value in older.items():
            db.put(key, value, txn)
    here = shutil.copytree(env, tmp_path / "here")
    merged = run("load", here, source, "--db", "d", "--key", "k", "--engine", "local", "--json", *more)
    conf = ["--conf", "spark.executor.memory=600m", "--master", cluster]
    with started(words(source, env, "spark", *conf, *more)) as process:
        out, err = process.communicate(timeout=8 * PATIENCE_S)
    # Records that are refused are a finding.
    assert process.returncode == merged.code == len(more), err
    assert json.loads(out) == merged.json()
    newer = {b"%016d" % number: b"v" * 100 for number in range(RECORDS)}
    assert contents(env, "d") == contents(here, "d") == (newer | older if more else older | newer)
    dumps = [run("dump", one, "--db", "d").out for one in (env, here)]
    assert dumps[0] == dumps[1]
    for one in (env, here):
        assert run("verify", one, "--full").code == 0
        assert not (one / stage.DIRECTORY).exists()
