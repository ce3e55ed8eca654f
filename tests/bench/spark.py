"""``python -m tests.bench.spark``: the same jobs by the local engine, on Spark's local mode, and on a cluster.

The cluster is a master and two workers on this machine, each with one core, so that all three have the same two cores.
Its executors are new processes, which get the package from the driver: with the compiled modules if the driver runs the
native build. Rows:

* ``load``: shuffled records of a Parquet file into an empty database;
* ``merge``: records into a database that holds as many others; afterwards its dump is the same everywhere;
* ``verify``: ``fleet verify --full`` of four copies of a log that JE wrote (``--je-classpath``), on the cluster also
  with pure executors;
* ``jerecords``: queries of that log, in one session. The narrow range is a thousand keys, pushed down.

Wall times hold everything from the start of a process to its end. ``start`` is what passes before the first task: the
process, a look at the source, the JVM, the context; for queries the session and the registration of the sources.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyarrow import parquet

from tests.bench.builds import NATIVE, PURE, builds
from tests.bench.load import generate
from tests.bench.logs import je_log
from tests.support.cluster import standalone

LOCAL, SPARK, CLUSTER, PURE_CLUSTER = "local engine", "local mode", "cluster", "cluster, pure executors"
_COPIES: Final = 4
_COLUMNS: Final = ("--key", "key", "--value", "value")
_MEMORY: Final = ("--conf", "spark.executor.memory=1g")
# The step of a command that begins with its first task.
_FIRST_STEPS: Final = ("read", "verify")

QUERIES: Final = """
import json, sys, time
from pyspark.sql import functions as f
from engine.pipeline.session import open_session
from engine.pipeline.settings import SparkSettings
from engine.pipeline.sources import register

log, low, high, master = sys.argv[1:]
began = time.perf_counter()

def told(what, result=None):
    global began
    print(json.dumps([what, time.perf_counter() - began, result]), flush=True)
    began = time.perf_counter()

with open_session(SparkSettings(master, (("spark.executor.memory", "1g"),), 2)) as session:
    spark = session.spark
    register(spark)
    spark.range(10).count()
    told("start")
    read = spark.read.format("jerecords")
    told("count", read.schema("key binary").load(log).count())
    sums = read.schema("key binary, data binary").load(log).select(f.sum(f.length("key")), f.sum(f.length("data")))
    told("full scan", list(sums.first()))
    narrow = read.option("pushDown", "true").schema("key binary, data binary").load(log)
    told("narrow range", len(narrow.where(f"key >= X'{low}' and key < X'{high}'").collect()))
