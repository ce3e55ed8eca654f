"""Logs of versions 18 to 26 are continued in their version, with the times, tombstones and sizes that those keep."""

from __future__ import annotations

from typing import Any

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import UnsupportedError, UsageError
from engine.format.entry.node import SLOT_EMBEDDED, NodeRecord
from engine.format.entry_types import type_name
from engine.format.versions import LN_KEY_FIRST
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.verify.report import NOTE
from engine.verify.trees import verify_trees
from tests.db.later import TimedWorkload, later_log, timed_contents
from tests.support.environments.workload import TINY_CACHE, Workload, contents, open_env
from tests.support.logs.cuts import Cuts, check
from tests.support.logs.entries import stored_entries

LATER = range(18, 27)


def worked_on(version: int, workload: Workload, steps: int) -> MemoryStorage:
    """What a workload leaves in a log of a version."""
    storage = MemoryStorage(later_log(version))
    with open_env(storage, create=False, clock=getattr(workload, "clock", None)) as env:
        workload.start(env)
        workload.run(env, steps)
    return storage


def test_new_logs_are_of_version_17() -> None:
    storage = MemoryStorage()
    open_env(storage).close()
    assert {entry.version for entry in stored_entries(storage)} == {17}


@pytest.mark.parametrize("version", LATER)
def test_a_new_environment_of_a_later_version(version: int) -> None:
    """Every entry, the databases of JE itself, and what they say of the version that they were made in."""
    storage, workload = MemoryStorage(), Workload(version, keys=30)
    with open_env(storage, log_version=version) as env:
        workload.start(env)
        workload.run(env, 40)
    assert {entry.version for entry in stored_entries(storage)} == {version}
    found = verify_trees(storage, list_log_files(storage), ("tree", "refs", "data", "space"))
    assert [finding for finding in found.findings if finding.severity != NOTE] == []
    with open_env(storage, create=False) as env:
        assert contents(env) == workload.committed
        assert env.engine.catalog.initial_log_version == version
        made = [env.engine.catalog.by_name(name) for name in env.database_names(internal=True)]
        assert {state.impl.created_at_version for state in made if state is not None} == {version}


@pytest.mark.parametrize("version", [16, 27])
def test_a_version_that_cannot_be_made(version: int) -> None:
    with pytest.raises(UsageError, match=f"expected 17 to 26, found {version}"):
        EnvironmentConfig(create=True, log_version=version)


@pytest.mark.parametrize("version", LATER)
def test_what_is_written_is_of_the_version_of_the_log(version: int) -> None:
    workload = Workload(version, keys=30)
    storage = worked_on(version, workload, 40)
    first = next(entry.lsn for entry in stored_entries(storage) if entry.version == version)
    written = [entry for entry in stored_entries(storage) if entry.lsn >= first]
    assert {entry.version for entry in written} == {version}
    assert {
        "INS_LN_TX",
        "UPD_LN_TX",
        "DEL_LN_TX",
        "Commit",
        "Abort",
        "BIN",
        "NewBINDelta",
        "IN",
        "MapLN",
        "CkptEnd",
    } <= {type_name(entry.type_number) for entry in written}
    found = verify_trees(storage, list_log_files(storage), ("tree", "refs", "data", "space"))
    assert [finding for finding in found.findings if finding.severity != NOTE] == []
    with open_env(storage, read_only=True, create=False) as env:
        assert contents(env) == workload.committed


@pytest.mark.parametrize("version", [21, 26])
def test_nodes_say_how_large_what_they_refer_to_is(version: int) -> None:
    """Since v21 JE reads a child by the size in its slot, and an LN in any version."""
    storage = worked_on(version, TimedWorkload(3), 60)
    sizes = {entry.lsn: entry.total_bytes for entry in stored_entries(storage)}
    checked = 0
    for entry in stored_entries(storage):
        node: Any = entry.record()
        if entry.version != version or not isinstance(node, NodeRecord):
            continue
        live = [slot for slot in node.slots if not slot.state & (SLOT_EMBEDDED | 0x09)]
        before = (sizes.get(node.prev_full_lsn, 0), sizes.get(node.prev_delta_lsn, 0))
        assert (node.prev_full_size, node.prev_delta_size) == before
        if node.flags & 0x04:
            assert [slot.log_size for slot in live] == [sizes[slot.lsn] for slot in live]
            checked += len(live)
    assert checked > 100


