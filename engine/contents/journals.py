"""Journals of Doris and StarRocks frontends: databases, keys, values (fe-journals.md 2, 3).

A journal database is named by the id of its first journal; a key is an id, 8 bytes big-endian with the sign bit
flipped; a value is the code of an operation (int16) and its payload. Zero bytes may follow the payload: a Doris
frontend stores its whole buffer. ``epochDB`` holds one record for each mastership.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from engine.contents.base import DecodedRecord, Fields, Json, Source, hexed, parse_json, unknown
from engine.contents.embedded import with_documents, with_names
from engine.contents.operations import DORIS, PRODUCTS, STARROCKS, TIMESTAMPS, operation_name, product_of_code
from engine.contents.payloads import payload_fields
from engine.errors import FormatError

EPOCHS: Final = "epochDB"
STAR_MANAGER: Final = "starmgr_"
# The families of journals of an environment: the frontend's own, and those of the StarManager embedded in it.
FAMILIES: Final = ("", STAR_MANAGER)
KEY_BYTES: Final = 8
_BIAS: Final = 1 << 63
_HEAD: Final = struct.Struct(">hi")
_LONGEST_NAME: Final = 19
_SAMPLE: Final = 300

# Kinds of payloads.
JSON: Final = "json"
TEXT: Final = "text"
NUMBER: Final = "number"
FIELDS: Final = "fields"
NOTHING: Final = "empty"
BYTES: Final = "hex"


class JournalName(NamedTuple):
    """The parts of a journal database's name: the family (``FAMILIES``), and the id of its first journal."""

    family: str
    first_id: int


class OperationPayload(NamedTuple):
    """The decoded payload of a journal.

    Attributes:
        kind: ``JSON``, ``TEXT``, ``NUMBER``, ``FIELDS``, ``NOTHING`` or ``BYTES``.
        value: the value; unknown bytes in hex.
        known: whether all of it is known.
        padding: zero bytes after the payload.
    """

    kind: str
    value: Json
    known: bool
    padding: int


class Journal(NamedTuple):
    """One journal: the code of its operation, its payload."""

    code: int
    payload: OperationPayload


def journal_name(name: str) -> JournalName | None:
    """The first id in the name of a journal database; None for other databases."""
    family = STAR_MANAGER if name.startswith(STAR_MANAGER) else ""
    digits = name.removeprefix(family)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NAME):
        return None
    return JournalName(family, int(digits))


def journal_key(journal_id: int) -> bytes:
    """The key of a journal."""
    return (journal_id + _BIAS).to_bytes(KEY_BYTES, "big")


def journal_id(key: bytes) -> int:
    """The id in a key. FormatError: the key is not an id."""
    if len(key) != KEY_BYTES:
        raise FormatError("key of a journal", expected=f"{KEY_BYTES} bytes", found=f"{len(key)}")
    return int.from_bytes(key, "big") - _BIAS


def journal_code(value: bytes) -> int:
    """The code of the operation of a journal. Raises FormatError if the value is too short to hold a code."""
    if len(value) < 2:
        raise FormatError("value of a journal", expected="2 bytes or more", found=f"{len(value)}")
    return int.from_bytes(value[:2], "big", signed=True)


def decode_journal(value: bytes) -> Journal:
    """A journal.

    Raises:
        FormatError: the value is too short for a code.
    """
    code = journal_code(value)
    if len(value) >= _HEAD.size:
        length = int.from_bytes(value[2:6], "big", signed=True)
        end = 6 + length
        # Nine in ten payloads have this form: JSON with its length before it.
        if 0 < length <= len(value) - 6 and value[6] in b'{["':
            try:
                payload = _with_rest(JSON, parse_json(value[6:end]), value, end)
            except (ValueError, RecursionError):
                return Journal(code, _other_payload(code, value))
            return Journal(code, payload if payload.known else _laid_out(code, value) or payload)
    return Journal(code, _other_payload(code, value))


def encode_json_journal(code: int, text: bytes, padding: int = 0) -> bytes:
    """The value of a journal whose payload is a text, as most are; for tests and examples."""
    return _HEAD.pack(code, len(text)) + text + bytes(padding)


def timestamp_of(value: bytes) -> int | None:
    """The time (ms since 1970) in a clock journal; None for other journals, or if it cannot be read."""
    if len(value) < 2 or journal_code(value) not in TIMESTAMPS:
        return None
    payload = decode_journal(value).payload
    if payload.kind == NUMBER:
        return int(payload.value)
    # The JSON of a timestamp has exactly one number; its name differs between Doris and StarRocks.
    if payload.kind == JSON and isinstance(payload.value, dict):
        times = [one for one in payload.value.values() if isinstance(one, int) and not isinstance(one, bool)]
        return times[0] if len(times) == 1 and 0 <= times[0] < _BIAS else None
    return None


def _with_rest(kind: str, value: Json, data: bytes, end: int, *, known: bool = True) -> OperationPayload:
    """A payload that ends before ``data`` does: zero bytes after it are padding, any others become ``rest``."""
    rest = data[end:]
    if not rest.strip(b"\0"):
        return OperationPayload(kind, value, known, len(rest))
    return OperationPayload(kind, {kind: value, "rest": with_documents(rest) or hexed(rest)}, False, 0)


