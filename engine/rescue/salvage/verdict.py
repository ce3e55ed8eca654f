"""Which version of a record counts.

In one log, of the rows of one record:

1. The newest LN whose transaction committed, or that had none, is the version; a deletion removes the record. LNs that
   a rollback took back do not count, nor those of transactions that aborted or have no end.
2. A slot of a BIN that leads to a newer version, which no LN in the log is, speaks for a lost LN: embedded data is the
   version, and so is the key of a database with duplicates, which holds the whole record (R-TREE-40); a deleted slot
   removes the record; else the newest version is *lost*, and an older one, if there is one, stands in for it.
3. A record that the newest complete version of its BIN lacks, although an older one had it, has been deleted, unless an
   LN is newer still. Beyond the first and last key of that version it may as well have moved to another node when the
   BIN was split; where damage may have held that node, the record is kept.
4. A transaction without an end in the log had ended all the same when it wrote before firstActive of a checkpoint: the
   cleaner may have deleted the file with its Commit. A slot of the newest BIN that leads to its LN shows that it
   committed, for an abort would have turned the slot back; a slot that leads elsewhere, that it did not, or that it
   does not matter any more.
5. A record that was written before the last checkpoint, and that no BIN of the trees has which that checkpoint left
   (``trees``), has been deleted. A range of which the trees have lost the nodes is left to the other rules.

Of several nodes of a group the highest VLSN counts. What one node has lost is not lost when another, whose log goes as
far, knows the record and has not lost it, or has a newer version than the one that would stand in.

Example, rows of one key: ``LN 100 committed | slot to 300 in a BIN at 400``: the version of 300 is lost, that of 100
stands in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import split_two_part_key
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.trees import TreeSurvey
from engine.rescue.salvage.versions import (
    DELETED,
    EMBEDDED,
    FROM_TREE,
    IN_TXN,
    SINGLE,
    VOID,
    KeyVersions,
    LNVersion,
    SalvagedVersion,
    version_of_ln,
    version_of_slot,
)

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"
ROLLED_BACK: Final = "rolled-back"


class TxnFates:
    """What became of transactions.

    Arguments:
        commits, aborts: by node, times of the transactions that ended.
        groups: by node, the nodes whose records belong together.
    """

    def __init__(self, commits: list[TxnLsns], aborts: list[TxnLsns], groups: list[list[int]]) -> None:
        self._commits = commits
        self._aborts = aborts
        self._groups = groups

    def fate(self, node: int, txn: int) -> str:
        """``COMMITTED``, ``ABORTED`` or ``OPEN``."""
        if txn in self._commits[node]:
            return COMMITTED
        if txn in self._aborts[node]:
            return ABORTED
        # Ids of replicated transactions are the same on all nodes of a group.
        if txn < 0 and self.commit_time(node, txn) is not None:
            return COMMITTED
        return OPEN

    def commit_time(self, node: int, txn: int) -> int | None:
        """The time of a Commit on this node, or on another one of its group."""
        if txn > 0:
            return self._commits[node].get(txn) if txn in self._commits[node] else None
        for one in self._groups[node]:
            if txn in self._commits[one]:
                return self._commits[one].get(txn)
        return None


class Verdict(NamedTuple):
    """What one log says of one record.

    Attributes:
        version: what counts, a deletion too; None when nothing is legible.
        gone: the tree shows that it was deleted.
        lost_lsn: the newest version, which cannot be read; NULL_LSN when it can.
        doubt: a newer version whose transaction has no end in the log, or None.
        passed_over: versions that do not count, by fate: ``aborted``, ``open``, ``rolled-back``.
    """

    version: SalvagedVersion | None
    gone: bool
    lost_lsn: int
    doubt: SalvagedVersion | None
    passed_over: dict[str, int]

    @property
    def live(self) -> bool:
        """Whether there is a record."""
        return self.version is not None and not self.gone and not self.version.deleted

    @property
    def vlsn(self) -> int:
        """The VLSN of the version that counts."""
        return NULL_VLSN if self.version is None else self.version.vlsn


class NewestBins:
    """The newest complete version of each BIN in the log of a node.

    Arguments:
        last_gap: the highest LSN at which the log is damaged; NULL_LSN without damage.
        settled: firstActive and CkptStart of the last legible checkpoint; NULL_LSN without one.
        trees: as that checkpoint left them.

    Attributes:
        lsns: by node id.
        tree_bins: LSN of the full version of each BIN of the trees, by node id.
        tree_time: what was written before that LSN is in a tree, or was deleted; NULL_LSN: the trees say nothing.
    """

    def __init__(
        self,
        last_gap: int = NULL_LSN,
        settled: tuple[int, int] = (NULL_LSN, NULL_LSN),
        trees: TreeSurvey | None = None,
    ) -> None:
        self._last_gap = last_gap
        self._first_active, self._ckpt_start = settled
        self.tree_bins: Mapping[int, int] = {} if trees is None else trees.bins
        self.tree_time: int = NULL_LSN if trees is None else trees.time
        self.lsns: dict[int, int] = {}
        self._ends: dict[int, tuple[bytes, bytes]] = {}

    def take(self, node: int, lsn: int, keys: list[bytes]) -> None:
        """A complete version, with its keys."""
        if lsn > self.lsns.get(node, NULL_LSN):
            self.lsns[node] = lsn
            if lsn <= self._last_gap and keys:
                self._ends[node] = keys[0], keys[-1]
            else:
                self._ends.pop(node, None)

    def fate_of_ended(self, found: KeyVersions, lsn: int) -> str:
        """What became of a transaction without an end in the log, as the slots of a record that it wrote show (rule 4).

        Arguments:
            found: of the record.
            lsn: of the LN that the transaction wrote.
        """
        slot, seen = found.slot, found.seen_lsn
        # A BIN that was logged before the transaction had ended speaks when no later version can be lost.
        if lsn >= self._first_active or slot is None or not (seen >= self._ckpt_start or seen > self._last_gap):
            return OPEN
        if slot[0] == lsn:
            return COMMITTED
        return ABORTED if seen > lsn and seen >= self._ckpt_start else OPEN

    def in_tree(self, found: KeyVersions) -> bool:
        """Whether a tree has a record, or a BIN that was logged after ``tree_time``."""
        seen = found.seen_lsn
        return seen >= self.tree_time or seen >= self.tree_bins.get(found.seen_node, seen + 1)

    def without(self, found: KeyVersions, key: bytes, newest: int, duplicates: bool) -> bool:
        """Whether the newest version of the BIN that last had a record shows that it was deleted (rule 3).

        Arguments:
            found, key: of the record.
            newest: LSN of its newest version that committed.
            duplicates: keys have two parts.
        """
        if not found.seen_lsn < self.lsns.get(found.seen_node, NULL_LSN) > newest:
            return False
        if self._last_gap < found.seen_lsn:
            return True
        ends = self._ends.get(found.seen_node)
        if ends is None:
            return False
        if not duplicates:
            return ends[0] <= key <= ends[1]
        try:
            return split_two_part_key(ends[0]) <= split_two_part_key(key) <= split_two_part_key(ends[1])
        except (FormatError, IndexError):
            return False


def judge(
    found: KeyVersions,
    node: int,
    fates: TxnFates,
    newest_bins: NewestBins,
    key: bytes,
    duplicates: bool = False,
    in_branch: bool = True,
) -> Verdict:
    """What one log says of one record.

    Arguments:
        found: LNs and slots of the record.
        node: its number.
        fates: of the transactions.
        newest_bins: of this log.
        key, duplicates: of the record.
        in_branch: the trees say nothing of the record.
    """
    best: LNVersion | None = None
    doubt: LNVersion | None = None
    newest = doubtful = NULL_LSN
    passed: dict[str, int] = {}
    for row in found.lns:
        lsn, flags, _, txn, _, _ = row
        if flags & FROM_TREE:
            return Verdict(version_of_ln(row), False, NULL_LSN, None, passed)
        fate = ROLLED_BACK if flags & VOID else fates.fate(node, txn) if flags & IN_TXN else COMMITTED
        if fate == OPEN:
            fate = newest_bins.fate_of_ended(found, lsn)
        if fate == COMMITTED:
            if lsn > newest:
                best, newest = row, lsn
        else:
            passed[fate] = passed.get(fate, 0) + 1
            if fate == OPEN and lsn > doubtful:
                doubt, doubtful = row, lsn
    version = None if best is None else version_of_ln(best)
    slot, lost_lsn, gone = found.slot, NULL_LSN, False
    if not in_branch and max(newest, NULL_LSN if slot is None else slot[0]) < newest_bins.tree_time:
        # Rule 5.
        gone = not newest_bins.in_tree(found)
    if slot is not None and not gone:
        gone = newest_bins.without(found, key, newest, duplicates)
        # Rule 2: a slot that leads to an LN of this log speaks for nothing that is lost.
        if not gone and slot[0] > newest and all(row[0] != slot[0] for row in found.lns):
            if slot[1] & (DELETED | EMBEDDED) or (duplicates and not slot[1] & SINGLE):
                version = version_of_slot(slot)
            else:
                lost_lsn = slot[0]
    newer = None
    if gone and doubtful < newest_bins.tree_time:
        doubt = None
    if doubt is not None and (version is None or doubtful >= version.lsn):
        newer = version_of_ln(doubt)
    return Verdict(version, gone, lost_lsn, newer, passed)


def choose(verdicts: Mapping[int, Verdict], last_vlsns: Sequence[int]) -> tuple[int, bool]:
    """Which node's version of a record counts, and whether its newest version is lost.

    Arguments:
        verdicts: by node, of those that know the record.
        last_vlsns: how far the log of each node goes.
    """
    if len(verdicts) == 1:
        for at, one in verdicts.items():
            return at, one.lost_lsn != NULL_LSN
    # A deletion with the same VLSN wins: who saw it deleted saw more than who has the version before.
    chosen = max(verdicts, key=lambda at: (verdicts[at].vlsn, not verdicts[at].live, -at))
    best = verdicts[chosen]
    for at, one in verdicts.items():
        if one.lost_lsn == NULL_LSN:
            continue
        # The version that was lost is not older than the last that this node could read.
        known = any(
            other.lost_lsn == NULL_LSN and (last_vlsns[number] >= last_vlsns[at] or other.vlsn > one.vlsn)
            for number, other in verdicts.items()
            if number != at
        )
        if not known and one.vlsn >= best.vlsn:
            return at, True
    return chosen, False
