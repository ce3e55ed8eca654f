"""Recovery with a cache that cannot hold what it changes (R-EVT-1, R-EVT-5, R-REC-58)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import StorageError
from engine.evictor.evictor import Evictor
from engine.format.entry_types import CKPT_START
from engine.format.header import Provisional
from engine.log.access import LogAccess
from engine.log.files import list_log_files
from engine.log.tail import find_end
from engine.recovery.manager import Recovery
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from engine.tree.context import TreeContext
from engine.tree.spill import Spill
from engine.verify.trees import verify_trees
from tests.recovery.test_progress import Steps
from tests.support.environments.busy import BusyWorkload, open_busy
from tests.support.environments.workload import TINY_CACHE, State, Workload, contents, open_env
from tests.support.logs.entries import stored_entries


def crashed(steps: int = 40, *, seed: int = 11, records: int = 300) -> tuple[MemoryStorage, State]:
    """An environment with open transactions, deltas, splits and names after its last checkpoint; what is committed."""
    storage = MemoryStorage()
    env = open_busy(storage)
    workload = BusyWorkload(seed)
    workload.start(env)
    workload.run(env, steps)
    fill(env, "big", records)
    env.sync()
    env.engine.crash()
    model = dict(workload.committed)
    model["big"] = {b"%05d" % number: b"v" * 30 for number in range(records) if number % 7}
    return storage, model


def fill(env: Environment, name: str, records: int) -> None:
    """Records in a database of their own, every seventh of them deleted by a transaction of its own."""
    db = env.create_database(name)
    with env.begin() as txn:
        for number in range(records):
            db.put(b"%05d" % (number * 37 % records), b"v" * 30, txn)
    for number in range(0, records, 7):
        db.delete(b"%05d" % number)
    unfinished = env.begin()
    for number in range(0, records, 3):
        db.put(b"%05d" % number, b"never", unfinished)


@pytest.fixture(scope="module")
def case() -> tuple[MemoryStorage, State]:
    return crashed()


def copy_of(storage: MemoryStorage) -> MemoryStorage:
    return MemoryStorage(storage.contents())


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("cache_bytes", [TINY_CACHE, 20_000, 80_000])
def test_the_same_records_as_with_a_large_cache(
    case: tuple[MemoryStorage, State], cache_bytes: int, read_only: bool
) -> None:
    storage = copy_of(case[0])
    before = storage.contents()
    config = EnvironmentConfig(read_only=read_only, cache_bytes=cache_bytes, checkpoint_bytes=0)
    with Environment(storage, config) as env:
        assert contents(env) == case[1]
    if read_only:
        assert storage.contents() == before
    with open_env(storage, read_only=True, create=False) as env:
        assert contents(env) == case[1]


def test_nodes_stay_within_the_cache(case: tuple[MemoryStorage, State]) -> None:
    """All passes, reading and writing afterwards: at most a node of slack, and the roots."""
    budget = 30_000
    most = 0

    class Watching:
        budget_bytes = budget

        def keep_room(self) -> None:
            nonlocal most
            evictor.keep_room()
            most = max(most, sum(node.memory_bytes() for node in ctx.nodes.values()))

    storage = case[0]
    ctx = TreeContext(LogAccess(storage, list_log_files(storage).files))
    ctx.spill = Spill()
    evictor = Evictor(ctx, budget)
    steps = Steps()
    recovery = Recovery(ctx, find_end(storage, list_log_files(storage)), {}, steps, keeper=Watching())
    recovery.run()
    assert ctx.spill.nodes > 50
    # Most records have waited in runs.
    done, total = steps.heard["REDO_SORTED_RECORDS"][-1]
    assert done == total > 300
    assert 0 < most <= budget * 1.3
    ctx.spill.close()
    ctx.access.close()


def test_a_node_leaves_once_even_where_the_cache_holds_most_of_the_tree() -> None:
    storage = MemoryStorage()
    env = Environment(storage, EnvironmentConfig(create=True, checkpoint_bytes=1 << 60))
    db = env.create_database("random")
    with env.begin() as txn:
        for number in range(12_000):
            db.put(b"%05d" % (number * 7919 % 12_000), b"v" * 20, txn)
    env.engine.crash()
    with Environment(storage, EnvironmentConfig(read_only=True, cache_bytes=1_600_000)) as read:
        spill = read.engine.ctx.spill
        assert spill is not None
        with read.open_database("random") as found:
            assert 0 < spill.nodes < 12_000 // 64
            assert found.count() == 12_000


def test_nothing_is_logged_before_recovery_has_succeeded_and_then_provisionally(
    case: tuple[MemoryStorage, State],
) -> None:
    """A crash before the closing checkpoint leaves nothing that a later recovery, ours or JE's, would look at."""
    storage = copy_of(case[0])
    end = find_end(storage, list_log_files(storage)).end_lsn
    Environment(storage, EnvironmentConfig(cache_bytes=TINY_CACHE)).engine.crash()
    flags = []
    for entry in stored_entries(storage):
        if entry.lsn >= end:
            if entry.type_number == CKPT_START:
                break
            flags.append((entry.type_name in ("IN", "BIN", "NewBINDelta"), entry.provisional))
    nodes = [flag for is_node, flag in flags if is_node]
    assert len(nodes) > 20
    assert set(nodes) == {Provisional.YES}


