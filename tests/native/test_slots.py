"""Slots that are read in C are those that Python reads, of whatever body."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.bytecursor import join_two_part_key, pack
from engine.format.entry.node import EXPIRES_IN_HOURS, HAS_SIZES
from engine.format.fast.bin import NO_BASE, BINHead, SlotColumns, read_records
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

NUMBERS = st.one_of(st.integers(-130, 400), st.integers(-(1 << 63), (1 << 63) - 1))
KEYS = st.one_of(st.binary(max_size=130), st.builds(join_two_part_key, st.binary(max_size=200), st.binary(max_size=9)))
# File and offset of an LSN, the null one among them.
LSNS = st.one_of(st.binary(min_size=4, max_size=4), st.sampled_from((b"\0\xff\xff\xff", b"\x80\0\0\0", b"\x7f\0\0\1")))
STATES = st.sampled_from((0, 0x01, 0x02, 0x08, 0x10, 0x12, 0x30, 0x80, 0xFF))
SLOTS = st.lists(st.tuples(KEYS, LSNS, STATES, NUMBERS, NUMBERS), max_size=9)
Answer = tuple[list[object], list[int], bytearray, list[bytes | None], list[int], list[int], int, int]


def body_of(found: list[tuple[bytes, bytes, int, int, int]], flags: int, base: int, is_whole: bool) -> bytes:
    parts = []
    for key, lsn, state, size, expiration in found:
        parts += [pack(len(key)), key, lsn * 2 if is_whole else lsn, bytes((state,))]
        if not state & 0x10 and flags & HAS_SIZES:
            parts.append(pack(size))
        if base != NO_BASE:
            parts.append(pack(expiration))
    return b"".join(parts)


def by_twin(body: bytes, head: BINHead) -> Answer | None:
    keys: list[object] = []
    lsns: list[int] = []
    states, values = bytearray(), list[bytes | None]()
    sizes, expirations = list[int](), list[int]()
    try:
        size, end = read_records(body, head, SlotColumns(keys, lsns, states, values, sizes, expirations))
    except (FormatError, IndexError):
        return None
    return None if size < 0 else (keys, lsns, states, values, sizes, expirations, size, end)


@given(
    found=SLOTS,
    flags=st.sampled_from((0, HAS_SIZES, HAS_SIZES | EXPIRES_IN_HOURS)),
    prefix=st.sampled_from((b"", b"path/")),
    expiration_base=st.sampled_from((NO_BASE, 0, 20_000)),
    base=st.sampled_from((0, 7, 0x7FFFFF00, -3, None)),
    change=st.one_of(st.none(), st.tuples(st.integers(0, 300), st.integers(0, 255))),
    missing=st.integers(-2, 2),
    more=st.integers(0, 2),
)
@example(
    found=[(b"k", b"\0\1\0\0", 0, 45, 1 << 50)],
    flags=HAS_SIZES, prefix=b"", expiration_base=20_000, base=0, change=None, missing=0, more=0,
)  # fmt: skip
def test_both_read_the_same(
    found: list[tuple[bytes, bytes, int, int, int]], flags: int, prefix: bytes, expiration_base: int, base: int | None,
    change: tuple[int, int] | None, missing: int, more: int,
) -> None:  # fmt: skip
    body = bytearray(b"head" + body_of(found, flags, expiration_base, base is None))
    if change is not None and len(body) > 4:
        body[4 + change[0] % (len(body) - 4)] = change[1]
    body = body[: len(body) - max(missing, 0)] + b"\0" * more
    count = max(len(found) + min(missing, 0), 0)
    head = BINHead(3, 0x500000064, 9, b"", flags, prefix, count, 0x10001, 128, base, 4, expiration_base)
    in_hours = bool(flags & EXPIRES_IN_HOURS)
    read = core.read_slots(bytes(body), 4, count, prefix, base, bool(flags & HAS_SIZES), expiration_base, in_hours)
    expected = by_twin(bytes(body), head)
    # Expirations beyond all time are left to the twin.
    if read is not None or expected is None or max(map(abs, expected[5]), default=0) < 1 << 39:
        assert read == expected


def test_counts_and_places_that_cannot_be() -> None:
    for at, count in ((-1, 1), (5, 0), (0, -1), (0, 1 << 60), (4, 1)):
        assert core.read_slots(b"body", at, count, b"", 0, True, NO_BASE, False) is None


def test_a_base_that_no_log_has_is_left_to_the_twin() -> None:
    body = body_of([(b"k", b"\0\x01\0\0", 0, 45, 0)], HAS_SIZES, NO_BASE, is_whole=False)
    for base in ((1 << 63) - 1, -(1 << 63), 1 << 31, 1 << 70):
        assert core.read_slots(body, 0, 1, b"", base, True, NO_BASE, False) is None
    lsns = core.read_slots(body, 0, 1, b"", (1 << 31) - 1, True, NO_BASE, False)
    assert lsns is not None
    assert lsns[1] == [((1 << 31) - 1) << 32 | 1]
