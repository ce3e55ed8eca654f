"""What several processes find in parts of a tree is what one finds in the whole, in the same order."""

from __future__ import annotations

import pickle
import random
from functools import partial
from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.log.files import list_log_files
from engine.native import is_native
from engine.storage.memory import MemoryStorage
from engine.verify import trees
from engine.verify.collector import Collector
from engine.verify.tree import Ids
from engine.verify.tree_rules import KEY_RANGE, TOO_FULL
from engine.verify.trees import LEVELS, verify_trees, walk_share
from engine.verify.walk import check as tree_check
from engine.verify.walk.check import TreeCheck, TreeReport
from engine.workers.parallel import map_small
from tests.support.environments.workload import SMALL

_RECORDS = 900


def environment(seed: int) -> dict[str, bytes]:
    """The files of an environment: a database of many nodes, one with duplicates; of even seeds not closed."""
    rng = random.Random(seed)
    storage = MemoryStorage()
    env = Environment(storage, SMALL)
    with env.create_database("many", DatabaseOptions(max_entries=8)) as db:
        for number in rng.sample(range(100_000), _RECORDS):
            db.put(b"%06d" % number, rng.randbytes(rng.randrange(60)))
    with env.create_database("items", DatabaseOptions(max_entries=8, duplicates=True)) as db:
        for _ in range(_RECORDS // 4):
            db.put(b"%02d" % rng.randrange(30), rng.randbytes(4))
    if seed % 2:
        env.close()
    else:
        env.sync()
    files = {file.path: storage.open(file.path) for file in list_log_files(storage).files}
    return {path: file.read(0, file.size()) for path, file in files.items()}


def verified(files: dict[str, bytes], jobs: int) -> TreeReport:
    storage = MemoryStorage(files)
    return verify_trees(storage, list_log_files(storage), LEVELS, jobs=jobs)


def in_shares(files: dict[str, bytes], count: int, jobs: int = 1) -> TreeReport:
    """As processes find it that have nothing but the files in common."""
    storage = MemoryStorage(files)
    listed = list_log_files(storage)
    walked = [walk_share(storage, listed, LEVELS, number, count) for number in reversed(range(count))]
    shares = [pickle.loads(pickle.dumps(share)) for share in walked if share is not None]
    return verify_trees(storage, listed, LEVELS, jobs=jobs, shares=shares)


@pytest.mark.parametrize("seed", range(8 if is_native() else 4))
def test_processes_find_what_one_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = []

    def noted(work: Any, items: Any, jobs: int) -> Any:
        if isinstance(work, partial):
            shared.append(work.args[0].name)
        return map_small(work, items, jobs)

    monkeypatch.setattr(tree_check, "map_small", noted)
    # So that the children of the root are shared, or theirs.
    monkeypatch.setattr(trees, "TreeCheck", partial(TreeCheck, shared_branches=(2, 100)[seed // 2 % 2]))
    files = environment(seed)
    whole = verified(files, 2)
    assert whole == verified(files, 1)
    assert {in_shares(files, count) == whole for count in (1, 3)} == {True}
    # What is given need not be walked over by other processes: no tree is shared again.
    assert {"many", "items"} <= set(shared)
    shared.clear()
    assert in_shares(files, 3, jobs=2) == whole
    assert shared == []
    assert whole.records > _RECORDS
    assert not [finding for finding in whole.findings if finding.severity == "error"]
    rng = random.Random(seed)
    found = 0
    for _ in range(3):
        damaged = dict(files)
        for path in rng.sample(sorted(files), 1):
            data = bytearray(files[path])
            for _ in range(rng.randrange(1, 12)):
                data[rng.randrange(64, len(data))] ^= 1 << rng.randrange(8)
            damaged[path] = bytes(data)
        one = verified(damaged, 1)
        assert verified(damaged, 2) == one
        assert in_shares(damaged, 3) == one
        found += len(one.findings)
    assert found > 0


def test_shares_of_another_log_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trees, "TreeCheck", partial(TreeCheck, shared_branches=2))
    storage = MemoryStorage(environment(1))
    before = list_log_files(storage)
    shares = [walk_share(storage, before, LEVELS, number, 2) for number in range(2)]
    with Environment(storage, SMALL) as env, env.open_database("many") as db:
        for number in range(0, 100_000, 100):
            db.put(b"%06d" % number, b"new")
    whole = verify_trees(storage, list_log_files(storage), LEVELS)
    known = [share for share in shares if share is not None]
    assert len(known) == 2
    assert verify_trees(storage, list_log_files(storage), LEVELS, shares=known) == whole
    # One of two is not enough, either.
    assert verify_trees(storage, list_log_files(storage), LEVELS, shares=known[:1]) == whole


def test_findings_of_parts_are_bounded_as_those_of_a_whole() -> None:
    storage = MemoryStorage({"00000000.jdb": b""})
    files = list_log_files(storage)
    rng = random.Random(1)
    adds = [(rng.choice((KEY_RANGE, TOO_FULL)), f"number {number}") for number in range(700)]
    whole = Collector(files)
    for rule, message in adds:
        whole.add(rule, message)
    joined = Collector(files)
    at = 0
    while at < len(adds):
        before = joined.swap()
        length = rng.randrange(1, 160)
        for rule, message in adds[at : at + length]:
            joined.add(rule, message)
        joined.join(joined.swap(before))
        at += length
    assert joined.all() == whole.all()
    assert len(whole.all()) == 202


def test_an_id_of_two_parts_is_seen() -> None:
    ids = Ids(100)
    assert ids.add(5)
    parts = []
    for numbers in ((6, 40_000), (7, 40_001), (40_000,)):
        ids.begin_part()
        assert [ids.add(number) for number in numbers] == [True] * len(numbers)
        # What was there before the part counts in it.
        assert not ids.add(5)
        parts.append(ids.end_part())
    assert not ids.join(parts)
    assert ids.add(6)
    ids = Ids(100)
    assert ids.join(parts[:2])
    assert [ids.add(number) for number in (6, 7, 40_000, 40_001, 8)] == [False, False, False, False, True]
