"""Of the versions of a node in the recovery range, only the newest one is replayed."""

from __future__ import annotations

from pathlib import Path

from engine import Environment, EnvironmentConfig
from engine.format.entry.db_tree import MAPPING_DB_ID
from engine.format.entry_types import BIN_TYPE, IN_TYPE, OLD_DELTA_TYPE
from engine.recovery.node_replay import LoggedNode, NodeLog
from tests.support.harness import run


def _node(lsn: int, type_number: int = IN_TYPE, db_id: int = 7, *, is_root: bool = False) -> LoggedNode:
    return LoggedNode(lsn, 100, type_number, 17, db_id, is_root)


def _lsns(nodes: NodeLog, *, mapping: bool = False, roots: bool = False) -> list[int]:
    return [node.lsn for node in nodes.chosen(mapping=mapping, roots=roots)]


def test_the_newest_version_of_each_node_is_chosen() -> None:
    nodes = NodeLog()
    for lsn, type_number, node_id in [
        (1, IN_TYPE, 5),
        (2, BIN_TYPE, 6),
        (3, IN_TYPE, 5),
        (4, BIN_TYPE, 6),
        (5, IN_TYPE, 8),
    ]:
        nodes.add(_node(lsn, type_number), node_id)
    assert _lsns(nodes) == [3, 4, 5]
    assert (nodes.superseded(mapping=False), nodes.superseded(mapping=True), nodes.count(mapping=False)) == (2, 0, 5)
    assert [node.lsn for node in nodes] == [1, 2, 3, 4, 5]


def test_each_version_of_a_root_is_chosen() -> None:
    nodes = NodeLog()
    nodes.add(_node(1, is_root=True), 5)
    nodes.add(_node(2), 5)
    nodes.add(_node(3, is_root=True), 5)
    assert (_lsns(nodes, roots=True), _lsns(nodes)) == ([1, 3], [2])


def test_a_delta_without_an_id_is_chosen() -> None:
    nodes = NodeLog()
    for lsn in (1, 2):
        nodes.add(_node(lsn, OLD_DELTA_TYPE), 0)
    assert _lsns(nodes) == [1, 2]


def test_an_id_of_two_databases_hides_neither() -> None:
    nodes = NodeLog()
    nodes.add(_node(1), 5)
    nodes.add(_node(2, db_id=9), 5)
    nodes.add(_node(3, db_id=MAPPING_DB_ID), 5)
    assert _lsns(nodes) == [1, 2]
    assert _lsns(nodes, mapping=True) == [3]


def test_evicted_nodes_are_replayed_once(tmp_path: Path) -> None:
    """A cache of a few nodes logs each of them many times before the crash."""
    env = tmp_path / "env"
    records: dict[bytes, bytes] = {}
    config = EnvironmentConfig(
        create=True, node_max_entries=8, cache_bytes=200_000, cache_is_fixed=True, run_checkpointer=False
    )
    opened = Environment(str(env), config)
    with opened.create_database("d") as db:
        for number in range(2000):
            key = (number * 7919 % 2003).to_bytes(4, "big")
            db.put(key, records.setdefault(key, bytes(40)))
    opened.engine.crash()
    passes = run("recover", env, "-n", "--json").json()["passes"]
    counted = {one["name"]: one for one in passes}["REDO_INS"]
    assert counted["read"] > 2 * counted["applied"] > 0
    with Environment(str(env), EnvironmentConfig()) as again, again.open_database("d") as db:
        assert dict(db) == records
