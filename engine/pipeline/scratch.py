"""The directory of one session, for logs of the JVM, shuffle files and the warehouse.

The directory is removed when the session ends. A session that was killed leaves its directory behind, and the next
session removes it. A file lock shows whether a directory is in use: its owner holds the lock, so a directory with a
free lock has no owner.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PREFIX: Final = "jetool-spark-"
_LOCK: Final = "owner.lock"


class Scratch:
    """A directory for this session.

    Attributes:
        path: the directory.
    """

    def __init__(self, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        _sweep(parent)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the directory and its content. Removing it twice is harmless."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            # Done last: closing the file releases the lock, and another session may then remove the directory.
            os.close(self._lock)
            self._lock = -1


def _sweep(parent: Path) -> None:
    """Remove directories whose owners have ended."""
    for path in parent.glob(f"{_PREFIX}*"):
        try:
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
        except OSError:  # being made, or another user's
            continue
        try:
            # Do not wait for the lock: if it is held, the owner is alive.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass
        finally:
            os.close(lock)
