"""Which version of a record counts.

In one log, of the rows of one record:

1. The newest LN that is committed or non-transactional is the version; a deletion removes the record. LNs do not count
   if they were rolled back, or if their transaction aborted or has no end.
2. If a slot of a BIN leads to a newer version whose LN is not in the log, an LN is lost. Data embedded in the slot is
   then the version. In a database with duplicates the key of the slot is the version, since it holds the whole record
   (R-TREE-40). A deleted slot removes the record, unless its transaction may have been open. Otherwise the newest
   version is *lost*, and an older one, if there is one, stands in for it.
3. A record that is missing in the newest complete version of its BIN, but was in an older one, has been deleted, unless
   it has an even newer LN. If its key is outside of the first and last key of that version, a split may have moved the
   record to another node instead; if damage may have destroyed that node, the record is kept.
4. A transaction without an end in the log has nevertheless ended if it wrote before firstActive of a checkpoint: the
   cleaner may have deleted the file with its Commit. If a slot of the newest BIN leads to its LN, the transaction
   committed, since an abort would have restored the slot. If the slot leads elsewhere, the transaction did not commit,
   or its LN no longer matters.
5. A record that was written before the last whole checkpoint, and is in no BIN of the trees at that checkpoint
   (``trees``), has been deleted. For a range whose nodes cannot be read the other rules apply.

Among several nodes of a group the highest VLSN counts. A version lost on one node is not lost if another node, whose
log goes as far, knows the record and has not lost it, or has a newer version than the substitute.

A version is *confirmed* if no damage can hide a newer one or a deletion: it was logged after the last damage, or a slot
leads to it in a BIN that was logged after the damage or belonged to the trees at a later checkpoint. A slot whose LN is
missing confirms only if the transaction had ended. In a group it is enough if one node, whose log goes as far as the
others', confirms it, or if the nodes together have every VLSN after it (``coverage``).

Example, rows of one key: ``LN 100 committed | slot to 300 in a BIN at 400``: the version at 300 is lost, and the
version at 100 replaces it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import split_two_part_key
from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.inspect.fates import ABORTED, COMMITTED, OPEN, ROLLED_BACK
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.scan import Checkpoint
from engine.rescue.salvage.tree_survey import TreeSurvey
from engine.rescue.salvage.trees import DECIDED, KeyPlace
from engine.rescue.salvage.versions import (
    DELETED,
    FOR_GOOD,
    FROM_TREE,
    HIDDEN,
    IN_SLOT,
    IN_TXN,
    SINGLE,
    VOID,
    KeyVersions,
    LNVersion,
    SalvagedVersion,
    version_of_ln,
    version_of_slot,
)


class TxnFates:
    """What became of transactions.

    Arguments:
        commits, aborts: by node, times of ended transactions.
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
        """The time of a Commit on this node, or on another node of its group."""
        if txn > 0:
            return self._commits[node].get(txn) if txn in self._commits[node] else None
        for one in self._groups[node]:
            if txn in self._commits[one]:
                return self._commits[one].get(txn)
        return None


class Verdict(NamedTuple):
    """The verdict of one log on one record.

    Attributes:
        version: the version that counts, or a deletion; None if nothing is legible.
        gone: the tree shows that the record was deleted.
        lost_lsn: LSN of the newest version if it cannot be read; else NULL_LSN.
        doubt: a newer version whose transaction has no end in the log, or None.
        passed_over: numbers of versions that do not count, by fate: ``aborted``, ``open``, ``rolled-back``.
        confirmed: no damage of this log can hide a newer version, or a deletion.
        ended: the transaction of the newest slot had ended when the slot was logged.
    """

    version: SalvagedVersion | None
    gone: bool
    lost_lsn: int
    doubt: SalvagedVersion | None
    passed_over: dict[str, int]
    confirmed: bool
    ended: bool = True

    @property
    def live(self) -> bool:
        """Whether there is a record."""
        return self.version is not None and not self.gone and not self.version.deleted

    @property
    def vlsn(self) -> int:
        """The VLSN of the version that counts."""
        return NULL_VLSN if self.version is None else self.version.vlsn


