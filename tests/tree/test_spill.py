"""Nodes that leave memory without being logged: everything that they hold comes back."""

from __future__ import annotations

from typing import Any

import pytest

from engine.catalog.catalog import empty_root
from engine.format.bytecursor import join_two_part_key
from engine.format.lsn import NULL_LSN, is_null
from engine.tree.bin_node import BIN, Times
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN, ObsoleteNode
from engine.tree.spill import PLAIN, PLAIN_OF_BIN, Spill, is_spilled
from tests.support.environments.database_states import state_of

# What a node has of its place in memory, and what has a form of its own in the scratch file.
OF_MEMORY = {"accounted", "db", "in_tree", "kids", "parent", "pins", "touched"}
OF_THEIR_OWN = {"ident", "keys", "provisional_obsolete", "states", "times", "vlsns"}


def comparable(node: IN) -> dict[str, Any]:
    names = PLAIN + (PLAIN_OF_BIN + ("states", "times", "vlsns") if isinstance(node, BIN) else ())
    found = {name: getattr(node, name) for name in names}
    found["keys"] = [node.db.order.unwrap(key) for key in node.keys]
    found["ident"] = node.db.order.unwrap(node.ident)
    found["obsolete"] = [(old.lsn, old.is_delta) for old in node.provisional_obsolete]
    return found


@pytest.mark.parametrize("comparator", [None, "Down"])
@pytest.mark.parametrize("duplicates", [False, True])
@pytest.mark.parametrize("make", [IN, BIN])
def test_a_node_comes_back_as_it_was(make: type[IN], duplicates: bool, comparator: str | None) -> None:
    db = state_of(duplicates, comparator)
    stored = [join_two_part_key(b"k", b"%d" % number) if duplicates else b"%d" % number for number in range(9)]
    keys = sorted(db.order.wrap(key) for key in stored)
    node = make(db, 77, 0x10001 if make is BIN else 0x10002, keys[2], 128)
    if isinstance(node, BIN):
        for index, key in enumerate(keys):
            node.put(index, key, False, index << 32 | 100, index % 3, b"data" if index % 2 else None, 40, -index)
        node.vlsns[keys[3]] = 12
        node.note_times(keys[5], Times(1_700_000_000_000, 0))
        node.note_times(keys[6], Times(1_700_000_000_001, 1_600_000_000_000))
        node.delta_lsn, node.delta_size, node.no_delta = 4 << 32, 90, True
    else:
        for index, key in enumerate(keys):
            node.insert_child(index, key, NULL_LSN, None)
            node.set_child_lsn(index, NULL_LSN if index == 4 else index << 32, 60 + index)
    node.full_lsn, node.full_size, node.pruned = 3 << 32, 500, True
    node.provisional_obsolete = [ObsoleteNode(5, True), ObsoleteNode(6, False)]
    spill = Spill()
    mark = spill.out(node, 9 << 32)
    assert is_spilled(mark)
    assert not is_null(mark)
    assert comparable(spill.peek(db, mark)) == comparable(node)
    back, lsn = spill.back(db, mark)
    assert lsn == 9 << 32
    assert isinstance(back, BIN) is isinstance(node, BIN)
    assert comparable(back) == comparable(node)
    assert spill.out(node, lsn) == mark, "its block was free"
    spill.close()


# Compiled classes do not list their attributes.
if hasattr(IN, "__slots__"):

    def test_no_attribute_is_forgotten() -> None:
        assert set(IN.__slots__) <= {*PLAIN, *OF_MEMORY, *OF_THEIR_OWN}
        assert set(BIN.__slots__) <= {*PLAIN_OF_BIN, *OF_MEMORY, *OF_THEIR_OWN}


def test_marks_are_below_every_lsn() -> None:
    spill = Spill()
    db = DatabaseState(empty_root().mapping_db, {})
    marks = [spill.out(IN(db, number, 0x20002, b"k", 128), NULL_LSN) for number in range(3)]
    assert len(set(marks)) == 3
    assert all(mark < -(1 << 32) < NULL_LSN for mark in marks)
    assert spill.nodes == 3
    spill.close()
