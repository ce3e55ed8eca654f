"""A replica that writes, checkpoints and rolls back at random, and the recovery of its log by the tracker.

The replica keeps its records naively: what a rolled-back key returns to is looked up among the writes that remain,
without a chain. Recovery sees only the log and the tree as of the checkpoint.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from engine.format.entry.ln import LN
from engine.format.entry.rollback import RollbackEnd, RollbackStart
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.recovery.rollback_tracker import RollbackTracker
from engine.txn.chain import ChainDatabase, ChainEntry
from tests.support.logs.loglang import make_ln
from tests.support.logs.reallog import PlainDatabase

KEYS = [bytes((letter,)) for letter in b"abcdef"]


class Slot(NamedTuple):
    """A slot of the tree; deletions are pending (pd) until they are known (kd)."""

    lsn: int
    kd: bool = False
    pd: bool = False


Tree = dict[bytes, Slot]


class Txn:
    """An active transaction: its writes that are not rolled back, and each record before it."""

    def __init__(self, id: int) -> None:
        self.id = id
        self.writes: list[tuple[int, bytes, bool]] = []
        self.before: dict[bytes, Slot | None] = {}


class Replica:
    """The node while it runs. LSNs are 10, 20, 30, ..."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.log: dict[int, tuple[str, object]] = {}
        self.tree: Tree = {}
        self.active: dict[int, Txn] = {}
        self.sync_points: list[int] = []
        self.last_txn_end = 0
        self.invisible: set[int] = set()
        self.owner: dict[int, int] = {}
        self.ckpt_start = self.first_active = NULL_LSN
        self.ckpt_tree: Tree = {}
        self.next_id = -11

    def append(self, kind: str, what: object) -> int:
        lsn = 10 * (len(self.log) + 1)
        self.log[lsn] = (kind, what)
        return lsn

    def write(self) -> None:
        txn = self._some_txn()
        locked = {key for other in self.active.values() if other is not txn for _, key, _ in other.writes}
        keys = [key for key in KEYS if key not in locked]
        if not keys:
            return
        key = self.chance.choice(keys)
        slot = self.tree.get(key)
        if slot is not None and (slot.kd or slot.pd) and key not in txn.before and self.chance.random() < 0.5:
            # The compressor was here.
            del self.tree[key]
            slot = None
        deletes = slot is not None and not (slot.kd or slot.pd) and self.chance.random() < 0.4
        before = txn.before.setdefault(key, slot)
        last = txn.writes[-1][0] if txn.writes else NULL_LSN
        abort_lsn = NULL_LSN if before is None else before.lsn
        known_deleted = before is not None and (before.kd or before.pd)
        data = None if deletes else b"data"
        lsn = self.append("LN", make_ln(txn.id, last, key, abort_lsn, data, abort_known_deleted=known_deleted))
        txn.writes.append((lsn, key, deletes))
        self.tree[key] = Slot(lsn, pd=deletes)

    def write_locally(self) -> None:
        key = b"L" + self.chance.choice(KEYS)
        slot = self.tree.get(key)
        id = len(self.log) + 1
        lsn = self.append("LN", make_ln(id, NULL_LSN, key, NULL_LSN if slot is None else slot.lsn))
        self.tree[key] = Slot(lsn)
        self.append("C", id)

    def commit(self) -> None:
        if self.active:
            txn = self.active.pop(self.chance.choice(sorted(self.active)))
            self.last_txn_end = self.append("C", txn.id)
            self.sync_points.append(self.last_txn_end)

    def abort(self) -> None:
        if self.active:
            txn = self.active.pop(self.chance.choice(sorted(self.active)))
            self.last_txn_end = self.append("A", txn.id)
            self.sync_points.append(self.last_txn_end)
            for key, slot in txn.before.items():
                self._restore(key, slot)

    def matchpoint(self) -> None:
        self.sync_points.append(self.append("M", None))

    def checkpoint(self) -> None:
        self.ckpt_start = self.append("ckpt", None)
        firsts = [txn.writes[0][0] for txn in self.active.values() if txn.writes]
        self.first_active = min([self.ckpt_start, *firsts])
        self.ckpt_tree = dict(self.tree)

    def roll_back(self) -> None:
        points = [lsn for lsn in self.sync_points if lsn >= self.last_txn_end]
        if not self.active or not points:
            return
        matchpoint = self.chance.choice(points)
        self.sync_points = [lsn for lsn in self.sync_points if lsn <= matchpoint]
        start = self.append("RS", RollbackStart(0, matchpoint, 0, tuple(self.active)))
        # The checkpoint may fall before or after the undo, inside the bracket.
        checkpoint_at = self.chance.choice(("none", "none", "before", "after"))
        if checkpoint_at == "before":
            self.checkpoint()
        firsts = [txn.writes[0][0] for txn in self.active.values() if txn.writes]
        undone = [lsn for txn in list(self.active.values()) for lsn in self._undo(txn, matchpoint)]
        self.owner.update(dict.fromkeys(undone, start))
        if checkpoint_at == "after":
            self.checkpoint()
            self.first_active = min([self.ckpt_start, *firsts])
        if self.chance.random() < 0.3:
            self.write_locally()
        if self.chance.random() < 0.7:
            self.invisible.update(undone)
            self.append("RE", RollbackEnd(matchpoint, start, 0))
        else:
            self.invisible.update(lsn for lsn in undone if self.chance.random() < 0.5)

    def _undo(self, txn: Txn, matchpoint: int) -> list[int]:
        undone = [lsn for lsn, _, _ in txn.writes if lsn > matchpoint]
        touched = {key for lsn, key, _ in txn.writes if lsn > matchpoint}
        txn.writes = [write for write in txn.writes if write[0] <= matchpoint]
        for key in touched:
            remaining = [(lsn, deletes) for lsn, written, deletes in txn.writes if written == key]
            if remaining:
                self.tree[key] = Slot(remaining[-1][0], pd=remaining[-1][1])
            else:
                self._restore(key, txn.before.pop(key))
        if not txn.writes:
            del self.active[txn.id]
        return undone

    def _restore(self, key: bytes, slot: Slot | None) -> None:
        if slot is None:
            self.tree.pop(key, None)
        else:
            self.tree[key] = slot

    def _some_txn(self) -> Txn:
        if len(self.active) < 3 and self.chance.random() < 0.5:
            self.active[self.next_id] = Txn(self.next_id)
            self.next_id -= 1
        return self.active[self.chance.choice(sorted(self.active))] if self.active else self._some_txn()


