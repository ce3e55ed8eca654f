"""Nodes over TCP on loopback: feeding, acknowledgements, transfer, rejoining, restore."""

from __future__ import annotations

import threading
import time

import pytest

from engine.errors import JetoolError, NotFoundError, RefusedError, UnsupportedError
from engine.rep.acks import AckPolicy, InsufficientAcksError, InsufficientReplicasError
from engine.rep.node import RepNode
from engine.rep.operator import ask_transfer
from engine.rep.restore import install_files
from engine.rep.rollback import RollbackProhibitedError
from engine.rep.settings import Role
from engine.storage.memory import MemoryStorage
from tests.db.workload import Workload, contents
from tests.golden_logs import GOLDEN
from tests.rep.nodes import PATIENCE_S, SECRET, config_of, eventually, free_ports, group_of, started
from tests.rep.streams import check_index, open_alone, open_replicated, visible_stream


def put(node: RepNode, key: bytes, data: bytes = b"x", name: str = "t") -> int:
    env = node.environment
    with env.open_database(name) as db, env.begin() as txn:
        db.put(key, data, txn)
    return txn.inner.end_vlsn


def test_three_nodes_replicate_and_acknowledge() -> None:
    with group_of(3, policy=AckPolicy.ALL) as nodes:
        master = nodes[0]
        workload = Workload(1)
        workload.start(master.environment)
        workload.run(master.environment, 60)
        last = master.status().last_vlsn
        for node in nodes[1:]:
            assert node.await_vlsn(last, PATIENCE_S)
            assert contents(node.environment) == workload.committed
            check_index(node.environment)
        status = master.status()
        assert (status.role, status.group, status.last_vlsn) == ("master", "GROUP", last)
        assert [(r.node, r.connected) for r in status.replicas] == [("node2", True), ("node3", True)]
        eventually(lambda: master.status().dtvlsn == last)
        assert nodes[1].status().role == "replica"
        assert not nodes[1].await_vlsn(last + 1, 0.05)


def test_what_nodes_exchange_is_of_version_17() -> None:
    golden = GOLDEN / "je-26" / "ha-rollback" / "00000000.jdb"
    node = RepNode(MemoryStorage({golden.name: golden.read_bytes()}), config_of(0, free_ports(1)))
    with pytest.raises(UnsupportedError) as refused:
        node.start()
    assert (refused.value.expected, refused.value.found) == ("log version 17 or earlier", "26")
    node.stop()


def test_the_three_policies() -> None:
    """ALL needs everybody, a majority of three one replica, NONE nobody."""
    with group_of(3, ack_timeout_s=0.3) as nodes:
        master = nodes[0]
        master.environment.create_database("t").close()
        nodes[2].stop()
        eventually(lambda: not master.status().replicas[1].connected)
        put(master, b"majority")
        nodes[1].stop()
        eventually(lambda: not master.status().replicas[0].connected)
        with pytest.raises(InsufficientReplicasError, match="too few replicas"):
            put(master, b"nobody is there")
        assert contents(master.environment) == {"t": {b"majority": b"x"}}
        assert not master.environment.engine.txns.registered


@pytest.mark.parametrize("policy", [AckPolicy.NONE, AckPolicy.ALL])
def test_a_policy_with_one_replica_missing(policy: AckPolicy) -> None:
    with group_of(2, ack_timeout_s=0.3, policy=policy) as nodes:
        nodes[0].environment.create_database("t").close()
        nodes[1].stop()
        eventually(lambda: not nodes[0].status().replicas[0].connected)
        if policy is AckPolicy.NONE:
            put(nodes[0], b"a")
        else:
            with pytest.raises(InsufficientReplicasError):
                put(nodes[0], b"a")


