"""``python -m tests.cleaner.beside_je --je-classpath /path/to/je/classes``: both ways with JE 18.3.20.

One half of the environments is written and cleaned here, the other half by JE (``tests/bench/JeCleaner.java``), which
has cleaned some of each file set when it ends. All of them are then cleaned by ``jetool clean`` as far as it goes. Each
time JE has to find nothing wrong (DbVerifyLog, DbVerify with records and obsolete records), to dump the same records,
to say the same utilization of every file (DbSpace), and to clean, checkpoint and write on; and what it leaves is
verified here. One line for each environment; 1 when one fails.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.overlay import OverlayStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.bench import cleaner as bench
from tests.harness import run

_UTILITIES: Final = "com.sleepycat.je.util."
_ROW: Final = re.compile(r"^([0-9a-f]{8})\s+\S+\s+(\d+)\s+(\d+)\s+(\d+)\s*$", re.MULTILINE)
_FILE_MAX: Final = 1_000_000


class Je:
    """JE's utilities on one environment.

    Arguments:
        classpath: where its classes are.
        home: the environment.
    """

    def __init__(self, classpath: str, home: Path) -> None:
        self._classpath = classpath
        self._home = home

    def run(self, utility: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        """What a utility says."""
        words = ("-cp", self._classpath, _UTILITIES + utility, "-h", str(self._home), *words)
        return subprocess.run(["java", *words], capture_output=True, check=False)

    def problems(self) -> Iterator[str]:
        """What its checks find."""
        for utility, words in (("DbVerifyLog", ()), ("DbVerify", ("-vdr", "-vor", "-c"))):
            done = self.run(utility, *words)
            if done.returncode:
                yield f"{utility}: {(done.stdout + done.stderr)[-300:].decode('latin-1')}"

    def utilization(self) -> dict[int, int]:
        """Per cent by file."""
        text = self.run("DbSpace").stdout.decode()
        return {int(number, 16): int(average) for number, average, _, _ in _ROW.findall(text)}


def utilization(home: Path) -> dict[int, int]:
    """The same here; nothing is changed."""
    with Environment(OverlayStorage(DiskStorage(home)), EnvironmentConfig()) as env:
        assert env.engine.cleaner is not None
        return {one.number: one.average_utilization for one in env.engine.cleaner.facts()}


def errors(home: Path) -> list[str]:
    """What our checks find."""
    storage = DiskStorage(home)
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    return [f"{one.code} {one.message}" for one in report.findings if one.severity != NOTE]


def check(home: Path, je: Je, expected: bytes | None) -> tuple[list[str], bytes]:
    """What is wrong with an environment, and its dump."""
    wrong = [*je.problems(), *errors(home)]
    ours, theirs = run("dump", home, "--db", "bench").out, je.run("DbDump", "-s", "bench").stdout
    if ours != theirs or (expected is not None and ours != expected):
        wrong.append("the dumps differ")
    here, there = utilization(home), je.utilization()
    # The newest file grows with every open, and an average may round otherwise (R-CLN-4).
    newest = max(here, default=0)
    far = {
        n: (here.get(n), there.get(n))
        for n in here | there
        if n < newest and abs(here.get(n, -9) - there.get(n, -9)) > 1
    }
    if far:
        wrong.append(f"utilization here and by DbSpace: {far}")
    return wrong, ours


def one(home: Path, classpath: str, seed: int, *, theirs: bool) -> list[str]:
    """One environment; what is wrong with it."""
    size = (2_000 + seed * 500, 20_000 + seed * 7_000, _FILE_MAX)
    if theirs:
        home.mkdir()
        bench.measure_je(home, *size, classpath)
    else:
        bench.measure(home, *size)
    je = Je(classpath, home)
    wrong, dump = check(home, je, None)
    done = run("clean", home, "--target", "90%", "--backup-dir", "none", "--json")
    if done.code:
        return [*wrong, done.err]
    wrong += check(home, je, dump)[0]
    # It goes on: cleaning, a checkpoint, and a database less.
    for words in (("-a", "batchClean"), ("-a", "checkpoint")):
        action = je.run("DbRunAction", *words)
        if action.returncode:
            wrong.append(f"DbRunAction {words}: {action.stderr[-300:].decode('latin-1')}")
    return wrong + check(home, je, dump)[0]


def main(words: Sequence[str] | None = None) -> int:
    """Try so many environments of each kind."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--environments", type=int, default=10, help="of each kind")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    options = parser.parse_args(words)
    failed = 0
    for seed in range(options.environments):
        for theirs in (False, True):
            with tempfile.TemporaryDirectory(prefix="jetool-beside-") as scratch:
                wrong = one(Path(scratch, "env"), options.je_classpath, seed, theirs=theirs)
            failed += bool(wrong)
            sys.stdout.write(f"{seed} by {'JE' if theirs else 'jetool'}: {'; '.join(wrong) or 'sound'}\n")
            sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
