"""Records of JE's ``SerialBinding``: Java objects whose classes are in a class catalog (``StoredClassCatalog``).

A catalog is a database: key 00 holds the last class id; key 01 with an id holds a class description written by Java
serialization; key 02 with a name holds the id of the newest version of a class. A record is a stream without its header
that refers to its classes by these ids. Most keys are written by tuple bindings, which do not record their types: use
``--key-format`` to show them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from engine.contents.base import DecodedRecord, Source, hexed
from engine.contents.java_objects import STREAM_HEADER, JavaClass, JavaReader
from engine.errors import FormatError

_LAST_ID: Final = b"\x00"
_DESCRIPTION: Final = b"\x01"
_NEWEST: Final = b"\x02"

_MOST_CLASSES: Final = 100_000


@dataclass(frozen=True, slots=True)
class SerialDecoder:
    """Decodes records of an environment with a class catalog.

    Attributes:
        catalogs: names of the databases that are class catalogs.
        classes: by id.
    """

    catalogs: frozenset[str]
    classes: Mapping[bytes, JavaClass]

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a record of the catalog, or an object."""
        if database in self.catalogs:
            return self._class(key, data)
        return DecodedRecord(hexed(key), JavaReader(data, self.classes).whole(), False)

    def _class(self, key: bytes, data: bytes) -> DecodedRecord:
        kind, rest = key[:1], key[1:]
        if kind == _DESCRIPTION:
            found = JavaReader(data.removeprefix(STREAM_HEADER)).description()
            fields = {field.name: field.kind for field in found.fields}
            above = None if found.above is None else found.above.name
            return DecodedRecord(
                {"class_id": rest.hex()}, {"class": found.name, "extends": above, "fields": fields}, True
            )
        if kind == _LAST_ID and not rest:
            return DecodedRecord({"last_class_id": True}, {"class_id": data.hex()}, True)
        if kind == _NEWEST and len(data) > 1 and data[0] == len(data) - 1:
            return DecodedRecord({"class": rest.decode("utf-8")}, {"class_id": data[1:].hex()}, True)
        return DecodedRecord(hexed(key), hexed(data), False)


def is_catalog(source: Source, name: str) -> bool:
    """Whether a database is a class catalog, judged by its first records."""
    found = list(source.records(name, 2))
    if len(found) != 2 or found[0][0] != _LAST_ID:
        return False
    key, data = found[1]
    return key[:1] == _DESCRIPTION and data.startswith(STREAM_HEADER)


class SerialContents:
    """The kind of contents."""

    name = "serial"
    title = "Java objects (SerialBinding)"

    def recognises(self, source: Source) -> bool:
        """By a class catalog."""
        return any(is_catalog(source, name) for name in source.names)

    def decoder(self, source: Source) -> SerialDecoder:
        """A decoder with all classes of the catalogs; unreadable ones are left out."""
        catalogs = frozenset(name for name in source.names if is_catalog(source, name))
        classes: dict[bytes, JavaClass] = {}
        for name in sorted(catalogs):
            for key, data in source.records(name, _MOST_CLASSES):
                if key[:1] != _DESCRIPTION:
                    continue
                try:
                    classes[key[1:]] = JavaReader(data.removeprefix(STREAM_HEADER)).description()
                except (FormatError, ValueError, RecursionError):
                    continue
        return SerialDecoder(catalogs, classes)


SERIAL: Final = SerialContents()
