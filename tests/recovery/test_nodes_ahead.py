"""Recovery that reads nodes ahead is the recovery that reads them when they are needed."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import engine.log.access as log_access
import engine.storage.bytes_ahead as bytes_ahead
from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import DamageError
from engine.format.lsn import NULL_LSN, file_of, format_lsn, offset_of
from engine.log.files import list_log_files, log_file_name
from engine.native import is_native
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.storage.overlay import OverlayStorage
from engine.tree.tree import bins
from engine.txn.txn import Durability
from engine.verify.trees import verify_trees
from tests.support.environments.workload import State, contents
from tests.support.native_core import native_core

RECORDS = 6000
CACHE_BYTES = 100_000
CONFIG = EnvironmentConfig(
    create=True, checkpoint_bytes=0, file_max_bytes=200_000, run_cleaner=False, cache_bytes=CACHE_BYTES
)


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log in which the nodes of one checkpoint meet the records after it, all over the key space."""
    home, rng = tmp_path_factory.mktemp("crashed"), random.Random(3)
    env = Environment(home, CONFIG)
    db = env.create_database("d", DatabaseOptions(max_entries=16))
    for first in (0, 1):
        with env.begin(durability=Durability.NO_SYNC) as txn:
            for number in rng.sample(range(first, 2 * RECORDS, 2), RECORDS):
                db.put(b"%06d" % number, rng.randbytes(rng.choice((0, 10, 100))), txn)
        if not first:
            env.checkpoint(force=True)
    env.sync()
    env.engine.crash()
    return home


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the pure build reads ahead."""
    if not is_native():
        for module in (log_access, bytes_ahead):
            monkeypatch.setattr(module, "new_read_ahead", native_core().ReadAhead)


def opened(storage: Storage, *, read_only: bool) -> Environment:
    return Environment(storage, EnvironmentConfig(cache_bytes=CACHE_BYTES, checkpoint_bytes=0, read_only=read_only))


def expected_of(crashed: Path) -> State:
    """With all nodes in memory, each node is read once, and none after a batch has begun."""
    with Environment(crashed, EnvironmentConfig(read_only=True)) as env:
        return contents(env)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("kind", ["readers", "writers", "dry run"])
def test_the_same_records(crashed: Path, tmp_path: Path, kind: str) -> None:
    home = Path(shutil.copytree(crashed, tmp_path / "env"))
    storage = OverlayStorage(DiskStorage(home)) if kind == "dry run" else DiskStorage(home)
    with opened(storage, read_only=kind == "readers") as env:
        assert env.engine.access.ahead_reads > 200
        found = contents(env)
    assert found == expected_of(crashed)
    if kind == "writers":
        # What was written is whole.
        assert expected_of(home) == found
        assert not verify_trees(DiskStorage(home), list_log_files(DiskStorage(home)), ["data"]).findings


@pytest.mark.usefixtures("threads")
def test_nothing_is_read_ahead_from_what_is_not_a_disk(crashed: Path) -> None:
    storage = MemoryStorage({path.name: path.read_bytes() for path in crashed.glob("*.jdb")})
    with opened(storage, read_only=True) as env:
        assert env.engine.access.ahead_reads == 0
        assert contents(env) == expected_of(crashed)


@pytest.mark.usefixtures("threads")
def test_nothing_is_read_ahead_without_threads(crashed: Path) -> None:
    """Others hold all threads that a process may have."""
    others = [native_core().ReadAhead() for _ in range(40)]
    assert not all(other.begin_raw([], [], 1) for other in others)
    with opened(DiskStorage(crashed), read_only=True) as env:
        assert env.engine.access.ahead_reads == 0
        assert contents(env) == expected_of(crashed)


@pytest.mark.usefixtures("threads")
def test_damage_is_found_where_the_node_is_needed(crashed: Path, tmp_path: Path) -> None:
    """With threads and without them recovery stops at the same damaged node."""
    with Environment(crashed, EnvironmentConfig(read_only=True)) as env, env.open_database("d") as db:
        nodes = [node.full_lsn for node in bins(env.engine.ctx, db.state) if node.full_lsn != NULL_LSN]
    assert len(nodes) > 200
    for number, lsn in enumerate((nodes[len(nodes) // 2], nodes[-1])):
        home = Path(shutil.copytree(crashed, tmp_path / str(number)))
        path = home / log_file_name(file_of(lsn))
        data = bytearray(path.read_bytes())
        data[offset_of(lsn) + 40] ^= 1
        path.write_bytes(data)
        memory = MemoryStorage({path.name: path.read_bytes() for path in home.glob("*.jdb")})
        for storage in (DiskStorage(home), memory):
            with pytest.raises(DamageError) as raised:
                opened(storage, read_only=True)
            assert raised.value.lsn == format_lsn(lsn)
