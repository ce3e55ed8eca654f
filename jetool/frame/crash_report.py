"""The report file of an internal error: details for a maintainer in a file instead of on the operator's terminal."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence

from engine.version import VERSION


def fields(error: BaseException, code: int, args: Sequence[str]) -> dict[str, str | int]:
    """Write the report; returns the fields of the error message.

    Arguments:
        error: the unexpected exception.
        code: its exit code.
        args: the command line, without the program name.
    """
    summary = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    described: dict[str, str | int] = {
        "kind": "internal",
        "exit_code": code,
        "what": f"internal error, a bug in jetool ({summary})",
    }
    try:
        path = _write(error, args)
    # The report cannot be written either; a maintainer needs at least the place in the code.
    except OSError as refused:
        described["found"] = _place(error)
        described["consequence"] = f"no report file could be written ({refused.strerror})"
    else:
        described["report"] = path
        described["consequence"] = f"please send the report {path} to the maintainers"
    return described


def _write(error: BaseException, args: Sequence[str]) -> str:
    """Write the report, readable only by its owner (a command line may hold keys); returns its path."""
    # mkstemp creates it with mode 0600.
    number, path = tempfile.mkstemp(prefix="jetool-report-", suffix=".txt")
    with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"jetool {VERSION}\npython {sys.version}\nplatform {platform.platform()}\n")
        file.write(f"time {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\narguments {list(args)!r}\n\n")
        file.writelines(traceback.format_exception(error))
    return path


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "no place known"
