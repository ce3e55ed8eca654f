"""Heritrix: the queues of a crawl (embedders.md 4).

A key of ``pending`` is the name of the queue (usually a host), a zero byte, and eight bytes: directive, precedence,
ordinal. Each queue begins with a record without data. The values are serialized objects of the crawler: only the URI is
extracted.
"""

from __future__ import annotations

import re
from typing import Final

from engine.contents.base import DecodedRecord, Fields, Json, Source, hexed, unknown
from engine.errors import FormatError

PENDING: Final = "pending"
_ORDER_BYTES: Final = 8
_URI: Final = re.compile(rb"(?:https?|ftp|dns):[!-~]{1,2000}")
_LOOKED_AT: Final = 20


class HeritrixDecoder:
    """Records of a crawl's environment."""

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a record of the queues; records of other databases stay undecoded."""
        if database != PENDING:
            return unknown(key, data)
        place = queue_place(key)
        if not data:
            return DecodedRecord(place, {"head": True}, True)
        found = _URI.search(data)
        value: Json = {"uri": found[0].decode("ascii")} if found is not None else {}
        return DecodedRecord(place, {**value, "object": hexed(data)}, False)


def queue_place(key: bytes) -> dict[str, Json]:
    """The queue of a key and its place in the queue. FormatError, ValueError: the bytes are not such a key."""
    fields = Fields(key)
    queue = fields.until(0).decode("utf-8")
    if not queue or fields.left not in (0, _ORDER_BYTES):
        raise FormatError("key of a queue", expected=f"a name, 00 and {_ORDER_BYTES} bytes", found=key.hex())
    if not fields.left:
        return {"queue": queue}
    return {
        "queue": queue,
        "directive": fields.number(1, signed=False),
        "precedence": fields.number(1, signed=False),
        "ordinal": fields.number(6, signed=False),
    }


class HeritrixContents:
    """The kind of contents."""

    name = "heritrix"
    title = "Heritrix crawl"

    def recognises(self, source: Source) -> bool:
        """True if the database of queues is there and its first keys are valid queue keys."""
        if PENDING not in source.names:
            return False
        keys = [key for key, _ in source.records(PENDING, _LOOKED_AT)]
        return bool(keys) and all(len(queue_place(key)) > 0 for key in keys)

    def decoder(self, source: Source) -> HeritrixDecoder:  # noqa: ARG002 - the signature of Contents
        """A decoder; it needs nothing from other records."""
        return HeritrixDecoder()


HERITRIX: Final = HeritrixContents()
