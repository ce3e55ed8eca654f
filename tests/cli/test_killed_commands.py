"""Commands that are killed at every system call: nothing is half there, and the same command, run again, does it all.

``test_interrupted_repairs`` does the same with repairs that ``undo`` takes back.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from engine.storage import journal
from jetool.frame import exits
from tests.support.damage.killing import run_killed
from tests.support.environments.copies import copy_of
from tests.support.environments.frontends import rolled, write_frontend
from tests.support.environments.oracle import named
from tests.support.harness import run
from tests.support.tools import needs

CLOSED: Final = "je-18.3.20/cleaned-closed"
DAMAGED: Final = "je-18.3.20/corrupt-middle"
Contents = dict[str, bytes]


@pytest.fixture(autouse=True)
def _no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote; waiting for the disk would be most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def contents(env: Path) -> Contents:
    """The dump of each database of an environment that verifies."""
    checked = run("verify", env, "--full")
    assert checked.code == exits.DONE, checked.text
    names = [one["name"] for one in run("dbs", env, "--json").json()["records"]]
    return {name: run("dump", env, "--db", name).out for name in names if not name.startswith("_je")}


def files(directory: Path) -> dict[str, bytes]:
    """Every file but the lock."""
    found = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != "je.lck")
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}


def environment(work: Path) -> None:
    copy_of(named(CLOSED), work / "env")


def damaged(work: Path) -> None:
    copy_of(named(DAMAGED), work / "env")


def without_a_file(work: Path) -> None:
    environment(work)
    sorted((work / "env").glob("*.jdb"))[1].unlink()


def backed_up(work: Path) -> None:
    """Three backups of an environment that has changed in between."""
    environment(work)
    for number in range(3):
        put = run("put", work / "env", f"k{number}", "v" * 500, "--db", "live")
        assert put.code == exits.DONE, put.err
        assert run("backup", work / "env", work / "backup").code == exits.DONE


def backed_up_and_gone(work: Path) -> None:
    backed_up(work)
    shutil.rmtree(work / "env")


def with_rows(work: Path) -> None:
    environment(work)
    rows = [json.dumps({"k": f"key{number:04}", "v": "x" * 30}) + "\n" for number in range(100)]
    (work / "rows.jsonl").write_text("".join(rows))


def frontend(work: Path) -> None:
    """The directory meta of a frontend, which holds the environment."""
    (work / "meta" / "bdb").mkdir(parents=True)
    write_frontend(work / "meta" / "bdb", rolled(1, 30, 10), epochs=2, replicated=True)


class Case(NamedTuple):
    """A command, and what it must leave whenever it is killed.

    Attributes:
        make: makes what it works on.
        words: the command line; a word with a slash is a path below the directory of work.
        made: the environment that it makes or changes; a path below that directory.
        kept: what it never changes.
        codes: exit codes of a run that comes to its end.
        once: a whole result is in the way of another run, which is refused.
        batches: a part of the records may be there.
    """

    make: Callable[[Path], None]
    words: tuple[str, ...]
    made: str
    kept: tuple[str, ...] = ()
    codes: tuple[int, ...] = (exits.DONE,)
    once: bool = False
    batches: bool = False


SALVAGED: Final = (exits.DONE, exits.FINDINGS, exits.DATA_GIVEN_UP)
LOAD: Final = ("load", "./env", "./rows.jsonl", "--key", "k", "--engine", "local", "--jobs", "1", "--yes", "--db")
CASES: Final = {
    "salvage": Case(damaged, ("salvage", "./env", "--to", "./out"), "out/env", ("env",), SALVAGED, once=True),
    "missing": Case(
        without_a_file, ("missing", "./env", "--repair", "--to", "./out"), "out/env", ("env",), SALVAGED, once=True
    ),
    "backup-first": Case(environment, ("backup", "./env", "./backup"), "env", ("env",)),
    "backup": Case(backed_up, ("backup", "./env", "./backup"), "env", ("env",)),
    "prune": Case(backed_up, ("backup", "prune", "./backup", "--keep", "1l"), "env", ("env",)),
    "restore": Case(backed_up_and_gone, ("restore", "./backup", "./env"), "env", ("backup",)),
    "restore-delta": Case(backed_up, ("restore", "./backup", "./env", "--delta", "--yes"), "env", ("backup",)),
    "load-new": Case(with_rows, (*LOAD, "fresh", "--create"), "env"),
    "load-merge": Case(with_rows, (*LOAD, "live", "--batch", "40"), "env", batches=True),
    "journal-truncate": Case(
        frontend, ("journal", "truncate", "./meta", "--after", "25", "--yes"), "meta/bdb",
        codes=(exits.DONE, exits.DATA_GIVEN_UP),
    ),
    "plan-skip": Case(frontend, ("journal", "plan-skip", "./meta", "25"), "meta/bdb", ("meta",)),
}  # fmt: skip


class Drill:
    """One command in a directory whose first state can be had again.

    Attributes:
        before, after: what ``made`` holds; None where there is no environment.
    """

    def __init__(self, case: Case, tmp_path: Path) -> None:
        self.case = case
        self.work, self._first = tmp_path / "work", tmp_path / "first"
        self.work.mkdir()
        case.make(self.work)
        shutil.copytree(self.work, self._first)
        self.words = [str(self.work / word[2:]) if word.startswith("./") else word for word in case.words]
        self.env = self.work / case.made
        self.before = contents(self.env) if self.env.is_dir() and case.make is not without_a_file else None
        done = run(*self.words)
        assert done.code in case.codes, done.err
        self.after = contents(self.env)

    def kill(self, at: int) -> bool:
        """Run the command on the first state, killed in front of a call; False when it came to its end before."""
        shutil.rmtree(self.work)
        shutil.copytree(self._first, self.work)
        return run_killed(at, *self.words)

    def check(self) -> None:
        """What is kept is as it was; what is made is not there, refused, or as before or after."""
        for name in self.case.kept:
            assert files(self.work / name) == files(self._first / name)
        if (self.work / "backup").is_dir() and (self._first / "backup").is_dir():
            assert run("backup", "verify", self.work / "backup").code == exits.DONE
        if (self.env / journal.MARKER).exists():
            return
        # A restore that is not finished is no environment yet; nothing that is green is a part of one.
        if self.env.is_dir() and not self.case.batches and run("verify", self.env, "--full").code == exits.DONE:
            assert contents(self.env) in (self.before, self.after)

    def check_again(self) -> None:
        """The same command does what is left to do, and leaves nothing but its result."""
        again = run(*self.words)
        whole = self.case.once and again.code == exits.REFUSED and "is not empty" in again.err
        assert whole or again.code in self.case.codes, again.err
        assert contents(self.env) == self.after
        assert not (self.env / journal.MARKER).exists()
        assert not list(self.work.glob(".*"))
        if (self.work / "backup").is_dir():
            assert run("backup", "verify", self.work / "backup").code == exits.DONE


def check_points(name: str, tmp_path: Path, stride: int) -> int:
    if CASES[name].words[0] == "load":
        needs("Spark")
    drill, count = Drill(CASES[name], tmp_path), 0
    for at in itertools.count(0, stride):
        killed = drill.kill(at)
        count += killed
        drill.check()
        drill.check_again()
        if not killed:
            return count
    raise AssertionError


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_killed_at_some_calls(name: str, tmp_path: Path) -> None:
    # A command that only reads makes no such call.
    assert check_points(name, tmp_path, 7) > 0 or name == "plan-skip"


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_call(name: str, tmp_path: Path) -> None:
    print(f"{name}: {check_points(name, tmp_path, 1)} points")
