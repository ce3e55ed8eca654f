"""The database in which JE 25.3 keeps before-images: values that were replaced or deleted (je-log-format.md 9.5).

The key is the LSN of the version that was replaced, which JE calls the abort LSN. The data is the log version that
introduced the form (25), the replaced value and its modification time, in packed numbers; zero bytes fill it up to the
widest form of these numbers.

Example: ``19 09 "old value" 7d 04 68 e5 cf 8b 01 00 00 00 00`` is the value "old value", modified at 1700000000123 ms.
"""

from __future__ import annotations

from typing import Final

from engine.contents.base import DecodedRecord, Source, hexed
from engine.errors import FormatError
from engine.format.bytecursor import ByteReader
from engine.format.lsn import format_lsn
from engine.format.versions import BEFORE_IMAGES

BEFORE_IMAGES_DATABASE: Final = "_jeBeforeImagesDb"
_KEY_BYTES: Final = 8
_SIGN: Final = 1 << 63
# JE allocates 4 and 8 bytes for three numbers that may take fewer.
_MOST_FILL: Final = 12


class BeforeImageDecoder:
    """Decodes before-images; other records stay undecoded."""

    def decode(self, database: str, key: bytes, data: bytes) -> DecodedRecord:
        """Decode a record. FormatError: it is no before-image."""
        if database != BEFORE_IMAGES_DATABASE:
            return DecodedRecord(hexed(key), hexed(data), False)
        if len(key) != _KEY_BYTES:
            raise FormatError("key of a before-image", expected=f"{_KEY_BYTES} bytes", found=str(len(key)))
        place = {"lsn": format_lsn(int.from_bytes(key, "big") ^ _SIGN)}
        reader = ByteReader(data)
        version = reader.packed()
        if version != BEFORE_IMAGES:
            raise FormatError("version of a before-image", expected=str(BEFORE_IMAGES), found=str(version))
        value, modified_ms = reader.byte_array(), reader.packed()
        fill = data[reader.pos :]
        if len(fill) > _MOST_FILL or any(fill):
            raise FormatError("before-image", expected="zero bytes after the time", found=fill[:16].hex())
        # The application's decoder would need the database of the record, which only the entry at the LSN names.
        return DecodedRecord(place, {"value": hexed(value), "modification_time_ms": modified_ms}, True)


class BeforeImageContents:
    """The kind of contents."""

    name = "before-images"
    title = "before-images of JE 25.3"

    def recognises(self, source: Source) -> bool:
        """False for an environment: its contents are an application's, and the database is JE's own."""
        return BEFORE_IMAGES_DATABASE in source.names

    def decoder(self, source: Source) -> BeforeImageDecoder:  # noqa: ARG002 - the signature of Contents
        """A decoder; it needs nothing from other records."""
        return BeforeImageDecoder()


BEFORE_IMAGE_CONTENTS: Final = BeforeImageContents()
