"""Backups again and again: what replaces what, what stays within reach, and what is said to be lost."""

from __future__ import annotations

import random

import pytest

from engine.backup.backup_run import take
from engine.backup.follower import Follower
from engine.backup.point_lookup import choose
from engine.backup.repository import Repository
from engine.backup.restore import finish, plan_restore, put_files
from engine.errors import StorageError
from engine.log.files import list_log_files
from engine.rescue.points import LSN, Point
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import WrappedStorage
from tests.backup.environments import problems_of, state_in, view_of
from tests.support.damage.stopping_storage import StoppingStorage
from tests.support.environments.models import content, entries_of, state_of
from tests.support.environments.workload import Workload, open_env


def test_a_round_replaces_the_one_before() -> None:
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    asked_for = None
    with open_env(storage) as env:
        workload = Workload(4, ddl=False)
        workload.start(env)
        asked_for = take(storage, repository, "here").manifest.id
        follower = Follower(storage, repository, "here")
        first = follower.round()
        assert first is not None
        assert first.replaced is None
        assert follower.round() is None
        last = first
        for _ in range(6):
            workload.run(env, 5)
            env.sync()
            found = follower.round()
            assert found is not None
            assert found.replaced == last.taken.manifest.id
            assert state_in(repository, found.taken.manifest) == workload.committed
            last = found
    # What somebody has asked for stays, and files that nobody needs any more are gone.
    assert repository.ids() == [asked_for, last.taken.manifest.id]
    used = {file.stored for made in repository.ids() for file in repository.read(made).files}
    assert {f"files/{name}" for name in repository.storage.names("files")} == used
    assert problems_of(repository) == []


def test_points_stay_within_reach_while_files_are_cleaned_away() -> None:
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage, cleaner_min_age=1, cleaner_min_utilization=90) as env:
        workload = Workload(5)
        workload.start(env)
        follower = Follower(storage, repository, "here")
        follower.round()
        started = len(workload.marks)
        for at in range(12):
            workload.run(env, 8)
            if at % 4 == 3:
                assert env.clean_log() > 0
                env.checkpoint(force=True)
            env.sync()
            follower.round()
        marks = workload.marks[started:]
    assert list_log_files(storage).files[0].number > 0
    assert 1 < len(repository.ids()) < 12
    everything = sorted(
        {one.lsn for made in repository.ids() for one in entries_of(view_of(repository, repository.read(made)))}
    )
    for lsn, state in random.Random(5).sample(marks[:-1], 8):
        point = Point(LSN, min(one for one in everything if one > lsn), "")
        place = MemoryStorage()
        put_files(repository, plan_restore(repository, choose(repository, None, point), place, delta=False), place)
        finish(place)
        assert state_of(place) == state


def test_files_that_go_between_two_backups_are_named() -> None:
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage) as env:
        workload = Workload(6, ddl=False)
        workload.start(env)
        first = take(storage, repository, "here")
        workload.run(env, 60)
        env.sync()
        files = list_log_files(storage).files
        last = first.manifest.files[-1].number
        assert files[-1].number > last + 3
        assert first.lost is None
        whole = take(storage, repository, "here")
        assert whole.lost is None
    repository.remove(whole.manifest.id)
    for file in files:
        if file.number in (last, last + 2):
            storage.remove(file.path)
    assert take(storage, repository, "here").lost == (last, last + 2)


class Growing(WrappedStorage):
    """An environment as it was, until ``grow``."""

    def __init__(self, before: dict[str, bytes], after: dict[str, bytes]) -> None:
        super().__init__(MemoryStorage(before))
        self._after = after

    def grow(self) -> None:
        self._base = MemoryStorage(self._after)


def logs(storage: MemoryStorage) -> dict[str, bytes]:
    return {file.path: content(storage, file.path) for file in list_log_files(storage).files}


def test_killed_at_every_change() -> None:
    """Begun again it goes on, and no backup is lost."""
    storage = MemoryStorage()
    with open_env(storage) as env:
        workload = Workload(7, ddl=False)
        workload.start(env)
        env.sync()
        before = logs(storage)
        workload.run(env, 5)
        env.sync()
        after = logs(storage)
    at = 0
    while True:
        place, source = MemoryStorage(), Growing(before, after)
        stopping = StoppingStorage(place, at, torn_bytes=at)
        follower = Follower(source, Repository(stopping), "here")
        try:
            follower.round()
            source.grow()
            follower.round()
            break
        except StorageError:
            assert stopping.failed
        source.grow()
        repository = Repository(place)
        known = repository.ids() if place.stat("backups") else []
        found = Follower(source, repository, "here").round()
        assert found is not None
        assert state_in(repository, found.taken.manifest) == workload.committed
        assert set(known) <= set(repository.ids())
        assert problems_of(repository) == []
        at += 1
    assert at > 20


@pytest.mark.parametrize("seed", range(3))
def test_a_rollback_keeps_the_round_before(seed: int) -> None:
    """Bytes that were copied have changed since: what was there before can still be restored."""
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage) as env:
        workload = Workload(seed, ddl=False)
        workload.start(env)
        workload.run(env, 20)
    follower = Follower(storage, repository, "here")
    first = follower.round()
    assert first is not None
    path = list_log_files(storage).files[-1].path
    file = storage.open_rw(path)
    file.truncate(file.size() - 1)
    second = follower.round()
    assert second is not None
    assert second.replaced is None
    assert repository.ids() == [first.taken.manifest.id, second.taken.manifest.id]
