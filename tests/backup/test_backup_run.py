"""Taking backups: of real environments, beside a writer, and killed at every step."""

from __future__ import annotations

import os
import random
import shutil
from itertools import pairwise
from pathlib import Path

import pytest

from engine.backup.backup_run import plan, take
from engine.backup.repository import Repository
from engine.errors import JetoolError, NotFoundError, RefusedError, StorageError
from engine.format.lsn import format_lsn
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from tests.backup.environments import WatchedStorage, problems_of, state_in
from tests.support.damage.stopping_storage import StoppingStorage
from tests.support.environments.models import state_of
from tests.support.environments.oracle import Environment as Fixture
from tests.support.environments.oracle import environments, named
from tests.support.environments.workload import Workload, open_env

CASES = (
    "ha-group", "ha-rollback", "rollback-four-periods", "txn-crash", "ckpt-crash-mid", "subdirs", "ttl", "dups",
    "multi-ckpt", "xa-prepared", "cleaned", "torn-zero-tail", "torn-cut-header", "upgraded", "vlsn-range",
)  # fmt: skip


@pytest.mark.parametrize("environment", environments("18.3.20", "7.5.11", "25.3.17", cases=CASES))
def test_real_environments(environment: Fixture) -> None:
    source = DiskStorage(environment.path / "env")
    repository = Repository(MemoryStorage())
    taken = take(source, repository, "here")
    assert (taken.problem, taken.gone, taken.commits_after, taken.attempts) == (None, (), 0, 1)
    assert state_in(repository, taken.manifest) == state_of(source)
    assert taken.manifest.databases == tuple(sorted(state_of(source)))
    assert problems_of(repository) == []


def test_what_a_file_holds() -> None:
    repository = Repository(MemoryStorage())
    made = take(DiskStorage(named("je-18.3.20/vlsn-range").path / "env"), repository, "here").manifest
    assert made.group is not None
    assert made.group.name == "JOURNAL_GROUP"
    assert made.vlsns == (2614, 3613)
    # The stream goes through the files without a gap.
    ends = [(file.first_vlsn, file.last_vlsn) for file in made.files if file.first_vlsn > 0]
    assert all(after[0] == before[1] + 1 for before, after in pairwise(ends))
    assert [format_lsn(file.first_lsn) for file in made.files] == [f"0x{file.number:x}/0x0" for file in made.files]
    assert all(file.first_lsn < file.last_lsn for file in made.files)


def test_a_marker_and_nothing(tmp_path: Path) -> None:
    repository = Repository(DiskStorage(str(tmp_path / "backups")))
    with pytest.raises(RefusedError, match="restore marker"):
        take(DiskStorage(named("je-18.3.20/restore-required").path / "env"), repository, "here")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFoundError):
        take(DiskStorage(str(tmp_path / "empty")), repository, "here")
    assert not (tmp_path / "backups" / "backups").exists() or repository.ids() == []


def test_damage_is_copied_and_named() -> None:
    repository = Repository(MemoryStorage())
    taken = take(DiskStorage(named("je-18.3.20/corrupt-older-file").path / "env"), repository, "here")
    assert taken.problem is not None
    assert taken.manifest.databases is None
    assert any("as the original was" in problem for problem in problems_of(repository))


def test_commits_after_damage_are_not_in_it() -> None:
    repository = Repository(MemoryStorage())
    taken = take(DiskStorage(named("je-18.3.20/corrupt-middle").path / "env"), repository, "here")
    assert (taken.commits_after, taken.problem) == (3, None)
    assert taken.given_up_bytes > 0
    assert problems_of(repository) == []


def environment(tmp_path: Path, seed: int = 5, steps: int = 60) -> Path:
    """An environment of several files on disk, old enough that its files count as unchanged."""
    env = tmp_path / "env"
    env.mkdir()
    with open_env(DiskStorage(str(env))) as opened:
        workload = Workload(seed)
        workload.start(opened)
        workload.run(opened, steps)
    for path in env.glob("*.jdb"):
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return env


