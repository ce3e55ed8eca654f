"""Lines of text files: of a whole file, also a compressed one, or those that begin in a range of its bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

_READ_BYTES: Final = 8 << 20
_LOOK_BYTES: Final = 1 << 16
_NEWLINE: Final = b"\n"


def lines(path: str, start: int, stop: int | None) -> Iterator[Any]:
    """Lines in order, without their ends, as arrays of ``large_binary``.

    Arguments:
        path: of the file.
        start, stop: bytes; a line belongs to the range that its first byte is in. With None for ``stop`` the file is
            read from its beginning, and decompressed when its name says so.

    Raises:
        OSError: it cannot be read, or its compression is damaged.
    """
    for block in _whole_file(path) if stop is None else _range(path, start, stop):
        # Blocks lack their last newline, which would make one more, empty line.
        yield _bare(pc.split_pattern(pa.array([block], pa.large_binary()), _NEWLINE)[0].values)


def first_lines(path: str, count: int) -> list[bytes]:
    """The first lines of a file, or fewer."""
    found: list[bytes] = []
    with pa.input_stream(path, compression="detect") as stream:
        rest = b""
        while len(found) < count and (data := stream.read(_LOOK_BYTES)):
            *whole, rest = (rest + data).split(_NEWLINE)
            found += whole
    if rest and len(found) < count:
        # The last line need not end with a newline.
        found.append(rest)
    return [line.rstrip(b"\r") for line in found[:count]]


def _whole_file(path: str) -> Iterator[bytes]:
    with pa.input_stream(path, compression="detect") as stream:
        yield from _blocks(stream, None)


def _range(path: str, start: int, stop: int) -> Iterator[bytes]:
    with pa.OSFile(path) as file:
        size = file.size()
        begin, end = (_line_start(file, at, size) for at in (start, stop))
        file.seek(begin)
        yield from _blocks(file, end - begin)


def _blocks(stream: Any, left: int | None) -> Iterator[bytes]:
    """Blocks of whole lines, without the end of the last one; ``left`` bytes, or all."""
    rest: list[bytes] = []
    while data := stream.read(_READ_BYTES if left is None else min(_READ_BYTES, left)):
        left = None if left is None else left - len(data)
        whole, newline, tail = data.rpartition(_NEWLINE)
        if not newline:
            # A line longer than a block: parts are joined once, not over and over.
            rest.append(data)
            continue
        yield b"".join((*rest, whole))
        rest = [tail]
    if last := b"".join(rest):
        yield last


def _line_start(file: Any, at: int, size: int) -> int:
    """Where the first line begins that does so at a byte or after it; the size of the file when none does."""
    if at == 0 or at >= size:
        return min(at, size)
    # From one byte before: a line that begins exactly here has its newline there.
    file.seek(at - 1, os.SEEK_SET)
    at -= 1
    while data := file.read(_LOOK_BYTES):
        found = int(data.find(_NEWLINE))
        if found >= 0:
            return at + found + 1
        at += len(data)
    return size


def _bare(lines: Any) -> Any:
    """Lines without a carriage return at their ends."""
    ends = pc.binary_slice(lines, -1)
    cut = pc.equal(ends, pa.scalar(b"\r", ends.type))
    return pc.if_else(cut, pc.binary_slice(lines, 0, -1), lines) if pc.any(cut).as_py() else lines
