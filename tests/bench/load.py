"""``python -m tests.bench.load``: bulk load beside JE's DbLoad, of the same records in the same order.

Records of 16-byte keys and 100-byte values are written as Parquet, as CSV and, for DbLoad, as a dump; then each is
loaded into an empty environment, on Spark's local mode and with ``--engine local``. Wall times hold everything from the
start of the process to its end, that of the JVM too. The parts of a load come from its own ``--progress json``:

* ``start``: the process, a look at the environment and the source, on Spark the JVM and the context;
* ``read``: sorted runs of the source; ``write``: log files of the runs, durable; ``end``: upper nodes, checkpoint,
  renames, and the staging directory's removal.

Bounds: on Spark at least three times DbLoad's rate in the same run, and three times the rate of 142,000 records a
second. The last column is the distance to the disk: the time of the load by that of a plain write and fsync of as many
bytes as the environment has. Memory is that of the process tree, sampled; a page that processes share counts once.

In ascending order DbLoad fills one BIN after the other and is at its best (``--order ascending``, without a bound). In
any other each record goes to another place in its tree, and nodes are written again and again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv, parquet

from tests.bench.builds import NATIVE, PURE, Build, builds
from tests.bench.measure import tree_bytes

KEY_BYTES: Final = 16
VALUE_BYTES: Final = 100
TIMES: Final = 3
DBLOAD_RATE: Final = 142_000
_SCRAMBLE: Final = 0x9E3779B97F4A7C15
_DIGITS: Final = np.frombuffer(b"0123456789abcdef", np.uint8)
_LETTERS: Final = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ+-", np.uint8)
_CHUNK: Final = 250_000
_HEAD: Final = b"VERSION=3\nformat=print\ntype=btree\ndupsort=0\nHEADER=END\n"
_SAMPLE_S: Final = 0.05
PARTS: Final = ("start", "read", "write", "end")
LINES: Final = (("spark", "parquet"), ("spark", "csv"), ("local", "parquet"), ("local", "csv"))


class Line(NamedTuple):
    """One load.

    Attributes:
        who: ``DbLoad``, or the engine and the format.
        wall_s: from start to end.
        parts: seconds of each part, by name; empty for DbLoad.
        peak: bytes of memory.
        size: bytes of the environment.
    """

    who: str
    wall_s: float
    parts: dict[str, float]
    peak: int
    size: int


def generate(directory: Path, count: int, order: str) -> None:
    """Write the records: ``data.parquet``, ``data.csv``, ``data.dump``.

    Arguments:
        directory: where.
        count: how many records.
        order: ``shuffled`` or ``ascending`` keys.
    """
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])
    draw = np.random.default_rng(7)
    numbers = np.arange(count, dtype=np.uint64) * np.uint64(_SCRAMBLE)
    if order == "ascending":
        numbers = np.sort(numbers)
    plain = csv.WriteOptions(quoting_style="none")
    with (
        parquet.ParquetWriter(directory / "data.parquet", schema) as columns,
        csv.CSVWriter(directory / "data.csv", schema, write_options=plain) as lines,
        (directory / "data.dump").open("wb") as dump,
    ):
        dump.write(_HEAD)
        for at in range(0, count, _CHUNK):
            keys = _keys(numbers[at : at + _CHUNK])
            values = _LETTERS[draw.integers(0, len(_LETTERS), (len(keys), VALUE_BYTES), np.uint8)]
            table = pa.table([_column(keys), _column(values)], schema=schema)
            columns.write_table(table)
            lines.write_table(table)
            dump.write(_dumped(keys, values))
        dump.write(b"DATA=END\n")


def load(directory: Path, engine: str, form: str, count: int, build: Build) -> Line:
    """One load by a build of jetool; the records that it says it has loaded must be all."""
    env = _empty(directory)
    jetool = [sys.executable, "-m", "jetool"]
    subprocess.run([*jetool, "create", env, "--quiet"], check=True, stdout=subprocess.DEVNULL)
    words = ["--db", "d", "--create", "--key", "key", "--value", "value", "--engine", engine]
    command = [*jetool, "load", str(env), str(directory / f"data.{form}"), *words, "--progress", "json", "--json"]
    wall, peak, out, err = _run(command, build.environ)
    if json.loads(out)["records"] != count:
        raise SystemExit(f"jetool has not loaded all records:\n{out}{err}")
    return Line(f"{engine}, {form}", wall, _parts(err, wall), peak, _size(env))


def dbload(directory: Path, class_path: str) -> Line:
    """One load by JE."""
    env = _empty(directory)
    env.mkdir()
    words = ["java", "-cp", class_path, "com.sleepycat.je.util.DbLoad", "-h", str(env), "-s", "d"]
    wall, peak, _, _ = _run([*words, "-f", str(directory / "data.dump")], {})
    return Line("DbLoad", wall, {}, peak, _size(env))


def plain_write_s(directory: Path, size: int) -> float:
    """Seconds that a write and an fsync of so many bytes take."""
    block = os.urandom(1 << 20)
    target = directory / "plain"
    began = time.perf_counter()
    with target.open("wb", buffering=0) as file:
        for _ in range(size >> 20):
            file.write(block)
        os.fsync(file.fileno())
    taken = time.perf_counter() - began
    target.unlink()
    return taken


def main(args: Sequence[str] | None = None) -> int:
    """Generate, measure and print; returns the exit code: 1 when a bound is not kept."""
    options = _parser().parse_args(args)
    with tempfile.TemporaryDirectory(prefix="jetool-bench-", dir=options.directory) as made:
        directory = Path(made)
        build = builds((options.build,), directory / "build")[0]
        generate(directory, options.records, options.order)
        loads: list[Callable[[], Line]] = []
        if options.je_classpath:
            loads.append(partial(dbload, directory, options.je_classpath))
        loads += [partial(load, directory, engine, form, options.records, build) for engine, form in LINES]
        # In turn, so that a busy moment meets all of them.
        rounds = [[one() for one in loads] for _ in range(options.runs)]
        lines = [_median(runs) for runs in zip(*rounds, strict=True)]
        disk = plain_write_s(directory, lines[-1].size)
    for text in table(lines, options.records, options.order, disk):
        print(text)
    return int(any(not kept(line, lines, options.records) for line in lines if _is_bound(line, options.order)))


def table(lines: Sequence[Line], count: int, order: str, disk_s: float) -> list[str]:
    """What is printed: one row a load, and what the bounds say."""
    found = [
        f"{count:,} records of {KEY_BYTES} + {VALUE_BYTES} bytes, {order}; "
        f"as many bytes as the last environment has, written and synced: {disk_s:.2f} s",
        f"{'':<16}{'s':>7}{'k/s':>7}{'DbLoad x':>10}{'start':>7}{'read':>7}{'write':>7}{'end':>7}"
        f"{'peak MB':>9}{'env MB':>8}{'disk x':>8}",
    ]
    other = next((line for line in lines if line.who == "DbLoad"), None)
    for line in lines:
        parts = "".join(f"{line.parts[name]:7.2f}" if line.parts else f"{'':7}" for name in PARTS)
        times = f"{other.wall_s / line.wall_s:10.1f}" if other is not None else f"{'':10}"
        verdict = ""
        if _is_bound(line, order):
            verdict = f"  {'kept' if kept(line, lines, count) else 'MISSED'}"
        found.append(
            f"{line.who:<16}{line.wall_s:7.2f}{count / line.wall_s / 1000:7.0f}{times}{parts}"
            f"{line.peak / 1e6:9.0f}{line.size / 1e6:8.0f}{line.wall_s / disk_s:8.1f}{verdict}"
        )
    return found


def kept(line: Line, lines: Sequence[Line], count: int) -> bool:
    """Whether a load is three times as fast as DbLoad, here and where its rate was 142,000 records a second."""
    rates = [DBLOAD_RATE, *(count / other.wall_s for other in lines if other.who == "DbLoad")]
    return count / line.wall_s >= TIMES * max(rates)


def _is_bound(line: Line, order: str) -> bool:
    return order == "shuffled" and line.who.startswith("spark")


def _parts(err: str, wall_s: float) -> dict[str, float]:
    """The parts of a load, from when each step was first heard of."""
    first: dict[str, float] = {}
    for text in err.splitlines():
        event: dict[str, Any] = json.loads(text)
        if event["rec"] == "progress":
            first.setdefault(event["step"], event["elapsed_ms"] / 1000)
    limits = [0.0, first["read"], first["write"], first["commit"], wall_s]
    return {name: limits[at + 1] - limits[at] for at, name in enumerate(PARTS)}


def _median(runs: Sequence[Line]) -> Line:
    """The run that took the median time, with the most memory of any."""
    by_time = sorted(runs, key=lambda line: line.wall_s)
    return by_time[len(runs) // 2]._replace(peak=max(line.peak for line in runs))


def _run(command: Sequence[str], environ: Mapping[str, str]) -> tuple[float, int, str, str]:
    """Run to the end: wall seconds, peak bytes, both outputs."""
    began = time.perf_counter()
    full = {**os.environ, **environ}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=full)
    peaks = [0]
    ended = threading.Event()

    def sample() -> None:
        while not ended.wait(_SAMPLE_S):
            peaks[0] = max(peaks[0], tree_bytes(process.pid))

    watcher = threading.Thread(target=sample)
    watcher.start()
    out, err = process.communicate()
    wall = time.perf_counter() - began
    ended.set()
    watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{out}{err}")
    return wall, peaks[0], out, err


def _keys(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Numbers as hex digits, which sort as the numbers do."""
    shifts = np.arange(60, -4, -4, dtype=np.uint64)
    return _DIGITS[((numbers[:, None] >> shifts) & np.uint64(15)).astype(np.intp)]


