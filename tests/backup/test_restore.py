"""Restoring: equal to the model at every point, killed anywhere, and never a byte of a backup that goes on."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from engine.backup.backup_run import take
from engine.backup.point_lookup import Chosen, choose
from engine.backup.repository import Repository
from engine.backup.restore import RestorePlan, finish, plan_restore, put_files
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError, StorageError, UsageError
from engine.format.entry.markers import RestoreRequired
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.log.files import list_log_files
from engine.log.marker import MARKER, write_marker
from engine.rescue.points import COMMITS, LSN, TIME, TXN, VLSN, Point
from engine.rescue.truncation import plan_truncation
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.backup.environments import problems_of, view_of
from tests.backup.test_backup_run import CASES, mutated
from tests.support.damage.stopping_storage import StoppingStorage
from tests.support.environments.models import Modelled, content, entries_of, findings_of, state_of
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments, named
from tests.support.environments.workload import State, Workload, open_env
from tests.support.logs.decoded import record_of


def restored(repository: Repository, point: Point | None = None, target: Storage | None = None) -> Storage:
    """What a restore leaves."""
    place = target if target is not None else MemoryStorage()
    chosen = choose(repository, None, point)
    put_files(repository, plan_restore(repository, chosen, place, delta=False), place)
    finish(place)
    return place


def logs(storage: Storage) -> dict[str, bytes]:
    return {file.path: content(storage, file.path) for file in list_log_files(storage).with_marker()}


def goes_on(storage: Storage, state: State, seed: int) -> State:
    """Work in an environment that was restored; the state after it."""
    with open_env(storage) as env:
        workload = Workload(seed, ddl=False)
        workload.committed = state
        workload.run(env, 10)
    return workload.committed


@pytest.mark.parametrize("environment", environments("18.3.20", "3.3.98", "25.3.17", cases=CASES))
def test_real_environments(environment: Fixture) -> None:
    source = DiskStorage(environment.path / "env")
    repository = Repository(MemoryStorage())
    manifest = take(source, repository, "here").manifest
    made = restored(repository)
    assert state_of(made) == state_of(source)
    assert findings_of(made) == []
    # All bytes of the backup, and whoever writes next does not touch one of them.
    before = logs(made)
    originals = {file.path: content(repository.storage, file.stored) for file in manifest.files}
    assert all(before[path].startswith(data) for path, data in originals.items())
    assert MARKER not in before


@pytest.mark.parametrize(
    "name", ["je-18.3.20/torn-base", "je-18.3.20/subdirs", "je-3.3.98/cleaned", "je-7.5.11/txn-crash"]
)
def test_no_file_of_the_backup_goes_on(name: str) -> None:
    repository = Repository(MemoryStorage())
    take(DiskStorage(named(name).path / "env"), repository, "here")
    made = restored(repository)
    before = logs(made)
    with open_env(made, create=False) as env:
        env.create_database("after").close()
        env.checkpoint(force=True)
    after = logs(made)
    assert {path: data for path, data in after.items() if path in before and data != before[path]} == {}
    assert len(after) > len(before)
    assert findings_of(made) == []


def modelled(seed: int) -> tuple[Modelled, Repository, list[int]]:
    """An environment with a model, its backup, and the LSNs of its entries after the databases were made."""
    made = Modelled(seed)
    repository = Repository(MemoryStorage())
    take(made.storage(), repository, "here")
    return made, repository, [one.lsn for one in entries_of(made.storage()) if one.lsn > made.marks[3][0]]


def test_random_points() -> None:
    seed = 31
    made, repository, entries = modelled(seed)
    for lsn in random.Random(seed).sample(entries, 5):
        storage = restored(repository, Point(LSN, lsn, ""))
        assert state_of(storage) == made.at(lsn)
        assert findings_of(storage) == []
        state = goes_on(storage, made.at(lsn), seed)
        assert state_of(storage) == state
        assert findings_of(storage) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 60))
def test_a_thousand_points(seed: int) -> None:
    made, repository, entries = modelled(seed)
    for lsn in random.Random(seed).sample(entries, 50):
        storage = restored(repository, Point(LSN, lsn, ""))
        assert state_of(storage) == made.at(lsn)
        assert findings_of(storage) == []


def test_points_of_every_kind() -> None:
    path = named("je-18.3.20/ha-rollback").path / "node1" / "env"
    source = DiskStorage(path)
    repository = Repository(MemoryStorage())
    take(source, repository, "here")
    commits = [one for one in entries_of(source) if one.type_number == COMMIT and not one.invisible]
    middle = commits[len(commits) // 2]
    ended = record_of(middle, TxnEnd)
    for point in (
        Point(LSN, middle.lsn, "an LSN"), Point(VLSN, 100, "a VLSN"), Point(TIME, ended.time, "a time"),
        Point(TXN, ended.id, "a transaction"), Point(COMMITS, 5, "commits"),
    ):  # fmt: skip
        cut = plan_truncation(source, point).cut
        chosen = choose(repository, None, point)
        assert chosen.cut is not None
        assert chosen.cut.cut == cut
        storage = restored(repository, point)
        assert state_of(storage) == state_of(_cut(source, cut.end_lsn))
        assert findings_of(storage) == []


def _cut(source: Storage, end_lsn: int) -> Storage:
    from engine.rescue.points import as_of

    return as_of(source, end_lsn)


def test_the_oldest_backup_that_goes_as_far() -> None:
    """What was cleaned away since stands in it; later ones are passed over for what they lack."""
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage, cleaner_min_age=1, cleaner_min_utilization=90) as env:
        workload = Workload(3)
        workload.start(env)
        workload.run(env, 60)
        lsn, state = workload.marks[len(workload.marks) // 2]
        first = take(storage, repository, "here").manifest
        workload.run(env, 60)
        while env.clean_log():
            pass
        env.checkpoint(force=True)
        second = take(storage, repository, "here").manifest
        last = workload.marks[-1][1]
    assert {file.number for file in first.files} - {file.number for file in second.files}
    entries = [one.lsn for one in entries_of(view_of(repository, first)) if one.lsn > lsn]
    assert state_of(restored(repository, Point(LSN, entries[0], ""))) == state
    assert choose(repository, None, Point(LSN, entries[0], "")).manifest.id == first.id
    assert choose(repository, None, Point(LSN, second.end_lsn, "")).manifest.id == second.id
    assert state_of(restored(repository, Point(LSN, second.end_lsn, ""))) == last
    with pytest.raises((RefusedError, NotFoundError)):
        choose(repository, second.id, Point(LSN, entries[0], "then"))
    with pytest.raises(NotFoundError, match="no backup goes as far"):
        choose(repository, None, Point(LSN, second.end_lsn + 1000, "later"))
    with pytest.raises(NotFoundError, match="no backup goes as far"):
        choose(repository, first.id, Point(LSN, second.end_lsn, "later"))
    with pytest.raises(NotFoundError, match="no backup goes as far"):
        choose(repository, None, Point(TIME, 1 << 50, "later"))


def test_files_of_a_former_life_are_not_mixed_in() -> None:
    """Restored to a point, an environment goes on with numbers that its old files have."""
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage) as env:
        workload = Workload(21, ddl=False)
        workload.start(env)
        workload.run(env, 60)
        lsn, state = workload.marks[len(workload.marks) // 3]
    old = take(storage, repository, "here").manifest
    entries = [one.lsn for one in entries_of(storage) if one.lsn > lsn]
    second = restored(repository, Point(LSN, entries[0], ""))
    with open_env(second, cleaner_min_age=1, cleaner_min_utilization=95) as env:
        workload = Workload(22, ddl=False)
        workload.committed = state
        workload.run(env, 40)
        while env.clean_log():
            pass
        env.checkpoint(force=True)
    new = take(second, repository, "here").manifest
    numbers = {file.number for file in new.files}
    gone = [file for file in old.files if file.number not in numbers]
    assert [file for file in gone if file.number > lsn >> 32]
    chosen = choose(repository, None, Point(LSN, new.end_lsn, ""))
    assert chosen.manifest.id == new.id
    taken_over = {file.stored for file in chosen.manifest.files} - {file.stored for file in new.files}
    assert not taken_over & {file.stored for file in old.files if file.number > lsn >> 32}
    assert state_of(restored(repository, Point(LSN, new.end_lsn, ""))) == workload.committed


def test_several_environments_in_one_directory() -> None:
    repository = Repository(MemoryStorage())
    first = take(DiskStorage(named("je-18.3.20/txn-crash").path / "env"), repository, "one").manifest
    take(DiskStorage(named("je-18.3.20/dups").path / "env"), repository, "two")
    with pytest.raises(UsageError, match="several environments"):
        choose(repository, None, None)
    assert choose(repository, first.id, None).manifest == first
    with pytest.raises(NotFoundError, match="no directory of backups"):
        choose(Repository(MemoryStorage()), None, None)


def test_restored_appended_restored_again() -> None:
    """A backup under load, restored and written to: restored again it is the same to the byte."""
    storage, repository = MemoryStorage(), Repository(MemoryStorage())
    with open_env(storage) as env:
        workload = Workload(8)
        workload.start(env)
        workload.run(env, 40)
        first = take(storage, repository, "here").manifest
        workload.run(env, 20)
    made = restored(repository)
    before, state = logs(made), state_of(made)
    goes_on(made, state, 9)
    # The restored one is backed up beside the original: both timelines stay what they are.
    take(made, repository, "restored")
    again = MemoryStorage()
    chosen = choose(repository, first.id, None)
    put_files(repository, plan_restore(repository, chosen, again, delta=False), again)
    finish(again)
    assert logs(again) == before
    assert state_of(again) == state
    assert problems_of(repository) == []
    # And as a delta over what went on.
    plan = plan_restore(repository, chosen, made, delta=True)
    assert sum(one.is_there for one in plan.files) == len(plan.files)
    assert plan.removed
    put_files(repository, plan, made)
    finish(made)
    assert logs(made) == before


def killed_everywhere(
    prepare: Callable[[], MemoryStorage], repository: Repository, chosen: Chosen, *, delta: bool
) -> int:
    """Restore with a stop at each change in turn: afterwards it is refused or right, and run again right."""
    whole = prepare()
    put_files(repository, plan_restore(repository, chosen, whole, delta=delta), whole)
    finish(whole)
    wanted, at = logs(whole), 0
    while True:
        place = prepare()
        stopping = StoppingStorage(place, at, torn_bytes=at % 90)
        try:
            put_files(repository, plan_restore(repository, chosen, stopping, delta=delta), stopping)
            finish(stopping)
        except StorageError:
            assert stopping.failed
        else:
            return at
        if MARKER in logs_if_any(place):
            with pytest.raises(JetoolError):
                open_env(place, create=False)
        plan: RestorePlan = plan_restore(repository, chosen, place, delta=delta)
        put_files(repository, plan, place)
        finish(place)
        assert logs(place) == wanted
        assert not [name for name in place.names() if name.endswith(".tmp")]
        at += 1


def logs_if_any(storage: Storage) -> dict[str, bytes]:
    try:
        return logs(storage)
    except NotFoundError:
        return {}


@pytest.mark.parametrize("point", [None, Point(COMMITS, 2, "")])
def test_killed_at_every_change(point: Point | None) -> None:
    repository = Repository(MemoryStorage())
    take(DiskStorage(named("je-18.3.20/torn-base").path / "env"), repository, "here")
    chosen = choose(repository, None, point)
    assert killed_everywhere(MemoryStorage, repository, chosen, delta=False) > 20


def test_a_delta_killed_at_every_change() -> None:
    source = DiskStorage(named("je-18.3.20/torn-base").path / "env")
    repository = Repository(MemoryStorage())
    take(source, repository, "here")
    spoiled = {file.path: content(source, file.path) for file in list_log_files(source).files}
    paths = sorted(spoiled)
    spoiled[paths[1]] = spoiled[paths[1]][:-3]
    del spoiled[paths[2]]
    spoiled["00000077.jdb"] = b"not of this log"
    chosen = choose(repository, None, None)
    plan = plan_restore(repository, chosen, MemoryStorage(spoiled), delta=True)
    assert [one.is_there for one in plan.files] == [
        path in spoiled and path not in (paths[1], paths[-1]) for path in paths
    ]
    assert plan.removed == ("00000077.jdb",)
    assert killed_everywhere(lambda: MemoryStorage(spoiled), repository, chosen, delta=True) > 5


def test_a_place_that_is_not_empty() -> None:
    repository = Repository(MemoryStorage())
    take(DiskStorage(named("je-18.3.20/torn-base").path / "env"), repository, "here")
    chosen = choose(repository, None, None)
    for name in ("x", "00000000.jdb", "data001/00000000.jdb"):
        with pytest.raises(RefusedError, match="not empty"):
            plan_restore(repository, chosen, MemoryStorage({name: b"precious"}), delta=False)
    foreign = MemoryStorage({"00000000.jdb": b"precious"})
    write_marker(foreign, RestoreRequired("LOG_CHECKSUM", 1, "#of JE\n"))
    with pytest.raises(RefusedError, match="not empty"):
        plan_restore(repository, chosen, foreign, delta=False)
    assert plan_restore(repository, chosen, MemoryStorage({"je.lck": b""}), delta=False).removed == ()


def test_a_stored_file_that_was_changed() -> None:
    repository = Repository(MemoryStorage())
    manifest = take(DiskStorage(named("je-18.3.20/torn-base").path / "env"), repository, "here").manifest
    for at, file in enumerate(manifest.files):
        data = bytearray(content(repository.storage, file.stored))
        data[60] ^= 1
        files = {one.stored: content(repository.storage, one.stored) for one in manifest.files}
        spoiled = Repository(MemoryStorage({**files, file.stored: bytes(data)}))
        chosen, place = Chosen(manifest, None, ()), MemoryStorage()
        with pytest.raises(DamageError):
            put_files(spoiled, plan_restore(spoiled, chosen, place, delta=False), place)
        # Nobody opens what is there.
        if at < len(manifest.files) - 1:
            assert MARKER in logs(place)


def test_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    repository = Repository(MemoryStorage())
    take(DiskStorage(named("je-18.3.20/torn-base").path / "env"), repository, "here")
    place = MemoryStorage()
    monkeypatch.setattr(MemoryStorage, "free_bytes", lambda _: 1000)
    with pytest.raises(StorageError, match="no room"):
        plan_restore(repository, choose(repository, None, None), place, delta=False)
    assert place.names() == []


def test_hostile_directories_of_backups() -> None:
    assert 0 < restored_of_mutated(range(40)) < 40


@pytest.mark.slow
def test_five_thousand_mutations() -> None:
    assert 0 < restored_of_mutated(range(10_000, 15_000)) < 5_000


def restored_of_mutated(seeds: range) -> int:
    """Change a directory of backups and restore from it: it is right, or nothing can be opened; how often it was."""
    made = Modelled(77, 40)
    repository = Repository(MemoryStorage())
    manifest = take(made.storage(), repository, "here").manifest
    storage = repository.storage
    names = [f"backups/{manifest.id}.json", *(file.stored for file in manifest.files)]
    whole = {name: content(storage, name) for name in names}
    states = [state for _, state in made.marks] + [{}]
    right = 0
    for seed in seeds:
        chance = random.Random(seed)
        path = chance.choice(names)
        spoiled = Repository(MemoryStorage({**whole, path: mutated(whole[path], chance)}))
        place = MemoryStorage()
        try:
            restored(spoiled, chance.choice([None, Point(LSN, chance.choice(made.marks)[0], "")]), place)
        except JetoolError:
            assert list(place.names()) == [] or MARKER in place.names(), seed
            continue
        right += 1
        assert state_of(place) in states, seed
    return right
