"""Nodes of a group beside each other: ranks and matchpoints as the manifests and stories state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.format.lsn import offset_of
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.pipeline.fleet.groups import UNKNOWN_GROUP, FleetNode, NodePair, RankedNode, compare_group, node_of, rank
from engine.pipeline.fleet.node_streams import NodeStream, collect_stream, joined
from engine.pipeline.inventory import pack, parts_of
from engine.storage.disk import DiskStorage
from tests.pipeline.fleet_support import expected, manifest
from tests.pipeline.test_fleet_profile import profile_of
from tests.support.corpus import copy

HA = ("ha-group", "ha-rollback", "ha-rollback-begun", "ha-rollback-ckpt", "ha-rollback-hidden", "ha-rollback-thrice")


def stream_of(env: Path, least_bytes: int = 1 << 40) -> NodeStream:
    tasks = pack([parts_of(str(env), list_log_files(DiskStorage(str(env))))], least_bytes)
    return joined([collect_stream(part) for task in tasks for part in task])


def compared(envs: list[Path]) -> tuple[list[RankedNode], list[NodePair]]:
    streams = {str(env): stream_of(env) for env in envs}
    return rank([node_of(env, stream) for env, stream in streams.items()]), list(compare_group(streams))


def nodes_of(corpus: Path, case: str) -> list[Path]:
    return sorted((corpus / "je/je-18.3.20" / case).glob("node?/env"))


@pytest.mark.parametrize("case", HA)
def test_ranks_and_matchpoints_of_the_fixtures(corpus: Path, case: str) -> None:
    envs = nodes_of(corpus, case)
    ranges = {str(env): manifest(env)["vlsnRange"] for env in envs}
    ranked, pairs = compared(envs)
    for one in ranked:
        wanted = ranges[one.node.env]
        assert (one.node.first_vlsn, one.node.last_vlsn, one.node.last_sync) == (
            wanted["first"], wanted["last"], wanted["lastSync"],
        )  # fmt: skip
        assert one.rank == 1 + sum(other["last"] > wanted["last"] for other in ranges.values())
    for pair in pairs:
        both = [ranges[pair.env], ranges[pair.other]]
        match = pair.comparison.matchpoint
        assert match is not None
        # The nodes of every fixture are of one history: what the shorter one ends with, both have.
        assert match.vlsn == min(side["lastSync"] for side in both)
        surpluses = (pair.comparison.surplus, pair.comparison.other_surplus)
        for side, surplus in zip(both, surpluses, strict=True):
            assert surplus.entries == side["last"] - match.vlsn


def test_the_group_is_known_by_its_uuid(corpus: Path) -> None:
    keys = {node_of("e", stream_of(env)).group_key for env in nodes_of(corpus, "ha-group")}
    assert len(keys) == 1
    assert len(keys.pop()) == 32
    other = node_of("e", stream_of(nodes_of(corpus, "ha-rollback")[0]))
    assert other.group == "JOURNAL_GROUP"
    assert other.group_key not in keys
    assert node_of("e", stream_of(nodes_of(corpus, "ha-group")[0]), "mine").group_key == "mine"


def test_an_old_master_before_its_rollback(corpus: Path, tmp_path: Path) -> None:
    """The log of the old master, cut off where it began to roll back: it has what nobody else has."""
    node1, node2, node3 = nodes_of(corpus, "ha-rollback")
    story = expected(node1, "story.json")[0]
    start = profile_of(node1).periods[0].rollback.start_lsn
    copy(node1, tmp_path / "node1")
    log = tmp_path / "node1" / "00000000.jdb"
    hidden = bytearray(log.read_bytes()[: offset_of(start)])
    for item in list(_entries(node1)):
        if item.invisible and item.lsn < start:
            hidden[offset_of(item.lsn) + 5] &= ~0x10
    log.write_bytes(bytes(hidden))
    ranked, pairs = compared([tmp_path / "node1", node2, node3])
    assert [(one.rank, Path(one.node.env).parent.name) for one in ranked][:2] == [(1, "node2"), (1, "node3")]
    assert ranked[2].node.last_vlsn == story["oldLastVlsn"]
    old = [
        pair for pair in pairs if str(tmp_path) in (pair.env[: len(str(tmp_path))], pair.other[: len(str(tmp_path))])
    ]
    assert len(old) == 2
    for pair in old:
        match = pair.comparison.matchpoint
        assert match is not None
        assert match.vlsn == story["oldLastSyncVlsn"]
        ours, theirs = pair.comparison.surplus, pair.comparison.other_surplus
        if pair.other.startswith(str(tmp_path)):
            ours, theirs = theirs, ours
        assert ours.entries == story["oldLastVlsn"] - story["oldLastSyncVlsn"]
        assert theirs.entries == 225 - story["oldLastSyncVlsn"]


def _entries(env: Path) -> Iterator[LogEntry]:
    storage = DiskStorage(str(env))
    return (
        item for item in scan_log(storage, list_log_files(storage), marker=True).entries() if isinstance(item, LogEntry)
    )


def test_parts_of_a_stream_join_in_any_order(corpus: Path) -> None:
    env = corpus / "je/je-18.3.20/vlsn-range/env"
    whole, parts = stream_of(env), stream_of(env, 1)
    assert node_of("e", whole) == node_of("e", parts)
    range_ = manifest(env)["vlsnRange"]
    assert (whole.facts.first, whole.facts.last) == (range_["first"], range_["last"])


def test_ranking_is_that_of_an_election() -> None:
    def node(env: str, dtvlsn: int, last: int) -> FleetNode:
        return FleetNode(env, "g", "g", 1, last, last, None, dtvlsn, 0, 0, "")

    ranked = rank([node("a", 122, 160), node("b", 195, 195), node("c", 195, 195), node("d", 195, 190)])
    assert [(one.node.env, one.rank) for one in ranked] == [("b", 1), ("c", 1), ("d", 3), ("a", 4)]
    # Without durable VLSNs the last VLSN decides.
    assert [one.node.env for one in rank([node("a", 0, 5), node("b", 0, 9)])] == ["b", "a"]
    plain = FleetNode("p", "", "", -1, -1, -1, None, 0, 0, 0, "")
    assert [(one.node.env, one.rank) for one in rank([plain, node("a", 1, 1)])] == [("a", 1), ("p", 0)]


def test_a_log_without_a_stream(golden_dir: Path) -> None:
    node = node_of("e", stream_of(golden_dir / "je-17" / "txn-crash"))
    assert (node.is_replicated, node.group, node.group_key) == (False, "", "")
    assert node_of("e", stream_of(golden_dir / "je-17/ha-rollback")).group_key != UNKNOWN_GROUP