@pytest.mark.parametrize("version", [17, 18, 19, 26])
def test_times_are_those_of_the_last_write(version: int) -> None:
    """After every operation, aborts, evictions, checkpoints and compressions among them; duplicates have no times."""
    workload = TimedWorkload(version)
    storage = MemoryStorage(later_log(version))
    with open_env(storage, create=False, clock=workload.clock) as env:
        workload.start(env)
        for _ in range(60):
            workload.step(env)
            assert timed_contents(env) == expected(workload.committed, version)
    with open_env(storage, create=False) as env:
        assert timed_contents(env) == expected(workload.committed, version)


def expected(state: dict[str, Any], version: int) -> dict[str, Any]:
    """What a workload expects of a log of a version: until v18 nothing says when a record was written."""
    if version >= LN_KEY_FIRST:
        return state
    return {name: {key: (data, 0) for key, (data, _) in records.items()} for name, records in state.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("version", "seed", "settings"), [(19, 1, {}), (22, 2, {}), (26, 3, {}), (26, 4, {"cache_bytes": TINY_CACHE})]
)
def test_every_cut_shows_what_was_committed_and_when(version: int, seed: int, settings: dict[str, Any]) -> None:
    """T-27, T-29, T-30, T-46, T-49, T-50 in later versions, with times; also where no node stays in memory."""
    workload = TimedWorkload(seed)
    cuts = Cuts(worked_on(version, workload, 35), workload)
    assert check(cuts, 4, timed_contents, **settings) > 50


@pytest.mark.slow
@pytest.mark.parametrize("version", LATER)
def test_every_cut_of_longer_logs(version: int) -> None:
    workload = TimedWorkload(version) if version >= LN_KEY_FIRST else Workload(version, keys=30)
    cuts = Cuts(worked_on(version, workload, 90), workload)
    assert check(cuts, 1, timed_contents if version >= LN_KEY_FIRST else contents) > 300


@pytest.mark.parametrize("version", [18, 19, 26])
def test_deferred_writes_keep_their_times(version: int) -> None:
    """What is in memory only is logged with the time of the write, not of the sync."""
    workload = TimedWorkload(1)
    storage = MemoryStorage(later_log(version))
    with open_env(storage, create=False, clock=workload.clock) as env:
        write_deferred(env, workload)
        later: dict[str, dict[Any, Any]] = {
            "deferred": {key: (data, at if version >= LN_KEY_FIRST else 0) for key, data, at in deferred_records()}
        }
        assert timed_contents(env) == later
    with open_env(storage, read_only=True, create=False) as env:
        assert timed_contents(env) == later


def deferred_records() -> list[tuple[bytes, bytes, int]]:
    return [(b"%03d" % i, b"x" * (i % 40), 1_700_000_000_000 + i) for i in range(100)]


def write_deferred(env: Environment, workload: TimedWorkload) -> None:
    with env.create_database("deferred", DatabaseOptions(deferred_write=True)) as db:
        for key, data, now_ms in deferred_records():
            workload.now_ms = now_ms
            db.put(key, data)
        workload.now_ms += 1_000_000
    env.checkpoint(force=True)


@pytest.mark.parametrize("version", [17, 18, 26])
def test_transactions_are_prepared_where_je_knows_them(version: int) -> None:
    storage = MemoryStorage(later_log(version))
    with open_env(storage, create=False) as env, env.create_database("d") as db:
        txn = env.begin()
        db.put(b"k", b"v", txn)
        if version == 17:
            txn.prepare(1, b"global", b"branch")
        else:
            with pytest.raises(UnsupportedError, match="cannot be prepared") as refused:
                txn.prepare(1, b"global", b"branch")
            assert refused.value.found == str(version)
        txn.commit()
        assert db.get(b"k") == b"v"
