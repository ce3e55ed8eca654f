"""Replicated environments that the engine writes: group, VLSNs, ids, recovery (je-log-format.md 11, R-LOG-8)."""

from __future__ import annotations

import threading

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.errors import JetoolError, RefusedError, UsageError
from engine.format.entry.txn_end import TxnEnd
from engine.rep.group import (
    ELECTABLE,
    described,
    form_group,
    lead_alone,
    may_form,
    put_records,
    read_membership,
    release_of,
)
from engine.storage.crash import CrashMode, CrashStorage
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import Workload, contents
from tests.support.groups.streams import check_index, open_alone, open_replicated, visible_stream
from tests.support.logs.decoded import record_of


def test_a_new_group() -> None:
    storage = MemoryStorage()
    with open_replicated(storage) as env:
        form_group(env, "ORDERS", "n1", "db1", 5001)
        made = read_membership(env.engine)
        assert made is not None
        (node,) = made.electable
        assert (node.name, node.id, node.host, node.port, node.change_version) == ("n1", 1, "db1", 5001, 1)
        assert (made.group.name, made.group.last_node_id, made.group.min_je_version) == ("ORDERS", 1, "7.5.0")
        group_db = env.engine.catalog.by_name("_jeRepGroupDB")
        assert group_db is not None
        assert group_db.id == -257
        assert env.create_database("users").state.id == -258
    stream = visible_stream(storage)
    assert [e.type_name for e in stream.values()] == [
        "NameLN_TX", "Commit", "INS_LN_TX", "Commit", "UPD_LN_TX", "INS_LN_TX", "Commit", "UPD_LN_TX", "Commit",
        "UPD_LN_TX", "Commit", "NameLN_TX", "Commit",
    ]  # fmt: skip
    ends = [e.record() for e in stream.values() if e.type_name == "Commit"]
    assert [(e.id, e.master_id, e.dtvlsn) for e in ends if isinstance(e, TxnEnd)] == [
        (-11, 1, 2), (-12, 1, 4), (-13, 1, 7), (-14, 1, 9), (-15, 1, 11), (-16, 1, 13),
    ]  # fmt: skip


def test_ids_go_on_after_recovery() -> None:
    storage = MemoryStorage()
    with open_alone(storage) as env:
        env.create_database("one")
    with open_alone(storage) as env:
        state = env.create_database("two").state
        assert state.id == -259
    env = open_alone(storage)
    assert env.begin().id == -18
    assert visible_stream(storage).keys() == set(range(1, 16))
    with pytest.raises(RefusedError, match="open transactions: -18"):
        env.close()


def test_a_group_is_formed_once_and_under_a_name_that_it_can_have() -> None:
    with open_alone(MemoryStorage()) as env, pytest.raises(RefusedError, match="a group already"):
        form_group(env, "OTHER", "n", "h", 1)
    for name in ("", "x" * 256, "$$GROUP_KEY$$"):
        with open_replicated(MemoryStorage()) as env, pytest.raises(UsageError):
            form_group(env, "OTHER", name, "d", 1)


def test_a_node_writes_only_as_master() -> None:
    storage = MemoryStorage()
    with open_alone(storage) as env:
        env.create_database("users").close()
        members = read_membership(env.engine)
        assert members is not None
        put_records(
            env, None, described("node2", "b", 5002, ELECTABLE, release_of(17), 0)._replace(id=2, quorum_ack=True)
        )
        with pytest.raises(UsageError, match="transactional"):
            env.create_database("scratch", DatabaseOptions(temporary=True))
    with open_replicated(storage) as env:
        users = env.open_database("users")
        with pytest.raises(RefusedError, match="replication group"):
            users.put(b"a", b"b")
        with pytest.raises(RefusedError, match="2 electable members"):
            lead_alone(env.engine)
        assert env.checkpoint(force=True) is not None


def test_a_transaction_that_a_crash_left_open_is_aborted_in_the_stream() -> None:
    storage = MemoryStorage()
    env = open_alone(storage)
    users = env.create_database("users")
    users.put(b"a", b"old")
    txn = env.begin()
    users.put(b"a", b"new", txn)
    users.put(b"b", b"new", txn)
    env.sync()
    env.engine.crash()
    with open_replicated(storage) as env:
        assert [t for t in env.engine.txns.registered if t < 0] == [txn.id]
        check_index(env)
    with open_alone(storage) as env:
        assert contents(env) == {"users": {b"a": b"old"}}
        assert env.open_database("users").put(b"b", b"after")
    stream = visible_stream(storage)
    assert [e.type_name for e in stream.values()][-3:] == ["Abort", "INS_LN_TX", "Commit"]
    assert record_of(stream[max(stream) - 2], TxnEnd).id == txn.id


def test_vlsns_ascend_under_concurrent_writers() -> None:
    storage = MemoryStorage()
    with open_alone(storage, buffer_bytes=500) as env:
        users = env.create_database("users")

        def work(thread: int) -> None:
            for i in range(60):
                users.put(b"%d/%03d" % (thread, i), b"x" * (i % 30))

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(5):
            env.checkpoint(force=True)
        for thread in threads:
            thread.join()
        check_index(env)
        assert users.count() == 240
        assert env.engine.vlsn_index is not None
        assert env.engine.vlsn_index.range.last_txn_end == env.engine.vlsn_index.range.last


def run_until_crash(seed: int, steps: int, stop_at: int) -> tuple[CrashStorage, Workload]:
    storage, workload = CrashStorage(stop_at=stop_at), Workload(seed, keys=30)
    try:
        env = open_alone(storage)
        workload.start(env)
        workload.run(env, steps)
        env.close()
    except JetoolError:
        assert storage.crashed
    return storage, workload


def check_image(image: MemoryStorage, workload: Workload, what: str) -> None:
    """Recovered twice the same; the index agrees with the log; the group goes on."""
    allowed = [workload.committed] + ([workload.in_flight] if workload.in_flight is not None else [])
    env: Environment = open_replicated(image)
    check_index(env)
    env.engine.crash()
    env = open_replicated(image)
    formed = not may_form(env.engine, "node1")
    check_index(env)
    env.close()
    with open_alone(image) as env:
        # One that was not made yet goes on where it was.
        assert contents(env) in (allowed if formed else [{}]), what
        env.create_database("after").put(b"a", b"crash")
        check_index(env)


@pytest.mark.exhaustive
@pytest.mark.parametrize("mode", CrashMode)
def test_crash_points(mode: CrashMode) -> None:
    total = run_until_crash(7, 30, 0)[0].operations
    for stop_at in range(1, total + 1, 3):
        storage, workload = run_until_crash(7, 30, stop_at)
        check_image(storage.image(mode, stop_at), workload, f"crash at operation {stop_at}, {mode.value}")
