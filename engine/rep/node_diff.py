"""Comparison of the records of an environment and of a running node, by the node's service LDiff.

The node describes a database in blocks of some thousand records: the first record of each, and a digest. The blocks
divide the keys of both sides into ranges. If the local records of a range have the digest of the block, the range is
the same; otherwise the node sends the records of the block, and both sides are merged record by record.

Example: the node has blocks ``a..f`` and ``g..m``; here are ``a..f``, ``g..k`` and ``p``. The first range has the same
digest; for the second the node sends ``g..m``, which shows that ``l`` and ``m`` are only there and ``p`` only here.

A Java class may order the keys of a database. Then both sides have the same order, but bytes do not show it, and blocks
are compared by their positions; if any differs, the node sends all records.

A digest does not cover the lengths of keys and data, so two records with the same bytes in sequence, but another border
between key and data, are the same for it. JE's LDiff has the same limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Final, NamedTuple

from engine.db.database import Database
from engine.db.environment import Environment
from engine.events import SILENT, Listener
from engine.inspect.record_diff import (
    CHANGED,
    ONLY_FIRST,
    ONLY_SECOND,
    SAME,
    DatabaseDifference,
    RecordDiff,
    RecordDifference,
    join_records,
    summed,
)
from engine.rep.client.record_blocks import NodeDatabase, NodeRecords
from engine.rep.peers import PeerError
from engine.rep.wire.record_blocks import DIGESTS, Block, BlockDigest, blocks_of
from engine.storage.sorted_pairs import in_byte_order

_TOLD: Final = 1 << 13
Pair = tuple[bytes, bytes]
Place = tuple[bytes, bytes]


class SkippedDatabase(NamedTuple):
    """A database that was not compared, and why."""

    name: str
    why: str


class NodeDiff(NamedTuple):
    """The result.

    Attributes:
        records: what differs in the compared databases.
        skipped: local databases that were not compared.
        unnamed: number of databases that only the node has; the protocol does not give their names.
    """

    records: RecordDiff
    skipped: list[SkippedDatabase]
    unnamed: int

    @property
    def is_same(self) -> bool:
        """Whether nothing differs in what was compared."""
        return self.records.is_same and not self.unnamed


def diff_with_node(env: Environment, node: NodeRecords, most: int, listener: Listener = SILENT) -> NodeDiff:
    """Compare all databases of an environment with those of a node.

    Arguments:
        most: maximum number of differences to keep.
        listener: receives the number of compared databases.

    Raises:
        PeerError: the node cannot be reached, refuses, or breaks the protocol. DamageError: a local record or tree
            cannot be read.
    """
    names, total = env.database_names(), node.database_count()
    found, skipped, there = RecordDiff([], []), list[SkippedDatabase](), 0
    with_duplicates: bool | None = None
    for done, name in enumerate(names):
        listener.step("compare databases", done, len(names))
        if not (name.isascii() and name.isprintable()):
            skipped.append(SkippedDatabase(name, "its name is not ASCII"))
            continue
        with env.open_database(name) as db:
            if db.duplicates:
                if with_duplicates is None:
                    with_duplicates = node.serves_duplicates()
                if not with_duplicates:
                    skipped.append(SkippedDatabase(name, "JE's service does not open databases with duplicates"))
                    continue
            result, is_there = _diff_database(db, node, most - len(found.differences))
        there += is_there
        found.databases.append(result.summary)
        found.differences.extend(result.differences)
    return NodeDiff(found, skipped, max(total - there - len(skipped), 0))


class _Counted:
    """The records of one database by result, and the first differences."""

    def __init__(self, name: str, relation: str, most: int) -> None:
        self._name, self._relation, self._most = name, relation, most
        self._counts = dict.fromkeys((SAME, CHANGED, ONLY_FIRST, ONLY_SECOND), 0)
        self.differences: list[RecordDifference] = []

    def same(self, records: int) -> None:
        """Count records that are the same."""
        self._counts[SAME] += records

    def add(self, record: RecordDifference) -> None:
        """Count a record."""
        what = record.what
        self._counts[what] += 1
        if what != SAME and len(self.differences) < self._most:
            self.differences.append(record)

    def only_here(self, pair: Pair) -> None:
        """Count a record that the node does not have."""
        self.add(RecordDifference(self._name, *pair, None))

    @property
    def summary(self) -> DatabaseDifference:
        """The numbers."""
        return summed(self._name, self._relation, *self._counts.values())


def _diff_database(db: Database, node: NodeRecords, most: int) -> tuple[_Counted, bool]:
    """The result for a database, and whether the node has it."""
    remote = node.database(db.name)
    if remote is None:
        counted = _Counted(db.name, ONLY_FIRST, most)
        for pair in db.items():
            counted.only_here(pair)
        return counted, False
    counted = _Counted(db.name, CHANGED, most)
    with remote:
        if db.state.order.comparator is None:
            _diff_ranges(db, remote, counted)
        else:
            _diff_positions(db, remote, counted)
    return counted, True


class _Range(NamedTuple):
    """The keys of a block: from its first record to that of the next block, or to the end."""

    block: Block
    end: Place | None


def _diff_ranges(db: Database, remote: NodeDatabase, counted: _Counted) -> None:
    place = _placer(db)
    local = _Peeked(db.items())
    different: list[_Range] = []
    for block, end in _ranges(remote.blocks(), place):
        # Before the first block the node has no records. Before another block all are taken.
        while local.current is not None and place(local.current) < place((block.key, block.data)):
            counted.only_here(local.take())
        digest = BlockDigest(DIGESTS[len(block.digest)])
        while local.current is not None and (end is None or place(local.current) < end):
            digest.add(*local.take())
        if digest.value == (block.digest, block.checksum):
            counted.same(digest.records)
        else:
            different.append(_Range(block, end))
    while local.current is not None:
        counted.only_here(local.take())
    for block, end in different:
        start = place((block.key, block.data))
        here = (pair for pair in _from(db, block.key, end, place) if place(pair) >= start)
        there = in_byte_order(pair for pair in remote.records(block) if _is_between(place(pair), start, end))
        for record in join_records(db.name, here, there, by_item=db.duplicates):
            counted.add(record)


def _is_between(found: Place, start: Place, end: Place | None) -> bool:
    """Whether a record belongs to a range; if the node's records change meanwhile, it may send others."""
    return found >= start and (end is None or found < end)


