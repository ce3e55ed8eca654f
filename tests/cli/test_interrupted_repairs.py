"""Repairs killed at every system call: undo brings every byte back, and the repair, run again, does all of its work."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from engine.storage import journal
from engine.storage.disk import DiskStorage
from tests.cli.derby_databases import FIVE, extract
from tests.support.damage.killing import run_killed
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named
from tests.support.harness import assert_valid, run

CORRUPT: Final = "je-18.3.20/corrupt-middle"
ALONE: Final = ("--group", "NEW", "--node", "alone", "--address", "here:5099", "--yes")
# What is another one in every run: times, and what follows from the length of their numbers.
_RUNS: Final = (
    "phases",
    "backup",
    "saved_bytes",
    "saved_in",
    "duration_ms",
    "uuid",
    "barrier_time",
    "end_lsn_after",
    "closing_ckpt_end_lsn",
    "plan",
)
# A marker that is not whole stands for nothing; the next command that writes removes it.
_LEFT: Final = ("je.lck", "dbex.lck", journal.MARKER)


class Case(NamedTuple):
    """A repair: how to make what it repairs, the words that do it, and its exit code."""

    make: Callable[[Path], Path]
    verb: tuple[str, ...]
    options: tuple[str, ...] = ()
    code: int = 0
    # Whether the work is to undo what the verb does.
    undo: bool = False


def je(name: str) -> Callable[[Path], Path]:
    return lambda work: copy_of(named(name), work / "env")


def derby(work: Path) -> Path:
    return extract(FIVE, work)


CASES: Final = {
    "recover-cut": Case(je(CORRUPT), ("recover",), ("--accept-loss",), 6),
    "recover-invisible": Case(je("je-18.3.20/ha-rollback-begun/node1"), ("recover",)),
    "rebuild": Case(je("je-18.3.20/ha-group/node1"), ("vlsn", "rebuild"), ("--force",)),
    "reset": Case(je("je-18.3.20/ha-group/node1"), ("group", "reset"), ALONE),
    "truncate": Case(je(CORRUPT), ("truncate",), ("--to", "lsn:0x3/0x26", "--yes"), 6),
    "undo-truncate": Case(je(CORRUPT), ("truncate",), ("--to", "lsn:0x3/0x26", "--yes"), 6, undo=True),
    "clean": Case(je("je-18.3.20/cleaned"), ("clean",), ("--target", "90%")),
    "undo-clean": Case(je("je-18.3.20/cleaned"), ("clean",), ("--target", "90%"), undo=True),
    "crash-cut": Case(je("je-18.3.20/txn-closed"), ("crash",), ("--in-place", "--yes", "--at", "type:CkptStart")),
    "crash-file": Case(je(CORRUPT), ("crash",), ("--in-place", "--yes", "--mode", "missing-file", "--at", "entry:9")),
    "undo-recover": Case(je(CORRUPT), ("recover",), ("--accept-loss",), 6, undo=True),
    "undo-reset": Case(je("je-18.3.20/ha-group/node1"), ("group", "reset"), ALONE, undo=True),
    "undo-crash-file": Case(
        je(CORRUPT), ("crash",), ("--in-place", "--yes", "--mode", "missing-file", "--at", "entry:9"), undo=True
    ),
    "derby-recover": Case(derby, ("recover",)),
    "derby-undo": Case(derby, ("recover",), undo=True),
    "derby-crash": Case(derby, ("crash",), ("--in-place", "--yes", "--at", "entry:5")),
}


@pytest.fixture(autouse=True)
def _no_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A killed process loses nothing that it wrote; waiting for the disk would be most of the time."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


class Work:
    """A directory in which the same state can be had again and again, at the same place: saved bytes know theirs."""

    def __init__(self, case: Case, tmp_path: Path) -> None:
        self.case = case
        self.root = tmp_path / "work"
        self.root.mkdir()
        self.env = case.make(self.root)
        self.original = self.files()
        if case.undo:
            self.repaired = self.result(run(*case.verb, self.env, *case.options, "--json").out)
        self._kept = tmp_path / "kept"
        shutil.copytree(self.root, self._kept)
        self.words: tuple[str | Path, ...] = ("undo", self.env) if case.undo else (*case.verb, self.env, *case.options)
        if not case.undo:
            self.repaired = self.repair()
            self.reset()

    def reset(self) -> None:
        """The state that the work begins with."""
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root)

    def files(self) -> dict[str, bytes]:
        """Every file but lock files and the marker."""
        paths = [path for path in self.env.rglob("*") if path.is_file() and path.name not in _LEFT]
        return {str(path.relative_to(self.env)): path.read_bytes() for path in paths}

    def repair(self) -> dict[str, Any]:
        """Run the repair to its end; its report."""
        done = run(*self.case.verb, self.env, *self.case.options, "--json")
        assert done.code == self.case.code, done.err
        return self.result(done.out)

    @staticmethod
    def result(out: bytes) -> dict[str, Any]:
        """A report without what differs in every run."""
        return dict(_lasting(json.loads(out)))


def _lasting(value: Any) -> Any:
    if isinstance(value, list):
        return [_lasting(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _lasting(one) for name, one in value.items() if name not in _RUNS}


def points(work: Work, stride: int) -> Iterator[tuple[int, bool]]:
    """Every ``stride``-th point at which the work is killed, whole and torn, in the state that it leaves."""
    for at in itertools.count():
        for torn in (False, True):
            if (2 * at + torn) % stride:
                continue
            work.reset()
            if not run_killed(at, *work.words, torn=torn):
                assert at > 8
                return
            yield at, torn


def is_between(work: Work) -> bool:
    """Whether the work was begun and not ended."""
    return journal.pending_in(DiskStorage(work.env)) is not None


def check_taken_back(work: Work, at: tuple[int, bool]) -> None:
    """Undo brings the original back, and leaves no marker; it may say that there is nothing to take back."""
    nothing = not is_between(work) and work.files() == work.original
    done = run("undo", work.env, "--json")
    if nothing:
        # An undo that was killed at its very end is done, and says so.
        assert done.code in ((0,) if work.case.undo else (0, 3, 4)), (at, done.err)
    else:
        assert done.code == 0, (at, done.err)
        assert_valid("undo", done.out)
    assert work.files() == work.original, at
    assert not (work.env / journal.MARKER).exists() or nothing, at


def check_done_again(work: Work, at: tuple[int, bool]) -> None:
    """The repair begins anew and reports all that it did; undo takes all of it back."""
    if is_between(work) or work.files() == work.original:
        assert work.repair() == work.repaired, at
        assert not (work.env / journal.MARKER).exists(), at
    assert run("undo", work.env).code == 0, at
    assert work.files() == work.original, at


def check_points(name: str, tmp_path: Path, stride: int) -> int:
    work = Work(CASES[name], tmp_path)
    count = 0
    for at in points(work, stride):
        count += 1
        kept = tmp_path / "killed"
        shutil.copytree(work.root, kept)
        check_taken_back(work, at)
        shutil.rmtree(work.root)
        kept.rename(work.root)
        check_done_again(work, at)
    return count


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.undo])
def test_an_undo_is_done_once(name: str, tmp_path: Path) -> None:
    """Run again it changes nothing, whatever came after the last change of the first one."""
    work = Work(CASES[name], tmp_path)
    assert run(*work.words).code == 0
    again = run(*work.words, "--json")
    assert (again.code, "already undone" in again.err) == (0, True), again.err
    assert_valid("undo", again.out)
    assert work.files() == work.original


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CASES)
def test_killed_at_some_calls(name: str, tmp_path: Path) -> None:
    assert check_points(name, tmp_path, 11) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_killed_at_every_call(name: str, tmp_path: Path) -> None:
    count = check_points(name, tmp_path, 1)
    assert count > 20
    print(f"{name}: {count} points")
