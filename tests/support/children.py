"""Processes that a test starts: they end with it, and a failure shows what they have printed."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.harness import environment

_LAST = 4000
# What a killed process has left in a pipe comes at once, unless a child of it holds the other end.
_REST_S = 5


@contextmanager
def child(words: Sequence[str | Path], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start a process; kill it in the end, if it still runs, and close its pipes.

    Standard error goes to a file unless it is given.

    Arguments:
        words: the command line.
        options: those of ``Popen``.
    """
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, **{"stderr": errors, "env": environment(), **options})
        try:
            yield process
        except BaseException as error:
            code = process.poll()
            out, err = _end(process)
            errors.seek(0)
            err = err or errors.read().decode(errors="replace")
            how = "was running" if code is None else f"had ended with {code}"
            error.add_note(f"process {process.pid} {how}: {process.args!r}\n{out[-_LAST:]}\n{err[-_LAST:]}")
            raise
        finally:
            _end(process)


def _end(process: subprocess.Popen[Any]) -> tuple[str, str]:
    """Kill it; what is left of its output."""
    process.kill()
    left: tuple[Any, Any] = (None, None)
    # ValueError: the test has closed a pipe.
    with contextlib.suppress(subprocess.TimeoutExpired, ValueError, OSError):
        left = process.communicate(timeout=_REST_S)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    process.wait()
    out, err = (each.decode(errors="replace") if isinstance(each, bytes) else each or "" for each in left)
    return out, err