def test_only_what_is_new_is_read(tmp_path: Path) -> None:
    env = environment(tmp_path)
    repository = Repository(DiskStorage(str(tmp_path / "backups")))
    first = take(DiskStorage(str(env)), repository, "here")
    assert first.copied_files == len(first.manifest.files) > 3
    assert plan(DiskStorage(str(env)), repository, "here").to_copy == 0
    again = take(DiskStorage(str(env)), repository, "here")
    assert (again.copied_files, again.manifest.files) == (0, first.manifest.files)
    with open_env(DiskStorage(str(env))) as opened:
        Workload(6).start(opened) if "plain" not in opened.database_names() else opened.checkpoint(force=True)
    planned = plan(DiskStorage(str(env)), repository, "here")
    later = take(DiskStorage(str(env)), repository, "here")
    assert 0 < later.copied_files == planned.to_copy < len(later.manifest.files)
    assert later.copied_bytes == planned.to_copy_bytes
    # Another environment trusts nothing that was noted of this one.
    assert take(DiskStorage(str(env)), repository, "there").copied_files == len(later.manifest.files)
    assert problems_of(repository) == []
    stored = sum(path.stat().st_size for path in (tmp_path / "backups" / "files").iterdir())
    assert stored == first.stored_bytes + later.stored_bytes


def test_a_file_that_goes_before_it_is_copied(tmp_path: Path) -> None:
    """The list is made again: what was in use of it is in later files."""
    env = environment(tmp_path, steps=120)
    names = sorted(path.name for path in env.glob("*.jdb"))
    opened = open_env(DiskStorage(str(env)), cleaner_min_age=1, cleaner_min_utilization=90)
    cleaned: list[str] = []

    def clean(path: str) -> None:
        # The first file has been copied; others are cleaned away.
        if path == names[1] and not cleaned:
            cleaned.append(path)
            while opened.clean_log():
                pass
            opened.checkpoint(force=True)

    source = WatchedStorage(DiskStorage(str(env)), clean)
    repository = Repository(DiskStorage(str(tmp_path / "backups")))
    with opened:
        before = state_of(DiskStorage(str(env)))
        taken = take(source, repository, "here")
    assert taken.attempts > 1
    assert taken.gone
    assert not any(file.path in taken.gone for file in taken.manifest.files)
    assert state_in(repository, taken.manifest) == before
    assert problems_of(repository) == []


def test_beside_a_writer() -> None:
    """Whatever is written between two reads, a backup holds one of the states that were committed."""
    for seed in range(4):
        storage, repository = MemoryStorage(), Repository(MemoryStorage())
        with open_env(storage, cleaner_min_age=1) as opened:
            workload = Workload(seed)
            workload.start(opened)
            workload.run(opened, 30)
            chance = random.Random(seed)

            def write(path: str, workload: Workload = workload, chance: random.Random = chance) -> None:
                if chance.random() < 0.3:
                    workload.step(opened)

            for _ in range(5):
                marks = len(workload.marks)
                taken = take(WatchedStorage(storage, write), repository, "here")
                allowed = [state for _, state in workload.marks[marks - 1 :]]
                assert state_in(repository, taken.manifest) in allowed
        assert problems_of(repository) == []


def test_a_rollback_that_marks_what_was_copied(tmp_path: Path) -> None:
    """A file that changes after it was copied is copied again."""
    env = environment(tmp_path)
    names = sorted(path.name for path in env.glob("*.jdb"))
    done: list[str] = []

    def mark(path: str) -> None:
        if path == names[-2] and not done:
            done.append(path)
            target = env / names[0]
            data = bytearray(target.read_bytes())
            data[-1] ^= 1
            target.write_bytes(bytes(data))

    repository = Repository(DiskStorage(str(tmp_path / "backups")))
    taken = take(WatchedStorage(DiskStorage(str(env)), mark), repository, "here")
    assert done
    assert taken.attempts == 2
    copied = (tmp_path / "backups" / taken.manifest.files[0].stored).read_bytes()
    assert copied == (env / names[0]).read_bytes()


