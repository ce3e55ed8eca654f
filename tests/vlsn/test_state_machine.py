"""A random history of the index, compared with a plain dict after every step (T-23).

The node writes entries in batches, registers them late and out of order, takes checkpoints, rolls back, deletes log
files, crashes and recovers. The dict holds the LSN of every visible entry.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from engine.format.entry.rollback import RollbackStart
from engine.format.lsn import NULL_LSN, file_of, make_lsn
from engine.vlsn.index import VLSNIndex
from engine.vlsn.limits import BucketLimits
from engine.vlsn.recovery_merge import open_index
from engine.vlsn.scanner import BackwardScanner, ForwardScanner
from engine.vlsn.tracker import VLSNRecoveryTracker
from tests.vlsn.memorydb import COMMIT, LN, MATCHPOINT, MemoryDatabase

TYPES = st.sampled_from((LN, LN, LN, MATCHPOINT, COMMIT))


class Entry(NamedTuple):
    """An entry of the log: part of the stream, or a RollbackStart (``record``)."""

    lsn: int
    vlsn: int
    type_number: int
    record: RollbackStart | None


class IndexMachine(RuleBasedStateMachine):
    """The node."""

    @initialize(
        limits=st.builds(BucketLimits, st.integers(1, 5), st.integers(1, 6), st.sampled_from((40, 200, 100_000)))
    )
    def create(self, limits: BucketLimits) -> None:
        self.limits = limits
        self.database = MemoryDatabase()
        self.index: VLSNIndex = open_index(self.database, limits)
        self.log: list[Entry] = []
        self.invisible: set[int] = set()
        self.visible: dict[int, Entry] = {}
        self.pending: list[Entry] = []
        self.ckpt_start = 0
        self.first_file = 0
        self.lsn = make_lsn(0, 100)

    @property
    def last(self) -> int:
        return max(self.visible, default=0)

    @property
    def last_txn_end(self) -> int:
        return max((vlsn for vlsn, entry in self.visible.items() if entry.type_number == COMMIT), default=0)

    @property
    def sync_points(self) -> list[int]:
        return sorted(vlsn for vlsn, entry in self.visible.items() if entry.type_number != LN)

    @rule(
        types=st.lists(TYPES, min_size=1, max_size=12), flip=st.booleans(), order=st.randoms(), late=st.integers(0, 3)
    )
    def write(self, types: list[int], flip: bool, order: random.Random, late: int) -> None:
        if flip:
            self.lsn = make_lsn(file_of(self.lsn) + 1, 30)
        for type_number in types:
            self.lsn += 20
            entry = Entry(self.lsn, self.index.bump(), type_number, None)
            assert entry.vlsn == self.last + 1
            self.log.append(entry)
            self.visible[entry.vlsn] = entry
            self.pending.append(entry)
        order.shuffle(self.pending)
        while len(self.pending) > late:
            self.register()

    def register(self) -> None:
        entry = self.pending.pop()
        self.index.put(entry.vlsn, entry.lsn, entry.type_number)

    def settle(self) -> None:
        while self.pending:
            self.register()
        self.index.await_consistency(1000)

    @rule()
    def checkpoint(self) -> None:
        self.ckpt_start = len(self.log)
        self.settle()
        self.index.flush()

    @rule()
    def flush(self) -> None:
        """A flush outside a checkpoint moves nothing."""
        if not self.pending:
            self.index.flush()

    @precondition(lambda self: self.rollback_points())
    @rule(data=st.data(), crash=st.booleans())
    def roll_back(self, data: st.DataObject, crash: bool) -> None:
        """A soft rollback; with ``crash`` the index is not cut, and recovery has to do it."""
        self.settle()
        matchpoint = data.draw(st.sampled_from(self.rollback_points()))
        entry = self.visible[matchpoint]
        self.lsn += 20
        self.log.append(Entry(self.lsn, 0, 0, RollbackStart(matchpoint, entry.lsn, 0, ())))
        for vlsn in range(matchpoint + 1, self.last + 1):
            self.invisible.add(self.visible.pop(vlsn).lsn)
        if crash:
            self.recover()
        else:
            self.index.truncate_tail(matchpoint + 1, entry.lsn)

    def rollback_points(self) -> list[int]:
        first = self.index.range.first
        return [vlsn for vlsn in self.sync_points if self.last_txn_end <= vlsn < self.last and vlsn >= max(first, 1)]

    @precondition(lambda self: self.deletable_files())
    @rule(data=st.data())
    def clean(self, data: st.DataObject) -> None:
        """Log cleaning: cut the head, then delete the files."""
        self.settle()
        file_number = data.draw(st.sampled_from(self.deletable_files()))
        last = max(vlsn for vlsn, entry in self.visible.items() if file_of(entry.lsn) <= file_number)
        self.index.truncate_head(last, file_number + 1)
        self.first_file = file_number + 1
        self.visible = {vlsn: entry for vlsn, entry in self.visible.items() if vlsn > last}

    def deletable_files(self) -> list[int]:
        """Files before the checkpoint whose entries are all at or before the limit of the index."""
        limit = self.index.head_limit(0)
        files = []
        for file_number in sorted({file_of(entry.lsn) for entry in self.visible.values()}):
            entries = [entry for entry in self.log if file_of(entry.lsn) <= file_number]
            visible = [entry.vlsn for entry in self.visible.values() if file_of(entry.lsn) <= file_number]
            if len(entries) <= self.ckpt_start and max(visible) <= limit:
                files.append(file_number)
        return files

    @rule()
    def crash(self) -> None:
        self.recover()

    def recover(self) -> None:
        """The database is as it was committed, the index in memory is lost, what was not registered is in the log."""
        self.pending.clear()
        self.database = MemoryDatabase(self.database.records)
        recovered = VLSNRecoveryTracker(self.limits)
        for entry in self.log[self.ckpt_start :]:
            if entry.record is not None:
                recovered.roll_back(entry.record)
            elif entry.lsn not in self.invisible:
                recovered.track(entry.vlsn, entry.lsn, entry.type_number)
        self.index = open_index(self.database, self.limits, recovered)
        self.checkpoint()

    @invariant()
    def range_is_right(self) -> None:
        known = {vlsn for vlsn in self.visible if vlsn not in {entry.vlsn for entry in self.pending}}
        found = self.index.range
        assert (found.first, found.last) == (min(known, default=-1), max(known, default=-1))
        if not self.pending:
            assert found.last_sync == max(self.sync_points, default=-1)
            # Forgotten when it became the first VLSN (D-10).
            ends = {self.last_txn_end or -1, *([-1] if found.first != 1 else [])}
            assert found.last_txn_end in ends
        assert self.index.verify() == []

    @invariant()
    def lookups_are_right(self) -> None:
        exact = dict(self.index.mappings())
        for vlsn, lsn in exact.items():
            assert self.visible[vlsn].lsn == lsn
        first, last = self.index.range.first, self.index.range.last
        for vlsn in range(max(first, 1), last + 1):
            lsn = self.visible[vlsn].lsn
            assert self.index.lsn(vlsn) == exact.get(vlsn, NULL_LSN)
            at_or_before, at_or_after = self.index.lte_lsn(vlsn), self.index.gte_lsn(vlsn)
            assert at_or_before <= lsn <= at_or_after
            assert file_of(at_or_before) >= self.first_file
            # Nothing that is mapped lies between.
            assert not any(at_or_before < other < at_or_after for v, other in exact.items() if v != vlsn)

    @invariant()
    def scanners_are_right(self) -> None:
        first, last = max(self.index.range.first, 1), self.index.range.last
        if last < 1:
            return
        forward, backward = ForwardScanner(self.index), BackwardScanner(self.index)
        assert forward.start(first) <= self.visible[first].lsn
        assert backward.start(last) == self.visible[last].lsn
        for vlsn in range(first, last + 1):
            assert forward.precise(vlsn) == self.index.lsn(vlsn)
            assert forward.approximate(vlsn) == self.index.lte_lsn(vlsn)
        for vlsn in range(last, first - 1, -1):
            assert backward.precise(vlsn) == self.index.lsn(vlsn)


IndexMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestIndex = IndexMachine.TestCase
