"""``python -m tests.bench.backups``: backup beside ``cp``, verify, and restore, of a generated log.

The log is in the page cache. ``cp`` is followed by a sync of what it wrote, since a backup is durable when it ends.
Times are wall times in one process, without its start; the runs take turns, and the best counts, so that a busy moment
of the machine hits none of them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from engine.backup.backup_run import take
from engine.backup.check import check_backups
from engine.backup.point_lookup import choose
from engine.backup.repository import Repository
from engine.backup.restore import finish, plan_restore, put_files
from engine.storage.disk import DiskStorage
from tests.bench.generate import generate

# Shares of the speed of cp, or MB/s.
LEAST_SHARE: Final = 0.7
LEAST_SUMS: Final = 150.0


def measure(directory: Path, megabytes: float, runs: int) -> dict[str, float]:
    """MB/s of each step.

    Arguments:
        directory: for the log and the copies.
    """
    env, copy, backups, restored = (directory / name for name in ("env", "copy", "backups", "restored"))
    env.mkdir()
    size = generate(env, megabytes, replicated=False).size_bytes / 1e6
    repository = Repository(DiskStorage(backups))

    def restore() -> None:
        target = DiskStorage(restored)
        target.make_directory("")
        put_files(repository, plan_restore(repository, choose(repository, None, None), target, delta=False), target)
        finish(target)

    steps: dict[str, Callable[[], object]] = {
        "cp": lambda: subprocess.run(["sh", "-c", f"cp -r '{env}' '{copy}' && sync '{copy}'/*"], check=True),
        "backup": lambda: take(DiskStorage(env), repository, "bench"),
        "verify --sums": lambda: check_backups(repository, repository.ids(), sums_only=True),
        "verify": lambda: check_backups(repository, repository.ids(), sums_only=False),
        "restore": restore,
    }
    best = dict.fromkeys(steps, float("inf"))
    for _ in range(runs):
        for place in (copy, backups, restored):
            shutil.rmtree(place, ignore_errors=True)
        for name, step in steps.items():
            began = time.perf_counter()
            step()
            best[name] = min(best[name], time.perf_counter() - began)
    return {name: round(size / wall, 1) for name, wall in best.items()}


def table(found: dict[str, float], megabytes: float, runs: int) -> list[str]:
    """The figures, with what is asked of them."""
    bounds = {
        "backup": (found["cp"] * LEAST_SHARE, f"{LEAST_SHARE} of cp, has {found['backup'] / found['cp']:.2f}"),
        "verify --sums": (LEAST_SUMS, f"{LEAST_SUMS:.0f} MB/s"),
    }
    lines = [f"{megabytes:g} MB of log, best of {runs} runs", f"{'step':<14} {'MB/s':>7}  bound"]
    for name, speed in found.items():
        least, words = bounds.get(name, (0.0, ""))
        verdict = f"at least {words}: {'kept' if speed >= least else 'MISSED'}" if words else ""
        lines.append(f"{name:<14} {speed:7.1f}  {verdict}".rstrip())
    return lines


def main(args: Sequence[str] | None = None) -> int:
    """Print the figures; 1 when a bound is not kept."""
    parser = argparse.ArgumentParser("python -m tests.bench.backups", description=__doc__)
    parser.add_argument("--megabytes", type=float, default=320, help="size of the generated log  [default: 320]")
    parser.add_argument("--runs", type=int, default=5, help="runs of each command  [default: 5]")
    options = parser.parse_args(args)
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        lines = table(measure(Path(directory), options.megabytes, options.runs), options.megabytes, options.runs)
    print("\n".join(lines))
    return int(any(line.endswith("MISSED") for line in lines))


if __name__ == "__main__":
    sys.exit(main())
