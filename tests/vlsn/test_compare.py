"""Facts of a stream and the comparison of two nodes: R-SYNC-1 to 6, the fail-overs of real groups, every prefix."""

from __future__ import annotations

import json
import pickle
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.entry.checkpoint import CkptEnd, encode_ckpt_end
from engine.format.entry.rollback import Matchpoint, RollbackStart, encode_matchpoint, encode_rollback_start
from engine.format.entry.txn_end import TxnEnd, encode_txn_end
from engine.format.stream_facts import StreamFacts, SyncPoint, joined
from engine.inspect.log_stream import LogStream, read_stream
from engine.log.files import list_log_files
from engine.storage.disk import DiskStorage
from engine.vlsn import compare as cmp
from engine.vlsn.compare import compare

REPLICATED, INVISIBLE = 0x28, 0x38
LN, COMMIT, ABORT, MATCHPOINT, ROLLBACK_START, CKPT_END = 33, 17, 18, 30, 28, 20
NULL = -1


class Node:
    """A node's stream, an entry at a time; LSNs grow by 100."""

    def __init__(self, *script: str) -> None:
        self.facts = StreamFacts()
        self.lsn = 0
        for word in " ".join(script).split():
            self.add(word)

    def add(self, word: str) -> None:
        """``5`` an LN, ``5x`` an invisible one, ``5c20@1~4`` the Commit of txn -20 by master 1 with DTVLSN 4."""
        self.lsn += 100
        if word.startswith("rs"):
            self.put(ROLLBACK_START, 0, NULL, encode_rollback_start(RollbackStart(int(word[2:]), 0, 1, ()), 17))
        elif word.startswith("ce"):
            end = CkptEnd("api", 1, 0, int(word[2:]), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, (), ())
            self.put(CKPT_END, 0, NULL, encode_ckpt_end(end, 17))
        elif word.endswith("x"):
            self.put(LN, INVISIBLE, int(word[:-1]), b"")
        elif word.isdigit():
            self.put(LN, REPLICATED, int(word), b"")
        else:
            self.add_sync_point(word)

    def add_sync_point(self, word: str) -> None:
        kind = next(letter for letter in word if letter in "camn")
        vlsn, rest = word.split(kind)
        number, rest = rest.split("@")
        master, _, dtvlsn = rest.partition("~")
        if kind == "m":
            self.put(MATCHPOINT, REPLICATED, int(vlsn), encode_matchpoint(Matchpoint(int(number), int(master)), 17))
            return
        last_lsn = NULL if kind == "n" else 5
        body = encode_txn_end(TxnEnd(last_lsn, -int(number), 7, int(master), int(dtvlsn or 0), 0), 17)
        self.put(ABORT if kind == "a" else COMMIT, REPLICATED, int(vlsn), body)

    def put(self, type_number: int, flags: int, vlsn: int, body: bytes) -> None:
        self.facts.add(self.lsn, type_number, 17, flags, vlsn, body)


def facts(*script: str) -> StreamFacts:
    return Node(*script).facts


COMMON = "1 2c11@1 3 4a12@1 5c13@1"


def test_identical_nodes() -> None:
    found = compare(facts(COMMON), facts(COMMON))
    assert found.relation == cmp.IDENTICAL
    assert found.matchpoint is not None
    assert (found.matchpoint.vlsn, found.matchpoint.lsn) == (5, 500)
    assert found.surplus == found.other_surplus == cmp.NO_SURPLUS


@pytest.mark.parametrize(
    ("ours", "theirs", "relation", "match"),
    [
        ("6 7", "6", cmp.IN_STEP, 5),
        ("6 7c14@1", "6", cmp.AHEAD, 5),
        ("6", "6 7a14@1", cmp.BEHIND, 5),
        ("6 7c14@1", "6 7c14@2", cmp.DIVERGED, 5),
        ("6 7c14@1", "6 7c15@1", cmp.DIVERGED, 5),
        ("6 7c14@1", "6 7a14@1", cmp.DIVERGED, 5),
        ("6m99@1 7", "6m99@1", cmp.IN_STEP, 6),
        ("6m99@1", "6m98@1", cmp.IN_STEP, 5),
        ("6m99@1", "6m99@2", cmp.IN_STEP, 5),
        # Times of a Commit and DTVLSNs are no part of its identity; later sync points that match win.
        ("6c14@1~3 7c15@1", "6c14@1 7c15@1 8c16@1", cmp.BEHIND, 7),
        ("6c14@1 7c15@2", "6c14@2 7c15@2", cmp.IDENTICAL, 7),
    ],
)
def test_relations(ours: str, theirs: str, relation: str, match: int) -> None:
    found = compare(facts(COMMON, ours), facts(COMMON, theirs))
    assert found.relation == relation
    assert found.matchpoint is not None
    assert found.matchpoint.vlsn == match
    mirrored = compare(facts(COMMON, theirs), facts(COMMON, ours))
    assert mirrored.relation == {cmp.AHEAD: cmp.BEHIND, cmp.BEHIND: cmp.AHEAD}.get(relation, relation)
    assert (mirrored.matchpoint, mirrored.surplus) == (found.other_matchpoint, found.other_surplus)


def test_nothing_in_common() -> None:
    assert compare(facts("1 2c11@1"), facts("1 2c11@2")).relation == cmp.PARTED
    assert compare(facts("1 2c11@1"), facts("7 8c11@2")).relation == cmp.APART
    assert compare(facts(), facts()).relation == cmp.IDENTICAL
    # A new node can follow one that still has the first VLSN, and no other.
    assert compare(facts(), facts("1 2c11@1")).relation == cmp.BEHIND
    assert compare(facts(), facts("2c11@1")).relation == cmp.APART


