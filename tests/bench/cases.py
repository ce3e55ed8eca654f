"""What is measured: commands of jetool, and beside each the tool of JE that answers the same question.

A bound is the wall time that the command may take as a share of the tool's in the same run, or seconds where it has no
counterpart.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

_JOBS: Final = (1, 2)


class Variant(NamedTuple):
    """One command line of jetool.

    Attributes:
        name: shown in the table.
        words: after ``jetool``; ENV stands for the environment.
        bound: see the module.
    """

    name: str
    words: tuple[str, ...]
    bound: float | None


class Case(NamedTuple):
    """Command lines that do the same work, and JE's class and options for it; () when there is none.

    Attributes:
        reads_log: the work is in proportion to the log, so that bytes and entries per second say something.
    """

    name: str
    ours: tuple[Variant, ...]
    theirs: tuple[str, ...]
    reads_log: bool = True


def _pair(name: str, words: str, theirs: str, bounds: tuple[float, float]) -> Case:
    ours = [
        Variant(f"{words} --jobs {jobs}", (*words.split(), "ENV", "--jobs", str(jobs)), bound)
        for jobs, bound in zip(_JOBS, bounds, strict=True)
    ]
    return Case(name, tuple(ours), tuple(theirs.split()))


_UTIL: Final = "com.sleepycat.je.util"

CASES: Final = (
    _pair("verify", "verify --log", f"{_UTIL}.DbVerifyLog -h ENV", (1.0, 0.5)),
    _pair("stats", "dump-log --stats=type", f"{_UTIL}.DbPrintLog -h ENV -S", (1.0, 0.5)),
    _pair("vlsn", "vlsn map", f"{_UTIL}.DbPrintLog -h ENV -vd", (1.0, 0.5)),
    Case(
        "dump",
        (
            Variant("dump-log --jobs 1", ("dump-log", "ENV", "--jobs", "1"), None),
            Variant("dump-log", ("dump-log", "ENV"), 1.0),
        ),
        (f"{_UTIL}.DbPrintLog", "-h", "ENV"),
    ),
    Case("help", (Variant("--help", ("--help",), 0.25),), (), reads_log=False),
    Case("info", (Variant("info", ("info", "ENV"), None),), (), reads_log=False),
)


def our_words(variant: Variant, env: str) -> list[str]:
    """The whole command line of a variant."""
    return [sys.executable, "-m", "jetool", *(env if word == "ENV" else word for word in variant.words)]


def their_words(case: Case, env: str, class_path: str) -> list[str]:
    """The whole command line of JE's tool."""
    return ["java", "-cp", class_path, *(env if word == "ENV" else word for word in case.theirs)]
