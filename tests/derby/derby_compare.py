"""Recovered databases in the forms of the fixtures: log bytes, page digests, logged content."""

from __future__ import annotations

import struct
from typing import Any

from engine.derby.format import allocation, container, instant, page
from engine.derby.recovery.manager import DerbyRecoveryResult
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import sha256


def log_part(storage: MemoryStorage, part: dict[str, str]) -> str:
    """SHA-256 of the log bytes of an ``undo_part``."""
    start, end = instant.parse(part["from"]), instant.parse(part["to"])
    assert instant.file_of(start) == instant.file_of(end)
    data = storage.contents()[f"log/log{instant.file_of(start)}.dat"]
    return sha256(data[instant.position_of(start) : instant.position_of(end)])


def page_state(image: bytes) -> dict[str, Any]:
    """A page in the form of pages-after-recovery.json."""
    if image[1] == page.ALLOCATION:
        decoded = allocation.decode(image)
        header, extent = decoded.header, decoded.extent
        content = struct.pack(">qqi", extent.first_page, extent.last_page, extent.allocated)
        content += bytes(decoded.free.get(bit) for bit in range(decoded.free.bits))
    else:
        stored = page.decode(image)
        header = stored.header
        content = b"".join(struct.pack(">HH", len(row.record), len(row.slack)) + row.record for row in stored.rows)
    return {
        "deleted": header.deleted_plus_one - 1,
        "format": header.page_format,
        "next_id": header.next_record_id,
        "overflow": int(header.overflow),
        "sha256": sha256(content),
        "slots": header.slots,
        "status": header.status,
        "version": header.version,
    }


def pages_of(data: bytes) -> list[bytes]:
    """The pages of a container file."""
    size = container.header_in(data).page_size
    return [data[start : start + size] for start in range(0, len(data), size)]


def logged_content(storage: MemoryStorage) -> dict[str, Any]:
    """Everything that the log determines: container headers and pages, without hints and stale bytes."""
    found: dict[str, Any] = {}
    for path, data in storage.contents().items():
        parts = container.number_of(path.rpartition("/")[2])
        if parts is None or parts[0]:
            continue
        header = container.header_in(data)
        states = [page_state(image) for image in pages_of(data) if image.count(0) != len(image)]
        found[path] = header.status, header.version, states
    return found


def assert_as_derby(storage: MemoryStorage, result: DerbyRecoveryResult, expected: dict[str, Any]) -> None:
    """The parts of an expectation that do not need SQL."""
    assert [one.transaction for one in result.undone] == expected["undo_order"]
    assert sum(one.clrs for one in result.undone) == expected.get("clr", 0)
    if "undo_part" in expected:
        assert log_part(storage, expected["undo_part"]) == expected["undo_part"]["sha256"]
        assert instant.show(result.undo_to) == expected["undo_part"]["to"]
    if result.checkpoint is not None:
        assert instant.show(result.checkpoint.at) == expected["control_after"]