def test_surplus_counts_what_would_be_lost() -> None:
    one = facts(COMMON, "6c14@1~6 7n15@1~6 8c16@1~6 9a17@1~6")
    surplus = compare(one, facts(COMMON)).surplus
    # 6 is durable; 7 wrote nothing; 8 is above the DTVLSN of 9, the first that a backward search meets.
    assert surplus[:5] == (6, 9, 3, 1, 1)
    assert surplus.earliest is not None
    assert surplus.earliest.vlsn == 6
    # Masters that know no DTVLSN: every commit counts.
    assert compare(facts(COMMON, "6c14@1 7c15@1"), facts(COMMON)).surplus.durable_commits == 2


def test_rolled_back_entries_do_not_count() -> None:
    marked = facts(COMMON, "6x 7x rs5 6 7c15@2")
    unmarked = facts(COMMON, "6 7m5@1 rs5 6 7c15@2")
    for found in (marked, unmarked):
        assert (found.first, found.last, list(found.sync_points.vlsns)) == (1, 7, [2, 4, 5, 7])
    assert facts(COMMON, "6 rs-1").first == NULL


def test_barriers_are_checkpoints_that_deleted_files() -> None:
    assert facts("1 ce1 2c11@1 ce2 ce3").barriers == [400, 500]


def test_a_body_that_does_not_decode() -> None:
    with pytest.raises(FormatError):
        StreamFacts().add(0, COMMIT, 17, REPLICATED, 1, b"\x01")


WORDS = ["ln", "end", "hide", "back"]


@given(st.lists(st.sampled_from(WORDS), max_size=25), st.lists(st.integers(0, 25), max_size=4))
def test_files_joined_are_the_log_in_one_piece(script: list[str], cuts: list[int]) -> None:
    """However a log is cut into files, also between a RollbackStart and what it takes back."""
    words, vlsn, ends, txn = [], 0, [NULL], 20
    for step in script:
        if step == "back":
            vlsn = max(ends[-1], 0)
            words.append(f"rs{ends[-1]}")
            if len(ends) > 1:
                ends.pop()
            continue
        vlsn += 1
        txn += 1
        words.append({"ln": f"{vlsn}", "hide": f"{vlsn}x", "end": f"{vlsn}c{txn}@1"}[step])
        if step == "end":
            ends.append(vlsn)
    whole = Node(*words)
    edges = [0, *sorted(min(cut, len(words)) for cut in cuts), len(words)]
    parts, at = [], 0
    for start, stop in pairwise(edges):
        part = Node()
        part.lsn = at
        for word in words[start:stop]:
            part.add(word)
        at = part.lsn
        parts.append(pickle.loads(pickle.dumps(part.facts)))
    found = joined(parts)
    assert (found.first, found.last) == (whole.facts.first, whole.facts.last)
    assert list(found.sync_points) == list(whole.facts.sync_points)


# Real groups.

GROUPS = [
    "je-18.3.20/ha-group", "je-18.3.20/ha-rollback", "je-18.3.20/ha-rollback-begun", "je-18.3.20/ha-rollback-ckpt",
    "je-18.3.20/ha-rollback-hidden", "je-18.3.20/ha-rollback-thrice", "je-25.3.17/ha-group", "je-25.3.17/ha-rollback",
    "je-7.5.11/ha-group", "je-7.5.11/ha-rollback",
]  # fmt: skip


def stream(environment: Path) -> LogStream:
    storage = DiskStorage(environment / "env")
    return read_stream(storage, list_log_files(storage))


@pytest.mark.parametrize("group", GROUPS)
def test_nodes_of_real_groups(corpus: Path, group: str) -> None:
    nodes = {}
    for number in (1, 2, 3):
        environment = corpus / "je" / group / f"node{number}"
        found = stream(environment)
        assert (found.gaps, found.damages, found.unreadable, found.names_index) == ((), (), (), True)
        index = json.loads((environment / "expected/vlsn-index.json").read_text())["range"]
        # The index after recovery; a rollback that had begun is in both.
        assert (found.facts.first, found.facts.last) == (index["first"], index["last"])
        assert found.facts.sync_points[-1].vlsn == index["lastSync"]
        nodes[number] = found.facts
    for other in (2, 3):
        relation = compare(nodes[1], nodes[other]).relation
        if group.endswith(("begun", "hidden")):
            assert relation == cmp.BEHIND
        else:
            assert relation == (cmp.IN_STEP if group.endswith("ha-group") else cmp.IDENTICAL)
    assert compare(nodes[2], nodes[3]).relation in (cmp.IDENTICAL, cmp.IN_STEP)


def test_sync_points_of_a_real_log_are_where_je_has_them(corpus: Path) -> None:
    environment = corpus / "je/je-18.3.20/vlsn-range"
    found = stream(environment)
    assert found.gaps, "the cleaner has taken files out of the middle"
    lines = (environment / "expected/vlsn-lsn.csv").read_text().splitlines()[1:]
    lsns = dict(line.split(",")[:2] for line in lines)
    points: list[SyncPoint] = list(found.facts.sync_points)
    assert points[-1].vlsn == 3613
    for point in points:
        file, offset = point.lsn >> 32, point.lsn & 0xFFFFFFFF
        assert lsns[str(point.vlsn)] == f"0x{file:x}/0x{offset:x}"
