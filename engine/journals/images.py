"""The image files of a frontend: their headers, and whether what they hold is what was written.

A StarRocks image has checksums that can be computed here: one per block, or one of the whole file in ``checksum.N``. A
Doris image has only one over chosen numbers of all its parts, which the product alone can compute; of such a file the
header, the footer and the places of the parts are compared, so that a file that was cut or mixed up is found. A file is
read once, in pieces.
"""

from __future__ import annotations

import zlib
from contextlib import closing
from typing import Final, NamedTuple

from engine.contents.base import parse_json
from engine.contents.frontend_files import IMAGE_DIRECTORIES, image_ids
from engine.contents.frontend_images import (
    BLOCK_IMAGE,
    DORIS_IMAGE,
    HEAD_BYTES,
    JSON_IMAGE,
    MAGIC,
    TAIL_BYTES,
    ImageHeader,
    UnknownImageError,
    block_checksum,
    block_count,
    doris_footer,
    image_header,
    is_doris_end,
)
from engine.errors import FormatError, NotFoundError, StorageError, plural
from engine.journals.metadata import directory_names
from engine.storage.base import ReadFile, Storage

RIGHT: Final = "right"
WRONG: Final = "wrong"
UNCHECKED: Final = "unchecked"
CHECKSUMS: Final = {
    RIGHT: "the checksum is that of the file",
    WRONG: "the file is not what was written: its checksum, header or length is wrong",
    UNCHECKED: "the format is not known, or has no checksum that can be computed outside the product; what can be "
    "compared is right",
}
_PIECE: Final = 1 << 20
_LONGEST_CHECKSUM: Final = 64


class ImageFile(NamedTuple):
    """An image file.

    Attributes:
        path: in the directory of the images.
        id: the id of the last journal in the image, from its name.
        size_bytes: bytes of the file.
        header: its header; None if it has none of a known format.
        checksum: the checksum as it is stored; None without one, or with one per block.
        state: of ``CHECKSUMS``.
        problem: what is wrong, or why the file cannot be read; None for nothing.
    """

    path: str
    id: int
    size_bytes: int
    header: ImageHeader | None
    checksum: int | None
    state: str
    problem: str | None


def read_images(images: Storage, only: int | None = None) -> tuple[ImageFile, ...]:
    """The images of a frontend, by id; a file that cannot be read, or whose format is not known, is unchecked.

    Arguments:
        only: the id of the image to read; None for all images.
    """
    found = [
        _read(images, directory, number)
        for directory in IMAGE_DIRECTORIES
        for number in image_ids(directory_names(images, directory))
        if only is None or number == only
    ]
    return tuple(sorted(found, key=lambda one: (one.id, one.path)))


def problem_of(files: tuple[ImageFile, ...], image: int | None) -> str | None:
    """What is wrong with the image that a frontend loads; None for nothing. Of two formats it loads the newer one."""
    return next((one.problem for one in reversed(files) if one.id == image and one.state == WRONG), None)


def _read(images: Storage, directory: str, number: int) -> ImageFile:
    prefix = f"{directory}/" if directory else ""
    path = f"{prefix}image.{number}"
    state = WRONG
    size, header, checksum, problem = 0, None, None, None
    try:
        with closing(images.open(path)) as file:
            size = file.size()
            header = _header(file)
            if header.journal_id is not None and header.journal_id != number:
                raise FormatError("header of an image", expected=f"journal {number}", found=f"{header.journal_id}")
            if header.format == DORIS_IMAGE:
                checksum = _doris_checksum(file, header)
            elif header.format == BLOCK_IMAGE:
                _check_blocks(file, header.end)
            elif header.format == JSON_IMAGE:
                checksum = _stored_checksum(images, f"{prefix}checksum.{number}")
                _check_whole(file, checksum)
    except (StorageError, UnknownImageError) as error:
        # It may be whole: this process cannot tell.
        state, problem = UNCHECKED, str(error)
    except (FormatError, NotFoundError, ValueError) as error:
        problem = str(error)
    else:
        state = RIGHT if header.format in (BLOCK_IMAGE, JSON_IMAGE) else UNCHECKED
    return ImageFile(
        path=path, id=number, size_bytes=size, header=header, checksum=checksum, state=state, problem=problem
    )


