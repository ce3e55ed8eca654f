"""Records of JE's ``SerialBinding``: Java objects whose classes stand in a class catalog (``StoredClassCatalog``).

A catalog is a database: key 00 has the last class id; key 01 and an id has the description of a class, as Java's
serialization writes it; key 02 and a name has the id of the newest version of a class. What a record holds comes
without the header of the stream, and names its classes by these ids. Keys are mostly of tuple bindings, which say
nothing of themselves: ``--key-format`` shows them.
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
    """Records of an environment with a class catalog.

    Attributes:
        catalogs: names of the databases that are one.
        classes: by id.
    """

    catalogs: frozenset[str]
    classes: Mapping[bytes, JavaClass]

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """A record of the catalog, or an object."""
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
    """Whether a database is a class catalog: its first records are."""
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
        """With all classes of the catalogs; those that cannot be read are left out."""
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
