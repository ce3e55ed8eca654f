"""Records of an environment compared with those of a running node (service LDiff)."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.inspect.record_diff import CHANGED, ONLY_FIRST, ONLY_SECOND, SAME
from engine.rep.client.call import Call
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.record_blocks import BlockBounds, NodeDatabase, NodeRecords
from engine.rep.member.node import JoinedNode
from engine.rep.node_diff import NodeDiff, diff_with_node
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire.record_blocks import (
    DIGESTS,
    RECORD_BLOCKS,
    VERSION,
    Block,
    BlocksProtocolError,
    BlocksRequest,
    BlocksStart,
    blocks_of,
)
from engine.storage.memory import MemoryStorage
from jetool.frame import exits
from tests.support.environments.workload import SMALL
from tests.support.groups.hostile_server import Mischief
from tests.support.groups.nodes import free_ports, leader
from tests.support.groups.spoiled_link import spoiled
from tests.support.harness import assert_valid, run
from tests.support.waiting import PATIENCE_S

RECORDS = 100
BLOCK = 8
Change = Callable[[Environment], object]


def fill(env: Environment) -> None:
    """The records of both sides: one database with single keys, one with several items of a key."""
    options = DatabaseOptions(duplicates=True)
    with env.create_database("t") as plain, env.create_database("tags", options) as tags, env.begin() as txn:
        for number in range(RECORDS):
            plain.put(b"k%03d" % number, b"v%d" % number, txn)
            tags.put(b"tag%02d" % (number // 10), b"%03d" % number, txn)


@pytest.fixture(scope="module")
def node() -> Iterator[JoinedNode]:
    running = leader(MemoryStorage(), "node1", free_ports(1)[0], "GROUP")
    fill(running.environment)
    try:
        yield running
    finally:
        running.stop()


def asked(node: JoinedNode) -> NodeRecords:
    return NodeRecords(SocketNetwork(), node.config.listen, PATIENCE_S, BLOCK)


def compared(node: JoinedNode, change: Change = lambda _: None, most: int = 1000) -> NodeDiff:
    with Environment(MemoryStorage(), SMALL) as env:
        fill(env)
        change(env)
        return diff_with_node(env, asked(node), most)


def changed(found: NodeDiff) -> list[tuple[str, str, bytes]]:
    return [(one.database, one.what, one.key) for one in found.records.differences]


def test_equal_records(node: JoinedNode) -> None:
    found = compared(node)
    assert found.is_same
    assert (found.skipped, found.unnamed) == ([], 0)
    assert [(one.name, one.relation, one.same) for one in found.records.databases] == [
        ("t", SAME, RECORDS),
        ("tags", SAME, RECORDS),
    ]


def test_every_difference_is_found(node: JoinedNode) -> None:
    """Before the first block, at borders of blocks, within one, and after the last."""

    def change(env: Environment) -> None:
        with env.open_database("t") as plain, env.open_database("tags") as tags:
            plain.put(b"a", b"")
            plain.delete(b"k000")
            plain.put(b"k008", b"other")
            plain.put(b"k0155", b"between")
            plain.delete(b"k016")
            for number in range(40, 60):
                plain.delete(b"k%03d" % number)
            plain.put(b"k099", b"v99 and more")
            plain.put(b"z", b"")
            tags.delete(b"tag03", data=b"037")
            tags.put(b"tag03", b"0375")
            tags.put(b"tag99", b"x")

    found = compared(node, change)
    plain, tags = found.records.databases
    assert (plain.same, plain.changed, plain.only_first, plain.only_second) == (RECORDS - 24, 2, 3, 22)
    assert (tags.same, tags.changed, tags.only_first, tags.only_second) == (RECORDS - 1, 0, 2, 1)
    assert sorted(changed(found)) == sorted(
        [
            ("t", ONLY_FIRST, b"a"),
            ("t", ONLY_SECOND, b"k000"),
            ("t", CHANGED, b"k008"),
            ("t", ONLY_FIRST, b"k0155"),
            ("t", ONLY_SECOND, b"k016"),
            *[("t", ONLY_SECOND, b"k%03d" % number) for number in range(40, 60)],
            ("t", CHANGED, b"k099"),
            ("t", ONLY_FIRST, b"z"),
            ("tags", ONLY_SECOND, b"tag03"),
            ("tags", ONLY_FIRST, b"tag03"),
            ("tags", ONLY_FIRST, b"tag99"),
        ]
    )
    assert len(compared(node, change, most=3).records.differences) == 3


def test_databases_of_one_side(node: JoinedNode) -> None:
    def change(env: Environment) -> None:
        env.remove_database("t")
        with env.create_database("mine") as db:
            db.put(b"k", b"v")

    found = compared(node, change)
    assert not found.is_same
    assert found.unnamed == 1
    assert [(one.name, one.relation) for one in found.records.databases] == [("mine", ONLY_FIRST), ("tags", SAME)]
    assert changed(found) == [("mine", ONLY_FIRST, b"k")]


def test_an_empty_database_on_either_side(node: JoinedNode) -> None:
    def emptied(env: Environment) -> None:
        env.truncate_database("t")

    found = compared(node, emptied).records.databases[0]
    assert (found.relation, found.only_second) == (CHANGED, RECORDS)
    node.environment.create_database("empty").close()
    try:
        assert compared(node, lambda env: env.create_database("empty").close()).is_same
    finally:
        node.environment.remove_database("empty")


def test_a_name_that_cannot_travel_is_skipped(node: JoinedNode) -> None:
    found = compared(node, lambda env: env.create_database("größe").close())
    assert [one.name for one in found.skipped] == ["größe"]
    assert found.is_same


def test_a_bad_size_of_a_block_is_refused(node: JoinedNode) -> None:
    with Call(SocketNetwork(), node.config.listen, RECORD_BLOCKS.service, PATIENCE_S) as call:
        call.send(RECORD_BLOCKS, VERSION, BlocksRequest(database="t", block_records=0))
        assert call.receive(RECORD_BLOCKS, VERSION, BlocksProtocolError)


def test_digests_are_those_of_je() -> None:
    """Blocks of 8192 records that nodes of JE 18.3.20 and 25.3.17 sent."""
    records = [(b"k%07d" % number, b"value%d-0" % number) for number in range(8193)]
    for algorithm, digest in (
        ("md5", "f61af4a2"),
        ("sha256", "8ead9b6b5e876ab83de728e742c842cbb3f4067ae50b457ae1137f2783c0e6af"),
    ):
        first, second = blocks_of(iter(records), 8192, algorithm)
        assert (first.number, first.key, first.data) == (0, b"k0000000", b"value0-0")
        assert first.digest.hex().startswith(digest)
        assert DIGESTS[len(first.digest)] == algorithm
        assert first.checksum == 7136594179677171776
        assert (second.number, second.key) == (1, b"k0008192")


def test_a_node_of_je_is_not_asked_for_duplicates(node: JoinedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NodeRecords, "serves_duplicates", lambda _: False)
    found = compared(node)
    assert [one.name for one in found.skipped] == ["tags"]
    assert [one.name for one in found.records.databases] == ["t"]
    assert (found.is_same, found.unnamed) == (True, 0)


def test_the_command(node: JoinedNode, tmp_path: Path) -> None:
    there = f"127.0.0.1:{node.config.listen[1]}"
    assert run("create", tmp_path / "env", "--db", "t").code == exits.DONE
    assert run("put", tmp_path / "env", "k000", "v0", "--db", "t").code == exits.DONE
    result = run("diff", tmp_path / "env", there, "--json", "--limit", "1")
    assert_valid("diff", result.out)
    found = json.loads(result.out)
    assert result.code == exits.FINDINGS
    assert (found["verdict"], found["same"], found["log"], found["unnamed"]) == ("different", False, None, 1)
    assert found["other"] == there
    assert [(one["db"], one["same"], one["only_second"]) for one in found["databases"]] == [("t", 1, RECORDS - 1)]
    assert len(found["differences"]) == 1
    assert run("diff", tmp_path / "env", "127.0.0.1:1", "--timeout", "1").code == exits.REFUSED
    assert run("diff", tmp_path / "env", "127.0.0.1:x").code == exits.USAGE
    assert run("diff", tmp_path / "env", there, "--from", "ckpt").code == exits.USAGE


def test_blocks_that_do_not_ascend_are_refused(node: JoinedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node orders the keys by a class that is not known here."""
    database = asked(node).database("t")
    assert database is not None
    with database:
        blocks = list(database.blocks())
    assert [block.number for block in blocks] == list(range((RECORDS + BLOCK - 1) // BLOCK))
    monkeypatch.setattr(NodeDatabase, "blocks", lambda _: iter(blocks[::-1]))
    with pytest.raises(PeerError, match="do not ascend"):
        compared(node)


@pytest.mark.parametrize("bounds", [BlockBounds(blocks=3), BlockBounds(held_bytes=40)])
@pytest.mark.parametrize("name", ["t", "tags"])
def test_a_node_that_sends_blocks_without_end(node: JoinedNode, bounds: BlockBounds, name: str) -> None:
    """All blocks are read before the records of any, and the first record of each is kept."""
    few = NodeRecords(SocketNetwork(), node.config.listen, PATIENCE_S, BLOCK, bounds)
    database = few.database(name)
    assert database is not None
    with pytest.raises(PeerError, match="sends more blocks"), database:
        list(database.blocks())


def test_a_node_that_does_not_answer() -> None:
    with pytest.raises(DisconnectedError):
        NodeRecords(SocketNetwork(), ("127.0.0.1", 1), 0.5).database_count()


def test_keys_that_a_class_orders(node: JoinedNode) -> None:
    """Both sides have the order of the class; blocks are compared by their positions, then all records."""
    signed = DatabaseOptions(comparator="org.opends.server.backends.jeb.AttributeIndex$KeyComparator")

    def ordered(env: Environment) -> None:
        with env.create_database("signed", signed) as db, env.begin() as txn:
            for number in range(0, 256, 8):
                db.put(bytes((number,)), b"v", txn)

    def other(env: Environment) -> None:
        ordered(env)
        with env.open_database("signed") as db:
            db.delete(b"\x80")
            db.put(b"\x08", b"other")

    ordered(node.environment)
    try:
        assert compared(node, ordered).is_same
        found = compared(node, other)
        assert sorted(changed(found)) == [("signed", CHANGED, b"\x08"), ("signed", ONLY_SECOND, b"\x80")]
        assert found.records.databases[0].same == 30
    finally:
        node.environment.remove_database("signed")


def test_a_node_stops_while_it_is_compared() -> None:
    """The caller reads nothing, so the node cannot send more; stopping does not wait for it."""
    running = leader(MemoryStorage(), "node1", free_ports(1)[0], "GROUP")
    with running.environment.create_database("t") as db, running.environment.begin() as txn:
        for number in range(200):
            db.put(b"%05d" % number, bytes(100_000), txn)
    with Call(SocketNetwork(), running.config.listen, RECORD_BLOCKS.service, PATIENCE_S) as call:
        call.send(RECORD_BLOCKS, VERSION, BlocksRequest(database="t", block_records=1))
        assert call.receive(RECORD_BLOCKS, VERSION, BlocksStart)
        running.stop()
        assert running.failure is None
        received = iter(lambda: call.receive(RECORD_BLOCKS, VERSION, Block), None)
        with pytest.raises(DisconnectedError):
            deque(received, 0)


@pytest.mark.parametrize("kind", ["replace", "close"])
def test_a_link_that_spoils_the_answers(node: JoinedNode, kind: str) -> None:
    """Whatever arrives, the comparison ends with a result or a refusal."""
    refused = 0
    with Environment(MemoryStorage(), SMALL) as env:
        fill(env)
        with env.open_database("t") as db:
            db.put(b"k050", b"other")
        for at in range(1, 900, 53):
            with spoiled(node.config.listen, Mischief(kind, at, b"\xff\xfe")) as link:
                records = NodeRecords(SocketNetwork(), ("127.0.0.1", link.port), 0.3, BLOCK)
                try:
                    diff_with_node(env, records, 10)
                except PeerError:
                    refused += 1
    assert refused
