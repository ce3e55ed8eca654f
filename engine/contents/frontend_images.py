"""Headers and footers of image files, ``image.N``: the state of a frontend after journal N (fe-journals.md 1.1).

The functions are pure: they take the first or the last bytes of a file and return facts. Four forms are known, told
apart by their first bytes; a release writes one of them:

    Doris:      "COR1", Text with JSON, version, N, next id, ...        and at the end: checksum, parts, length, "COR1"
    StarRocks:  -1, two versions, N, next id, ...                       (to 3.0)
                version, Text with JSON, blocks with a CRC-32 each      (from 3.1 on)
                version, Text with JSON, JSON                           (from 3.4 on, in ``v2``, beside ``checksum.N``)
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.contents.base import Fields, Json
from engine.contents.layouts import LENGTH_BYTES, document, flag, int32, int64, text
from engine.errors import FormatError, plural

DORIS_IMAGE: Final = "doris"
BINARY_IMAGE: Final = "binary"
BLOCK_IMAGE: Final = "blocks"
JSON_IMAGE: Final = "json"
FORMATS: Final = {
    DORIS_IMAGE: "Doris: header and footer with the magic COR1",
    BINARY_IMAGE: "StarRocks to 3.0, or a Doris without a magic: a header of numbers",
    BLOCK_IMAGE: "StarRocks from 3.1 on: blocks of JSON with a CRC-32 each",
    JSON_IMAGE: "StarRocks from 3.4 on, in the directory v2: JSON, and a file with its CRC-32",
}
MAGIC: Final = b"COR1"
# Bytes that the functions need at most: headers are shorter than 200 bytes, a footer names some fifty parts.
HEAD_BYTES: Final = 1 << 16
TAIL_BYTES: Final = 1 << 16
_TAIL_END: Final = 8 + len(MAGIC)
# The shortest header has two numbers of four bytes, or one of them and a text.
_LEAST_HEADER: Final = 8
# Versions of the metadata count up slowly; a larger number is no version.
_HIGHEST_VERSION: Final = 100_000


class UnknownImageError(FormatError):
    """The header is that of no known format; a later release may have written it."""


class ImageHeader(NamedTuple):
    """The header of an image.

    Attributes:
        format: of ``FORMATS``.
        meta_version: the version of the metadata; of StarRocks to 3.0 its own one.
        journal_id: the id of the last journal in the image; None if the format does not have it.
        end: where the header ends: of Doris before the version, otherwise after the header.
    """

    format: str
    meta_version: int
    journal_id: int | None
    end: int


class ImagePart(NamedTuple):
    """A part of a Doris image, and where it begins."""

    name: str
    offset: int


class DorisFooter(NamedTuple):
    """The footer of a Doris image.

    Attributes:
        checksum: the exclusive or of chosen numbers in all parts, which only the product can compute.
        parts: the parts in order.
        begin: where the footer begins in the file.
    """

    checksum: int
    parts: tuple[ImagePart, ...]
    begin: int


def image_header(head: bytes) -> ImageHeader:
    """The header of an image.

    Arguments:
        head: the first bytes of the file, up to ``HEAD_BYTES``.

    Raises:
        UnknownImageError: the header is that of no known format. FormatError, ValueError: it begins like a known one,
            and is damaged or cut off.
    """
    if len(head) < _LEAST_HEADER or not any(head[:_LEAST_HEADER]):
        raise FormatError("header of an image", expected="numbers or a magic", found=head[:_LEAST_HEADER].hex() or "-")
    fields = Fields(head)
    if head.startswith(MAGIC):
        fields.raw(len(MAGIC))
        document(fields)
        return ImageHeader(DORIS_IMAGE, _version(int32(fields)), int64(fields), fields.at - 12)
    first = int32(fields)
    # Another magic before a text with JSON is one of a later format, and not a damaged version.
    if head.startswith(b"{", fields.at + LENGTH_BYTES) and not head[: fields.at].isalnum():
        version = _version(first)
        document(fields)
        form = JSON_IMAGE if head[fields.at : fields.at + 1] == b"{" else BLOCK_IMAGE
        return ImageHeader(form, version, None, fields.at)
    # These headers have no magic, so only plausible numbers tell them from headers of later formats.
    try:
        if first == -1:
            _version(int32(fields))
            first = int32(fields)
        return _numbers(fields, _version(first))
    except (FormatError, ValueError) as error:
        raise UnknownImageError("the format of the image is not known", found=f"it begins {head[:16].hex()}") from error


def _numbers(fields: Fields, version: int) -> ImageHeader:
    journal_id, next_id = int64(fields), int64(fields)
    flag(fields)
    if journal_id < 0 or next_id < 0:
        raise FormatError("header of an image", expected="ids that are not negative")
    return ImageHeader(BINARY_IMAGE, version, journal_id, fields.at)


def _version(number: int) -> int:
    if not 0 < number < _HIGHEST_VERSION:
        raise FormatError("header of an image", expected="a version of the metadata", found=f"{number}")
    return number


def is_doris_end(tail: bytes) -> bool:
    """Whether a file ends like a Doris image, even if its header is damaged."""
    return tail.endswith(MAGIC)


def doris_footer(tail: bytes, size: int) -> DorisFooter:
    """The footer of a Doris image.

    Arguments:
        tail: the last bytes of the file, up to ``TAIL_BYTES``.
        size: bytes of the file.

    Raises:
        FormatError, ValueError: the file does not end in a footer.
    """
    if len(tail) < _TAIL_END or not tail.endswith(MAGIC):
        raise FormatError("footer of an image", expected=f"the magic {MAGIC.decode()} at its end")
    length = int.from_bytes(tail[-_TAIL_END : -len(MAGIC)], "big", signed=True)
    begin = len(tail) - _TAIL_END - length
    if length < 0 or begin < 0:
        raise FormatError(
            "footer of an image", expected=f"up to {plural(len(tail) - _TAIL_END, 'byte')}", found=f"{length}"
        )
    fields = Fields(tail[:-_TAIL_END], begin)
    checksum, count = int64(fields), int32(fields)
    if not 0 <= count <= fields.left:
        raise FormatError("footer of an image", expected="the number of its parts", found=f"{count}")
    parts = tuple(ImagePart(text(fields), int64(fields)) for _ in range(count))
    fields.finish()
    return DorisFooter(checksum, parts, size - len(tail) + begin)


def block_count(header: Json) -> int:
    """The number of texts in a block of a StarRocks image, from the header of the block."""
    count = header.get("nj") if isinstance(header, dict) else None
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise FormatError("block of an image", expected="the number of its texts (nj)")
    return count


def block_checksum(footer: Json) -> int:
    """The CRC-32 of a block of a StarRocks image, from the footer of the block."""
    checksum = footer.get("c") if isinstance(footer, dict) else None
    if not isinstance(checksum, int) or isinstance(checksum, bool):
        raise FormatError("block of an image", expected="a checksum (c)")
    return checksum