def _header(file: ReadFile) -> ImageHeader:
    """Raises FormatError for the end of a known format after an unknown header: that header is damaged."""
    try:
        return image_header(file.read(0, HEAD_BYTES))
    except UnknownImageError as error:
        size = file.size()
        if is_doris_end(file.read(max(size - TAIL_BYTES, 0), TAIL_BYTES)):
            raise FormatError(
                "header of an image", expected=f"the magic {MAGIC.decode()}", found=error.found
            ) from error
        raise


def _doris_checksum(file: ReadFile, header: ImageHeader) -> int:
    """The stored checksum, after its footer and the places of the parts were compared with the file."""
    size = file.size()
    begin = max(size - TAIL_BYTES, 0)
    footer = doris_footer(file.read(begin, TAIL_BYTES), size)
    places = [part.offset for part in footer.parts]
    if places and (places[0] != header.end or places != sorted(places) or places[-1] > footer.begin):
        raise FormatError("footer of an image", expected=f"parts from {header.end} to {footer.begin}, in order")
    return footer.checksum


def _stored_checksum(images: Storage, path: str) -> int:
    with closing(images.open(path)) as file:
        words = file.read(0, _LONGEST_CHECKSUM).strip()
    if not words.isdigit():
        raise FormatError(path, expected="a CRC-32 in decimal digits")
    return int(words)


def _check_whole(file: ReadFile, expected: int) -> None:
    found = 0
    for at in range(0, file.size(), _PIECE):
        found = zlib.crc32(file.read(at, _PIECE), found)
    if found != expected:
        raise FormatError("image", expected=f"CRC-32 {expected}", found=f"{found}")


class _Texts:
    """Reads texts with their length before them, one after the other, and sums their bytes."""

    def __init__(self, file: ReadFile, at: int) -> None:
        self.at = at
        self.sum = 0
        self._file = file
        self._size = file.size()
        self._piece = b""
        self._begin = at

    def left(self) -> bool:
        """Whether bytes are left."""
        return self.at < self._size

    def skip(self) -> None:
        """Pass over a text, which is summed."""
        length = self._length()
        while length:
            length -= len(self._take(min(length, _PIECE)))

    def short(self) -> bytes:
        """A text of the format itself, which is never long."""
        length = self._length()
        if length > HEAD_BYTES:
            raise FormatError("block of an image", expected=f"up to {plural(HEAD_BYTES, 'byte')}", found=f"{length}")
        return self._take(length)

    def _length(self) -> int:
        length = int.from_bytes(self._take(4), "big", signed=True)
        if not 0 <= length <= self._size - self.at:
            raise FormatError(
                "block of an image",
                expected=f"up to {plural(self._size - self.at, 'byte')} at {self.at}",
                found=f"{length}",
            )
        return length

    def _take(self, count: int) -> bytes:
        if self.at + count > self._size:
            raise FormatError(
                "block of an image", expected=f"{plural(count, 'byte')} at {self.at}", found="the end of the file"
            )
        start = self.at - self._begin
        if start + count > len(self._piece):
            self._piece, self._begin, start = self._file.read(self.at, max(count, _PIECE)), self.at, 0
        taken = self._piece[start : start + count]
        self.at += count
        self.sum = zlib.crc32(taken, self.sum)
        return taken


def _check_blocks(file: ReadFile, at: int) -> None:
    texts = _Texts(file, at)
    while texts.left():
        begin, texts.sum = texts.at, 0
        for _ in range(block_count(parse_json(texts.short()))):
            texts.skip()
        found = texts.sum
        expected = block_checksum(parse_json(texts.short()))
        if found != expected:
            raise FormatError(f"block of an image at {begin}", expected=f"CRC-32 {expected}", found=f"{found}")
