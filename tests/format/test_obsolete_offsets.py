"""Offsets of a FileSummaryLN are read run by run as they are read group by group."""

from __future__ import annotations

from collections.abc import Callable
from struct import pack

from hypothesis import example, given
from hypothesis import strategies as st

from engine.errors import FormatError
from engine.format.bytecursor import ByteReader, ByteWriter
from engine.format.entry.ln_content import FileSummary, FileSummaryLN, read_file_summary_ln, write_file_summary_ln
from engine.format.versions import WRITTEN_VERSION

NO_COUNTERS = FileSummary._make([0] * len(FileSummary._fields))
DIFFERENCES = st.lists(
    st.one_of(st.integers(0, 40), st.integers(0x7FF0, 0x8010), st.integers(0, 0xFFFFFFFF)), max_size=30
)


def group_by_group(count: int, shorts: list[int]) -> list[int]:
    """15-bit groups, least significant first, -1 - g when more groups follow."""
    offsets = []
    offset = difference = shift = 0
    for value in shorts:
        difference |= (-1 - value if value < 0 else value) << shift
        shift += 15
        if value >= 0:
            offset += difference
            offsets.append(offset)
            difference = shift = 0
        elif shift > 60:
            raise FormatError("obsolete offset", expected="at most four groups", found="more")
    if len(offsets) != count or shift:
        raise FormatError("obsolete offsets", expected=str(count), found=str(len(offsets)))
    return offsets


def body_of(count: int, shorts: list[int]) -> bytes:
    """A FileSummaryLN's content with these groups."""
    writer = ByteWriter()
    write_file_summary_ln(writer, FileSummaryLN(-1, NO_COUNTERS, ()), WRITTEN_VERSION)
    head = writer.getvalue()[:-2]
    tail = ByteWriter()
    tail.packed(count, len(shorts))
    return head + tail.getvalue() + pack(f"<{len(shorts)}h", *shorts)


def outcome(reading: Callable[[], tuple[int, ...]]) -> tuple[int, ...] | str:
    """What is read, or what is said instead."""
    try:
        return reading()
    except FormatError as error:
        return str(error)


def read(body: bytes) -> tuple[int, ...]:
    return read_file_summary_ln(ByteReader(body), WRITTEN_VERSION, False).offsets


@given(differences=DIFFERENCES)
def test_what_is_written_is_read(differences: list[int]) -> None:
    offsets = tuple(sum(differences[: at + 1]) for at in range(len(differences)))
    writer = ByteWriter()
    write_file_summary_ln(writer, FileSummaryLN(-1, NO_COUNTERS, offsets), WRITTEN_VERSION)
    assert read(writer.getvalue()) == offsets


@given(shorts=st.lists(st.sampled_from((0, 1, 700, 0x7FFF, -1, -2, -0x8000)), max_size=20), more=st.integers(-1, 1))
@example(shorts=[-1] * 4 + [1], more=0)
@example(shorts=[-1] * 5 + [1], more=0)
@example(shorts=[5, -1], more=0)
def test_any_groups_are_read_or_refused_as_one_by_one(shorts: list[int], more: int) -> None:
    count = max(0, len([one for one in shorts if one >= 0]) + more)
    one_by_one = outcome(lambda: tuple(group_by_group(count, shorts)))
    assert outcome(lambda: read(body_of(count, shorts))) == one_by_one
