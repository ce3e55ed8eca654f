"""``python -m tests.bench.cleaner``: how much disk the same keys take, updated again and again, beside JE.

    python -m tests.bench.cleaner --je-classpath /path/to/je/classes --updates 3000000 --file-max 10000000

10,000 keys of 16 bytes with values of 100 are updated at random, a hundred in a transaction without sync, while
checkpointer, cleaner and evictor run in their threads with the same parameters. In the end both clean what is left that
is worth it, take a checkpoint and close. What counts is the length of all log files then: it may be a tenth above that
of JE. ``most_bytes`` is the most there was at any time, ``cpu_s`` the CPU time of the whole process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.txn.txn import Durability

ALLOWED: Final = 1.1
_PER_COMMIT: Final = 100
_LOOK_EVERY: Final = 10_000
_JAVA: Final = Path(__file__).with_name("JeCleaner.java")


class CleanerFigures(NamedTuple):
    """Bytes of log in the end and at most, seconds of the updates and of CPU, files cleaned."""

    bytes: int
    most_bytes: int
    wall_s: float
    cpu_s: float
    files_cleaned: int


def log_bytes(home: Path) -> int:
    """The length of all log files."""
    return sum(path.stat().st_size for path in home.glob("*.jdb"))


def measure(home: Path, keys: int, updates: int, file_max: int) -> CleanerFigures:
    """Run the workload here."""
    config = EnvironmentConfig(create=True, file_max_bytes=file_max, cache_bytes=64 << 20).with_background()
    source, most = random.Random(1), 0
    with Environment(home, config) as env, env.create_database("bench") as db:
        started, cpu = time.monotonic(), time.process_time()
        for done in range(0, updates, _PER_COMMIT):
            with env.begin(durability=Durability.NO_SYNC) as txn:
                for _ in range(_PER_COMMIT):
                    db.put(b"%016d" % source.randrange(keys), source.randbytes(100), txn)
            if done % _LOOK_EVERY == 0:
                most = max(most, log_bytes(home))
        wall = time.monotonic() - started
        while env.clean_log():
            pass
        env.checkpoint(force=True)
        assert env.engine.cleaner is not None
        cleaned = env.engine.cleaner.files_cleaned
    return CleanerFigures(log_bytes(home), most, wall, time.process_time() - cpu, cleaned)


def measure_je(home: Path, keys: int, updates: int, file_max: int, classpath: str) -> CleanerFigures:
    """Run it on JE."""
    words = ["java", "-cp", classpath, str(_JAVA), str(home), str(keys), str(updates), str(file_max)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return CleanerFigures(**json.loads(done.stdout))


def main(words: Sequence[str] | None = None) -> int:
    """Print the figures as JSON; 1 when there is more than a tenth more than with JE."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--updates", type=int, default=300_000)
    parser.add_argument("--file-max", type=int, default=1_000_000)
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    options = parser.parse_args(words)
    size = options.keys, options.updates, options.file_max
    found: dict[str, object] = {"keys": size[0], "updates": size[1], "file_max": size[2]}
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as scratch:
        ours = measure(Path(scratch, "jetool"), *size)
        found["jetool"] = ours._asdict()
        code = 0
        if options.je_classpath:
            Path(scratch, "je").mkdir()
            theirs = measure_je(Path(scratch, "je"), *size, options.je_classpath)
            found["je"] = theirs._asdict()
            code = int(ours.bytes > ALLOWED * theirs.bytes)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
