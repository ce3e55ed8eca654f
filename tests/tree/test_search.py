"""What is C finds what its twins find: keys in order and in none, records in trees of which parts are in memory."""

from __future__ import annotations

import importlib
import random
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import bins, find_bin, find_plain
from tests.support.tools import needs

if TYPE_CHECKING:
    from engine.tree import search
else:
    needs("native build")
    search = importlib.import_module("engine.tree.search")

KEY = st.binary(max_size=4)
ASCENDING = st.sets(KEY, max_size=40).map(sorted)
KEYS = st.one_of(ASCENDING, st.lists(KEY, max_size=40))
_IN_HOURS = -1_000_000


class Triple(NamedTuple):
    """A record."""

    key: bytes
    data: bytes
    lsn: int


@given(keys=KEYS, key=KEY)
def test_a_key_is_found_where_bisect_finds_it(keys: list[bytes], key: bytes) -> None:
    index = bisect_left(keys, key)
    exact = index < len(keys) and keys[index] == key
    assert search.find(keys, key) == (index if exact else ~index)


@given(keys=KEYS, key=KEY)
def test_a_child_is_found_where_bisect_finds_it(keys: list[bytes], key: bytes) -> None:
    assert search.covering(keys, key) == bisect_right(keys, key, 1) - 1


@given(keys=KEYS, first=st.integers(0, 3))
def test_order_is_what_comparing_neighbours_says(keys: list[bytes], first: int) -> None:
    assert search.ascends(keys, first) is all(keys[at - 1] < keys[at] for at in range(first + 1, len(keys)))


def test_what_is_not_bytes_is_left_to_bisect() -> None:
    assert search.find([b"a", ("b",), b"c"], b"b") is None
    assert search.find([b"a"], ("a", "b")) is None
    assert search.find([], bytearray(b"a")) is None
    assert search.covering([b"a", 7], b"b") is None
    assert search.ascends([b"a", 7], 0) is None
    assert search.ascends([b"a"], -1) is None
    for keys in (1, (b"a",)):
        with pytest.raises(TypeError, match="takes a list"):
            search.find(keys, b"a")  # type: ignore[arg-type]


def found_by_twin(ctx: TreeContext, db: DatabaseState, key: bytes) -> tuple[BIN, int, bytes | None] | None:
    """What ``record_at`` says of a tree that is in memory."""
    node = find_bin(ctx, db, key)
    assert node is not None
    index, exact = node.find(key)
    if not exact:
        return node, ~index, None
    is_plain = node.is_live(index) and not node.expirations[index]
    return (node, index, node.values[index]) if is_plain else None


def test_records_are_found_where_a_walk_finds_them() -> None:
    """Embedded, deleted, with expirations; in a tree that comes back into memory node by node."""
    places, storage = random.Random(3), MemoryStorage()
    config = EnvironmentConfig(create=True, node_max_entries=8, checkpoint_bytes=0)
    with Environment(storage, config) as env, env.create_database("d", DatabaseOptions(max_entries=8)) as db:
        for number in places.sample(range(600), 600):
            db.put(b"%04d" % number, b"v" * places.choice((0, 5, 40)), expiration=places.choice((0, 0, 9, _IN_HOURS)))
        for number in range(0, 600, 7):
            db.delete(b"%04d" % number)
    counts = {"no node": 0, "there": 0, "not there": 0, "not plain": 0}
    with Environment(storage, config) as env, env.open_database("d") as db:
        ctx, state = env.engine.ctx, db.state
        assert search.record_at(state.root, b"0001") is None
        for key in [b"", b"zz", *(b"%04d" % places.randrange(610) + places.choice((b"", b"x")) for _ in range(3000))]:
            first = search.record_at(state.root, key)
            expected = found_by_twin(ctx, state, key)
            assert search.record_at(state.root, key) == expected
            assert first in (None, expected)
            counts["no node"] += first != expected
            counts["not plain" if expected is None else "there" if expected[1] >= 0 else "not there"] += 1
            ticks = ctx.ticks
            node, index, data = find_plain(ctx, state, key)
            assert (None if node is None else (node, index, data)) == expected
            assert node is None or node.touched == ctx.ticks == ticks + 1
            if places.random() < 0.3:
                db.get(key)
    assert min(counts.values()) > 30


def test_a_tree_that_is_not_as_it_should_be_is_left_to_the_twin() -> None:
    with Environment(MemoryStorage(), EnvironmentConfig(create=True)) as env, env.create_database("d") as db:
        for number in range(300):
            db.put(b"%04d" % number, b"v" * 40)
        root, key = db.state.root, b"0123"
        assert isinstance(root, IN)
        node, index, _ = search.record_at(root, key) or (None, -1, None)
        assert isinstance(node, BIN)
        assert index == node.find(key)[0]
        for wrong in (None, 7, db):
            assert search.record_at(wrong, key) is None
        for no_key in (bytearray(key), "0123", (key,)):
            assert search.record_at(root, no_key) is None
        for name in ("lsns", "values", "sizes", "expirations", "states"):
            whole = getattr(node, name)
            setattr(node, name, whole[:-1])
            assert search.record_at(root, key) is None
            setattr(node, name, whole)
        kids = root.kids
        root.kids = []
        assert search.record_at(root, key) is None
        root.kids = kids
        node.keys[index] = (key,)
        assert search.record_at(root, key) is None
        node.keys[index] = key
        assert search.record_at(root, key) is not None
        # Classes of others are not looked into.
        assert search.prepare(Environment, Environment) is False
        assert search.record_at(root, key) is None
        assert search.prepare(IN, BIN) is True
        assert search.record_at(root, key) is not None
        assert len(list(bins(env.engine.ctx, db.state))) > 2
    with pytest.raises(TypeError, match="takes a root"):
        search.record_at(root)  # type: ignore[call-arg]


@given(
    data=st.lists(st.one_of(st.none(), st.binary(max_size=3)), max_size=20), places=st.randoms(use_true_random=False)
)
def test_records_of_chosen_slots(data: list[bytes | None], places: random.Random) -> None:
    keys, lsns = [b"%d" % at for at in range(40)], [at << 40 for at in range(40)]
    chosen = sorted(places.sample(range(40), len(data)))
    expected = [Triple(keys[at], value, lsns[at]) for at, value in zip(chosen, data, strict=True) if value is not None]
    made = search.records_of(Triple, keys, data, lsns, chosen)
    assert made == expected
    assert all(type(record) is Triple for record in made)


def test_records_of_slots_that_are_not_there() -> None:
    for slot in (-1, 2, 1 << 70):
        with pytest.raises((IndexError, OverflowError)):
            search.records_of(Triple, [b"a", b"b"], [b""], [1, 2], [slot])
    with pytest.raises(ValueError, match="for each chosen slot"):
        search.records_of(Triple, [b"a"], [b"", b""], [1], [0])
    with pytest.raises(ValueError, match="are tuples"):
        search.records_of(int, [b"a"], [b""], [1], [0])  # type: ignore[type-var]