def _first_active(checkpoint: Checkpoint) -> int:
    return checkpoint.first_active_lsn


class NewestBins:
    """The newest complete version of each BIN in the log of a node.

    Arguments:
        last_gap: the highest LSN at which the log is damaged; NULL_LSN without damage.
        gap_end: where the last gap ends (``coverage``).
        checkpoints: the legible ones, in log order.
        trees: the trees at that checkpoint.

    Attributes:
        lsns: by node id.
        tree_bins: LSN of the full version of each BIN of the trees, by node id.
        tree_time: records written before this LSN are in a tree or were deleted; NULL_LSN: the trees cannot be used.
    """

    def __init__(
        self,
        last_gap: int = NULL_LSN,
        checkpoints: Sequence[Checkpoint] = (),
        trees: TreeSurvey | None = None,
        gap_end: int = NULL_LSN,
    ) -> None:
        self._last_gap = last_gap
        self.gap_end = gap_end
        self._checkpoints = sorted(checkpoints, key=_first_active)
        self.tree_bins: Mapping[int, int] = {} if trees is None else trees.bins
        self._has_branches = trees is not None and bool(trees.lost)
        self.tree_time: int = NULL_LSN if trees is None else trees.time
        self.lsns: dict[int, int] = {}
        self._ends: dict[int, tuple[bytes, bytes]] = {}

    def take(self, node: int, lsn: int, keys: list[bytes]) -> None:
        """A complete version, with its keys."""
        if lsn > self.lsns.get(node, NULL_LSN):
            self.lsns[node] = lsn
            if keys and (self._has_branches or lsn <= self._last_gap):
                self._ends[node] = keys[0], keys[-1]
            else:
                self._ends.pop(node, None)

    def has_ended(self, found: KeyVersions, lsn: int) -> bool:
        """Whether the transaction that wrote a version had ended when the record's slot was logged."""
        # The first checkpoint that no longer knew the transaction.
        at = bisect_right(self._checkpoints, lsn, key=_first_active)
        if found.slot is None or at == len(self._checkpoints):
            return False
        seen = found.seen_lsn
        # An earlier BIN is used if no later version of it can be lost.
        return seen >= self._checkpoints[at].start_lsn or seen > self._last_gap or self.in_tree(found)

    def fate_of_ended(self, found: KeyVersions, lsn: int) -> str:
        """The fate of a transaction without an end in the log, from the slots of a record that it wrote (rule 4).

        Arguments:
            found: versions of the record.
            lsn: LSN of the LN that the transaction wrote.
        """
        slot = found.slot
        if slot is None or not self.has_ended(found, lsn):
            return OPEN
        if slot[0] == lsn:
            return COMMITTED
        return ABORTED if slot[0] < lsn < slot[6] else OPEN

    def in_tree(self, found: KeyVersions) -> bool:
        """Whether a tree has a record, or a BIN that was logged after ``tree_time``."""
        seen = found.seen_lsn
        if self.tree_time == NULL_LSN or seen == NULL_LSN:
            return False
        return seen >= self.tree_time or seen >= self.tree_bins.get(found.seen_node, seen + 1)

    def confirm(self, found: KeyVersions, lsn: int) -> bool:
        """Whether no damage can hide a version of a record that is newer than the one with an LSN, or a deletion."""
        if lsn >= self.gap_end:
            return True
        slot = found.slot
        if slot is None or slot[0] != lsn:
            return False
        return slot[6] >= self.gap_end or (self.tree_time >= self.gap_end and self.in_tree(found))

    def without(self, found: KeyVersions, key: bytes, newest: int, duplicates: bool, place: KeyPlace) -> bool:
        """Whether the newest version of the BIN that last had a record shows that it was deleted (rule 3).

        Arguments:
            found, key: versions and key of the record.
            newest: LSN of its newest version that committed.
            duplicates: keys have two parts.
            place: see ``judge``.
        """
        if not found.seen_lsn < self.lsns.get(found.seen_node, NULL_LSN) > newest:
            return False
        if self._last_gap < found.seen_lsn and not place.is_lost:
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
    place: KeyPlace = DECIDED,
    aborted: Collection[int] = (),
) -> Verdict:
    """The verdict of one log on one record.

    Arguments:
        found: LNs and slots of the record.
        node: the number of the node.
        fates: of the transactions.
        newest_bins: of this log.
        key, duplicates: key of the record, and whether its database has sorted duplicates.
        place: the state of this key range in the trees.
        aborted: VLSNs of aborted versions of the record, known from other nodes of the group.
    """
    best, doubt, passed = _newest_lns(found, node, fates, newest_bins)
    if best is not None and best[1] & FROM_TREE:
        return Verdict(version_of_ln(best), False, NULL_LSN, None, passed, True)
    newest = NULL_LSN if best is None else best[0]
    version = None if best is None else version_of_ln(best)
    has_ended = True
    slot, lost_lsn, gone = found.slot, NULL_LSN, False
    if not place.is_unknown and max(newest, NULL_LSN if slot is None else slot[0]) < newest_bins.tree_time:
        # Rule 5.
        gone = not newest_bins.in_tree(found)
    if slot is not None and not gone:
        gone = newest_bins.without(found, key, newest, duplicates, place)
        # Rule 2: a slot that leads to an LN of this log does not show a loss.
        if not gone and slot[0] > newest and slot[3] not in aborted and all(row[0] != slot[0] for row in found.lns):
            has_ended = newest_bins.has_ended(found, slot[0])
            if slot[1] & DELETED and not (has_ended or slot[1] & FOR_GOOD or version is None):
                # A deletion that may have been rolled back.
                lost_lsn = slot[0]
            elif slot[1] & (DELETED | IN_SLOT) or (duplicates and not slot[1] & SINGLE):
                version = version_of_slot(slot)
            else:
                lost_lsn = slot[0]
    newer = None
    if doubt is not None and not (gone and doubt[0] < newest_bins.tree_time):
        newer = version_of_ln(doubt) if version is None or doubt[0] >= version.lsn else None
    is_known = has_ended and lost_lsn == NULL_LSN and not (best is not None and best[1] & HIDDEN)
    confirmed = is_known and version is not None and newest_bins.confirm(found, version.lsn)
    return Verdict(
        version=version,
        gone=gone,
        lost_lsn=lost_lsn,
        doubt=newer,
        passed_over=passed,
        confirmed=confirmed,
        ended=has_ended,
    )


