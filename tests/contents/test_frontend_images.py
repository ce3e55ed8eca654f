"""Image files of frontends, written here as each release writes them, and every way to damage one."""

from __future__ import annotations

import json
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contents.frontend_images import doris_footer, image_header
from engine.errors import FormatError, StorageError
from engine.journals.images import RIGHT, UNCHECKED, WRONG, ImageFile, problem_of, read_images
from engine.journals.metadata import read_metadata
from engine.storage.disk import DiskStorage
from tests.support.environments.frontends import doris_image

BINARY = struct.pack(">iiiqq?", -1, 92, 3, 50, 10_000, True) + b"rest"
COMMUNITY = struct.pack(">iqq?", 84, 50, 10_000, True) + b"rest"


def text(value: object) -> bytes:
    raw = json.dumps(value).encode()
    return struct.pack(">i", len(raw)) + raw


HEADER = struct.pack(">i", 4) + text({"beid": 12000})


def block(number: int, *texts: object) -> bytes:
    body = text({"i": {"id": number}, "nj": len(texts)}) + b"".join(map(text, texts))
    return body + text({"c": zlib.crc32(body)})


BLOCKS = HEADER + block(1, {"a": 1}, 2, "three") + block(2, "x" * 3_000_000) + block(3, 0)
JSON_TEXT = HEADER + b'{"i":{"id":1},"nj":1}{"a":1}'


def written(directory: Path, name: str, data: bytes) -> ImageFile:
    (directory / name).parent.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(data)
    return next(one for one in read_images(DiskStorage(str(directory))) if one.path == name)


@pytest.mark.parametrize(
    ("data", "form", "version", "state"),
    [
        (doris_image(50), "doris", 129, UNCHECKED),
        (BINARY, "binary", 3, UNCHECKED),
        (COMMUNITY, "binary", 84, UNCHECKED),
        (BLOCKS, "blocks", 4, RIGHT),
    ],
)
def test_images_of_each_release(data: bytes, form: str, version: int, state: str, tmp_path: Path) -> None:
    found = written(tmp_path, "image.50", data)
    assert found.header is not None
    assert (found.header.format, found.header.meta_version) == (form, version)
    assert (found.id, found.size_bytes, found.state, found.problem) == (50, len(data), state, None)
    assert found.header.journal_id == (None if form == "blocks" else 50)
    assert found.checksum == (24525 if form == "doris" else None)
    if form != "blocks":
        other = written(tmp_path, "image.51", data)
        assert (other.state, other.problem) == (WRONG, "header of an image: expected journal 51, found 50")


def test_the_second_format_of_starrocks(tmp_path: Path) -> None:
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2" / "checksum.70").write_text(str(zlib.crc32(JSON_TEXT)))
    written(tmp_path, "image.50", BLOCKS)
    found = written(tmp_path, "v2/image.70", JSON_TEXT)
    assert (found.state, found.checksum, found.problem) == (RIGHT, zlib.crc32(JSON_TEXT), None)
    files = read_metadata(DiskStorage(str(tmp_path)))
    assert files is not None
    assert files.images == (50, 70)
    changed = JSON_TEXT[:-3] + b"2}"
    assert written(tmp_path, "v2/image.70", changed).state == WRONG
    (tmp_path / "v2" / "checksum.70").write_text("no number")
    assert written(tmp_path, "v2/image.70", JSON_TEXT).state == WRONG
    (tmp_path / "v2" / "checksum.70").unlink()
    gone = written(tmp_path, "v2/image.70", JSON_TEXT)
    assert gone.state == WRONG
    assert gone.problem is not None
    assert "checksum.70" in gone.problem


@pytest.mark.parametrize("at", [len(HEADER) + 2, len(HEADER) + 40, len(BLOCKS) - 1, 2_000_000])
def test_a_changed_byte_of_a_block_is_found(at: int, tmp_path: Path) -> None:
    changed = bytearray(BLOCKS)
    changed[at] ^= 1
    assert written(tmp_path, "image.9", bytes(changed)).state == WRONG


@pytest.mark.parametrize("data", [doris_image(9), BLOCKS])
def test_a_cut_image_is_found(data: bytes, tmp_path: Path) -> None:
    for length in (0, 3, len(data) - 1, len(data) - 9):
        assert written(tmp_path, "image.9", data[:length]).state == WRONG
    assert written(tmp_path, "image.9", data + b"\0").state == WRONG


def test_parts_out_of_place(tmp_path: Path) -> None:
    data = doris_image(9)
    moved = data.replace(struct.pack(">q", 29) + struct.pack(">i", 10), struct.pack(">q", 30) + struct.pack(">i", 10))
    assert moved != data
    found = written(tmp_path, "image.9", moved)
    assert (found.state, found.header is not None) == (WRONG, True)


def test_an_image_that_cannot_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_self: DiskStorage, path: str) -> None:
        raise StorageError("the file cannot be read", file=path, found="Permission denied")

    monkeypatch.setattr(DiskStorage, "open", denied)
    found = written(tmp_path, "image.9", BLOCKS)
    assert found.state == UNCHECKED
    assert found.problem is not None
    assert problem_of((found,), 9) is None


@pytest.mark.parametrize(
    "data",
    [
        b"COR2" + doris_image(9)[4:-4] + b"COR2",
        struct.pack(">iqqB", 5, -9, 8, 1) + bytes(100),
        struct.pack(">iqqB", 5, 9, 8, 7) + bytes(100),
        b"SRIMAGE5" * 20,
    ],
)
def test_an_unknown_format_is_not_called_damaged(data: bytes, tmp_path: Path) -> None:
    """A later release may have another format; the frontend that wrote it can read it."""
    found = written(tmp_path, "image.9", data)
    assert (found.state, found.header) == (UNCHECKED, None)
    assert found.problem is not None
    assert "the format of the image is not known" in found.problem
    assert problem_of((found,), 9) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes(4096),
        b"CORX" + doris_image(9)[4:],
        bytes(64) + doris_image(9)[64:],
        struct.pack(">i", 9_000_000) + BLOCKS[4:],
        BLOCKS[:9] + b"\xff" + BLOCKS[10:],
        BINARY[:12] + b"\x01" + BINARY[13:],
    ],
)
def test_damage_at_the_begin_of_a_known_format_is_found(data: bytes, tmp_path: Path) -> None:
    found = written(tmp_path, "image.50", data)
    assert found.state == WRONG
    assert problem_of((found,), 50) == found.problem is not None


@given(st.binary(max_size=120))
def test_any_bytes_are_a_header_or_refused(data: bytes) -> None:
    with suppress(FormatError, ValueError):
        assert 0 < image_header(data).end <= len(data)
    with suppress(FormatError, ValueError):
        assert 0 <= doris_footer(data + b"COR1", len(data) + 4).begin < len(data) + 4
