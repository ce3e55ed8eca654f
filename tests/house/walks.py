"""How much of the project one command walks through: files, calls, recoveries.

``python -m tests.house.walks`` prints a table, for ARCHITECTURE.md; with ``--files`` the files, too. A file counts
when the command calls a function of it, in this process. What merely importing a module calls does not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

from jetool.frame.cli import run

ROOT: Final = Path(__file__).parents[2]
USERS: Final = ROOT / "examples" / "users.csv"
_OURS: Final = tuple(f"{ROOT / name}/" for name in ("engine", "jetool"))
_COLUMNS: Final = ("--key", "name", "--value", "age")


class Walk(NamedTuple):
    """What one command line went through.

    Attributes:
        code: its exit code.
        files: files of the project, to the number of calls of their functions.
        recoveries: runs of JE recovery.
    """

    code: int
    files: Counter[str]
    recoveries: int


class _Watch:
    """Hears every call that the interpreter makes."""

    def __init__(self) -> None:
        self.files: Counter[str] = Counter()
        self.recoveries = 0
        self._importing = 0

    def hear(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            self._importing += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self._importing and code.co_filename.startswith(_OURS):
            self.files[code.co_filename.removeprefix(f"{ROOT}/")] += 1
            self.recoveries += code.co_qualname == "Recovery.run"


def walk(*words: str | Path) -> Walk:
    """Run a command line in this process and note what it calls."""
    watch = _Watch()
    with contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())), contextlib.redirect_stderr(io.StringIO()):
        sys.setprofile(watch.hear)
        try:
            code = run([str(word) for word in words])
        finally:
            sys.setprofile(None)
    return Walk(code, watch.files, watch.recoveries)


def walks() -> Iterator[tuple[str, Walk]]:
    """Walks through an environment that is made for it: what it is, and what it touched."""
    with tempfile.TemporaryDirectory() as directory:
        env, dump = Path(directory) / "env", Path(directory) / "dump"
        load: Callable[..., Walk] = lambda *words: walk("load", env, *words, "--db", "users")  # noqa: E731
        yield "create", walk("create", env, "--db", "users")
        yield "load of three rows", load(USERS, "--engine", "local", *_COLUMNS)
        yield "load of three rows more", load(USERS, "--engine", "local", *_COLUMNS)
        dump.write_text("VERSION=3\nformat=print\nHEADER=END\n dave\n 19\nDATA=END\n")
        yield "load of a JE dump", load(dump)
        yield "put", walk("put", env, "erin", "33", "--db", "users")
        yield "get", walk("get", env, "erin", "--db", "users")
        yield "dump-log of one entry", walk("dump-log", env, "--limit", "1")
        yield "recover", walk("recover", env)
        yield "info", walk("info", env)


def main(args: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="tests.house.walks", description=__doc__)
    parser.add_argument("--files", action="store_true", help="list the files of each walk")
    wanted = parser.parse_args(args)
    sys.stdout.write("| walk | files | calls | recoveries |\n|---|---:|---:|---:|\n")
    for name, found in walks():
        assert found.code == 0, name
        sys.stdout.write(f"| {name} | {len(found.files)} | {found.files.total()} | {found.recoveries} |\n")
        if wanted.files:
            sys.stdout.writelines(f"|  {file} | | {found.files[file]} | |\n" for file in sorted(found.files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
