"""The worked examples of je-behaviour.md 4.6 that need logs of their own: E-CKPT-1, E-CKPT-4, E-CKPT-6.

The others: E-CKPT-2 and E-CKPT-3 in tests/checkpoint, E-CKPT-5 in tests/evictor.
"""

from __future__ import annotations

import pytest

from engine.errors import DamageError
from engine.format.header import Provisional
from engine.format.lsn import file_of
from tests.scenarios.by_hand import Hand

NO, YES, BEFORE = Provisional.NO, Provisional.YES, Provisional.BEFORE_CKPT_END
KEY = b"0100"


def test_before_ckpt_end_counts_while_no_ckpt_end_follows() -> None:
    """E-CKPT-1, case 1: BIN-A@200 is replayed, so that BIN-A@50 is obsolete indeed."""
    hand = Hand()
    old, *_ = (node.lsn() for node in hand.path(KEY))
    hand.start()
    new = hand.log(hand.path(KEY)[0], BEFORE)
    assert hand.recovered(KEY).lsns[0] == new != old


def test_before_ckpt_end_is_reached_through_its_parent() -> None:
    """E-CKPT-1, case 2: BIN-A@200 is skipped, IN-B@400 is replayed and leads to it."""
    hand = Hand()
    leaf, parent, *_ = hand.path(KEY)
    hand.start()
    new = hand.log(leaf, BEFORE)
    above = hand.log(parent, NO)
    hand.end()
    assert hand.recovered(KEY).lsns[:2] == [new, above]


def test_before_ckpt_end_without_its_parent_is_lost() -> None:
    """E-CKPT-1, case 3, the wrong use: the tree goes on with BIN-A@50, which was counted obsolete."""
    hand = Hand()
    old = [node.lsn() for node in hand.path(KEY)]
    hand.start()
    hand.log(hand.path(KEY)[0], BEFORE)
    hand.end()
    assert hand.recovered(KEY).lsns == old


@pytest.mark.parametrize(("of_leaf", "of_lower", "works"), [(YES, BEFORE, True), (YES, NO, True), (NO, NO, False)])
def test_nothing_below_the_highest_level_is_replayed(of_leaf: Provisional, of_lower: Provisional, works: bool) -> None:
    """E-CKPT-4: a node that is replayed needs its parent's old version, whose file the checkpoint has let go.

    JE fails in the second case already, as it reads the child that it compares with; here that is not read (R-REC-22).
    """
    hand = Hand()
    leaf, lower, upper, *above = hand.path(KEY)
    hand.writer.force_new_file()
    hand.start()
    migrated = file_of(hand.log(leaf, YES))
    hand.log(lower, BEFORE)
    hand.writer.force_new_file()
    for node in (upper, *above):
        hand.log(node, NO if node.is_root else BEFORE)
    hand.env.engine.naming.write_map_ln(hand.db.state)
    hand.env.checkpoint(force=True, minimize=True)
    hand.writer.force_new_file()
    # The cleaner has made BIN-D and IN-C dirty; IN-A is not logged.
    hand.start()
    expected = [hand.log(leaf, of_leaf), hand.log(lower, of_lower), hand.log(upper, NO)]
    hand.end()
    files = hand.files()
    del files[f"{migrated:08x}.jdb"]
    if not works:
        with pytest.raises(DamageError, match=f"{migrated:08x}"):
            hand.recovered(KEY, files)
        return
    found = hand.recovered(KEY, files)
    assert found.lsns[:3] == expected
    assert found.records == {b"%04d" % number: b"v" * 20 for number in range(200)}


def test_roots_are_replayed_before_all_others() -> None:
    """E-CKPT-6, T-30: the last root holds the old version of another branch, which must not come back with it."""
    hand = Hand()
    *branch, root = hand.path(KEY)
    slot = root.slot_of(branch[-1])
    old = root.lsns[slot]
    hand.start()
    new = [hand.log(node, NO) for node in branch]
    root.lsns[slot] = old
    new_root = hand.log(root, NO)
    hand.env.engine.naming.write_map_ln(hand.db.state)
    assert hand.recovered(KEY).lsns == [*new, new_root]
