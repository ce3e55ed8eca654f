"""Output that is built under a temporary name, and the remains of killed runs.

A file or directory NAME is built beside its place as ``.NAME.HEX.tmp`` and renamed at the end. The run that builds it
holds a file lock (flock) on it. After a kill the lock is free, and the next run with the same NAME removes the remains.
"""

from __future__ import annotations

import fcntl
import glob
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

_RANDOM_BYTES: Final = 8
_RANDOM: Final = re.compile(r"[0-9a-f]{12,16}")
_SUFFIX: Final = ".tmp"


def unfinished_name(target: Path) -> Path:
    """A new temporary name beside a file or directory, for its unfinished version."""
    return target.with_name(f".{target.name}.{os.urandom(_RANDOM_BYTES).hex()}{_SUFFIX}")


def hold(handle: int) -> None:
    """Mark an open file or directory as in use until it is closed. Some file systems do not support this."""
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def remove_abandoned(target: Path) -> None:
    """Remove the remains of killed runs for a file or directory. Remains that cannot be removed stay."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*{_SUFFIX}"):
        if not _RANDOM.fullmatch(path.name.removeprefix(f".{target.name}.").removesuffix(_SUFFIX)):
            continue
        # Opened without writing or following links: it may be a file of another program.
        with suppress(OSError):
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()
            finally:
                os.close(handle)
