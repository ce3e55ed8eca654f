"""What may expire is the same in C as in Python, of intact, damaged and cut logs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.format.entry.file_header import FILE_HEADER_BYTES
from engine.format.fast import expiration_scan
from engine.format.fast.header import header_lengths
from tests.support.logs.golden_logs import GOLDEN
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

LOGS = {15: "je-15", 17: "je-17", 26: "je-26"}
FOUND = [(version, path) for version, name in LOGS.items() for path in sorted((GOLDEN / name).rglob("*.jdb"))]


@cache
def entries(path: Path) -> bytes:
    return path.read_bytes()[FILE_HEADER_BYTES:]


def agree(data: bytes, version: int, kinds: bytes = expiration_scan.KINDS) -> bool:
    """Both find the same places and stop at the same one."""
    layout, lengths = expiration_scan.head_layout(version), header_lengths(version)
    found: list[int] = []
    others: list[int] = []
    one = expiration_scan.sift(data, kinds, layout, lengths, found)
    return one == core.sift_expirations(data, kinds, layout, lengths, others) and found == others


def test_intact_logs() -> None:
    assert {version for version, _ in FOUND} == set(LOGS)
    for version, path in FOUND:
        assert agree(entries(path), version), path


@given(st.data())
def test_damaged_and_cut_logs(source: st.DataObject) -> None:
    version, path = source.draw(st.sampled_from(FOUND))
    data = bytearray(entries(path)[:50_000])
    for _ in range(source.draw(st.integers(0, 20))):
        data[source.draw(st.integers(0, len(data) - 1))] = source.draw(st.integers(0, 255))
    cut = bytes(data[: source.draw(st.integers(0, len(data)))])
    # Also with all entries read as nodes, so that heads are of any bytes.
    kinds = source.draw(st.sampled_from((expiration_scan.KINDS, bytes((expiration_scan.BY_HEAD,)) * 256)))
    assert agree(cut, source.draw(st.sampled_from((version, 12, 20, 26))), kinds)


def test_what_it_cannot_take_is_refused() -> None:
    layout, lengths = expiration_scan.head_layout(17), header_lengths(17)
    with pytest.raises(TypeError):
        core.sift_expirations(b"\0" * 40, b"", layout, lengths, [])
    with pytest.raises(TypeError):
        core.sift_expirations(b"\0" * 40, expiration_scan.KINDS, layout, [1], [])
    with pytest.raises(TypeError):
        core.sift_expirations(bytearray(40), expiration_scan.KINDS, layout, lengths, [])  # type: ignore[arg-type]
    assert core.sift_expirations(b"", expiration_scan.KINDS, layout, lengths, []) == 0
