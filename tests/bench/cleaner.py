"""``python -m tests.bench.cleaner``: how much disk a workload takes in the end, and what cleaning costs, beside JE.

    python -m tests.bench.cleaner --je-classpath /path/to/je/classes --only updates --size 3000000 --file-max 10000000

Transactions of a hundred operations without sync on keys of 16 bytes with values of 100, while checkpointer, cleaner
and evictor run in their threads with the same parameters:

* updates: 10,000 keys are updated at random
* turnover: a new key for every one that is deleted, 10,000 at any time
* expiry: new keys that expire after six hours, while sixty hours pass in all
* removals: a database of 10,000 keys is filled, and the one before the last is removed

In the end both clean what is left that is worth it, take a checkpoint and close. The length of all log files then may
be a tenth above that of JE. What cleaning costs is the difference in CPU time between this run and one without the
cleaner, by megabyte of the files that were cleaned; it may be as much as with JE.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.txn.txn import Durability
from tests.bench.builds import NATIVE, PURE, REPOSITORY, builds

ALLOWED: Final = 1.1
WORKLOADS: Final = ("updates", "turnover", "expiry", "removals")
_PER_COMMIT: Final = 100
_KEYS: Final = 10_000
_LOOK_EVERY: Final = 10_000
_EXPIRES_AFTER_HOURS: Final = 6
_HOUR_MS: Final = 3_600_000
_WHOLE_MS: Final = 60 * _HOUR_MS
_BEGINNING_MS: Final = 1_700_000_000_000
_MB: Final = 1e6
_JAVA: Final = Path(__file__).with_name("JeCleaner.java")


class CleanerFigures(NamedTuple):
    """Bytes of log in the end and at most, seconds of the operations and of CPU, files cleaned and deleted bytes."""

    bytes: int
    most_bytes: int
    wall_s: float
    cpu_s: float
    files_cleaned: int
    deleted_bytes: int


class Both(NamedTuple):
    """A workload with the cleaner and without."""

    on: CleanerFigures
    off: CleanerFigures

    @property
    def ms_per_mb(self) -> float:
        """CPU time of cleaning a megabyte."""
        cleaned = self.on.deleted_bytes / _MB
        return 1000 * (self.on.cpu_s - self.off.cpu_s) / cleaned if cleaned else 0.0


def log_bytes(home: Path) -> int:
    """The length of all log files."""
    found = 0
    for path in home.glob("*.jdb"):
        # The cleaner may have deleted it just now.
        with contextlib.suppress(FileNotFoundError):
            found += path.stat().st_size
    return found


def measure(
    home: Path, size: int, file_max: int, *, workload: str = "updates", keys: int = _KEYS, clean: bool = True
) -> CleanerFigures:
    """Run a workload of so many operations here."""
    passed_ms = 0
    config = EnvironmentConfig(create=True, file_max_bytes=file_max, cache_bytes=64 << 20).with_background()
    config = replace(config, run_cleaner=clean)
    if workload == "expiry":
        config = replace(config, clock=lambda: _BEGINNING_MS + passed_ms)
    source, most = random.Random(1), 0
    with Environment(home, config) as env:
        db = env.create_database("bench0")
        started, cpu = time.monotonic(), time.process_time()
        for done in range(0, size, _PER_COMMIT):
            if workload == "removals" and done and done % keys == 0:
                number = done // keys
                db.close()
                db = env.create_database(f"bench{number}")
                if number > 1:
                    env.remove_database(f"bench{number - 2}")
            passed_ms = done * _WHOLE_MS // size
            expires = -(-(_BEGINNING_MS + passed_ms) // _HOUR_MS) + _EXPIRES_AFTER_HOURS
            with env.begin(durability=Durability.NO_SYNC) as txn:
                for number in range(done, done + _PER_COMMIT):
                    key = source.randrange(keys) if workload == "updates" else number
                    expiration = -expires if workload == "expiry" else 0
                    db.put(b"%016d" % key, source.randbytes(100), txn, expiration=expiration)
                    if workload == "turnover" and number >= keys:
                        db.delete(b"%016d" % (number - keys), txn)
            if done % _LOOK_EVERY == 0:
                most = max(most, log_bytes(home))
        wall = time.monotonic() - started
        while clean and env.clean_log():
            pass
        env.checkpoint(force=True)
        db.close()
        assert env.engine.cleaner is not None
        stats = env.engine.cleaner.stats()
    cpu = time.process_time() - cpu
    return CleanerFigures(log_bytes(home), most, wall, cpu, stats.files_cleaned, stats.deleted_bytes)


def measure_je(
    home: Path, size: int, file_max: int, classpath: str, *, workload: str = "updates", clean: bool = True
) -> CleanerFigures:
    """Run it on JE."""
    words = ["java", "-cp", classpath, str(_JAVA), str(home), workload, str(size), str(file_max), str(clean).lower()]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return CleanerFigures(**json.loads(done.stdout))


def measure_build(
    home: Path, size: int, file_max: int, environ: Mapping[str, str], *, workload: str, clean: bool
) -> CleanerFigures:
    """Run it on a build of ours, in a process of its own."""
    path = f"{environ['PYTHONPATH']}{os.pathsep}{REPOSITORY}"
    call = f"measure(Path({str(home)!r}), {size}, {file_max}, workload={workload!r}, clean={clean})"
    code = f"import json; from pathlib import Path; from tests.bench.cleaner import measure\nprint(json.dumps({call}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return CleanerFigures(*json.loads(done.stdout))


def both(scratch: Path, run: Callable[..., CleanerFigures]) -> Both:
    """A workload with and without the cleaner, in directories of their own; ``run`` gets the one and ``clean``."""
    found = []
    for clean in (True, False):
        with tempfile.TemporaryDirectory(dir=scratch) as home:
            found.append(run(Path(home), clean=clean))
    return Both(*found)


def row(name: str, workload: str, found: Both, other: Both | None) -> str:
    """A line of the table."""
    text = (
        f"{workload:10}{name:8}{found.on.bytes / _MB:9.1f}{found.on.most_bytes / _MB:9.1f}{found.off.bytes / _MB:9.1f}"
        f"{found.on.cpu_s:8.1f}{found.on.files_cleaned:7}{found.ms_per_mb:9.1f}"
    )
    return text if other is None else text + ("  kept" if is_kept(found, other) else "  MISSED")


def is_kept(found: Both, other: Both) -> bool:
    """Whether the disk is within the bound."""
    return found.on.bytes <= ALLOWED * other.on.bytes


def main(words: Sequence[str] | None = None) -> int:
    """Print a table; 1 when there is more than a tenth more than with JE."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=WORKLOADS, help="this workload  [default: all]")
    parser.add_argument("--size", type=int, default=600_000, help="operations of each workload  [default: 600000]")
    parser.add_argument("--file-max", type=int, default=1_000_000)
    parser.add_argument("--build", choices=(NATIVE, PURE), default=NATIVE)
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    options = parser.parse_args(words)
    path, kept = options.je_classpath, True
    print(f"{'workload':18}{'MB':>9}{'at most':>9}{'unclean':>9}{'CPU s':>8}{'files':>7}{'ms/MB':>9}")
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        scratch = Path(directory)
        build = builds((options.build,), scratch / "build")[0]
        for workload in options.only or WORKLOADS:
            how = {"size": options.size, "file_max": options.file_max, "workload": workload}
            theirs = both(scratch, partial(measure_je, classpath=path, **how)) if path else None
            ours = both(scratch, partial(measure_build, environ=build.environ, **how))
            kept = kept and (theirs is None or is_kept(ours, theirs))
            print(row(build.name, workload, ours, theirs))
            if theirs is not None:
                print(row("JE", workload, theirs, None))
    return int(not kept)


if __name__ == "__main__":
    sys.exit(main())
