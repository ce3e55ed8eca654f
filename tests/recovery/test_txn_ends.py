"""Ends of transactions: the short way, where there is nothing else, comes to what the backward walk comes to."""

from __future__ import annotations

import random

from engine.format.entry_types import ABORT, COMMIT
from engine.recovery.result import TxnLsns


def test_the_last_end_of_a_transaction_counts_both_ways() -> None:
    rng = random.Random(7)
    forward = {COMMIT: TxnLsns(), ABORT: TxnLsns()}
    backward = {COMMIT: TxnLsns(), ABORT: TxnLsns()}
    ends: list[tuple[int, int, int]] = []
    for block in range(40):
        # Ids that are used again, local and replicated ones, near each other and far apart.
        ids = [rng.choice((rng.randrange(1, 90), -rng.randrange(1, 90), rng.randrange(1 << 40))) for _ in range(25)]
        lsns = [100 + 25 * block + at for at in range(25)]
        numbers = bytes(rng.choice((COMMIT, ABORT)) for _ in lsns)
        for number, found in forward.items():
            found.note_latest(ids, lsns, numbers, number)
        ends += zip(numbers, ids, lsns, strict=True)
    for number, txn_id, lsn in reversed(ends):
        backward[number].setdefault(txn_id, lsn)
    for number, found in forward.items():
        wanted = backward[number]
        assert len(found) == len(wanted) > 100
        assert {txn_id: found.get(txn_id) for txn_id in found} == {txn_id: wanted.get(txn_id) for txn_id in wanted}
