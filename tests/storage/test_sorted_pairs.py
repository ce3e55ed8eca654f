"""Pairs of bytes in order, through a scratch file."""

from __future__ import annotations

import random

import pytest

from engine.events import SILENT
from engine.storage.sorted_pairs import in_byte_order


@pytest.mark.parametrize(("run_bytes", "chunk_bytes"), [(1 << 20, 1 << 18), (2000, 100), (1, 1)])
def test_they_come_in_order_each_as_often_as_it_was_there(run_bytes: int, chunk_bytes: int) -> None:
    draw = random.Random(7)
    pairs = [(draw.randbytes(draw.randrange(3)), draw.randbytes(draw.randrange(200))) for _ in range(300)]
    assert list(in_byte_order(pairs, SILENT, run_bytes, chunk_bytes)) == sorted(pairs)
    assert list(in_byte_order([])) == []


def test_it_tells_how_many_were_read() -> None:
    told = []

    class Steps:
        def step(self, name: str, done: int, total: int) -> None:
            told.append((name, done, total))

    pairs = [(b"%05d" % number, b"") for number in range(40_000)]
    assert list(in_byte_order(reversed(pairs), Steps())) == pairs
    assert told == [("sort records", 16_384, 0), ("sort records", 32_768, 0)]