def _laid_out(code: int, value: bytes) -> OperationPayload | None:
    """A payload that a layout of its operation consumes exactly."""
    found = payload_fields(code, value, 2)
    return _with_rest(FIELDS, found[0], value, found[1]) if found is not None else None


def _other_payload(code: int, value: bytes) -> OperationPayload:
    if len(value) == 2:
        return OperationPayload(NOTHING, None, True, 0)
    laid_out = _laid_out(code, value)
    if laid_out is not None:
        return laid_out
    reader = _RAW.get(code)
    if reader is not None:
        fields = Fields(value, 2)
        try:
            kind, found, known = reader(fields)
            return _with_rest(kind, found, value, fields.at, known=known)
        except (FormatError, ValueError):
            pass
    try:
        fields = Fields(value, 2)
        text = fields.text(fields.number(4))
        # Any four zero bytes would look like an empty text.
        if text and text.isprintable():
            return _with_rest(TEXT, text, value, fields.at)
    except (FormatError, ValueError):
        pass
    rest = value[2:]
    return OperationPayload(BYTES, with_documents(rest) or with_names(rest), False, 0)


_Raw = tuple[str, Json, bool]


def _time(fields: Fields) -> _Raw:
    return NUMBER, fields.number(8), True


def _decimal(fields: Fields) -> _Raw:
    text = fields.text(fields.number(4))
    if not text.removeprefix("-").isdigit() or len(text) > _LONGEST_NAME + 1:
        raise FormatError("payload", expected="a decimal number")
    return NUMBER, int(text), True


def _transaction(fields: Fields) -> _Raw:
    """The old binary form: its first three fields are the same in all releases, the others are not."""
    found = {"transaction": fields.number(8), "label": fields.text(fields.number(4)), "db": fields.number(8)}
    return FIELDS, found, True


def _counted(fields: Fields) -> _Raw:
    return FIELDS, {"count": fields.number(4)}, True


def _longs(fields: Fields) -> _Raw:
    """Ids of database, table, partition, index, tablet and so on; how many there are depends on the release."""
    return FIELDS, {"numbers": [fields.number(8) for _ in range(fields.left // 8)]}, False


def _message(fields: Fields) -> _Raw:
    return FIELDS, {"message": hexed(fields.raw(fields.number(4)))}, False


# Payloads of old releases that are not JSON (fe-journals.md 3.3).
_RAW: Final[dict[int, Callable[[Fields], _Raw]]] = {
    **dict.fromkeys((0, 4, 15, 16, 72), _decimal),
    **dict.fromkeys((28, 29, 42, 43, 45), _longs),
    **dict.fromkeys((59, 10002), _counted),
    70: _time,
    100: _transaction,
    11000: _message,
}


@dataclass(frozen=True, slots=True)
class JournalDecoder:
    """Records of a frontend's environment.

    Attributes:
        product: ``doris`` or ``starrocks``; None if the product is not known.
    """

    product: str | None

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a journal, or a record of ``epochDB``."""
        if database == EPOCHS:
            return DecodedRecord({"epoch": journal_id(key)}, None if data == b"\0" else hexed(data), data == b"\0")
        if journal_name(database) is None:
            return unknown(key, data)
        found = decode_journal(data)
        name = operation_name(self.product, found.code)
        value = {"op": found.code, "name": name, "payload": found.payload.value, "padding": found.payload.padding}
        return DecodedRecord({"id": journal_id(key)}, value, found.payload.known and name is not None)


@dataclass(frozen=True, slots=True)
class FrontendContents:
    """A kind of contents: frontends of one product, or of an undetermined product."""

    name: str
    title: str
    product: str | None

    def recognises(self, source: Source) -> bool:
        """True if there are journal databases and ``epochDB``, and the operations identify this product."""
        return is_frontend(source.names) and product_of(source) == self.product

    def decoder(self, source: Source) -> JournalDecoder:  # noqa: ARG002 - the signature of Contents
        """A decoder; it needs nothing from other records."""
        return JournalDecoder(self.product)


def is_frontend(names: Iterable[str]) -> bool:
    """Whether these are the databases of a frontend."""
    found = list(names)
    return EPOCHS in found and any(journal_name(name) is not None for name in found)


def product_of(source: Source) -> str | None:
    """The product of the frontend, determined by the operations of its first and last journals."""
    if any(name.startswith(STAR_MANAGER) for name in source.names):
        return STARROCKS
    named = [(found.first_id, name) for name in source.names if (found := journal_name(name)) is not None]
    if not named:
        return None
    # Newest first: after an upgrade, older journals may have other meanings.
    for name, last in ((max(named)[1], True), (min(named)[1], False)):
        for _, value in source.records(name, _SAMPLE, last=last):
            product = product_of_code(journal_code(value)) if len(value) > 1 else None
            if product is not None:
                return product
    return None


FRONTENDS: Final = (
    *(FrontendContents(name, f"{title} frontend (journals)", name) for name, title in PRODUCTS.items()),
    FrontendContents("frontend", "Doris or StarRocks frontend (journals)", None),
)
assert {one.product for one in FRONTENDS} == {DORIS, STARROCKS, None}
