"""One log that two processes wrote at the same time."""

from __future__ import annotations

import random
from functools import cache

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage

NAME = "00000000.jdb"

CONFIG = EnvironmentConfig(create=True, checkpoint_bytes=0, file_max_bytes=1_000_000)


def grown(data: bytes, seed: int) -> bytes:
    """A log with 300 records more, without a checkpoint while they are put."""
    storage, chance = MemoryStorage({NAME: data} if data else {}), random.Random(seed)
    with Environment(storage, CONFIG) as env, env.open_database("d") if data else env.create_database("d") as db:
        for _ in range(300):
            db.put(b"%04d" % chance.randrange(5000), bytes(chance.randrange(10, 90)))
    return storage.contents()[NAME]


@cache
def two_continuations() -> tuple[int, bytes, bytes]:
    """The length of a log, and two logs that go on from it."""
    base = grown(b"", 0)
    return len(base), grown(base, 1), grown(base, 2)


def both(seed: int) -> bytes:
    """Both continuations at once: stretches of the one are overwritten by the other."""
    begin, one, other = two_continuations()
    chance = random.Random(seed)
    end = min(len(one), len(other))
    cuts = sorted(chance.randrange(begin, end) for _ in range(2 * chance.randrange(2, 5)))
    written = bytearray(one)
    for start, stop in zip(cuts[::2], cuts[1::2], strict=True):
        written[start:stop] = other[start:stop]
    return bytes(written)