def test_an_environment_that_never_holds_still(tmp_path: Path) -> None:
    env = environment(tmp_path)
    times = iter(range(1_600_000_000, 1_700_000_000))
    source = WatchedStorage(DiskStorage(str(env)), lambda _: os.utime(env / "00000000.jdb", (1, next(times))))
    repository = Repository(DiskStorage(str(tmp_path / "backups")))
    with pytest.raises(RefusedError, match="does not hold still"):
        take(source, repository, "here", most_attempts=3)
    assert repository.ids() == []


def test_killed_at_every_change(tmp_path: Path) -> None:
    """Every backup that is listed is whole, and the next run adds one."""
    env = environment(tmp_path, steps=25)
    before = Repository(DiskStorage(str(tmp_path / "first")))
    take(DiskStorage(str(env)), before, "here")
    with open_env(DiskStorage(str(env))) as opened:
        opened.checkpoint(force=True)
    state = state_of(DiskStorage(str(env)))
    at = 0
    while True:
        place = tmp_path / f"backups-{at}"
        shutil.copytree(tmp_path / "first", place)
        stopping = StoppingStorage(DiskStorage(str(place)), at, torn_bytes=at * 7)
        try:
            take(DiskStorage(str(env)), Repository(stopping), "here")
            break
        except StorageError:
            assert stopping.failed
        repository = Repository(DiskStorage(str(place)))
        assert len(repository.ids()) in (1, 2)
        assert problems_of(repository) == []
        taken = take(DiskStorage(str(env)), repository, "here")
        assert state_in(repository, taken.manifest) == state
        shutil.rmtree(place)
        at += 1
    assert at > 6


def test_hostile_bytes_in_the_directory_of_backups(tmp_path: Path) -> None:
    """Whatever is changed in it: verify finds it or it does not matter, and nothing but an error of ours is raised."""
    # A byte of a manifest may be one of a time or a name, which no sum covers.
    assert unnoticed_of_mutated(tmp_path, range(40)) < 10


@pytest.mark.slow
def test_five_thousand_mutations(tmp_path: Path) -> None:
    assert unnoticed_of_mutated(tmp_path, range(1000, 6000)) < 1250


def unnoticed_of_mutated(tmp_path: Path, seeds: range) -> int:
    """How many changes of a directory of backups verify does not tell; nothing but an error of ours is raised."""
    env = environment(tmp_path, steps=25)
    repository = Repository(DiskStorage(str(tmp_path / "backups")))
    take(DiskStorage(str(env)), repository, "here")
    take(DiskStorage(str(named("je-18.3.20/ha-rollback").path / "node1" / "env")), repository, "there")
    whole = {
        path.relative_to(tmp_path / "backups").as_posix(): path.read_bytes()
        for path in (tmp_path / "backups").rglob("*")
        if path.is_file()
    }
    unnoticed = 0
    for seed in seeds:
        chance = random.Random(seed)
        files = dict(whole)
        path = chance.choice([name for name in files if files[name]])
        files[path] = mutated(files[path], chance)
        spoiled = Repository(MemoryStorage(files))
        try:
            unnoticed += not problems_of(spoiled)
        except JetoolError as error:
            pytest.fail(f"seed {seed}: {path}: {error}")
    return unnoticed


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A bit flipped, a cut, zeros, two blocks swapped, or one that is there twice."""
    made, at = bytearray(data), chance.randrange(len(data))
    size = chance.randint(1, max(1, len(data) // 8))
    kind = chance.randrange(5)
    if kind == 0:
        made[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del made[at:]
    elif kind == 2:
        made[at : at + size] = bytes(len(made[at : at + size]))
    elif kind == 3:
        other = chance.randrange(len(data))
        first, second = bytes(made[at : at + size]), bytes(made[other : other + size])
        length = min(len(first), len(second))
        made[at : at + length], made[other : other + length] = second[:length], first[:length]
    else:
        made[at:at] = made[at : at + size]
    return bytes(made)
