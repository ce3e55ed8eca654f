"""Commands that are killed at a system call: a forked process runs the command and ends itself there, for good.

Counted is every call that changes a file, a name or the permissions of one, or makes it durable. What a kill after a
call leaves is what a kill in front of the next one leaves, so the points in front of all calls, and the one after the
last, are all there are; a write can also have put a part of its bytes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.support.harness import run

KILLED: Final = 99
_CALLS: Final = ("pwrite", "ftruncate", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir", "chmod")


class Killer:
    """Counts the calls of this process and ends it in front of one.

    Arguments:
        at: the number of the call, from 0.
        torn: let the call, when it is a write, put the first half of its bytes.
    """

    def __init__(self, at: int, *, torn: bool) -> None:
        self._left = at
        self._torn = torn

    def install(self) -> None:
        """Watch this process, which is to end soon."""
        for name in _CALLS:
            setattr(os, name, self._watched(getattr(os, name), name))
        opened = os.open

        def watched(path: Any, flags: int, *more: Any, **named: Any) -> int:
            if flags & os.O_CREAT and not os.path.lexists(path):
                self._count()
            return opened(path, flags, *more, **named)

        os.open = watched

    def _watched(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def watched(*words: Any, **named: Any) -> Any:
            if self._left == 0 and self._torn and name == "pwrite":
                handle, data, offset = words
                call(handle, bytes(data)[: len(data) // 2], offset)
            self._count()
            return call(*words, **named)

        return watched

    def _count(self) -> None:
        if self._left == 0:
            os._exit(KILLED)
        self._left -= 1


def run_killed(at: int, *words: str | Path, torn: bool = False) -> bool:
    """Run a command that is killed in front of a call; whether it was, and did not come to its end before."""
    pid = os.fork()
    if pid == 0:
        try:
            Killer(at, torn=torn).install()
            run(*words)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == KILLED
