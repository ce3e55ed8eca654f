"""Running a command and taking its wall time, its CPU time and the memory of its process tree.

Times come from the kernel when the command ends (``wait4``: user and system time of the process and of the children it
has waited for). Memory is sampled from ``/proc``: what the command and its descendants have in memory. A page that
several of them share, such as those of a fork, counts once (Linux's Pss). It is 0 where there is no ``/proc``. Sampling
takes time from what it watches, so it is done in a run of its own, or, of commands that take long, seldom.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_PAUSE_S: Final = 0.005
# While a run is timed: the first pause, and the share of its time so far, for each look at a large process takes time
# from it.
_LONG_PAUSE_S: Final = 0.1
_PAUSE_PART: Final = 0.02
# Of a shorter run that would see too little.
_LONG_S: Final = 2.0
_PSS: Final = "Pss:"
_PROC: Final = Path("/proc")


class Run(NamedTuple):
    """One run of a command, process start included.

    Attributes:
        wall_s: seconds from start to end.
        cpu_s: user and system time of the process tree.
        code: exit code.
    """

    wall_s: float
    cpu_s: float
    code: int


def run(words: Sequence[str], environ: Mapping[str, str] | None = None) -> Run:
    """Run a command with its output thrown away."""
    began = time.perf_counter()
    process = _start(words, environ)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    return Run(wall, usage.ru_utime + usage.ru_stime, process.returncode)


def run_and_watch(words: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[Run, int | None]:
    """Run a command, and look at its memory now and then; None for a run too short for that."""
    ended = threading.Event()
    peaks = [0]
    process = _start(words, environ)

    def watch() -> None:
        while not ended.wait(max(_LONG_PAUSE_S, _PAUSE_PART * (time.perf_counter() - began))):
            peaks.append(tree_bytes(process.pid))

    watcher = threading.Thread(target=watch)
    began = time.perf_counter()
    watcher.start()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    done = Run(wall, usage.ru_utime + usage.ru_stime, process.returncode)
    return done, max(peaks) if wall >= _LONG_S else None


def peak_bytes(words: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """The most memory that the process tree of a command had at any sample."""
    process = _start(words, environ)
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_bytes(process.pid))
        time.sleep(_PAUSE_S)
    return peak


def tree_bytes(pid: int) -> int:
    """Bytes that a process and its descendants have in memory now."""
    tree = [pid]
    for one in tree:
        tree += _children(one)
    # Without others to share with the two are the same, and this one costs nothing.
    return _resident(pid) if len(tree) == 1 else sum(map(_share, tree))


def _start(words: Sequence[str], environ: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    full = {**os.environ, **(environ or {})}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=full)


def _resident(pid: int) -> int:
    try:
        pages = (_PROC / str(pid) / "statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _share(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(_PSS))


def _children(pid: int) -> list[int]:
    found: list[int] = []
    # It may end at any moment, and so may a thread of it.
    with contextlib.suppress(OSError):
        for path in (_PROC / str(pid) / "task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += [int(word) for word in path.read_text().split()]
    return found