def _newest_lns(
    found: KeyVersions, node: int, fates: TxnFates, newest_bins: NewestBins
) -> tuple[LNVersion | None, LNVersion | None, dict[str, int]]:
    """The newest LN that counts (rule 1), the newest of a transaction without an end, and numbers of others by fate.

    If an LN comes from a tree, it is the first of the three in any case.
    """
    best: LNVersion | None = None
    doubt: LNVersion | None = None
    newest = doubtful = NULL_LSN
    passed: dict[str, int] = {}
    for row in found.lns:
        lsn, flags, _, txn, _, _ = row
        if flags & FROM_TREE:
            return row, None, passed
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
    return best, doubt, passed


def choose(verdicts: Mapping[int, Verdict], last_vlsns: Sequence[int]) -> tuple[int, bool]:
    """The node whose version of a record counts, and whether the newest version is lost.

    Arguments:
        verdicts: verdicts by node, of nodes that know the record.
        last_vlsns: last VLSN in the log of each node.
    """
    if len(verdicts) == 1:
        for at, one in verdicts.items():
            return at, one.lost_lsn != NULL_LSN
    # A deletion with the same VLSN wins: a node with the deletion has replayed more of the stream than a node with the
    # previous version.
    chosen = max(verdicts, key=lambda at: (verdicts[at].vlsn, not verdicts[at].live, -at))
    best = verdicts[chosen]
    for at, one in verdicts.items():
        if one.lost_lsn == NULL_LSN:
            continue
        # The lost version is not older than the last one that this node could read.
        known = any(
            other.lost_lsn == NULL_LSN and (last_vlsns[number] >= last_vlsns[at] or other.vlsn > one.vlsn)
            for number, other in verdicts.items()
            if number != at
        )
        if not known and one.vlsn >= best.vlsn:
            return at, True
    return chosen, False
