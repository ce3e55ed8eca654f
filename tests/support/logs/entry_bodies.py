"""Random bodies of LNs, Commits and Aborts of v12 to v18: most of them valid, with every flag and with odd values."""

from __future__ import annotations

from hypothesis import strategies as st

from engine.format.bytecursor import pack
from engine.format.entry_types import TRANSACTIONAL, TXN_ENDS
from engine.format.versions import DTVLSN, PRIOR_VERSION

_numbers = st.sampled_from((0, 1, 7, -1, -2, 119, 120, 70_000, 0x500000020, 1 - (1 << 32), -(1 << 63), (1 << 63) - 1))
_blobs = st.sampled_from((b"", b"a", b"\x00\xff", b"key" * 60))


def entry_bodies(number: int, version: int, times: st.SearchStrategy[int]) -> st.SearchStrategy[bytes]:
    """Bodies of one type; ``times`` are those of Commits and Aborts."""
    return _ends(version, times) if number in TXN_ENDS else _records(number in TRANSACTIONAL, version)


@st.composite
def _ends(draw: st.DrawFn, version: int, times: st.SearchStrategy[int]) -> bytes:
    last_lsn, txn_id, master, dtvlsn = (draw(_numbers) for _ in range(4))
    body = pack(last_lsn) + pack(txn_id) + pack(draw(times)) + pack(master)
    return body + (pack(dtvlsn) if version >= DTVLSN else b"") + draw(st.sampled_from((b"", b"", b"", b"\x05")))


@st.composite
def _records(draw: st.DrawFn, transactional: bool, version: int) -> bytes:
    """The layout of ``entry.ln``, in its order."""
    flags = draw(st.sampled_from((0, 0x20, 0x23, 0x02)) | st.integers(0, 255))
    flags2 = draw(st.sampled_from((0, 1, 2, 3, 3, 4))) if version >= PRIOR_VERSION else 0
    body = bytes((flags, flags2) if version >= PRIOR_VERSION else (flags,)) + pack(draw(_numbers))
    if transactional:
        body += pack(draw(_numbers)) if flags & 0x20 else b""
        body += pack(draw(_numbers)) + pack(draw(_numbers))
    for bit in (0x04, 0x08):
        blob = draw(_blobs)
        body += pack(len(blob)) + blob if flags & bit else b""
    present = (flags & 0x10, flags & 0x40, flags & 0x80, flags2 & 1, flags2 & 2)
    body += b"".join(pack(draw(_numbers)) for bit in present if bit)
    data = draw(_blobs | st.none())
    return body + (pack(-1) if data is None else pack(len(data)) + data) + draw(_blobs)
