"""Which version of a record counts.

In one log, of the rows of one record:

1. The newest LN whose transaction committed, or that had none, is the version; a deletion removes the record. LNs that
   a rollback took back do not count, nor those of transactions that aborted or have no end.
2. A slot of a BIN that leads to a newer version, which no LN in the log is, speaks for a lost LN: embedded data is the
   version; a deleted slot removes the record; else the newest version is *lost*, and an older one, if there is one,
   stands in for it.
3. A record that the newest complete version of its BIN lacks, although an older one had it, has been deleted, unless an
   LN is newer still.

Of several nodes of a group the highest VLSN counts. What one node has lost is not lost when another, whose log goes as
far, knows the record and has not lost it, or has a newer version than the one that would stand in.

Example, rows of one key: ``LN 100 committed | slot to 300 in a BIN at 400``: the version of 300 is lost, that of 100
stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN
from engine.format.vlsn import NULL_VLSN
from engine.rescue.salvage.scan import SalvagedVersion

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
OPEN: Final = "open"

# What became of a transaction: one of the three.
Fates = Callable[[int], str]


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


def judge(rows: Sequence[SalvagedVersion], fates: Fates, node_lsns: Mapping[int, int]) -> Verdict:
    """What one log says of one record.

    Arguments:
        rows: LNs and slots of the record, in any order.
        fates: of the transactions.
        node_lsns: by node id, where its newest complete version was logged.
    """
    best: SalvagedVersion | None = None
    doubt: SalvagedVersion | None = None
    slot: SalvagedVersion | None = None
    seen: SalvagedVersion | None = None
    passed: dict[str, int] = {}
    here = set()
    for row in rows:
        if row.kind == "slot":
            if slot is None or (row.lsn, row.bin_lsn) > (slot.lsn, slot.bin_lsn):
                slot = row
            if seen is None or row.bin_lsn > seen.bin_lsn:
                seen = row
            continue
        here.add(row.lsn)
        fate = "rolled-back" if row.kind == "void" else COMMITTED if row.txn is None else fates(row.txn)
        if fate == COMMITTED:
            best = row if best is None or row.lsn > best.lsn else best
        else:
            passed[fate] = passed.get(fate, 0) + 1
            if fate == OPEN and (doubt is None or row.lsn > doubt.lsn):
                doubt = row
    newest = NULL_LSN if best is None else best.lsn
    # Rule 3.
    gone = False
    if seen is not None:
        node_lsn = node_lsns.get(seen.node, NULL_LSN)
        gone = seen.bin_lsn < node_lsn > newest
    lost_lsn = NULL_LSN
    # Rule 2: a slot that leads to an LN of this log speaks for nothing that is lost.
    if not gone and slot is not None and slot.lsn not in here and slot.lsn > newest:
        if slot.deleted or slot.embedded:
            best = slot
        else:
            lost_lsn = slot.lsn
    if doubt is not None and best is not None and doubt.lsn < best.lsn:
        doubt = None
    return Verdict(best, gone, lost_lsn, doubt, passed)


def choose(verdicts: Mapping[int, Verdict], last_vlsns: Sequence[int]) -> tuple[int, bool]:
    """Which node's version of a record counts, and whether its newest version is lost.

    Arguments:
        verdicts: by node, of those that know the record.
        last_vlsns: how far the log of each node goes.
    """
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
