"""Redo of a batch leaves the tree that redo of its LNs one after the other leaves (R-REC-52)."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.tree.apply import KEY_OF_REDO, RecordVersion, Redo, redo_ln, redo_sorted
from engine.tree.database_state import DatabaseState
from engine.tree.tree import bins

Slots = list[tuple[Any, ...]]

KEYS = st.integers(0, 60).map(lambda number: b"%03d" % number)
DATA = st.sampled_from((None, b"", b"small"))
# What is in the tree before: key, and whether it has been deleted again.
BEFORE = st.lists(st.tuples(KEYS, st.booleans()), max_size=40)
# Key, data, whether it is a deletion, expiration; LSNs ascend, some of them below what is there.
LEAVES = st.lists(st.tuples(KEYS, DATA, st.booleans(), st.sampled_from((0, 0, 21000))), max_size=60)


def made(before: list[tuple[bytes, bool]]) -> tuple[Environment, DatabaseState]:
    config = EnvironmentConfig(create=True, checkpoint_bytes=0, clock=lambda: 0)
    env = Environment(MemoryStorage(), config)
    db = env.create_database("db", DatabaseOptions(max_entries=4))
    with env.begin() as txn:
        for key, deleted in before:
            db.put(key, b"v" * 20, txn)
            if deleted:
                db.delete(key, txn)
    # As in recovery, nothing is logged, and nobody holds locks.
    env.engine.ctx.writer = env.engine.ctx.locks = env.engine.ctx.root_logged = None
    return env, db.state


def slots(env: Environment, db: DatabaseState) -> Slots:
    """Live slots: whether one of a deleted record is there still depends on when its node was split."""
    return [
        (node.keys[at], node.lsns[at], node.states[at], node.values[at], node.sizes[at], node.expirations[at])
        for node in bins(env.engine.ctx, db)
        for at in range(len(node))
        if node.is_live(at)
    ]


@settings(deadline=None, max_examples=150)
@given(before=BEFORE, leaves=LEAVES, first=st.integers(0, 6))
def test_a_batch_is_its_lns_in_turn(
    before: list[tuple[bytes, bool]], leaves: list[tuple[bytes, bytes | None, bool, int]], first: int
) -> None:
    env, db = made(before)
    other, same = made(before)
    known = sorted(lsn for node in bins(env.engine.ctx, db) for lsn in node.lsns) or [0]
    # Versions older than a deletion come back where a split has taken its slot out, until the deletion is redone.
    start = known[-1] + 1 if any(deleted for _, deleted in before) else known[min(first, len(known) - 1)]
    batch: list[Redo] = []
    for number, (key, data, deleted, expiration) in enumerate(leaves):
        leaf = RecordVersion(
            lsn=start + number, size=50, data=None if deleted else data, expiration=expiration, known_deleted=deleted
        )
        plain = leaf.data is None and not deleted and not expiration
        batch.append((key, leaf.lsn, leaf.size, None if plain else leaf))
        redo_ln(other.engine.ctx, same, key, leaf)
    batch.sort(key=KEY_OF_REDO)
    redo_sorted(env.engine.ctx, db, batch, lambda: None)
    assert slots(env, db) == slots(other, same)
    assert [key for key, *_ in slots(env, db)] == sorted({key for key, *_ in slots(env, db)})


def test_a_database_without_a_root_is_left_alone() -> None:
    """je-log-format.md 14.3."""
    env, db = made([])
    db.root, db.root_lsn = None, -1
    redo_sorted(env.engine.ctx, db, [(b"k", 100, 50, None)], lambda: None)
    assert not db.has_root


def test_nodes_that_have_grown_are_accounted() -> None:
    env, db = made([])
    redo_sorted(env.engine.ctx, db, [(b"%03d" % number, 1000 + number, 50, None) for number in range(40)], lambda: None)
    assert env.engine.ctx.used_bytes == sum(node.memory_bytes() for node in env.engine.ctx.nodes.values())
