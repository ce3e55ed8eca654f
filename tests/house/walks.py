"""How much of the project one command walks through: files, calls, recoveries.

``python -m tests.house.walks`` prints a table; ARCHITECTURE.md quotes it. A file counts when a function of it was called
while the command ran in this process, its import included; importing alone does not count. Threads and processes that
the command starts do not count.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from jetool.app.cli import run

ROOT: Final = Path(__file__).parents[2]
USERS: Final = ROOT / "examples" / "users.csv"
_OURS: Final = tuple(f"{ROOT / name}/" for name in ("engine", "jetool"))
_BODY: Final = "<module>"


class Walk(NamedTuple):
    """What one command line went through.

    Attributes:
        code: its exit code.
        files: files of the project in which a function was called, to the number of calls.
        recoveries: runs of JE recovery.
    """

    code: int
    files: Counter[str]
    recoveries: int

    @property
    def calls(self) -> int:
        """Calls of functions of the project."""
        return sum(self.files.values())


def walk(args: Sequence[str]) -> Walk:
    """Run a command line in this process and note what it calls."""
    files: Counter[str] = Counter()
    recoveries = 0

    def note(frame: FrameType, event: str, _: Any) -> None:
        nonlocal recoveries
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(_OURS) or code.co_name.startswith("<"):
            return
        files[code.co_filename.removeprefix(f"{ROOT}/")] += 1
        recoveries += code.co_qualname == "Recovery.run"

    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(note)
        try:
            code = run(args)
        finally:
            sys.setprofile(None)
    return Walk(code, files, recoveries)
