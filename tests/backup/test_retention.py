"""What prune keeps and removes, and what it leaves wherever it is killed."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from engine.backup.backup_run import take
from engine.backup.manifest import Manifest
from engine.backup.repository import Repository
from engine.backup.retention import NEWEST, kept, parse_rule, plan_prune, prune
from engine.errors import DamageError, NotFoundError, StorageError, UsageError
from engine.storage.memory import MemoryStorage
from tests.backup.environments import problems_of, state_in
from tests.support.damage.stopping_storage import StoppingStorage
from tests.support.environments.models import content
from tests.support.environments.workload import Workload, open_env


def manifests(*times: datetime, source: str = "here") -> list[Manifest]:
    made = []
    for at in times:
        ms = int(at.timestamp() * 1000)
        stamp = at.strftime("%Y%m%dT%H%M%S") + ".000Z"
        made.append(
            Manifest(
                id=stamp, began_ms=ms, ended_ms=ms, source=source, node=None, group=None, end_lsn=0,
                last_commit_ms=None, databases=None, files=(),
            )
        )  # fmt: skip
    return made


def ids(rule: str, found: list[Manifest]) -> list[str]:
    return [one.manifest.id[:13] for one in kept(found, parse_rule(rule)) if one.reasons]


def test_what_a_rule_keeps() -> None:
    start = datetime(2026, 11, 1, 3, tzinfo=UTC)
    # Four a day, for thirty days.
    found = manifests(*(start + timedelta(hours=6 * n) for n in range(120)))
    assert ids("1d", found) == ["20261130T2100"]
    assert ids("3d", found) == ["20261128T2100", "20261129T2100", "20261130T2100"]
    assert ids("2l", found) == ["20261130T1500", "20261130T2100"]
    assert ids("3w", found) == ["20261122T2100", "20261129T2100", "20261130T2100"]
    assert ids("2d3w1l", found) == ["20261122T2100", "20261129T2100", "20261130T2100"]
    assert ids("12m", found) == ids("9y", found) == ["20261130T2100"]
    assert ids("2h", found) == ids("2l", found)
    assert ids("0d1l", found) == ["20261130T2100"]


def test_the_newest_of_every_environment_stays() -> None:
    day = timedelta(days=1)
    start = datetime(2026, 1, 1, tzinfo=UTC)
    found = manifests(start, start + day) + manifests(start + 2 * day, start + 3 * day, source="there")
    assert ids("1d", found) == ["20260102T0000", "20260104T0000"]
    reasons = {one.manifest.id[:8]: one.reasons for one in kept(found, parse_rule("1d"))}
    assert reasons["20260102"] == (NEWEST, "day 2026-01-02")
    assert reasons["20260101"] == ()


@pytest.mark.parametrize("rule", ["", "7", "d", "7d4", "7d7d", "0d", "-1d", "7x", "7 d", "9999999d", "٣d"])
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(UsageError):
        parse_rule(rule)


@pytest.fixture
def several() -> dict[str, bytes]:
    """A directory of five backups, with what a killed run has left."""
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage) as env:
        workload = Workload(2)
        workload.start(env)
        for _ in range(5):
            workload.run(env, 12)
            take(storage, repository, "here")
    names = [f"{path}/{name}" for path in ("files", "backups") for name in repository.storage.names(path)]
    left = {"files/00000000.part": b"x", f"files/00000003-{'0' * 64}.jdb": b"left", "backups/x.json.part": b"{"}
    return {**{name: content(repository.storage, name) for name in names}, **left}


def test_no_file_that_another_backup_needs(several: dict[str, bytes]) -> None:
    repository = Repository(MemoryStorage(several))
    all_ids = repository.ids()
    states = {made: state_in(repository, repository.read(made)) for made in all_ids}
    planned = plan_prune(repository, {"l": 2})
    assert repository.ids() == all_ids
    done = prune(repository, {"l": 2})
    assert done == planned
    assert done.removed == tuple(all_ids[:3])
    assert repository.ids() == all_ids[3:]
    assert problems_of(repository) == []
    assert {made: state_in(repository, repository.read(made)) for made in all_ids[3:]} == {
        made: states[made] for made in all_ids[3:]
    }
    used = {file.stored for made in repository.ids() for file in repository.read(made).files}
    assert {f"files/{name}" for name in repository.storage.names("files")} == used
    assert prune(repository, {"l": 2}).files == ()


def test_killed_at_every_change(several: dict[str, bytes]) -> None:
    whole = Repository(MemoryStorage(several))
    prune(whole, {"l": 1})
    wanted, at = whole.storage.names("files"), 0
    while True:
        place = MemoryStorage(several)
        stopping = StoppingStorage(place, at)
        try:
            prune(Repository(stopping), {"l": 1})
            break
        except StorageError:
            assert stopping.failed
        repository = Repository(place)
        assert problems_of(repository) == []
        prune(repository, {"l": 1})
        assert repository.storage.names("files") == wanted
        assert len(repository.ids()) == 1
        at += 1
    assert at > 10


def test_a_manifest_that_cannot_be_read(several: dict[str, bytes]) -> None:
    """Nobody knows what it needs: nothing is removed."""
    first = min(name for name in several if name.startswith("backups/2"))
    spoiled = MemoryStorage({**several, first: several[first][:-9]})
    before = (spoiled.names("files"), spoiled.names("backups"))
    with pytest.raises(DamageError, match="cannot be read"):
        prune(Repository(spoiled), {"l": 1})
    assert (spoiled.names("files"), spoiled.names("backups")) == before
    with pytest.raises(NotFoundError):
        prune(Repository(MemoryStorage()), {"l": 1})


def test_times_that_make_no_sense(several: dict[str, bytes]) -> None:
    """A manifest is hostile input: a date after the last one is damage."""
    chance = random.Random(1)
    name = chance.choice([name for name in several if name.endswith(".json")])
    text = several[name].decode().replace('"began_ms": 1', '"began_ms": 9999999991')
    with pytest.raises(DamageError, match="cannot be read"):
        prune(Repository(MemoryStorage({**several, name: text.encode()})), {"d": 1})
