"""The dump format of DbDump, byte for byte: a header, then each key and each data item on its own line.

Header: ``VERSION=3``, ``format=bytevalue`` or ``print``, ``type=btree``, ``dupsort=0`` or ``1``, ``HEADER=END``. Each
record is two lines that begin with a blank. ``bytevalue`` is two hex digits per byte; ``print`` keeps printable ASCII,
doubles the backslash, and writes any other byte (including the blank) as a backslash and two hex digits. ``DATA=END``
closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from engine.fields import Row

_PRINTABLE: Final = [
    "\\\\" if byte == 0x5C else chr(byte) if 0x20 < byte < 0x7F else f"\\{byte:02x}" for byte in range(256)
]


class JeDumpEncoder:
    """Implements ``Encoder``; rows have the fields ``key`` and ``data``.

    Arguments:
        duplicates: whether the database holds sorted duplicates.
        printable: the format ``print`` instead of ``bytevalue``.
    """

    between = b""

    def __init__(self, *, duplicates: bool, printable: bool) -> None:
        self._duplicates = duplicates
        self._printable = printable

    def head(self) -> bytes:
        """The header."""
        form = "print" if self._printable else "bytevalue"
        return f"VERSION=3\nformat={form}\ntype=btree\ndupsort={int(self._duplicates)}\nHEADER=END\n".encode()

    def rows(self, rows: Iterable[tuple[str, Row]]) -> bytes:
        """Two lines per record."""
        show = _print if self._printable else bytes.hex
        return "".join([f" {show(key[2])}\n {show(data[2])}\n" for _, (key, data, *_) in rows]).encode("ascii")

    def records(self, records: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The two lines of each key and its data, for callers without rows."""
        show = _print if self._printable else bytes.hex
        return "".join([f" {show(key)}\n {show(data)}\n" for key, data in records]).encode("ascii")

    def foot(self, summary: Row) -> bytes:  # noqa: ARG002 - the format has no place for it
        """The last line."""
        return b"DATA=END\n"


def _print(data: bytes) -> str:
    return "".join([_PRINTABLE[byte] for byte in data])
