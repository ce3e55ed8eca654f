"""Oracle NoSQL: keys of partitions, headers of values (embedders.md 2).

Decoding a value beyond its header would need the metadata of its table, so the rest stays bytes. Keys are ordered by
``oracle.kv.Key$BytesComparator``, which ``engine.tree.comparators`` implements.
"""

from __future__ import annotations

import re
from typing import Final

from engine.contents.base import DecodedRecord, Fields, Json, Source, hexed, modified_utf8, unknown
from engine.errors import FormatError
from engine.format.bytecursor import unpack

_PARTITION: Final = re.compile(r"p[0-9]{1,9}")
_COMPARATOR: Final = "oracle.kv.Key$BytesComparator"
_OWN: Final = frozenset(("TableMetadata", "SecurityMetadata", "TopologyDatabase", "AdminSchemaVersion"))
_TABLE_FORMATS: Final = range(1, 5)
_OF_REGIONS: Final = 3
_WITH_FLAGS: Final = 4
_HAS_REGION: Final = 1
_HAS_METADATA: Final = 2
_BEFORE_DIGITS: Final = 0x30
_DIGIT_BITS: Final = 7
_RADIX: Final = 1 << _DIGIT_BITS
# An id is a number of 64 bits.
_MOST_DIGITS: Final = 10
_MINOR: Final = b"\xff"


def components(key: bytes) -> tuple[list[str], list[str]]:
    """The major and the minor path of a key. ValueError: a component is not text."""
    major, _, minor = key.partition(_MINOR)
    return _path(major), _path(minor)


def _path(data: bytes) -> list[str]:
    return [modified_utf8(part) for part in data.split(b"\0")] if data else []


def table_id(component: str) -> int:
    """The id of a table: digits of base 128, each a character from U+0030 on, the sign in the top bit of the first one.

    ValueError: it is not an id.
    """
    if not 0 < len(component) <= _MOST_DIGITS:
        raise ValueError("a table id has one to ten digits")
    found = 0
    for character in component:
        digit = ord(character) - _BEFORE_DIGITS
        if not 0 <= digit < _RADIX:
            raise ValueError("no digit of a table id")
        found = found * _RADIX + digit
    # The sign bit is flipped, so that the digits sort as the numbers do.
    return found - (1 << (_DIGIT_BITS * len(component) - 1))


def table_of(key: bytes) -> int | None:
    """The id of the table that the key of a row begins with; None for a key of no table."""
    first, found, _ = key.partition(b"\0")
    # An empty first component marks the keys that the store uses itself.
    if not first or not found:
        return None
    try:
        return table_id(modified_utf8(first))
    except ValueError:
        return None


def region_of(data: bytes) -> int | None:
    """The region that the value of a row names; None if it names no region."""
    if not data:
        return None
    try:
        fields = Fields(data)
        form = fields.number(1)
        flags = fields.number(1, signed=False) if form == _WITH_FLAGS else _HAS_REGION * (form == _OF_REGIONS)
        return _region(fields) if flags & _HAS_REGION else None
    except FormatError:
        return None


def is_partition(database: str) -> bool:
    """Whether a database holds rows: ``p1``, ``p2`` and so on."""
    return _PARTITION.fullmatch(database) is not None


class NoSqlDecoder:
    """Decodes records of a shard or an administration environment."""

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a record of a partition; records of other databases stay undecoded."""
        if not is_partition(database):
            return unknown(key, data)
        major, minor = components(key)
        path: Json = {"major": major, "minor": minor}
        if not data:
            return DecodedRecord(path, None, True)
        fields = Fields(data)
        form = fields.number(1)
        if form in _TABLE_FORMATS and major:
            path = {"table": table_id(major[0]), "major": major[1:], "minor": minor}
        return DecodedRecord(path, _value(form, fields), False)


def _value(form: int, fields: Fields) -> Json:
    """The header of a value; the fields stay bytes, because decoding them needs the metadata of the table."""
    if form < 0:
        return {"format": "avro", "rest": hexed(fields.data)}
    if form not in _TABLE_FORMATS:
        return {"format": form, "rest": hexed(fields.rest())}
    found: dict[str, Json] = {"format": form}
    flags = fields.number(1, signed=False) if form == _WITH_FLAGS else _HAS_REGION * (form == _OF_REGIONS)
    if flags & _HAS_REGION:
        found["region"] = _region(fields)
    if flags & _HAS_METADATA:
        # Leave the metadata in ``rest``: its length depends on the release.
        found["with_metadata"] = True
    else:
        found["table_version"] = fields.number(1, signed=False)
    return {**found, "rest": hexed(fields.rest())}


def _region(fields: Fields) -> int:
    if not fields.left:
        raise FormatError("value of a table", expected="a region", found="its end")
    region, fields.at = unpack(fields.data, fields.at)
    if region < 0:
        raise FormatError("value of a table", expected="a region", found=str(region))
    return region


class NoSqlContents:
    """The kind of contents."""

    name = "nosql"
    title = "Oracle NoSQL"

    def recognises(self, source: Source) -> bool:
        """True if partitions use Oracle NoSQL's comparator, or if there are databases that only Oracle NoSQL has."""
        orders = source.comparators()
        if any(_PARTITION.fullmatch(name) and orders.get(name) == _COMPARATOR for name in source.names):
            return True
        return len(_OWN & set(source.names)) > 1 or "AdminSchemaVersion" in source.names

    def decoder(self, source: Source) -> NoSqlDecoder:  # noqa: ARG002 - the signature of Contents
        """A decoder; it needs nothing from other records."""
        return NoSqlDecoder()


NOSQL: Final = NoSqlContents()
