"""Running a command and taking its wall time, its CPU time and the memory of its process tree.

Times come from the kernel when the command ends (``wait4``: user and system time of the process and of the children it
has waited for). Memory is sampled from ``/proc`` in a run of its own, since sampling takes time from what it watches:
the sum of the resident sizes of the command and its descendants, in which pages that processes share count for each of
them. It is 0 where there is no ``/proc``.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

_PAUSE_S: Final = 0.005
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


def peak_bytes(words: Sequence[str], environ: Mapping[str, str] | None = None) -> int:
    """The largest sum of resident sizes that the process tree of a command had at any sample."""
    process = _start(words, environ)
    peak = 0
    while process.poll() is None:
        peak = max(peak, tree_bytes(process.pid))
        time.sleep(_PAUSE_S)
    return peak


def tree_bytes(pid: int) -> int:
    """Resident bytes of a process and its descendants now."""
    return _resident(pid) + sum(tree_bytes(child) for child in _children(pid))


def _start(words: Sequence[str], environ: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    full = {**os.environ, **(environ or {})}
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=full)


def _resident(pid: int) -> int:
    try:
        pages = (_PROC / str(pid) / "statm").read_text().split()[1]
    except (OSError, IndexError):
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for path in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            found += [int(word) for word in path.read_text().split()]
        except OSError:
            continue
    return found
