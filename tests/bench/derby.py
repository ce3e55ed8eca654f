"""``python -m tests.bench.derby``: scan and redo of a Derby log, beside real Derby's raw store on copies of its files.

A page store is filled and left as the death of its process would leave it, with everything after one checkpoint. Then

* *scan*: reading and decoding every record of the log (``engine.derby.database_info.analyse``), against the boot of a
  copy whose pages are up to date already, so that Derby scans, compares versions and redoes nothing;
* *redo*: recovery, against the boot of a copy as it is, compiled and interpreted (``-Xint``).

Times are wall and processor seconds of the work alone: without the start of interpreter or JVM, and on warm files.
Derby 10.14 and a JDK are needed, see ``tests.support.derby_java``.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.database_info import analyse
from engine.derby.log import DerbyLogFiles
from engine.derby.recovery.manager import RecoveryOptions, recover
from engine.derby.store.page_store import PageStore, StoreOptions
from engine.storage.disk import DiskStorage
from tests.support.derby_java import HERE
from tests.support.tools import DERBY_JAR as JAR

FILE_BYTES: Final = 33_554_432
_BATCH: Final = 100
_WIDE: Final = StoreOptions(checkpoint_bytes=0, cache_pages=1 << 20)
_ALL_IN_MEMORY: Final = RecoveryOptions(cache_pages=1 << 20, switch_bytes=FILE_BYTES)


class Figure(NamedTuple):
    """One measured run."""

    what: str
    who: str
    wall_s: float
    cpu_s: float


def generate(directory: Path, megabytes: float, value_bytes: int) -> int:
    """Fill a store, and leave it as a crash would; how many records it holds."""
    draw = random.Random(1)
    store = PageStore.create(DiskStorage(directory), _WIDE, log_file_bytes=FILE_BYTES)
    store.create_table("t")
    store.checkpoint()
    count = 0
    while sum(file.stat().st_size for file in (directory / "log").glob("*.dat")) - FILE_BYTES < (megabytes - 33) * 1e6:
        with store.begin() as txn:
            for _ in range(_BATCH):
                txn.put("t", b"%012d" % (count * 7919 % 10**9), draw.randbytes(value_bytes))
                count += 1
    store.flush()
    store.crash()
    return count


def scan(directory: Path) -> int:
    """Read and decode the whole log; how many records there are."""
    database = DerbyDatabase(DiskStorage(directory))
    return analyse(DerbyLogFiles(database), database.controls()).records


def redo(directory: Path) -> int:
    """Recover; how many records were redone."""
    return recover(DiskStorage(directory), _ALL_IN_MEMORY).redo_applied


def boot(directory: Path, classes: Path, *options: str) -> tuple[float, float]:
    """Boot a store with Derby; wall and processor seconds."""
    line = ["java", *options, f"-Dderby.stream.error.file={classes}/derby.log", "-cp", f"{classes}:{JAR}"]
    done = subprocess.run(
        [*line, "DerbyRawStore", "boot"], input=f"{directory}\n", capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    if "boot_ms" not in found:
        raise SystemExit(f"Derby cannot boot {directory}: {found}")
    return found["boot_ms"] / 1000, found["boot_cpu_ms"] / 1000


def measure(made: Path, classes: Path) -> list[Figure]:
    """Every figure, each on a copy of its own where files are changed."""
    figures = [Figure("scan", "jetool", *_timed(lambda: scan(made)))]
    current = _copy(made, "current")
    figures.append(Figure("redo", "jetool", *_timed(lambda: redo(current))))
    # Pages up to date, log and control files as they were: nothing to redo.
    shutil.rmtree(current / "log")
    shutil.copytree(made / "log", current / "log")
    figures.append(Figure("scan", "Derby", *boot(current, classes)))
    shutil.rmtree(current)
    for who, options in (("Derby", ()), ("Derby -Xint", ("-Xint",))):
        copy = _copy(made, "boot")
        figures.append(Figure("redo", who, *boot(copy, classes, *options)))
        shutil.rmtree(copy)
    return figures


def main(args: Sequence[str] | None = None) -> int:
    """Generate, measure and print; returns the exit code: 1 when a bound is not kept."""
    parser = argparse.ArgumentParser("python -m tests.bench.derby", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=200, help="size of the log  [default: 200]")
    parser.add_argument("--value-bytes", type=int, default=400, help="bytes of a value  [default: 400]")
    options = parser.parse_args(args)
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        made, classes = Path(directory) / "made", Path(directory) / "classes"
        count = generate(made, options.megabytes, options.value_bytes)
        subprocess.run(["javac", "-cp", JAR, "-d", classes, HERE / "DerbyRawStore.java"], check=True)
        size = sum(file.stat().st_size for file in (made / "log").glob("*.dat"))
        print(f"{size / 1e6:.0f} MB of log, {count:,} puts", file=sys.stderr)
        figures = measure(made, classes)
    for one in figures:
        print(f"{one.what:<6} {one.who:<12} {one.wall_s:8.2f} s wall {one.cpu_s:8.2f} s CPU")
    times = {(one.what, one.who): one.cpu_s for one in figures}
    fast_scan = times["scan", "jetool"] <= times["scan", "Derby"]
    fast_redo = times["redo", "jetool"] <= 2 * times["redo", "Derby -Xint"]
    print(f"scan at least as fast as Derby: {fast_scan}; redo at least half of Derby -Xint: {fast_redo}")
    return 0 if fast_scan and fast_redo else 1


def _timed(work: Callable[[], int]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _copy(made: Path, name: str) -> Path:
    target = made.with_name(name)
    shutil.copytree(made, target)
    return target


if __name__ == "__main__":
    sys.exit(main())
