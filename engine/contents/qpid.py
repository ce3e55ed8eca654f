"""Qpid Broker-J: messages, and the queues that hold them (embedders.md 3)."""

from __future__ import annotations

import uuid
from typing import Final

from engine.contents.base import DecodedRecord, Fields, Json, Source, hexed, parse_json, unknown

METADATA: Final = "MESSAGE_METADATA"
CONTENT: Final = "MESSAGE_CONTENT"
ENTRIES: Final = "QUEUE_ENTRIES"
OBJECTS: Final = "CONFIGURED_OBJECTS"
HIERARCHY: Final = "CONFIGURED_OBJECT_HIERARCHY"
_NULL_TEXT: Final = b"\xff"


class QpidDecoder:
    """Decodes records of a broker's message store."""

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a record of a database whose format is known."""
        fields, value = Fields(key), Fields(data)
        known = True
        if database == METADATA:
            found: Json = {"message": fields.sortable(8)}
            length = value.sortable(4)
            # The first byte is the kind of message, the others are its header.
            kind = value.number(1)
            what: Json = {"type": kind, "header": hexed(value.raw(length - 1))}
            known = False
        elif database == CONTENT:
            found, what = {"message": fields.sortable(8)}, {"body": _text_or_hex(value.rest())}
        elif database == ENTRIES:
            found, what = {"queue": _uuid(fields), "message": fields.sortable(8)}, None
        elif database == OBJECTS:
            found = {"object": _uuid(fields)}
            what = {"type": _text(value), "attributes": parse_json((_text(value) or "null").encode())}
        elif database == HIERARCHY:
            found, what = {"object": _uuid(fields), "parent_type": _text(fields)}, {"parent": _uuid(value)}
        else:
            return unknown(key, data)
        fields.finish()
        value.finish()
        return DecodedRecord(found, what, known)


def _uuid(fields: Fields) -> str:
    """A UUID as two sortable longs."""
    high, low = fields.sortable(8), fields.sortable(8)
    return str(uuid.UUID(int=(high % (1 << 64)) << 64 | low % (1 << 64)))


def _text(fields: Fields) -> str | None:
    """A tuple string: UTF-8 up to a zero byte; 0xff alone is null."""
    found = fields.until(0)
    return None if found == _NULL_TEXT else found.decode("utf-8")


def _text_or_hex(data: bytes) -> Json:
    try:
        text = data.decode("utf-8")
    except ValueError:
        return hexed(data)
    return text if text.isprintable() else hexed(data)


class QpidContents:
    """The kind of contents."""

    name = "qpid"
    title = "Qpid Broker-J message store"

    def recognises(self, source: Source) -> bool:
        """True if the message databases are there."""
        return {METADATA, CONTENT} <= set(source.names)

    def decoder(self, source: Source) -> QpidDecoder:  # noqa: ARG002 - the signature of Contents
        """A decoder; it needs nothing from other records."""
        return QpidDecoder()


QPID: Final = QpidContents()
