"""The large drills of the rescue kit: hundreds of deleted files and points, thousands of damaged environments.

Smaller ones of the same kinds, with other seeds, stand in the modules beside this one; these are slow.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from engine.errors import JetoolError
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import TXN_ENDS
from engine.format.lsn import file_of, offset_of
from engine.rescue.history import view_at
from engine.rescue.missing_files import find_missing
from engine.rescue.points import LSN, Point
from engine.storage.disk import DiskStorage
from tests.rescue.test_missing_files import named_in, unreadable
from tests.rescue.test_salvage import Found, write
from tests.rescue.test_truncation import damage
from tests.support.environments.models import Modelled, entries_of, state_of
from tests.support.environments.workload import State
from tests.support.harness import run

Versions = set[tuple[str, object, bytes]]


def deletions(seed: int, rounds: int, tmp_path: Path) -> tuple[int, int]:
    """Delete a middle file again and again: what ``missing`` names is what cannot be read. Walked, and keys lost."""
    made = Modelled(seed, 260)
    plain: State = {name: records for name, records in made.marks[-1][1].items() if name != "dups"}
    source = random.Random(seed)
    names = sorted(made.files)
    walked = lost = 0
    for at in range(rounds):
        gone = source.choice(names[1:-1])
        env = write({name: data for name, data in made.files.items() if name != gone}, tmp_path / f"e{seed}-{at}")
        report = find_missing(DiskStorage(env), str(env))
        if report.walked:
            expected = unreadable(DiskStorage(env), plain)
            assert {one for one in named_in(report, plain) if one[0] in plain} == expected, gone
            walked += 1
            lost += len(expected)
    return walked, lost


def points(seed: int, rounds: int) -> int:
    """As of random points: the state of then. How many sets of databases there were."""
    made = Modelled(seed)
    storage = made.storage()
    entries = [entry.lsn for entry in entries_of(storage) if entry.lsn > made.marks[3][0]]
    names = set()
    for lsn in random.Random(seed).choices(entries, k=rounds):
        state = state_of(view_at(storage, Point(LSN, lsn, ""))[0])
        assert state == made.at(lsn), lsn
        names.add(frozenset(state))
    return len(names)


class Intact:
    """Which records of an environment are intact in a damaged copy: the LN of each, and its Commit.

    Arguments:
        files: of the whole environment.
        env: it, on disk.
    """

    def __init__(self, files: dict[str, bytes], env: Path) -> None:
        self._files = files
        self._sizes: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._newest: dict[tuple[int, bytes], tuple[int, int | None]] = {}
        for entry in entries_of(DiskStorage(env)):
            self._sizes[entry.lsn] = entry.total_bytes
            record: object = entry.record()
            if entry.type_number in TXN_ENDS and isinstance(record, TxnEnd):
                self._ends[record.id] = entry.lsn
        found = Found(env)
        self.records = {(found.databases[one.database].db.name, one.key, one.data): one for one in found.given}

    def of(self, damaged: dict[str, bytes]) -> Versions:
        """The records whose bytes are where they were."""
        return {
            key
            for key, one in self.records.items()
            if self._same(damaged, one.lsn) and (one.txn is None or self._same(damaged, self._ends[one.txn]))
        }

    def _same(self, damaged: dict[str, bytes], lsn: int) -> bool:
        name, at, size = f"{file_of(lsn):08x}.jdb", offset_of(lsn), self._sizes[lsn]
        return damaged[name][at : at + size] == self._files[name][at : at + size]


def mutations(seed: int, rounds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Damage an environment again and again; salvage, missing and space end well, and salvage does not lie."""
    source = random.Random(seed)
    made = Modelled(seed)
    ever: Versions = {
        (name, *(key if isinstance(key, tuple) else (key, data)))
        for _, state in made.marks for name, records in state.items() for key, data in records.items()
    }  # fmt: skip
    with monkeypatch.context() as patched:
        patched.setattr("engine.rescue.salvage.sources.recover_whole", lambda *_: ("not asked", 0))
        intact = Intact(made.files, write(made.files, tmp_path / f"whole{seed}"))
    counts: Counter[str] = Counter()
    for number in range(rounds):
        files = {name: bytearray(data) for name, data in made.files.items()}
        damage(source, files)
        damaged = {name: bytes(data) for name, data in files.items()}
        env = write(damaged, tmp_path / f"m{seed}-{number}")
        if number % 3:
            command = "missing" if number % 3 == 1 else "space"
            done = run(command, env, *(("--recalc",) if command == "space" else ()), "-q", "--output", tmp_path / "out")
            assert done.code in (0, 1, 5, 7), (command, number, done.err)
            counts[f"{command} {done.code}"] += 1
            continue
        counts["salvage"] += 1
        try:
            found = Found(env)
        except JetoolError as error:
            counts[type(error).__name__] += 1
            continue
        given = {(found.databases[one.database].db.name, one.key, one.data) for one in found.given}
        # What is given was there once, whatever the damage.
        counts["never there"] += len(given - ever)
        counts["all intact"] += intact.of(damaged) <= given
    return counts


@pytest.mark.slow
def test_500_deleted_files(tmp_path: Path) -> None:
    found = [deletions(seed, 50, tmp_path) for seed in range(200, 210)]
    assert sum(walked for walked, _ in found) > 200
    assert sum(lost for _, lost in found) > 500


@pytest.mark.slow
def test_500_points() -> None:
    # In some of them databases were made and removed meanwhile.
    assert sum(points(seed, 50) for seed in range(300, 310)) > 12


@pytest.mark.slow
def test_5000_damaged_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: Counter[str] = Counter()
    for seed in range(400, 410):
        counts += mutations(seed, 500, tmp_path, monkeypatch)
    assert counts["never there"] == 0
    assert counts["all intact"] > 0.99 * counts["salvage"], counts


def test_some_of_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same drills, so that they do not rust."""
    assert deletions(211, 6, tmp_path)[0] > 0
    assert points(311, 6) > 0
    counts = mutations(411, 24, tmp_path, monkeypatch)
    assert counts["never there"] == 0
    assert counts["all intact"] >= counts["salvage"] - 1
