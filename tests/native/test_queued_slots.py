"""Slots are queued, and compared with the log, in C as in Python."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any
from zlib import adler32

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.format.entry_types import COMMON_LNS, INS_LN, TRANSACTIONAL
from engine.format.fast.header import sealed
from engine.format.fast.ln import encode_user_fields
from engine.format.fast.queued_slots import (
    MOST_BYTES,
    SLOT,
    Tally,
    queue_slots_plain,
    tally_slots_plain,
    unlike_slots_plain,
)
from engine.format.lsn import NULL_LSN
from engine.format.versions import LN_FLAGS_FIRST, NEWEST_VERSION
from engine.format.vlsn import NULL_VLSN
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

Slots = list[tuple[int, int, int, int, bytes]]
SLOTS = st.lists(
    st.tuples(
        st.sampled_from((0x500000064, 0x500FFFFFF, 0x501000000, 0x700000064, 0x900000064, -1, NULL_LSN, 1 << 70)),
        st.sampled_from((56, 1, 0, -5, MOST_BYTES, MOST_BYTES + 1, (1 << 63) - 1, 1 << 70)),
        st.sampled_from((0, 0, 0, 1, 8, 0x20)),
        st.sampled_from((0, 0, 0, 7, -7)),
        st.sampled_from((b"k", b"", b"longer")),
    ),
    max_size=6,
)


def queued(function: Any, slots: Slots, queues: dict[int, bytearray]) -> Any:
    lsns, sizes, states, expirations, keys = (
        (list(column) for column in zip(*slots, strict=True)) if slots else [[]] * 5
    )
    rest = function(lsns, sizes, bytearray(states), expirations, keys, 9, 0x700000065, {5, 9}, queues)
    return rest, queues


def counted(function: Any, slots: Slots, tally: Tally) -> None:
    lsns, sizes, expirations = ([slot[column] for slot in slots] for column in (0, 1, 3))
    function(lsns, sizes, bytearray([slot[2] for slot in slots]), expirations, 9, tally)


@given(SLOTS, SLOTS)
def test_both_queue_the_same_slots(first: Slots, second: Slots) -> None:
    by_c: dict[int, bytearray] = {}
    by_twin: dict[int, bytearray] = {}
    for slots in (first, second):
        assert queued(core.queue_slots, slots, by_c) == queued(queue_slots_plain, slots, by_twin)


@given(SLOTS, SLOTS)
def test_both_count_the_same(first: Slots, second: Slots) -> None:
    by_c: Tally = {}
    by_twin: Tally = {}
    for slots in (first, second):
        small = [slot for slot in slots if slot[0] < 1 << 63 and slot[1] < 1 << 63]
        counted(core.tally_slots, small, by_c)
        counted(tally_slots_plain, small, by_twin)
        assert by_c == by_twin


def test_many_files_are_counted() -> None:
    lsns = [file << 32 | 100 for file in range(300)] * 2
    tally: Tally = {7: [1, 1, 1]}
    core.tally_slots(lsns, [5] * 600, bytearray(600), [0, 1] * 300, 9, tally)
    assert tally == {file: [2, 10, 2 * (file & 1)] if file != 7 else [3, 11, 3] for file in range(300)}


def test_sizes_that_no_log_has_are_added() -> None:
    most = (1 << 63) - 1
    tally: Tally = {}
    core.tally_slots([100, 200, 300], [most, most, 5], bytearray(3), [0, 7, 0], 9, tally)
    assert tally == {0: [3, 2 * most + 5, 1]}


def test_what_is_not_counts_is_refused() -> None:
    with pytest.raises(ValueError):
        core.tally_slots([1], [], bytearray(1), [0], 9, {})
    with pytest.raises(TypeError):
        core.tally_slots(["1"], [1], bytearray(1), [0], 9, {})  # type: ignore[list-item]
    with pytest.raises(TypeError):
        core.tally_slots([1], [1], bytearray(1), [0], 9, {0: [1]})


def test_a_plain_slot_is_queued_and_any_other_is_left() -> None:
    plain = 0x500000064, 56, 0, 0, b"k"
    others: Slots = [
        (NULL_LSN, 56, 0, 0, b"k"),
        (0x700000064, 56, 0, 0, b"k"),
        (0x500000064, 0, 0, 0, b"k"),
        (0x500000064, 56, 8, 0, b"k"),
        (0x500000064, 56, 0, 7, b"k"),
    ]
    rest, queues = queued(core.queue_slots, [plain, *others], {})
    assert rest == [1, 2, 3, 4, 5]
    assert queues == {0x500: SLOT.pack(100 << 32 | 56, hash(b"k"))}


@pytest.mark.parametrize("slot", [(b"5", 56, 0, 0, b"k"), (0x500000064, 56, 0, 0, "k"), (0x500000064, 5.0, 0, 0, b"k")])
def test_a_slot_of_another_type_is_refused(slot: Any) -> None:
    with pytest.raises(TypeError):
        queued(core.queue_slots, [slot], {})


def test_lists_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError):
        core.queue_slots([1], [], bytearray(1), [0], [b"k"], 9, 5, {5}, {})
    with pytest.raises(TypeError):
        core.queue_slots([0x500000064], [1], bytearray(1), [0], [b"k"], 9, 1 << 40, {5}, {0x500: b""})  # type: ignore[dict-item]
    with pytest.raises(ValueError):
        core.unlike_slots(b"", 0, bytes(15), 17, 3, b"")
    with pytest.raises(ValueError):
        core.unlike_slots(b"", 0, bytes(16), 17, 3, bytes(7))
    with pytest.raises(ValueError):
        core.unlike_slots(b"", -1, bytes(16), 17, 3, b"")


PLAIN = {
    "number": INS_LN, "version": 17, "bits": 0, "vlsn": NULL_VLSN, "flags": 0, "data": b"data", "change": None,
    "wrong": 0,
    "key": b"key", "db_id": 3, "obsolete": [],
}  # fmt: skip


@settings(deadline=None)
@given(
    number=st.sampled_from(sorted(COMMON_LNS)),
    version=st.integers(LN_FLAGS_FIRST, NEWEST_VERSION),
    bits=st.sampled_from((0, 0, 0x80, 0x40, 0x10)),
    vlsn=st.sampled_from((NULL_VLSN, 7)),
    flags=st.sampled_from((0, 0, 0x20, 0x80, 0x04)),
    data=st.sampled_from((None, b"", b"data", bytes(130))),
    change=st.one_of(st.none(), st.none(), st.tuples(st.integers(0, 200), st.integers(0, 255), st.booleans())),
    wrong=st.sampled_from((0, 0, 0, -1, 1, MOST_BYTES)),
    key=st.sampled_from((b"key", b"key", b"kez", b"")),
    db_id=st.sampled_from((3, 3, 119, 120, 70_000)),
    obsolete=st.sampled_from(([], [], [0x100], [0, 0xFF, 0x101], [0x100, 0x101, 0x1000])),
)
@example(**PLAIN)
@example(**{**PLAIN, "key": b"kez"})
@example(**{**PLAIN, "db_id": 4})
@example(**{**PLAIN, "obsolete": [0x100]})
def test_both_find_the_same_slots_unlike_the_log(
    number: int, version: int, bits: int, vlsn: int, flags: int, data: bytes | None,
    change: tuple[int, int, bool] | None, wrong: int, key: bytes, db_id: int, obsolete: list[int],
) -> None:  # fmt: skip
    txn = 0x500000100, 12 if number in TRANSACTIONAL else None, NULL_LSN
    entry = bytearray(sealed(number, bits, 0, encode_user_fields(flags, 0, db_id, txn, b"", data, b"key"), vlsn))
    if change is not None:
        at = 4 + change[0] % (len(entry) - 4)
        entry[at] = change[1]
        if change[2]:
            entry[:4] = adler32(entry[4:]).to_bytes(4, "little")
    log = bytes(entry) + bytes(50)
    queue = b"".join(
        SLOT.pack(at << 32 | (len(entry) + wrong) & MOST_BYTES, hash(key)) for at in (0x100, 0x105, 0xFF, 0x1000)
    )
    found = core.unlike_slots(log, 0x100, queue, version, 3, array("Q", obsolete))
    assert found == unlike_slots_plain(log, 0x100, queue, version, 3, array("Q", obsolete))
    if (number, version, bits, vlsn, flags, data, change, wrong) == (INS_LN, 17, 0, NULL_VLSN, 0, b"data", None, 0):
        assert found == ([1, 2, 3] if key == b"key" and db_id == 3 and 0x100 not in obsolete else [0, 1, 2, 3])
