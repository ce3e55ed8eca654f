"""Cutting a log: what is left is the state of then, whole, and the plan says what goes."""

from __future__ import annotations

import random

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError
from engine.format.entry_types import COMMIT
from engine.log.files import list_log_files
from engine.rescue.points import COMMITS, LSN, VLSN, Point
from engine.rescue.truncation import plan_truncation, truncate
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.support.environments.models import Modelled, content, entries_of, findings_of, state_of
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments, named
from tests.support.environments.workload import Workload, open_env
from tests.support.groups.streams import check_index, open_replicated


def in_memory(name: str) -> MemoryStorage:
    """A real environment that may be changed."""
    path = named(name).path / "env"
    files = {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*.jdb")}
    return MemoryStorage(files)


def cut_at(storage: Storage, point: Point) -> None:
    truncate(storage, plan_truncation(storage, point))


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [11, 12])
def test_random_points(seed: int) -> None:
    made = Modelled(seed)
    entries = [entry.lsn for entry in entries_of(made.storage()) if entry.lsn > made.marks[3][0]]
    for lsn in random.Random(seed).sample(entries, 12):
        storage = made.storage()
        cut_at(storage, Point(LSN, lsn, ""))
        assert state_of(storage) == made.at(lsn)
        assert findings_of(storage) == []
        # Life goes on from there.
        with open_env(storage) as env:
            workload = Workload(seed + 1, ddl=False)
            workload.committed = made.at(lsn)
            workload.run(env, 15)
        assert state_of(storage) == workload.committed
        assert findings_of(storage) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 30))
def test_three_hundred_points(seed: int) -> None:
    made = Modelled(seed)
    entries = [entry.lsn for entry in entries_of(made.storage()) if entry.lsn > made.marks[3][0]]
    for lsn in random.Random(seed).sample(entries, 30):
        storage = made.storage()
        cut_at(storage, Point(LSN, lsn, ""))
        assert state_of(storage) == made.at(lsn)
        assert findings_of(storage) == []


CASES = (
    "ha-group", "ha-rollback", "rollback-four-periods", "txn-crash", "ckpt-crash-mid", "subdirs", "ttl", "dups",
    "multi-ckpt", "xa-prepared",
)  # fmt: skip


@pytest.mark.parametrize("environment", environments("18.3.20", cases=CASES))
def test_real_environments(environment: Fixture) -> None:
    name = environment.name
    entries = entries_of(in_memory(name))
    for lsn in (entries[len(entries) * 2 // 3].lsn, entries[-3].lsn):
        storage = in_memory(name)
        cut_at(storage, Point(LSN, lsn, ""))
        assert findings_of(storage) == []


@pytest.mark.parametrize("vlsn", [30, 120, 200, 268])
def test_a_member_of_a_group_goes_on_with_its_index(vlsn: int) -> None:
    storage = in_memory("je-18.3.20/ha-group/node1")
    plan = plan_truncation(storage, Point(VLSN, vlsn, ""))
    assert plan.content.last_vlsn == 278
    assert plan.content.first_vlsn == plan.last_vlsn + 1 <= vlsn + 1
    assert plan.rejoins == "yes"
    truncate(storage, plan)
    with open_replicated(storage) as env:
        check_index(env)


def test_the_plan_counts_what_goes() -> None:
    made = Modelled(13)
    storage = made.storage()
    before = entries_of(storage)
    plan = plan_truncation(storage, Point(COMMITS, 5, "commits:-5"))
    truncate(storage, plan)
    after = entries_of(storage)
    assert plan.content.entries == len(before) - len(after)
    assert plan.content.commits == 5
    assert plan.content.size_bytes == sum(map(len, made.files.values())) - size_of(storage)
    gone = before[len(after) :]
    assert plan.content.first_commit is not None
    assert plan.content.first_commit.lsn == next(entry.lsn for entry in gone if entry.type_number == COMMIT)
    assert plan.content.durable == 0
    assert plan.rejoins is None


def size_of(storage: Storage) -> int:
    return sum(len(content(storage, file.path)) for file in list_log_files(storage).files)


def test_what_a_majority_has_is_named() -> None:
    plan = plan_truncation(in_memory("je-18.3.20/ha-group/node1"), Point(COMMITS, 3, ""))
    assert (plan.content.commits, plan.content.durable, plan.content.dtvlsn) == (3, 2, 268)


def test_the_token_is_that_of_the_files() -> None:
    made = Modelled(14)
    point = Point(COMMITS, 2, "")
    token = plan_truncation(made.storage(), point).token
    assert plan_truncation(made.storage(), point).token == token
    storage = made.storage()
    with open_env(storage) as env:
        env.create_database("more").close()
    assert plan_truncation(storage, Point(COMMITS, 3, "")).token != token


def test_files_deleted_since_are_missed_before_anything_is_cut() -> None:
    made = Modelled(15, 220)
    names = sorted(made.files)
    refused = 0
    for name in names[1:-1]:
        storage = made.storage()
        storage.remove(name)
        before = storage.names()
        try:
            plan = plan_truncation(storage, Point(COMMITS, 1, ""))
        except RefusedError:
            refused += 1
            assert storage.names() == before
        else:
            # Nobody needs that file: what is left is the state of then.
            truncate(storage, plan)
            assert state_of(storage) == made.at(plan.cut.end_lsn)
    assert 0 < refused < len(names) - 2


def test_damage_never_breaks_the_plan() -> None:
    source = random.Random(14)
    made = Modelled(16)
    codes: set[int] = set()
    for _ in range(120):
        files = {name: bytearray(data) for name, data in made.files.items()}
        damage(source, files)
        storage = MemoryStorage({name: bytes(data) for name, data in files.items()})
        point = source.choice([Point(COMMITS, source.randrange(1, 40), ""), Point(LSN, 0x2_0000_0000, "")])
        try:
            cut_at(storage, point)
        except JetoolError as error:
            codes.add(error.exit_code)
            continue
        codes.add(0)
        # What was cut can be opened: the plan had recovered it. Single records may be damaged, as before.
        Environment(storage, EnvironmentConfig(read_only=True)).close()
    assert codes <= {0, 3, 4, 5, 7}
    assert {0, 3} <= codes


def damage(source: random.Random, files: dict[str, bytearray]) -> None:
    """A flipped bit, a cut, a zeroed, swapped or repeated block, in one file or between two."""
    name = source.choice(sorted(files))
    data = files[name]
    at, size = source.randrange(len(data)), source.choice((1, 64, 512, 4096))
    kind = source.randrange(5)
    if kind == 0:
        data[at] ^= 1 << source.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data[at : at + size] = bytes(len(data[at : at + size]))
    elif kind == 3:
        other = files[source.choice(sorted(files))]
        to = source.randrange(len(other) or 1)
        data[at : at + size], other[to : to + size] = other[to : to + size], data[at : at + size]
    else:
        data[at:at] = data[max(0, at - size) : at]
