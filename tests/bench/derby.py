"""``python -m tests.bench.derby``: recovery of Derby databases by the command line, beside the boot of Derby.

Derby fills a table with two indexes by SQL in random order, without a checkpoint, and its process dies. Three logs:

* *small*: transactions of ten rows, which redo applies;
* *open*: one transaction that has no end, which redo applies and undo takes back;
* *rolled back*: one transaction and its CLRs, all of which redo applies.

``recover`` and the boot, each on a copy of its own and with its defaults, process start included, and ``verify`` and
``dump-log``, for which Derby has nothing. Derby 10.14 and a JDK are needed, see ``tests.support.derby_java``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.database_info import analyse
from engine.derby.log import DerbyLogFiles
from engine.storage.disk import DiskStorage
from tests.bench.builds import NATIVE, PURE, Build, builds
from tests.bench.measure import Run, run
from tests.support.tools import DERBY_JAR as JAR

SMALL, OPEN, ROLLED_BACK = "small", "open", "rolled back"
_DERBY: Final = "Derby"
_JAVA: Final = Path(__file__).with_name("DerbyLog.java")
# The process ends by itself, as a crash.
_HALTED: Final = 9
# Rows of a transaction that is rolled back have CLRs: half as many make a log of the same size.
_SHARES: Final = {SMALL: 1.0, OPEN: 1.0, ROLLED_BACK: 0.5}
_PER_TRANSACTION: Final = 10


class Figure(NamedTuple):
    """The median of some runs.

    Attributes:
        log: ``SMALL``, ``OPEN`` or ``ROLLED_BACK``.
        megabytes: of records that the log has.
        what: the command.
        who: the build, or Derby.
    """

    log: str
    megabytes: float
    what: str
    who: str
    wall_s: float
    cpu_s: float
    runs: int


def generate(directory: Path, classes: Path, rows: int, log: str) -> None:
    """Fill a database with Derby, and leave it as a crash does."""
    each = _PER_TRANSACTION if log == SMALL else rows + 1
    end = "rollback" if log == ROLLED_BACK else "crash"
    done = subprocess.run(
        [*_java(classes), str(directory), str(rows), str(each), end], capture_output=True, text=True, check=False
    )
    if done.returncode != _HALTED:
        raise SystemExit(f"Derby did not fill {directory}: {done.stderr}")


def log_bytes(directory: Path) -> int:
    """Bytes of records that recovery scans."""
    database = DerbyDatabase(DiskStorage(directory))
    return analyse(DerbyLogFiles(database), database.controls()).bytes


def measure(made: Path, log: str, classes: Path, found: Sequence[Build], runs: int) -> Iterator[Figure]:
    """Every figure of one log."""
    megabytes = log_bytes(made) / 1e6
    jetool = [sys.executable, "-m", "jetool"]
    for what in ("recover", "verify", "dump-log"):
        who: list[tuple[str, list[str], Build | None]] = [(build.name, [*jetool, what], build) for build in found]
        if what == "recover":
            who.append((_DERBY, _java(classes), None))
        done: dict[str, list[Run]] = {name: [] for name, _, _ in who}
        for _ in range(runs):
            # In turn, so that a busy moment meets all of them.
            for name, words, build in who:
                done[name].append(_one(made, what, words, build))
        for name, each in done.items():
            wall, cpu = (statistics.median(one[at] for one in each) for at in (0, 1))
            yield Figure(log, megabytes, what, name, wall, cpu, runs)


def main(args: Sequence[str] | None = None) -> int:
    """Generate, measure and print; returns the exit code: 1 when a bound is not kept."""
    options = _parser().parse_args(args)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="jetool-bench-", dir=options.directory) as directory:
        room, classes = Path(directory), Path(directory) / "classes"
        subprocess.run(["javac", "-cp", str(JAR), "-d", str(classes), str(_JAVA)], check=True)
        found = builds((options.build,) if options.build else (NATIVE, PURE), room / "build")
        for log, share in _SHARES.items():
            made = room / log.replace(" ", "-")
            generate(made, classes, int(options.rows * share), log)
            figures += measure(made, log, classes, found, options.runs)
            shutil.rmtree(made)
    print("\n".join(table(figures)))
    return int(not all(kept(figures).values()))


def table(figures: Sequence[Figure]) -> list[str]:
    """What is printed."""
    lines = [f"{'log':<12}{'MB':>6}  {'command':<10}{'':<8}{'wall s':>8}{'CPU s':>8}{'runs':>6}"]
    lines += [
        f"{one.log:<12}{one.megabytes:6.0f}  {one.what:<10}{one.who:<8}{one.wall_s:8.2f}{one.cpu_s:8.2f}{one.runs:6}"
        for one in figures
    ]
    for log, held in kept(figures).items():
        lines.append(f"recover of {log} in the CPU time of Derby's boot (native): {'kept' if held else 'MISSED'}")
    return lines


def kept(figures: Sequence[Figure]) -> dict[str, bool]:
    """For each log whether the native ``recover`` takes at most the processor time of Derby's boot."""
    cpu = {(one.log, one.who): one.cpu_s for one in figures if one.what == "recover"}
    return {log: cpu[log, NATIVE] <= cpu[log, _DERBY] for log in _SHARES if (log, NATIVE) in cpu}


def _one(made: Path, what: str, words: Sequence[str], build: Build | None) -> Run:
    place = made
    if what == "recover":
        place = made.with_name("copy")
        shutil.rmtree(place, ignore_errors=True)
        shutil.rmtree(made.with_name("copy.jetool-saved"), ignore_errors=True)
        shutil.copytree(made, place)
        os.sync()
    done = run([*words, str(place)], build.environ if build else None)
    if done.code not in (0, 1):
        raise SystemExit(f"{what} ended with {done.code} on {place}")
    return done


def _java(classes: Path) -> list[str]:
    return ["java", f"-Dderby.stream.error.file={classes}/derby.log", "-cp", f"{classes}:{JAR}", "DerbyLog"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.derby", description=__doc__)
    parser.add_argument("--rows", type=int, default=160_000, help="of the first two logs  [default: 160000]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command line  [default: 3]")
    parser.add_argument("--build", choices=(NATIVE, PURE), help="only this build  [default: both]")
    parser.add_argument("--directory", type=Path, help="where the data go  [default: the temporary directory]")
    return parser


if __name__ == "__main__":
    sys.exit(main())