def test_acks_that_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commit stands, and the caller is told that it may be lost."""
    with group_of(2, ack_timeout_s=0.3) as nodes:
        nodes[0].environment.create_database("t").close()
        assert nodes[0]._term is not None
        gate = nodes[0]._term.gate
        monkeypatch.setattr(gate, "acked", lambda node, vlsn: None)
        with pytest.raises(InsufficientAcksError, match="lost if another one becomes master"):
            put(nodes[0], b"k")
        with nodes[0].environment.open_database("t") as db:
            assert db.get(b"k") == b"x"


def test_mastership_is_transferred() -> None:
    with group_of(3) as nodes:
        nodes[0].environment.create_database("t").close()
        stop = threading.Event()
        committed: list[bytes] = []

        def write() -> None:
            while not stop.is_set():
                key = b"%06d" % len(committed)
                try:
                    put(nodes[0], key)
                except Exception:
                    return
                committed.append(key)

        writer = threading.Thread(target=write)
        writer.start()
        time.sleep(0.2)
        nodes[0].transfer("node2", 5)
        writer.join(PATIENCE_S)
        stop.set()
        assert nodes[1].await_role(Role.MASTER, 10)
        assert nodes[0].await_role(Role.REPLICA, 10), nodes[0].failure
        eventually(
            lambda: len(nodes[1].status().replicas) == 2 and all(r.connected for r in nodes[1].status().replicas)
        )
        assert len(committed) > 5
        vlsn = put(nodes[1], b"of the new master")
        for node in (nodes[0], nodes[2]):
            assert node.await_vlsn(vlsn, PATIENCE_S)
            found = contents(node.environment)["t"]
            assert found == contents(nodes[1].environment)["t"]
            assert set(committed) <= found.keys()
        with pytest.raises(RefusedError, match="not the master"):
            nodes[0].transfer("node3", 1)
        with pytest.raises(NotFoundError):
            nodes[1].transfer("node9", 1)


def test_an_old_master_rejoins_after_a_failover() -> None:
    """Uncommitted and unreplicated work of the old master is rolled back or cut away."""
    addresses = free_ports(3)
    storages = [MemoryStorage() for _ in range(3)]
    nodes = [started(s, config_of(n, addresses, master=n == 0)) for n, s in enumerate(storages)]
    assert all(node.await_role(Role.REPLICA, 10) for node in nodes[1:])
    nodes[0].environment.create_database("t").close()
    vlsn = max(put(nodes[0], b"%d" % i) for i in range(20))
    assert all(node.await_vlsn(vlsn, PATIENCE_S) for node in nodes[1:])
    nodes[1].lead()
    assert nodes[1].await_role(Role.MASTER, 10)
    put_alone(nodes[0])
    nodes[0].environment.engine.crash()
    nodes[0].stop()
    vlsn = put(nodes[1], b"new")
    nodes[0] = started(storages[0], config_of(0, addresses))
    assert nodes[0].await_vlsn(vlsn, PATIENCE_S), nodes[0].problem
    assert contents(nodes[0].environment) == contents(nodes[1].environment)
    assert b"lost" not in contents(nodes[0].environment)["t"]
    check_index(nodes[0].environment)
    for node in nodes:
        node.stop()
    for storage in storages:
        with open_replicated(storage) as env:
            check_index(env)


def test_an_old_master_that_still_runs_gives_way() -> None:
    """It keeps its environment, loses what nobody else has, and follows."""
    with group_of(3) as nodes:
        nodes[0].environment.create_database("t").close()
        vlsn = put(nodes[0], b"kept")
        assert all(node.await_vlsn(vlsn, PATIENCE_S) for node in nodes[1:])
        nodes[2].lead()
        assert nodes[2].await_role(Role.MASTER, 10)
        put_alone(nodes[0], 2)
        vlsn = put(nodes[2], b"new")
        ask_transfer(nodes[0].config.listen, SECRET, "node3", force=True, timeout_s=1)
        assert nodes[0].await_role(Role.REPLICA, 10), nodes[0].failure
        assert nodes[0].await_vlsn(vlsn, PATIENCE_S)
        assert contents(nodes[0].environment) == {"t": {b"kept": b"x", b"new": b"x"}}
        check_index(nodes[0].environment)


def put_alone(node: RepNode, commits: int = 1) -> None:
    """Work that no replica gets: commits without acknowledgements, and an open transaction."""
    env = node.environment
    gate = env.engine.txns.gate
    assert gate is not None
    assert node._term is not None
    for feeder in list(node._term._feeders.values()):
        feeder.close()
    gate.electable = 1  # type: ignore[attr-defined]
    with env.open_database("t") as db:
        for _ in range(commits):
            db.put(b"lost", b"x")
        db.put(b"open", b"x", env.begin())
    env.sync()


def test_a_rollback_beyond_the_limit_stops_the_node() -> None:
    addresses = free_ports(2)
    storages = [MemoryStorage(), MemoryStorage()]
    with open_alone(storages[0]) as env:
        env.create_database("t").close()
    nodes = [started(s, config_of(n, addresses, master=n == 0)) for n, s in enumerate(storages)]
    assert nodes[1].await_vlsn(nodes[0].status().last_vlsn, 10)
    nodes[1].lead()
    assert nodes[1].await_role(Role.MASTER, 10)
    put_alone(nodes[0], 12)
    nodes[0].environment.engine.crash()
    nodes[0].stop()
    before = storages[0].contents()
    loser = started(storages[0], config_of(0, addresses, rollback_limit=3))
    assert loser.await_end(3), (loser.problem, str(loser.problem), loser.status(), nodes[1].status(), nodes[1].problem)
    assert isinstance(loser.failure, RollbackProhibitedError), str(loser.failure)
    assert "offset 0x" in str(loser.failure.hint)
    loser.stop()
    assert {n: d for n, d in storages[0].contents().items() if n.endswith("00.jdb")}.keys() == {
        n for n in before if n.endswith("00.jdb")
    }
    nodes[1].stop()


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    return {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}


def without_first_files(storage: MemoryStorage) -> None:
    """As log cleaning leaves a master: VLSN 1 is gone."""
    with open_replicated(storage) as env:
        index = env.engine.vlsn_index
        assert index is not None
        stream = visible_stream(storage)
        last_gone = max(v for v, e in stream.items() if e.lsn >> 32 == 0)
        assert index.truncate_head(min(last_gone, index.head_limit(1)), 1)


def test_a_network_restore() -> None:
    """An empty node cannot begin at VLSN 1 when the master's log begins later: its files are copied, when allowed."""
    addresses = free_ports(2)
    source, target = MemoryStorage(), MemoryStorage()
    workload = Workload(3)
    with open_alone(source) as env:
        workload.start(env)
        workload.run(env, 60)
    without_first_files(source)
    master = started(source, config_of(0, addresses, master=True))
    assert master.await_role(Role.MASTER, 10)
    refused = started(target, config_of(1, addresses))
    assert refused.await_end(10)
    assert "--restore" in str(refused.failure.hint if isinstance(refused.failure, JetoolError) else "")
    refused.stop()
    before = files_of(target)
    node = started(target, config_of(1, addresses, restore=True))
    assert node.await_role(Role.REPLICA, 10), node.failure or node.problem
    vlsn = max(put(master, b"after %d" % i, name="plain") for i in range(5))
    assert node.await_vlsn(vlsn, PATIENCE_S)
    assert contents(node.environment) == contents(master.environment)
    assert node.status().first_vlsn == master.status().first_vlsn > 1
    kept = {path.removeprefix("replaced/"): data for path, data in files_of(target).items() if "replaced" in path}
    assert kept == before
    assert "7fffffff.jdb" not in target.names()
    node.stop()
    master.stop()
    with open_replicated(target) as env:
        assert env.engine.vlsn_index is not None
        assert env.engine.vlsn_index.verify() == []


def test_a_crash_while_files_are_replaced() -> None:
    """Until the marker stands nothing has changed; after it the environment refuses to open until it is restored."""
    addresses = free_ports(2)
    master = started(MemoryStorage(), config_of(0, addresses, master=True))
    assert master.await_role(Role.MASTER, 10)
    master.environment.create_database("t").close()
    target = MemoryStorage()
    open_replicated(target).close()
    staged = {f"restore/{path}": data for path, data in files_of(target).items()}
    for path, data in staged.items():
        target.make_directory("restore")
        target.open_rw(path, create=True).write(0, data)

    class StopError(Exception):
        pass

    class Listener:
        def step(self, name: str, done: int, total: int) -> None:
            if name == "restore install":
                raise StopError

    with pytest.raises(StopError):
        install_files(target, 0, Listener())
    with pytest.raises(RefusedError):
        open_replicated(target)
    with pytest.raises(RefusedError):
        started(target, config_of(1, addresses))
    node = started(target, config_of(1, addresses, restore=True))
    assert node.await_role(Role.REPLICA, 10), node.failure or node.problem
    assert node.await_vlsn(master.status().last_vlsn, 10)
    assert contents(node.environment) == {"t": {}}
    node.stop()
    master.stop()
