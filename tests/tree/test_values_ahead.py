"""A walk that reads ahead returns what is there when it comes to a BIN, of both builds."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.scan import records_between
from engine.errors import DamageError
from engine.format.lsn import file_of, offset_of
from engine.tree.tree import bins
from engine.txn.txn import Durability

CONFIG = EnvironmentConfig(
    create=True, checkpoint_bytes=0, file_max_bytes=200_000, run_cleaner=False, run_evictor=False
)
RECORDS = 1000
# As many reads of a file as it takes to be mapped: only mapped files are read ahead.
SCANS = 80


def key_of(number: int) -> bytes:
    return b"%06d" % number


def put_many(env: Environment, db: Database, rng: random.Random) -> dict[bytes, bytes]:
    """Records in random order: embedded, ordinary, and too long for the fast way."""
    expected = {}
    with env.begin(durability=Durability.NO_SYNC) as txn:
        for number in rng.sample(range(0, 2 * RECORDS, 2), RECORDS):
            expected[key_of(number)] = rng.randbytes(rng.choice((0, 10, 60, 100, 100, 100, 200, 5000)))
            db.put(key_of(number), expected[key_of(number)], txn)
    return expected


def change_some(
    env: Environment, db: Database, rng: random.Random, expected: dict[bytes, bytes], numbers: range
) -> None:
    """New data, new records and deletions; of records that were read ahead, too."""
    with env.begin(durability=Durability.NO_SYNC) as txn:
        for number in rng.sample(numbers, k=min(len(numbers), 8)):
            if rng.random() < 0.3:
                if expected.pop(key_of(number), None) is not None:
                    db.delete(key_of(number), txn)
            else:
                expected[key_of(number)] = rng.randbytes(rng.choice((5, 80, 300)))
                db.put(key_of(number), expected[key_of(number)], txn)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(("low", "high"), [(b"", b"\xff"), (key_of(RECORDS // 2), key_of(RECORDS))])
def test_changes_in_front_of_a_walk_are_seen(tmp_path: Path, backward: bool, low: bytes, high: bytes) -> None:
    rng = random.Random(7)
    with Environment(tmp_path, CONFIG) as env, env.create_database("d", DatabaseOptions(max_entries=16)) as db:
        expected = put_many(env, db, rng)
        for _ in range(SCANS):
            assert dict(db.items()) == expected
        for walk in range(4):
            if walk % 2:
                env.engine.evict()
            steps = 0
            # What lies in front of the walk: from ``first`` up to, and without, ``end``.
            first, end = low, high
            for batch in records_between(env.engine, db.state, low, high, backward=backward):
                last = bytes(batch[-1].key)
                if backward:
                    stretch, end = (last, end), last
                else:
                    stretch, first = (first, last + b"\0"), last + b"\0"
                there = sorted((key, data) for key, data in expected.items() if stretch[0] <= key < stretch[1])
                assert [(bytes(one.key), one.data) for one in batch] == (there[::-1] if backward else there)
                steps += 1
                number = int(last)
                ahead = (
                    range(max(0, number - 400), number)
                    if backward
                    else range(number + 1, min(number + 400, 2 * RECORDS))
                )
                change_some(env, db, rng, expected, ahead)
            assert steps > 20
            assert not [key for key in expected if first <= key < end]


def test_a_walk_that_ends_early_and_two_at_a_time(tmp_path: Path) -> None:
    with Environment(tmp_path, CONFIG) as env, env.create_database("d", DatabaseOptions(max_entries=16)) as db:
        expected = put_many(env, db, random.Random(3))
        for _ in range(SCANS):
            assert len(list(db.items())) == RECORDS
        there = sorted(expected.items())
        for count in (1, 16, 40, 300):
            walk = db.items()
            assert [next(walk) for _ in range(count)] == there[:count]
        up, down = db.items(), db.items(reverse=True)
        assert [(next(up), next(down)) for _ in range(RECORDS)] == list(zip(there, there[::-1], strict=True))
        walk = db.items()
        assert [next(walk) for _ in range(100)] == there[:100]
    # The environment is closed, and a batch may be under way.
    del walk


def test_damage_further_on_is_told_where_the_walk_meets_it(tmp_path: Path) -> None:
    """Neither earlier, in place of records that are good, nor not at all."""
    with Environment(tmp_path, CONFIG) as env, env.create_database("d", DatabaseOptions(max_entries=16)) as db:
        expected = put_many(env, db, random.Random(5))
    with Environment(tmp_path, CONFIG) as env, env.open_database("d") as db:
        for _ in range(SCANS):
            assert len(list(db.items())) == RECORDS
        nodes = list(bins(env.engine.ctx, db.state))
        node = next(one for one in nodes[len(nodes) // 2 :] if any(size > 100 for size in one.sizes))
        slot = next(at for at, size in enumerate(node.sizes) if size > 100)
        first = bytes(node.keys[0])
        lsn = node.lsns[slot]
        env.engine.evict()
        path = tmp_path / f"{file_of(lsn):08x}.jdb"
        data = bytearray(path.read_bytes())
        data[offset_of(lsn) + 40] ^= 1
        path.write_bytes(data)
        walk = db.items()
        returned: list[tuple[bytes, bytes]] = []
        with pytest.raises(DamageError):
            returned.extend(walk)
        assert returned == [(key, value) for key, value in sorted(expected.items()) if key < first]
