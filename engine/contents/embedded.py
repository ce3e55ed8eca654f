"""What can be read inside bytes of unknown layout: JSON texts with their length before them, names and addresses.

Most structures of frontends hold JSON (columns, tablets, properties) between numbers. A text counts as JSON here if
four bytes before it give its length, it is a JSON object or array from its first byte to its last, and it parses. Bytes
between such texts stay hex, and zero bytes at the end are counted: nothing is guessed, and nothing is left out.

    {"parts": [{"hex": "000000000000271200000010"}, {"json": {"clazz": "Tablet"}}, {"zeros": 12}]}
"""

from __future__ import annotations

import re
from typing import Final

from engine.contents.base import Json, hexed, parse_json

_OPENING: Final = re.compile(rb"[{\[]")
_CLOSING: Final = b"}]"
_LENGTH_BYTES: Final = 4
_SHORTEST_RUN: Final = 4
# Bytes that may be parsed in vain, as a multiple of all: hostile lengths could make every bracket a candidate.
_MOST_IN_VAIN: Final = 4


def with_documents(data: bytes) -> Json:
    """The parts of bytes that hold JSON texts; None if they hold none."""
    parts: list[Json] = []
    done, budget = 0, _MOST_IN_VAIN * len(data)
    for found in _OPENING.finditer(data):
        at = found.start()
        if at < done + _LENGTH_BYTES:
            continue
        length = int.from_bytes(data[at - _LENGTH_BYTES : at], "big")
        end = at + length
        if not 2 <= length <= len(data) - at or data[end - 1] not in _CLOSING:
            continue
        try:
            value = parse_json(data[at:end])
        except (ValueError, RecursionError):
            budget -= length
            if budget < 0:
                break
            continue
        if at > done + _LENGTH_BYTES:
            parts.append(with_names(data[done : at - _LENGTH_BYTES]))
        parts.append({"json": value})
        done = end
    if not parts:
        return None
    rest = data[done:]
    if rest:
        parts.append(with_names(rest) if rest.strip(b"\0") else {"zeros": len(rest)})
    return {"parts": parts}


def with_names(data: bytes) -> Json:
    """Bytes in hex, with the readable texts in them, such as names and addresses."""
    runs, run = [], bytearray()
    for byte in data + b"\0":
        if 0x20 <= byte < 0x7F:
            run.append(byte)
        else:
            if len(run) >= _SHORTEST_RUN:
                runs.append(run.decode("ascii"))
            run.clear()
    return {**hexed(data), "readable": runs} if runs else hexed(data)
