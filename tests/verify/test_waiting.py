"""Looking at what slots lead to in the order of the log finds what looking at each at once does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.database_state import DatabaseState
from engine.verify import trees
from engine.verify.records import RecordCheck
from engine.verify.report import ERROR
from engine.verify.trees import LEVELS, verify_trees
from engine.verify.walk import check as tree_check
from engine.verify.walk.check import TreeCheck, TreeReport
from engine.workers.parallel import map_small
from engine.workers.spill_file import SpillFile
from tests.support.environments.workload import SMALL
from tests.verify.test_parts import environment


def verified(files: dict[str, bytes], jobs: int = 1) -> TreeReport:
    storage = MemoryStorage(files)
    return verify_trees(storage, list_log_files(storage), LEVELS, jobs=jobs)


class WatchedRecords:
    """A check of records that keeps the names of the databases whose slots wait.

    It stands before the real one, which is compiled in a native build.
    """

    def __init__(self, waiting: list[str | None], *words: Any, **named: Any) -> None:
        self._waiting = waiting
        self._inner = RecordCheck(*words, **named)

    def may_wait(self, db: DatabaseState) -> bool:
        found = self._inner.may_wait(db)
        self._waiting.extend([db.name] * found)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class WrongRecords(WatchedRecords):
    """Nothing that has waited is right."""

    def are_right(self, *_: object) -> bool:
        return False


def answers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, bool]]:
    """Filled with the databases whose slots have waited, and whether all of them were right."""
    heard: list[tuple[str | None, bool]] = []
    waiting: list[str | None] = []

    def mapped(work: Callable[[Any], Any], items: Sequence[Any], jobs: int) -> Iterator[Any]:
        if isinstance(work, partial):
            # The parts of a tree.
            yield from map_small(work, items, jobs)
            return
        right = True
        try:
            with closing(map_small(work, items, jobs)) as found:
                for answer in found:
                    right = right and answer
                    yield answer
        finally:
            heard.append((waiting[-1], right))

    monkeypatch.setattr(tree_check, "RecordCheck", partial(WatchedRecords, waiting))
    monkeypatch.setattr(tree_check, "map_small", mapped)
    return heard


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_wrong_is_reported_as_if_none_had_waited(seed: int, jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    files = environment(seed)
    heard = answers(monkeypatch)
    whole = verified(files, jobs)
    assert heard == [("many", True)]
    damages = [files]
    rng = random.Random(seed)
    for _ in range(3):
        path = rng.choice(sorted(files))
        data = bytearray(files[path])
        for _ in range(rng.randrange(1, 12)):
            data[rng.randrange(64, len(data))] ^= 1 << rng.randrange(8)
        damages.append({**files, path: bytes(data)})
    later = [verified(damaged, jobs) for damaged in damages]
    # Where the log was not closed recovery meets the damage first.
    assert seed % 2 == 0 or ("many", False) in heard
    assert later[0] == whole
    monkeypatch.setattr(tree_check, "RecordCheck", partial(WrongRecords, []))
    assert later == [verified(damaged, jobs) for damaged in damages]
    assert any(finding.severity == ERROR for report in later for finding in report.findings)


def test_few_records_far_from_each_other_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = MemoryStorage()
    with Environment(storage, SMALL) as env, env.create_database("far") as db:
        for number in range(6):
            db.put(b"key %d" % number, b"value %d" % number * 8)
            db.put(b"large", bytes(50_000))
        db.delete(b"large")
    files = {file.path: storage.open(file.path) for file in list_log_files(storage).files}
    contents = {path: file.read(0, file.size()) for path, file in files.items()}
    heard = answers(monkeypatch)
    assert verified(contents).findings == ()
    for number in range(6):
        path, data = next((path, data) for path, data in contents.items() if b"value %d" % number in data)
        found = verified({**contents, path: data.replace(b"value %d" % number, b"valve %d" % number, 1)}).findings
        assert [finding.code for finding in found if finding.severity == ERROR] == ["JE-DATA-001"]
    assert heard == [("far", True)] + [("far", False)] * 6


def test_without_a_place_for_what_waits_each_is_looked_at_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    files = environment(1)
    whole = verified(files)
    heard = answers(monkeypatch)
    monkeypatch.setattr(SpillFile, "share", lambda _: False)
    monkeypatch.setattr(trees, "TreeCheck", partial(TreeCheck, told_nodes=4))
    assert verified(files, 2) == whole
    assert heard == []