class Recovery:
    """Recovery of a replica's log; passes 3, 7 and 8 for LNs."""

    def __init__(self, replica: Replica) -> None:
        self.log = replica.log
        self.ckpt_start = replica.ckpt_start
        self.first = replica.first_active
        self.tree: Tree = dict(replica.ckpt_tree)
        self.invisible = set(replica.invisible)
        self.owner: dict[int, int] = {}
        self.hidden: list[int] = []

    def read_ln(self, lsn: int) -> ChainEntry:
        ln = self.log[lsn][1]
        assert isinstance(ln, LN)
        return ChainEntry(ln, NULL_VLSN)

    def database(self, db_id: int) -> ChainDatabase:
        return PlainDatabase()

    def run(self) -> None:
        tracker = RollbackTracker(self.ckpt_start)
        committed, aborted = set(), set()
        backward = [lsn for lsn in sorted(self.log, reverse=True) if lsn >= self.first]
        for lsn in backward:
            kind, what = self.log[lsn]
            if isinstance(what, RollbackStart):
                tracker.register_start(what, lsn)
            elif isinstance(what, RollbackEnd):
                tracker.register_end(what, lsn)
            elif kind == "C" and isinstance(what, int):
                tracker.check_commit(what, lsn)
                committed.add(what)
            elif kind == "A":
                aborted.add(what)
        tracker.finish(self.first)
        resurrected = self._undo_pass(tracker, backward, committed, aborted)
        for lsn in reversed(backward):
            ln = self.log[lsn][1]
            if isinstance(ln, LN) and lsn not in self.invisible and ln.txn_id not in aborted:
                late = lsn in resurrected or (lsn >= self.ckpt_start and ln.txn_id in committed)
                if late and (ln.key not in self.tree or self.tree[ln.key].lsn < lsn):
                    self.tree[ln.key] = Slot(lsn, pd=ln.data is None)

    def _undo_pass(
        self, tracker: RollbackTracker, backward: list[int], committed: set[int], aborted: set[object]
    ) -> set[int]:
        scanner = tracker.scanner(self)
        resurrected = set()
        for lsn in backward:
            ln = self.log[lsn][1]
            if not isinstance(ln, LN):
                continue
            assert ln.txn_id is not None
            period = scanner.find(lsn, ln.txn_id)
            if period is not None:
                self.owner[lsn] = period.start_lsn
                info = scanner.version_before(period, lsn, ln.txn_id, invisible=lsn in self.invisible)
                if info is not None:
                    self._undo(ln.key, lsn, Slot(info.lsn, info.known_deleted, info.pending_deleted))
            elif ln.txn_id not in committed and ln.txn_id not in aborted and ln.txn_id <= -10:
                resurrected.add(lsn)
            elif ln.txn_id not in committed:
                self._undo(ln.key, lsn, Slot(ln.abort_lsn, ln.abort_known_deleted))
        self.hidden = scanner.take_invisible()
        self.invisible.update(self.hidden)
        return resurrected

    def _undo(self, key: bytes, lsn: int, slot: Slot) -> None:
        if key in self.tree and self.tree[key].lsn == lsn:
            self.tree[key] = Slot(NULL_LSN, kd=True) if slot.lsn == NULL_LSN else slot


def visible(tree: Tree) -> dict[bytes, int]:
    """The records that a reader would find, by the LSN of their version."""
    return {key: slot.lsn for key, slot in tree.items() if not (slot.kd or slot.pd)}