"""


class Row(NamedTuple):
    """One job at one place.

    Attributes:
        what: the job.
        where: ``LOCAL``, ``SPARK``, ``CLUSTER`` or ``PURE_CLUSTER``.
        wall_s: from start to end.
        start_s: what passes before the first task.
        result: what is the same at all places.
    """

    what: str
    where: str
    wall_s: float
    start_s: float
    result: Any


class Output(NamedTuple):
    """What a command has written."""

    out: str
    err: str


class Bench:
    """Runs commands of one build of jetool.

    Arguments:
        directory: where files go.
        environ: what the build needs in the environment of a process.
        url: of the cluster.
    """

    def __init__(self, directory: Path, environ: Mapping[str, str], url: str) -> None:
        self._directory = directory
        self._environ = {**os.environ, **environ}
        self._url = url

    def load(self, source: Path, where: str) -> Iterator[Row]:
        """A load into an empty database."""
        env = self._empty()
        self._jetool("create", env)
        yield self._timed("load", where, ["load", env, source, "--db", "d", "--create", *_COLUMNS], env)

    def merge(self, base: Path, source: Path, where: str) -> Iterator[Row]:
        """A load into a copy of an environment that holds records."""
        env = self._empty()
        shutil.copytree(base, env)
        yield self._timed("merge", where, ["load", env, source, "--db", "d", *_COLUMNS], env)

    def base(self, source: Path) -> Path:
        """An environment that holds the records of a source."""
        env = self._directory / "base"
        self._jetool("create", env)
        self._jetool("load", env, source, "--db", "d", "--create", *_COLUMNS, "--engine", "local")
        return env

    def dumped(self, env: Path) -> str:
        """The records of an environment."""
        return self._jetool("dump", env, "--db", "d").out

    def verify(self, copies: Sequence[Path], where: str) -> Iterator[Row]:
        """A verification of all records of several environments."""
        yield self._timed("verify", where, ["fleet", "verify", *copies, "--full"], None)

    def queries(self, log: Path, transactions: int, where: str) -> Iterator[Row]:
        """Queries in one session."""
        middle = transactions // 2
        keys = [(b"%016d" % number).hex() for number in (middle, middle + 1000)]
        master = self._url if where == CLUSTER else "local[2]"
        words = [sys.executable, "-c", QUERIES, str(log), *keys, master]
        done = subprocess.run(words, env=self._environ, stdout=subprocess.PIPE, text=True, check=True)
        start, *found = map(json.loads, done.stdout.splitlines())
        for what, seconds, result in found:
            yield Row(f"jerecords, {what}", where, start[1] + seconds, start[1], result)

    def _timed(self, what: str, where: str, words: Sequence[object], env: Path | None) -> Row:
        place = (
            ["--engine", {LOCAL: "local", SPARK: "spark"}[where]] if where in (LOCAL, SPARK) else self._cluster(where)
        )
        began = time.perf_counter()
        out, err = self._jetool(*words, *place, "--json", "--progress", "json")
        wall_s = time.perf_counter() - began
        events = [json.loads(line) for line in err.splitlines() if line.startswith("{")]
        start_ms = next(event["elapsed_ms"] for event in events if event.get("step") in _FIRST_STEPS)
        result = json.loads(out) if env is None else self._digest(env)
        return Row(what, where, wall_s, start_ms / 1000, result)

    def _cluster(self, where: str) -> list[str]:
        pure = ("--conf", "spark.executorEnv.JETOOL_PURE=1") if where == PURE_CLUSTER else ()
        return ["--master", self._url, *_MEMORY, *pure]

    def _digest(self, env: Path) -> str:
        return hashlib.sha256(self.dumped(env).encode()).hexdigest()

    def _jetool(self, *words: object) -> Output:
        command = [sys.executable, "-m", "jetool", *map(str, words)]
        done = subprocess.run(command, env=self._environ, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return Output(done.stdout, done.stderr)

    def _empty(self) -> Path:
        env = self._directory / "env"
        shutil.rmtree(env, ignore_errors=True)
        return env


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; returns the exit code: 1 when the places disagree."""
    options = parser().parse_args(args)
    before = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory(prefix="jetool-bench-", dir=options.directory) as made,
        standalone(_made(Path(made) / "cluster")) as url,
    ):
        directory = Path(made)
        build = builds((options.build,), directory / "build")[0]
        bench = Bench(directory, build.environ, url)
        # In turn, so that a busy moment meets all of them.
        rounds = [[row for job in jobs(bench, directory, options) for row in job()] for _ in range(options.runs)]
    rows = medians(rounds)
    log = f", log of {options.transactions:,} transactions by JE" if options.je_classpath else ""
    print(f"{options.records:,} records loaded, {options.merged:,} merged into as many{log}; median of {options.runs}")
    print(f"load of the machine {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    for line in table(rows):
        print(line)
    return int(bool(disagreements(rows)))


def jobs(bench: Bench, directory: Path, options: argparse.Namespace) -> list[Callable[[], Iterable[Row]]]:
    """All jobs of one round; their files are made if they are not there."""
    source = directory / "data.parquet"
    halves = [directory / f"half{number}.parquet" for number in range(2)]
    if not source.exists():
        generate(directory, options.records, "shuffled")
        table = parquet.read_table(source)
        # Half of the records of the second file have keys of the first one.
        for half, start in zip(halves, (0, options.merged // 2), strict=True):
            parquet.write_table(table.slice(start, options.merged), half, row_group_size=250_000)
        bench.base(halves[0])
    places = (LOCAL, SPARK, CLUSTER)
    found: list[Callable[[], Iterable[Row]]] = [partial(bench.load, source, where) for where in places]
    found += [partial(bench.merge, directory / "base", halves[1], where) for where in places]
    if not options.je_classpath:
        return found
    log = directory / "log"
    copies = [log, *(directory / f"copy{number}" for number in range(1, _COPIES))]
    if not log.exists():
        je_log(log, options.transactions, "checkpoint", options.je_classpath)
        for copy in copies[1:]:
            shutil.copytree(log, copy, copy_function=os.link)
    found += [partial(bench.verify, copies, where) for where in (*places, PURE_CLUSTER)]
    return [*found, *(partial(bench.queries, log, options.transactions, where) for where in (SPARK, CLUSTER))]


def medians(rounds: Sequence[Sequence[Row]]) -> list[Row]:
    """Of each job, the run that took the median time."""
    return [sorted(runs, key=lambda row: row.wall_s)[len(runs) // 2] for runs in zip(*rounds, strict=True)]


def table(rows: Sequence[Row]) -> list[str]:
    """What is printed: one line a row."""
    wrong = disagreements(rows)
    lines = [f"{'':<26}{'':<26}{'s':>8}{'start':>8}{'work':>8}"]
    for row in rows:
        verdict = "  DIFFERS" if row.what in wrong else ""
        work_s = row.wall_s - row.start_s
        lines.append(f"{row.what:<26}{row.where:<26}{row.wall_s:8.2f}{row.start_s:8.2f}{work_s:8.2f}{verdict}")
    return lines


def disagreements(rows: Sequence[Row]) -> set[str]:
    """The jobs whose results are not the same everywhere."""
    results: dict[str, Any] = {}
    return {row.what for row in rows if results.setdefault(row.what, row.result) != row.result}


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def parser() -> argparse.ArgumentParser:
    """The options."""
    found = argparse.ArgumentParser("python -m tests.bench.spark", description=__doc__)
    found.add_argument("--records", type=int, default=3_000_000, help="records that are loaded  [default: 3000000]")
    found.add_argument("--merged", type=int, default=1_000_000, help="records that are merged  [default: 1000000]")
    found.add_argument("--transactions", type=int, default=1_000_000, help="of the log of JE  [default: 1000000]")
    found.add_argument("--build", choices=(NATIVE, PURE), default=NATIVE, help="of jetool  [default: native]")
    found.add_argument("--runs", type=int, default=1, help="runs of each job; the median one is shown  [default: 1]")
    found.add_argument("--directory", type=Path, help="where the data go  [default: the temporary directory]")
    found.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    return found


if __name__ == "__main__":
    sys.exit(main())