def _from(db: Database, key: bytes, end: Place | None, place: Callable[[Pair], Place]) -> Iterator[Pair]:
    for pair in db.items(start=key):
        if end is not None and place(pair) >= end:
            return
        yield pair


def _placer(db: Database) -> Callable[[Pair], Place]:
    """What identifies a record, and sorts as records do: the key, with duplicates also the data."""
    return (lambda pair: pair) if db.duplicates else (lambda pair: (pair[0], b""))


def _ranges(blocks: Iterator[Block], place: Callable[[Pair], Place]) -> Iterator[_Range]:
    """Raises PeerError: blocks do not ascend."""
    last: Block | None = None
    for block in blocks:
        if last is not None:
            end = place((block.key, block.data))
            if end <= place((last.key, last.data)):
                raise PeerError(
                    "the blocks of the node do not ascend",
                    found=f"block {block.number}",
                    hint="records were changed meanwhile, or a class orders them on the node only; try again",
                )
            yield _Range(last, end)
        last = block
    if last is not None:
        yield _Range(last, None)


def _diff_positions(db: Database, remote: NodeDatabase, counted: _Counted) -> None:
    blocks = list(remote.blocks())
    if blocks:
        own = blocks_of(db.items(), remote.block_records, DIGESTS[len(blocks[0].digest)])
        if all(mine == block for mine, block in zip_longest(own, blocks)):
            counted.same(db.count())
            return
    there = in_byte_order(pair for block in blocks for pair in remote.records(block))
    for record in join_records(db.name, in_byte_order(db.items()), there, by_item=db.duplicates):
        counted.add(record)


class _Peeked:
    """Records, with a look at the next one."""

    def __init__(self, records: Iterator[Pair]) -> None:
        self._records = records
        self.current = next(records, None)

    def take(self) -> Pair:
        """The current record; go to the next."""
        found = self.current
        assert found is not None
        self.current = next(self._records, None)
        return found
