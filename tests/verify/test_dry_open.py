"""Opening for writing in memory, and the check of the trees in it: one recovery, and what two recoveries find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from engine.db.parts import EnvironmentParts
from engine.errors import DamageError
from engine.events import Listener
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import ERROR
from engine.verify.trees import preparation, verify_trees
from engine.verify.walk.dry_open import OpenAttempt, has_damage, open_dry
from tests.support import corpus
from tests.support.environments.copies import copy_of, state_of
from tests.support.environments.oracle import named

ENVIRONMENTS = sorted(
    path.parent for path in corpus.path().glob("je*/**/manifest.json") if (path.parent / "env").is_dir()
)
ALL = ("tree", "refs", "data", "space")


class Ends:
    """Collects the names of steps that ended."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.names.extend([name] if done == total else [])


def attempt(storage: DiskStorage | MemoryStorage, levels: Sequence[str] = ALL) -> OpenAttempt:
    files = list_log_files(storage)
    return open_dry(storage, files, preparation(files, levels))


def short_name(path: Path) -> str:
    return str(path.relative_to(corpus.path()))


@pytest.mark.parametrize("case", ENVIRONMENTS, ids=short_name)
def test_the_trees_are_those_of_a_reader(case: Path) -> None:
    storage = DiskStorage(case / "env")
    tried = attempt(storage)
    if tried.trees is not None:
        assert tried.trees == verify_trees(storage, list_log_files(storage), ALL)


def test_most_environments_are_recovered_once() -> None:
    tried = [attempt(DiskStorage(case / "env"), ("tree",)) for case in ENVIRONMENTS[::4]]
    assert sum(one.trees is not None for one in tried) > len(tried) * 2 / 3


@pytest.mark.parametrize(("name", "times"), [("txn-crash", 1), ("cleaned", 1), ("ha-group/node1", 2)])
def test_the_log_is_recovered_once(name: str, times: int) -> None:
    """But where a replicated transaction is open, which a reader undoes and a writer keeps."""
    storage, ends = DiskStorage(named(f"je-18.3.20/{name}").path / "env"), Ends()
    listener: Listener = ends
    report = verify_environment(storage, list_log_files(storage), LEVELS, listener=listener)
    assert report.count(ERROR) == 0
    assert ends.names.count("READ_DBMAP_INFO") == times


def test_nothing_is_changed(tmp_path: Path) -> None:
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    before = state_of(env)
    tried = attempt(DiskStorage(env))
    assert tried.trees is not None
    assert (tried.trees.recovered, tried.damage) == (True, None)
    assert state_of(env) == before


def changed(files: dict[str, bytes]) -> Iterator[dict[str, bytes]]:
    """The files, with one byte changed in the oldest."""
    name = min(files)
    for offset in range(200, len(files[name]), len(files[name]) // 5):
        data = bytearray(files[name])
        data[offset] ^= 0x10
        yield {**files, name: bytes(data)}


def test_an_opening_ends_with_damaged_trees() -> None:
    """The report names the damage; what a writer would say is left out."""
    env = named("je-18.3.20/plain-load").path / "env"
    files = {path.name: path.read_bytes() for path in env.glob("*.jdb")}
    seen = 0
    for one in changed(files):
        tried = attempt(MemoryStorage(one))
        if tried.trees is not None and has_damage(tried.trees):
            seen += 1
            assert tried.damage is None
            storage = MemoryStorage(one)
            assert tried.trees == verify_trees(storage, list_log_files(storage), ALL)
    assert seen > 1


def test_an_error_of_the_check_is_no_finding() -> None:
    """What ``recovered`` raises reaches the caller, although an opening that fails with such an error is a finding."""
    storage = DiskStorage(named("je-18.3.20/txn-crash").path / "env")
    files = list_log_files(storage)

    def fail(_: EnvironmentParts) -> None:
        raise DamageError("the caller's")

    with pytest.raises(DamageError, match="the caller's"):
        open_dry(storage, files, preparation(files, ("tree",)), recovered=fail)


def test_settings_that_cannot_be_read_hide_nothing(tmp_path: Path) -> None:
    """The trees are checked, and the report names what was not."""
    env = copy_of(named("je-18.3.20/txn-crash"), tmp_path / "env")
    (env / "je.properties").write_text("je.log.fileMax=many\n")
    storage = DiskStorage(env)
    report = verify_environment(storage, list_log_files(storage), LEVELS)
    assert report.count(ERROR) == 0
    assert report.records is not None
    assert [one for one in report.not_checked if one.startswith("opening for writing (je.properties: je.log.fileMax")]
