"""decode(encode(x)) == x for generated records of every type, legal in their version (je-log-format.md 6 to 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.codecs import decode_body, encode_body
from engine.format.describe import describe, describe_slots
from engine.format.entry import checkpoint, db_tree, file_header, legacy, markers, rollback, trace, txn_end
from engine.format.entry import ln as ln_module
from engine.format.entry import ln_content as lc
from engine.format.entry import node as node_module
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord, Slot
from engine.format.entry_types import BY_NUMBER
from engine.format.fast.txn_end import encode_local_end
from tests.support.samples import examples

NULL = -1
LONG = st.one_of(st.integers(-400, 400), st.integers(-(1 << 63), (1 << 63) - 1))
I32 = st.integers(-(1 << 31), (1 << 31) - 1)
U8 = st.integers(0, 255)
COUNT = st.integers(0, 100_000)
BYTES = st.one_of(st.binary(max_size=12), st.binary(min_size=110, max_size=130))
LSN = st.one_of(
    st.just(NULL), st.builds(lambda file, at: file << 32 | at, st.integers(0, 1 << 24), st.integers(0, (1 << 32) - 1))
)
TEXT = st.one_of(st.text(max_size=10), BYTES.map(lambda raw: raw.decode("utf-8", "surrogateescape")))
TUPLE_OF_BYTES = st.lists(BYTES, max_size=3).map(tuple)

Records = st.SearchStrategy[Any]


def database(version: int) -> Records:
    @st.composite
    def build(draw: st.DrawFn) -> db_tree.DatabaseImpl:
        db_id = draw(st.one_of(st.integers(-300, 10), LONG))
        root = draw(st.one_of(st.none(), st.tuples(st.one_of(st.none(), BYTES), LSN, U8)))
        key, lsn, level = root or (None, NULL, 0)
        shares = st.lists(st.builds(db_tree.FileUtilization, *([LONG] * 9)), max_size=3).map(tuple)
        return db_tree.DatabaseImpl(
            db_id, draw(TEXT) if version >= 16 and db_id not in (0, 1) else None, root is not None,
            key, lsn, level, draw(U8), draw(st.one_of(st.none(), BYTES)), draw(st.one_of(st.none(), BYTES)),
            draw(LONG), draw(LONG) if version < 8 else 0, draw(U8), draw(shares) if version < 16 else (),
            draw(TUPLE_OF_BYTES) if version >= 8 else (),
        )  # fmt: skip

    return build()


def named_database(version: int, db_id: int) -> Records:
    return database(version).map(lambda impl: impl._replace(db_id=db_id, name=None))


def db_trees(version: int) -> Records:
    ids = LONG if version >= 8 else I32
    initial = LONG if version >= 15 else st.just(-1)
    return st.builds(db_tree.DbTree, ids, ids, named_database(version, 0), named_database(version, 1), U8, initial)


def ckpt_ends(version: int) -> Records:
    @st.composite
    def build(draw: st.DrawFn) -> checkpoint.CkptEnd:
        flags = draw(U8)
        root = draw(LSN) if flags & 1 else NULL
        ids = [draw(LONG) for _ in range(6)] + ([draw(LONG), draw(LONG)] if version >= 17 else [0, 0])
        sizes = st.lists(st.tuples(LONG, LONG, LONG, LONG), max_size=3)
        summary: tuple[int, ...] = ()
        if 8 <= version <= 10:
            summary = (draw(LONG), draw(LONG), *(number for four in draw(sizes) for number in four))
        scans = tuple(draw(st.lists(LONG, max_size=4))) if version >= 23 else ()
        return checkpoint.CkptEnd._make(
            (draw(TEXT), draw(LONG), draw(LSN), flags, root, draw(LSN), *ids, draw(LONG), summary, scans)
        )

    return build()


def txn_ends(version: int) -> Records:
    return st.builds(
        txn_end.TxnEnd, LSN, LONG, LONG, LONG, LONG if version >= 13 else st.just(0),
        LONG if version >= 22 else st.just(0),
    )  # fmt: skip


XID = st.one_of(st.none(), st.binary(max_size=127))


def prepares(version: int) -> Records:
    return st.builds(txn_end.Prepare, LONG, LONG, I32, XID, XID)


def old_deltas(version: int) -> Records:
    slot = st.builds(legacy.DeltaSlot, BYTES, LSN, U8)
    slots = st.lists(slot, max_size=4).map(tuple)
    return st.builds(legacy.OldDelta, LONG, LSN, LSN if version >= 8 else st.just(NULL), slots)


# Leaf entries. What flags leave out has the value of an absent field.


def name_operations(version: int) -> Records:
    nullable = st.one_of(st.none(), BYTES)
    config = st.builds(
        lc.DatabaseConfig, U8, LONG, LONG if version < 8 else st.just(0), nullable, nullable,
        TUPLE_OF_BYTES if version >= 8 else st.just(()),
    )  # fmt: skip
    return st.one_of(
        st.builds(lc.NameOperation, st.sampled_from((0, 2, 4)), st.none(), st.none()),
        st.builds(lc.NameOperation, st.sampled_from((1, 5)), config, st.none()),
        st.builds(lc.NameOperation, st.just(3), st.none(), LONG),
    )


def file_summaries(version: int) -> Records:
    counters = [I32] * 11
    if version < 8:
        counters[6] = st.just(0)
    offsets = st.lists(st.integers(0, (1 << 32) - 1), max_size=6).map(lambda found: tuple(sorted(found)))
    anchor = LSN if version >= 19 else st.just(NULL)
    return st.builds(lc.FileSummaryLN, anchor, st.builds(lc.FileSummary, *counters), offsets)


CONTENTS: dict[int, Callable[[int], Records]] = {
    **dict.fromkeys((3, 4), lambda version: st.builds(lc.MapLN, database(version), U8)),
    **dict.fromkeys((5, 6), lambda version: st.builds(lc.NameLN, LONG, U8)),
    **dict.fromkeys((9, 10), lambda version: st.builds(lc.DupCountLN, LONG)),
    11: file_summaries,
}
TAILS: dict[int, Callable[[int], Records]] = {
    **dict.fromkeys((5, 6), name_operations),
    **dict.fromkeys((7, 8), lambda version: BYTES),
    **dict.fromkeys((44, 45), lambda version: LONG),
}
ALWAYS_CREATED = (31, 32, 35, 36, 44, 45)


def ln_flags(version: int, transactional: bool) -> tuple[Records, Records, Records]:
    """Flags that the version knows (je-log-format.md 7.2, 7.3)."""
    first = 0xFF if version >= 12 else 0x1F if version == 11 else int(transactional)
    second = {16: 0x03, 19: 0x1F, 20: 0x3F, 25: 0x7F, 26: 0xFF}
    known = max((mask for since, mask in second.items() if since <= version), default=0)
    third = 0x01 if version >= 26 else 0

    def masked(mask: int) -> Records:
        return U8.map(lambda value: value & mask)

    return masked(first), masked(known), masked(third)


def lns(version: int, number: int) -> Records:
    transactional = BY_NUMBER[number].transactional

    @st.composite
    def build(draw: st.DrawFn) -> LN:
        flags, flags2, flags3 = (draw(some) for some in ln_flags(version, transactional))

        def when(present: object, values: Records, absent: object) -> Any:
            return draw(values) if present else absent

        has_abort_lsn = transactional and (version < 12 or flags & 0x20)
        created = version >= 26 and (number in ALWAYS_CREATED or flags3 & 1)
        data = draw(st.one_of(st.none(), BYTES))
        content = draw(CONTENTS[number](version)) if number in CONTENTS else None
        if number == 11 and data is None:
            assert content is not None
            content = content._replace(summary=None, offsets=())
        return LN(
            flags, flags2, flags3, draw(LONG),
            when(has_abort_lsn, LSN, NULL), when(transactional, LONG, None), when(transactional, LSN, NULL),
            when(flags & 0x04, BYTES, None), when(flags & 0x08, BYTES, None), when(flags & 0x10, LONG, NULL),
            when(flags & 0x40, LONG, 0), when(flags2 & 0x10, LONG, 0), when(flags2 & 0x80, LONG, 0),
            when(flags & 0x80, LONG, 0), when(version >= 19, LONG, 0), when(created, LONG, 0),
            when(flags2 & 0x01, LONG, 0), when(flags2 & 0x02, LONG, -1), when(version < 8, LONG, None),
            data, content, draw(BYTES), draw(TAILS[number](version)) if number in TAILS else None,
        )  # fmt: skip

    return build()


# Nodes.


def slots(draw: st.DrawFn, version: int, flags: int, is_bin: bool, expires: bool, base: int | None) -> Slot:
    states = 0x8B if version < 11 or not is_bin else 0xBB
    state = draw(U8) & states
    embedded = bool(state & 0x10)
    if not embedded:
        state &= ~0x20
    if base is None:
        lsn = draw(LSN)
    else:
        offset, delta = draw(st.integers(0, 0xFFFFFE)), draw(st.integers(0, 127))
        lsn = draw(st.sampled_from((NULL, base + delta << 32 | offset)))

    def when(present: object) -> int | None:
        return draw(LONG) if present else None

    return Slot(
        draw(BYTES), lsn, state, draw(BYTES) if embedded and not state & 0x20 else None,
        when(flags & 0x04 and not embedded), when(flags & 0x10 and embedded), when(expires),
        when(embedded and is_bin and version >= 26), when(embedded and is_bin and version >= 19),
    )  # fmt: skip


def node_flags(version: int, number: int) -> int:
    """Flags that the version knows for the node (je-log-format.md 8.2)."""
    if number in (14, 15):
        return 0x01
    known = 0x03
    if number in (13, 37):
        known |= (0x04 if version >= 9 else 0) | (0x10 if version >= 11 else 0) | (0x20 if version >= 12 else 0)
        known |= 0x08 if number == 37 and version >= 10 else 0
    return known | (0x04 if version >= 21 else 0)


def nodes(version: int, number: int) -> Records:
    is_bin = number in (13, 37)

    @st.composite
    def build(draw: st.DrawFn) -> NodeRecord:
        def when(present: object, values: Records, absent: object) -> Any:
            return draw(values) if present else absent

        flags = draw(U8) & node_flags(version, number)
        base = draw(st.one_of(st.none(), st.integers(-1, (1 << 31) - 1 - 127))) if version < 18 else None
        expiration_base = when(is_bin and version >= 12, st.one_of(st.just(-1), LONG), -1)
        count = draw(st.integers(0, 5))
        found = [slots(draw, version, flags, is_bin, expiration_base != -1, base) for _ in range(count)]
        delta = number == 37 and version >= 10
        dup_count = st.one_of(st.none(), st.builds(node_module.DupCountRef, BYTES, LSN, U8))
        return NodeRecord(
            draw(LONG), draw(LSN), when(version >= 21, LONG, 0), when(version >= 8, LSN, NULL),
            when(version >= 21, LONG, 0), expiration_base, when(is_bin and version >= 26, LONG, -1),
            when(is_bin and version >= 19, LONG, -1), draw(LONG), draw(BYTES), flags, when(flags & 0x02, BYTES, None),
            when(version >= 18, LONG, -1), count, draw(LONG), draw(LONG), base, tuple(found),
            when(delta, LONG, 0), when(delta, LONG, 0), when(delta and flags & 0x08, BYTES, None),
            when(number in (14, 15), BYTES, None), when(number == 14, dup_count, None),
        )  # fmt: skip

    return build()


OTHERS: dict[int, Callable[[int], Records]] = {
    16: db_trees,
    17: txn_ends,
    18: txn_ends,
    19: lambda version: st.builds(checkpoint.CkptStart, LONG, LONG, TEXT),
    20: ckpt_ends,
    21: lambda version: st.builds(legacy.INDelete, LONG, BYTES, LONG),
    22: old_deltas,
    23: old_deltas,
    24: lambda version: st.builds(trace.Trace, LONG, TEXT),
    25: lambda version: st.builds(file_header.FileHeader, LONG, st.integers(0, (1 << 32) - 1),
                                  LONG, I32),
    26: lambda version: st.builds(legacy.INDupDelete, LONG, BYTES, BYTES, LONG),
    27: prepares,
    28: lambda version: st.builds(rollback.RollbackStart, LONG, LSN, LONG, st.lists(LONG, max_size=5).map(tuple)),
    29: lambda version: st.builds(rollback.RollbackEnd, LSN, LSN, LONG),
    30: lambda version: st.builds(rollback.Matchpoint, LONG, LONG),
    38: lambda version: st.builds(markers.ImmutableFile, U8),
    39: lambda version: st.builds(markers.RestoreRequired, TEXT, LONG, TEXT),
    43: lambda version: st.builds(markers.ErasedEntry, BYTES),
}  # fmt: skip


def records(number: int, version: int) -> Records:
    if number in OTHERS:
        return OTHERS[number](version)
    return nodes(version, number) if BY_NUMBER[number].family == "in" else lns(version, number)


def versions_of(number: int) -> st.SearchStrategy[int]:
    """Versions that JE wrote the type in; those before 6 have tests of their own (``test_early_bodies``)."""
    entry_type = BY_NUMBER[number]
    return st.integers(max(entry_type.since, 6), entry_type.until or 26)


@pytest.mark.parametrize("number", BY_NUMBER, ids=[t.name for t in BY_NUMBER.values()])
@settings(max_examples=examples(60))
@given(data=st.data())
def test_what_is_encoded_is_decoded(number: int, data: st.DataObject) -> None:
    version = data.draw(versions_of(number), "version")
    record = data.draw(records(number, version), "record")
    body = encode_body(number, version, record)
    again = decode_body(number, version, body)
    assert again == record
    assert encode_body(number, version, again) == body
    assert describe(again, delta=number == 37)
    if isinstance(again, NodeRecord):
        assert len(describe_slots(again, delta=number == 37)) == again.n_entries
        summary = node_module.decode_node(body, version, number, with_slots=False)
        assert summary.slots == ()
        assert (summary.n_entries, summary.level, summary.node_id) == (again.n_entries, again.level, again.node_id)


# Types whose body has no fixed end: the last field takes all that is left.
OPEN_ENDED = {1, 2, 31, 32, 33, 34, 35, 36, 40, 41, 42, 3, 4, 9, 10, 11, 43}


@pytest.mark.parametrize("number", BY_NUMBER, ids=[t.name for t in BY_NUMBER.values()])
@settings(max_examples=examples(25))
@given(data=st.data())
def test_bodies_are_used_up(number: int, data: st.DataObject) -> None:
    """A body with a byte too many or too few does not decode; where it can, it says something else."""
    version = data.draw(versions_of(number), "version")
    record = data.draw(records(number, version), "record")
    body = encode_body(number, version, record)
    for other in (body + b"\x01", *([body[:-1]] if body else [])):
        try:
            found = decode_body(number, version, other)
        except FormatError:
            continue
        # A shorter body can be a whole one too (an LN without its key's last byte); a longer one only with an open end.
        assert found != record
        assert len(other) < len(body) or (number in OPEN_ENDED and version < 19) or number == 43


@given(st.lists(st.integers(0, (1 << 32) - 1), max_size=20).map(sorted))
def test_packed_offsets(offsets: list[int]) -> None:
    summary = lc.FileSummaryLN(NULL, lc.FileSummary(*[0] * 11), tuple(offsets))
    record = LN(
        0, 0, 0, 0, NULL, None, NULL, None, None, NULL, 0, 0, 0, 0, 0, 0, 0, -1, None, b"", summary, b"\0" * 8, None
    )  # fmt: skip
    assert decode_body(11, 17, encode_body(11, 17, record)) == record


def test_flags_are_the_numbers_of_the_description() -> None:
    names: tuple[str, ...]
    names = ("ABORT_KNOWN_DELETED", "EMBEDDED", "HAS_ABORT_KEY", "HAS_ABORT_DATA", "HAS_ABORT_VLSN", "HAS_ABORT_LSN",
             "HAS_ABORT_EXPIRATION", "HAS_EXPIRATION")  # fmt: skip
    assert [getattr(ln_module, name) for name in names] == [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80]
    names = ("HAS_PRIOR_SIZE", "HAS_PRIOR_FILE", "TOMBSTONE", "ABORT_TOMBSTONE", "HAS_ABORT_MODIFICATION_TIME",
             "BLIND_DELETION", "BEFORE_IMAGE", "HAS_ABORT_CREATION_TIME")  # fmt: skip
    assert [getattr(ln_module, name) for name in names] == [1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80]
    names = ("ROOT", "HAS_PREFIX", "HAS_SIZES", "HAS_BLOOM_FILTER", "HAS_VLSNS", "EXPIRES_IN_HOURS")
    assert [getattr(node_module, name) for name in names] == [1, 2, 4, 8, 0x10, 0x20]
    names = ("KNOWN_DELETED", "DIRTY", "PENDING_DELETED", "SLOT_EMBEDDED", "SLOT_NO_DATA", "SLOT_TOMBSTONE")
    assert [getattr(node_module, name) for name in names] == [1, 2, 8, 0x10, 0x20, 0x80]


@given(
    st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 31), 1 << 40), st.integers(0, 1 << 50),
    st.integers(17, 26),
)  # fmt: skip
def test_local_end_is_the_encoded_record(last_lsn: int, txn_id: int, time_ms: int, version: int) -> None:
    """What a commit writes without a record is what the codec makes of the record; no master is 0, since v22 -1."""
    record = txn_end.TxnEnd(last_lsn, txn_id, time_ms, 0 if version < 22 else -1, 0, 0)
    assert encode_local_end(last_lsn, txn_id, time_ms, version) == txn_end.encode_txn_end(record, version)
