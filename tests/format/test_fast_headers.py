"""The loops over headers do what the general codec and ``examine`` say, entry by entry, in logs of every version."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry_types import RARE_ENTRIES, ROLLBACK_START, is_valid_type
from engine.format.fast.header import header_lengths, is_intact, item_size, sealed, steps
from engine.format.fast.loops import follow_links
from engine.format.fast.walks import Walk, walk_of
from engine.format.fast.walks import follow as chosen_follow
from engine.format.header import (
    BAD_CHECKSUM,
    BEFORE_CKPT_END,
    GOOD,
    HEADER_WITH_VLSN_BYTES,
    PROVISIONAL,
    REPLICATED,
    VERSION_BITS_V6,
    VLSN_PRESENT,
    EntryHeader,
    decode_header,
    encode_entry,
    examine,
    header_bytes,
    is_invisible,
)
from engine.format.vlsn import NULL_VLSN
from tests.support.logs.golden_logs import VERSIONS

# Type, flags, how much the VLSN rises, body.
ENTRIES = st.lists(
    st.tuples(st.integers(1, 46), st.integers(0, 255), st.sampled_from((0, 1, 1, 1, 7)), st.binary(max_size=12)),
    max_size=12,
)
USUAL_FLAGS = st.sampled_from((0, 0, 0x20, 0x28, 0x80, 0x40, 0x10))


class Log:
    """A buffer of linked entries, perhaps with one byte changed."""

    def __init__(self, source: st.DataObject) -> None:
        self.version = source.draw(st.sampled_from(VERSIONS))
        parts, self.places = [], []
        prev = pos = vlsn = 0
        for number, flags, rise, body in source.draw(ENTRIES):
            usual = source.draw(USUAL_FLAGS) if source.draw(st.booleans()) else flags
            own = usual & ~VERSION_BITS_V6 | self.version if self.version == 6 and flags != 1 else usual
            vlsn += rise
            parts.append(encode_entry(EntryHeader(0, number, own, prev, 0, vlsn), body, self.version))
            self.places.append(pos)
            prev, pos = pos, pos + len(parts[-1])
        whole = bytearray(b"".join(parts))
        if whole and source.draw(st.booleans()):
            whole[source.draw(st.integers(0, len(whole) - 1))] ^= source.draw(st.integers(1, 255))
        self.data = bytes(whole[: source.draw(st.integers(max(len(whole) - 30, 0), len(whole)))])
        # An entry that claims a negative number of bytes must not be stepped over backwards.
        self.last = source.draw(st.sampled_from((-1, 0, 2)))

    def is_usual(self, header: EntryHeader) -> bool:
        """Whether flags say nothing that a loop has to stop at."""
        if self.version == 6:
            return header.flags & VERSION_BITS_V6 == self.version
        return not is_invisible(header.flags, self.version)


@given(st.data())
def test_plain_entries_are_those_that_examine_calls_good(source: st.DataObject) -> None:
    log = Log(source)
    found: dict[int, list[int]] = {}
    pos, prev, last = 0, 0, log.last
    while True:
        check = examine(log.data, pos, len(log.data), log.version, prev, at_end=True)
        header = check.header
        if check.verdict != GOOD or header is None or header.type_number in RARE_ENTRIES or not log.is_usual(header):
            break
        if header.flags & REPLICATED:
            if header.vlsn <= last:
                break
            last = header.vlsn
        pair = header.type_number | header.flags << 8
        found.setdefault(pair, []).append(header.item_size)
        prev, pos = pos, pos + check.header_bytes + header.item_size
    tallies = {pair: (len(sizes), sum(sizes), min(sizes), max(sizes)) for pair, sizes in found.items()}
    for walk in (Walk(log.version), walk_of(log.version)):
        assert walk.check(log.data, 0, 0, 0, log.last) == (pos, prev, last)
        assert dict(walk.take(True)) == tallies


@given(st.data())
def test_links_are_followed_as_the_codec_reads_headers(source: st.DataObject) -> None:
    log = Log(source)
    pos, prev, last, entries, replicated = 0, 0, log.last, 0, 0
    while pos + HEADER_WITH_VLSN_BYTES <= len(log.data):
        header = decode_header(log.data, pos, log.version)
        if header.prev_offset != prev or not is_valid_type(header.type_number, log.version):
            break
        if header.type_number == ROLLBACK_START or not log.is_usual(header):
            break
        after = pos + header_bytes(header.flags, log.version) + (header.item_size & 0xFFFFFFFF)
        if after > len(log.data):
            break
        if header.flags & REPLICATED:
            if header.vlsn <= last:
                break
            last, replicated = header.vlsn, replicated + 1
        prev, pos, entries = pos, after, entries + 1
    for follow in (follow_links, chosen_follow):
        found = follow(log.data, 0, len(log.data), 0, 0, log.last, steps(log.version))
        assert found == (pos, prev, last, entries, replicated)


@given(st.data())
def test_tables_and_single_fields(source: st.DataObject) -> None:
    log = Log(source)
    for pos, after in zip(log.places, [*log.places[1:], len(log.data)], strict=False):
        if after - pos < HEADER_WITH_VLSN_BYTES or after > len(log.data):
            continue
        header = decode_header(log.data, pos, log.version)
        assert item_size(log.data, pos) == header.item_size & 0xFFFFFFFF
        length = header_lengths(log.version)[header.type_number | header.flags << 8]
        assert length == header_bytes(header.flags, log.version)
        total = length + header.item_size
        check: Any = examine(log.data, pos, len(log.data), log.version, -1, at_end=True)
        if check.verdict in (GOOD, BAD_CHECKSUM) and not is_invisible(header.flags, log.version):
            intact = is_intact(log.data[pos : pos + total])
            assert intact == (check.verdict == GOOD) or header.type_number in RARE_ENTRIES


@given(
    st.sampled_from([version for version in VERSIONS if version >= 8]), st.integers(1, 45),
    st.sampled_from((0, PROVISIONAL, BEFORE_CKPT_END)), st.integers(0, (1 << 32) - 1),
    st.just(NULL_VLSN) | st.integers(1, 1 << 40), st.binary(max_size=40),
)  # fmt: skip
def test_entries_are_sealed_as_encoded(
    version: int, number: int, flags: int, prev: int, vlsn: int, body: bytes
) -> None:
    more = 0 if vlsn == NULL_VLSN else REPLICATED | VLSN_PRESENT
    encoded = encode_entry(EntryHeader(0, number, flags | more, prev, 0, vlsn), body, version)
    assert sealed(number, flags, prev, body, vlsn) == encoded
    assert is_intact(encoded)
