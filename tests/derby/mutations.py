"""Mutations of real Derby databases: log, control files, service properties and pages, one at a time.

A seed decides the database and the mutation. Pages are sealed again in a part of the cases, so that only what they say
is wrong.
"""

from __future__ import annotations

import random
from typing import Final, NamedTuple

from engine.derby.format import page
from engine.errors import FormatError
from tests.derby.derby_fixtures import NAMES, files_of
from tests.support.logs.log_writer import Files

_PAGE: Final = 4096
_SECTOR: Final = 512
_KINDS: Final = ("flip", "flip", "flip", "number", "number", "cut", "zeros", "garbage", "delete", "double", "empty")


class Mutation(NamedTuple):
    """A mutated database: its fixture, what was done in words, and all files by path."""

    source: str
    what: str
    files: Files


def mutation(seed: int) -> Mutation:
    """The mutation of a seed."""
    rng = random.Random(seed)
    source = rng.choice(NAMES)
    files = dict(files_of(source))
    path = rng.choice(_paths(rng, files))
    kind = rng.choice(_KINDS)
    if kind == "delete":
        del files[path]
        return Mutation(source=source, what=f"{path}: delete", files=files)
    data = bytearray(files[path])
    at = rng.randrange(_end(path, data))
    what = f"{path}: {kind} at 0x{at:x}"
    if kind == "double":
        _double(rng, path, data)
    elif kind in ("flip", "number"):
        if kind == "flip":
            data[at] ^= 1 << rng.randrange(8)
        else:
            at = _extreme(rng, data, at, _end(path, data))
            what = f"{path}: {kind} at 0x{at:x}"
        if path.startswith("seg0") and len(data) >= (at // _PAGE + 1) * _PAGE and rng.random() < 0.6:
            what += ", sealed" if _sealed(data, at // _PAGE) else ""
    elif kind in ("cut", "empty"):
        del data[at if kind == "cut" else 0 :]
    else:
        length = min(_SECTOR if kind == "zeros" else rng.choice((4, 40, _SECTOR)), len(data) - at)
        data[at : at + length] = bytes(length) if kind == "zeros" else rng.randbytes(length)
    return Mutation(source=source, what=what, files={**files, path: bytes(data)})


def _paths(rng: random.Random, files: Files) -> list[str]:
    """The files of a kind."""
    choice = rng.random()
    if choice < 0.35:
        return [path for path in files if path.startswith("log/log") and path.endswith(".dat")]
    if choice < 0.5:
        return [path for path in files if path.startswith("log/") and path.endswith(".ctrl")]
    if choice < 0.57:
        return ["service.properties"]
    return [path for path in files if path.startswith("seg0/c")]


def _end(path: str, data: bytearray) -> int:
    """Where mutations of a file end: log files are filled with zeros after their last record."""
    end = len(bytes(data).rstrip(b"\0")) + 200 if path.startswith("log/log") and path.endswith(".dat") else len(data)
    return max(1, min(end, len(data)))


def _extreme(rng: random.Random, data: bytearray, at: int, end: int) -> int:
    """Set a number to an extreme; where: anywhere, at the start of the file, or in the header of a page."""
    count = rng.choice((1, 2, 4, 8))
    high, low = b"\x7f" + b"\xff" * (count - 1), b"\x80" + bytes(count - 1)
    at = rng.choice((at, rng.randrange(min(200, end)), at // _PAGE * _PAGE + rng.randrange(64)))
    at = min(at, max(0, len(data) - count))
    data[at : at + count] = rng.choice((b"\xff" * count, high, low, bytes(count)))
    return at


def _double(rng: random.Random, path: str, data: bytearray) -> None:
    """Put one page of a container over another."""
    if path.startswith("seg0") and len(data) >= 2 * _PAGE:
        source, target = (rng.randrange(len(data) // _PAGE) * _PAGE for _ in range(2))
        data[target : target + _PAGE] = data[source : source + _PAGE]


def _sealed(data: bytearray, number: int) -> bool:
    """Make the checksum of a page right, where the page can be read as one."""
    start = number * _PAGE
    try:
        data[start : start + _PAGE] = page.sealed(data[start : start + _PAGE])
    except (FormatError, IndexError):
        return False
    return True