def test_spilled_nodes_that_are_logged_are_told(case: tuple[MemoryStorage, State]) -> None:
    steps = Steps()
    config = EnvironmentConfig(cache_bytes=TINY_CACHE, checkpoint_bytes=0)
    with Environment(copy_of(case[0]), config, steps):
        heard = steps.heard["LOG_SPILLED_NODES"]
    total = heard[0][1]
    assert heard[0] == (0, total)
    assert [done for done, _ in heard] == list(range(0, total + 1, 16))
    assert total > 32
    ample = Steps()
    with Environment(copy_of(case[0]), EnvironmentConfig(checkpoint_bytes=0), ample):
        assert "LOG_SPILLED_NODES" not in ample.heard


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_crash_at_operations_of_such_a_recovery(case: tuple[MemoryStorage, State], every: int) -> None:
    """Recovered again, with the tiny cache and in memory; and recovered after a second crash."""
    points = 0

    def check(kind: str, path: str) -> None:
        nonlocal points
        if storage.operations % every:
            return
        for mode in CrashMode:
            what = f"before {kind} of {path}, operation {storage.operations + 1}, {mode.value}"
            image = storage.image(mode, storage.operations)
            with open_env(image, read_only=True, create=False, cache_bytes=TINY_CACHE) as env:
                assert contents(env) == case[1], what
            open_env(image, create=False, cache_bytes=TINY_CACHE).engine.crash()
            with open_env(image, create=False) as env:
                assert contents(env) == case[1], f"{what}, recovered twice"
            points += 1

    storage = CrashStorage(case[0].contents(), listener=check)
    env = open_env(storage, create=False, cache_bytes=TINY_CACHE, buffer_bytes=1024)
    assert contents(env) == case[1]
    env.engine.crash()
    assert points > 60 // every


@pytest.mark.parametrize("levels", [("tree",), ("tree", "refs", "data", "space")])
def test_verify_finds_nothing_in_nodes_that_are_out(
    case: tuple[MemoryStorage, State], levels: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = case[0]
    whole = verify_trees(storage, list_log_files(storage), levels)
    monkeypatch.setattr("engine.verify.trees.Evictor", partial(Evictor, budget_bytes=TINY_CACHE))
    small = verify_trees(storage, list_log_files(storage), levels)
    assert small == whole
    assert small.recovered


def test_without_room_for_scratch_recovery_fails_and_changes_nothing(
    case: tuple[MemoryStorage, State], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    storage = copy_of(case[0])
    before = storage.contents()
    monkeypatch.setattr("os.pwrite", refuse)
    with pytest.raises(StorageError, match="scratch"):
        Environment(storage, EnvironmentConfig(cache_bytes=TINY_CACHE))
    after = storage.contents()
    after.pop("je.lck", None)
    before.pop("je.lck", None)
    assert after == before


@pytest.mark.parametrize("make", [lambda seed: Workload(seed, keys=30), BusyWorkload])
def test_the_workload_goes_on_with_the_tiny_cache(make: Callable[[int], Workload]) -> None:
    """Crashes and recoveries one after the other, each with a handful of nodes in memory."""
    storage = MemoryStorage()
    workload = make(3)
    env = open_env(storage, cache_bytes=TINY_CACHE)
    workload.start(env)
    for _ in range(6):
        workload.run(env, 8)
        if isinstance(workload, BusyWorkload):
            workload.finish()
        env.engine.crash()
        env = open_env(storage, cache_bytes=TINY_CACHE)
        assert contents(env) == workload.committed
    env.close()