def _column(rows: npt.NDArray[np.uint8]) -> Any:
    offsets = np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(rows))]
    return pa.Array.from_buffers(pa.string(), len(rows), buffers)


def _dumped(keys: npt.NDArray[np.uint8], values: npt.NDArray[np.uint8]) -> bytes:
    """Records as lines of a dump."""
    count = len(keys)
    blank, newline = np.full((count, 1), ord(" "), np.uint8), np.full((count, 1), ord("\n"), np.uint8)
    return np.hstack([blank, keys, newline, blank, values, newline]).tobytes()


def _empty(directory: Path) -> Path:
    env = directory / "env"
    shutil.rmtree(env, ignore_errors=True)
    return env


def _size(env: Path) -> int:
    return sum(file.stat().st_size for file in env.glob("*.jdb"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.load", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000, help="how many  [default: 5000000]")
    parser.add_argument("--order", choices=("shuffled", "ascending"), default="shuffled")
    parser.add_argument("--build", choices=(NATIVE, PURE), default=NATIVE, help="of jetool  [default: native]")
    parser.add_argument("--runs", type=int, default=1, help="runs of each load; the median one is shown  [default: 1]")
    parser.add_argument("--directory", type=Path, help="where the data go  [default: the temporary directory]")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    return parser


if __name__ == "__main__":
    sys.exit(main())
