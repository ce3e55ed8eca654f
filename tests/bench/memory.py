"""``python -m tests.bench.memory``: the memory that ``verify`` needs for very many small records.

Records of 8-byte keys and 20-byte values are written as Parquet, ascending, and loaded by ``load --engine local``; then
``verify`` and ``verify --full`` read the log. The table has CPU seconds, the peak of the process tree, sampled, and for
a second, smaller log how the peak grows with each million records. Bound: a gigabyte for the larger log. A hundred
million records, the default, take 8 GB of disk, and a quarter of an hour on two cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from tests.bench.builds import NATIVE, PURE, Build, builds
from tests.bench.measure import peak_bytes, run_and_watch

BOUND_BYTES: Final = 1 << 30
_VALUE_BYTES: Final = 20
_CHUNK: Final = 1_000_000
# The smaller log has this part of the records.
_SMALLER: Final = 5


class Line(NamedTuple):
    """One command line.

    Attributes:
        words: after ``jetool``, without the directory.
        records: in the log.
        size: bytes of the log.
        cpu_s: of the process tree.
        peak: bytes of its memory.
    """

    words: str
    records: int
    size: int
    cpu_s: float
    peak: int


def main(args: Sequence[str] | None = None) -> int:
    """Generate, measure and print; returns the exit code: 1 when the bound is not kept."""
    options = _parser().parse_args(args)
    with tempfile.TemporaryDirectory(prefix="jetool-bench-", dir=options.directory) as made:
        build = builds((options.build,), Path(made) / "build")[0]
        lines: list[Line] = []
        for records in (max(options.records // _SMALLER, 1), options.records):
            lines += measured(Path(made), records, build)
    for text in table(lines):
        print(text)
    return int(not kept(lines))


def measured(directory: Path, records: int, build: Build) -> list[Line]:
    """The lines for a log of so many records, which is removed afterwards."""
    env, source = directory / "env", directory / "data.parquet"
    generate(source, records)
    jetool = [sys.executable, "-m", "jetool"]
    environ = {**os.environ, **build.environ}
    subprocess.run([*jetool, "create", str(env), "--quiet"], check=True, stdout=subprocess.DEVNULL, env=environ)
    words = ["--db", "d", "--create", "--key", "key", "--value", "value", "--engine", "local", "--quiet"]
    found = [_line("load", [*jetool, "load", str(env), str(source), *words], env, records, build)]
    source.unlink()
    found += [
        _line(name, [*jetool, *name.split(), str(env)], env, records, build) for name in ("verify", "verify --full")
    ]
    shutil.rmtree(env)
    return found


def generate(path: Path, records: int) -> None:
    """Write the records."""
    schema = pa.schema([("key", pa.binary(8)), ("value", pa.binary(_VALUE_BYTES))])
    with parquet.ParquetWriter(path, schema, use_dictionary=False) as out:
        for at in range(0, records, _CHUNK):
            numbers = np.arange(at, min(at + _CHUNK, records))
            values = np.zeros((len(numbers), _VALUE_BYTES), np.uint8)
            values[:, :8] = numbers.astype("<u8").view(np.uint8).reshape(-1, 8)
            columns = [_column(numbers.astype(">u8").tobytes(), 8), _column(values.tobytes(), _VALUE_BYTES)]
            out.write_table(pa.table(columns, schema=schema))


def table(lines: Sequence[Line]) -> list[str]:
    """What is printed: one row a command line, and how its peak grows with a million records."""
    found = [f"{'':<16}{'records':>14}{'log MB':>10}{'CPU s':>9}{'peak MB':>9}{'MB/million':>12}"]
    smaller: dict[str, Line] = {}
    for line in lines:
        before = smaller.setdefault(line.words, line)
        more = (line.records - before.records) / 1e6
        slope = f"{(line.peak - before.peak) / 1e6 / more:12.2f}" if more else f"{'':12}"
        text = f"{line.words:<16}{line.records:>14,}{line.size / 1e6:>10.0f}{line.cpu_s:>9.1f}{line.peak / 1e6:>9.0f}"
        found.append(f"{text}{slope}".rstrip())
    found.append(f"verify within {BOUND_BYTES >> 20} MiB: {'kept' if kept(lines) else 'MISSED'}")
    return found


def kept(lines: Sequence[Line]) -> bool:
    """Whether every ``verify`` was within the bound."""
    return all(line.peak <= BOUND_BYTES for line in lines if line.words.startswith("verify"))


def _line(name: str, words: list[str], env: Path, records: int, build: Build) -> Line:
    done, peak = run_and_watch(words, build.environ)
    if done.code:
        raise SystemExit(f"{name} ended with {done.code}: {' '.join(words)}")
    if peak is None:
        # A short run was not watched. ``load`` cannot be repeated, and its memory has no bound.
        peak = peak_bytes(words, build.environ) if name != "load" else 0
    size = sum(path.stat().st_size for path in env.glob("*.jdb"))
    return Line(name, records, size, done.cpu_s, peak)


def _column(data: bytes, width: int) -> Any:
    return pa.Array.from_buffers(pa.binary(width), len(data) // width, [None, pa.py_buffer(data)])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.memory", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000_000, help="how many  [default: 100000000]")
    parser.add_argument("--build", choices=(NATIVE, PURE), default=NATIVE, help="of jetool  [default: native]")
    parser.add_argument("--directory", type=Path, help="where the data go  [default: the temporary directory]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
