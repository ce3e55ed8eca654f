"""``python -m tests.bench.journals``: the journals of a frontend, listed, checked and counted.

    python -m tests.bench.journals --journals 1000000

The environment is written by our own engine after the format of a Doris frontend: databases of 50,000 journals, most of
them JSON of some 60 bytes with zero bytes after it up to 128. A million has to be listed in 2 seconds and checked in 6
by the native build. What counts is the CPU time of the process, its start included: one process does the work.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from engine.catalog.name_operations import DatabaseOptions
from engine.contents.journals import EPOCHS, journal_key
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from tests.bench.builds import NATIVE, PURE, Build, builds
from tests.support.environments.frontends import value_of

ROLL: Final = 50_000
_PER_COMMIT: Final = 1000
# Seconds for a million journals, on the native build.
BOUNDS: Final = {"list": 2.0, "check": 6.0, "stats": None}


class Line(NamedTuple):
    """One command on one build: CPU seconds, and the bound for a million journals; None without one."""

    command: str
    build: str
    cpu_s: float
    bound_s: float | None


def write_journals(home: Path, count: int) -> int:
    """Write the environment; the bytes of its log."""
    with Environment(home, EnvironmentConfig(create=True)) as env:
        options = DatabaseOptions(max_entries=128)
        for start in range(1, count + 1, ROLL):
            ids = iter(range(start, min(start + ROLL, count + 1)))
            with env.create_database(str(start), options) as db:
                while part := list(islice(ids, _PER_COMMIT)):
                    with env.begin() as txn:
                        for number in part:
                            db.put(journal_key(number), value_of(number), txn)
        with env.create_database(EPOCHS) as db:
            db.put(journal_key(1), b"\0")
    return sum(path.stat().st_size for path in home.glob("*.jdb"))


def measure(home: Path, command: str, build: Build, count: int) -> float:
    """CPU seconds of one command; it must find all journals and nothing wrong."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = [sys.executable, "-m", "jetool", "journal", command, str(home), "--json"]
    done = subprocess.run(words, env=dict(build.environ), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    assert (found if command == "list" else found["summary"])["journals"] == count
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(words: Sequence[str] | None = None) -> int:
    """Print a table; 1 when a bound is missed."""
    parser = argparse.ArgumentParser("python -m tests.bench.journals", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--journals", type=int, default=1_000_000)
    parser.add_argument("--build", choices=(NATIVE, PURE), help="only this build  [default: both]")
    options = parser.parse_args(words)
    lines = []
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        home = Path(directory) / "bdb"
        home.mkdir()
        size = write_journals(home, options.journals)
        for build in builds((options.build,) if options.build else (NATIVE, PURE), Path(directory) / "build"):
            for command, bound in BOUNDS.items():
                cpu_s = measure(home, command, build, options.journals)
                limit = bound if build.name == NATIVE else None
                lines.append(Line(command, build.name, cpu_s, limit))
    print(f"{options.journals} journals, {size / 1e6:.0f} MB of log; CPU seconds of the whole process")
    print(f"{'command':<16}{'build':<8}{'CPU s':>7}{'bound':>7}")
    for line in lines:
        bound_text = "-" if line.bound_s is None else f"{line.bound_s:.1f}"
        print(f"journal {line.command:<8}{line.build:<8}{line.cpu_s:>7.2f}{bound_text:>7}")
    return int(any(line.bound_s is not None and line.cpu_s > line.bound_s for line in lines))


if __name__ == "__main__":
    sys.exit(main())
