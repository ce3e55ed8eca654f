"""Flips, zeroed sectors, cuts and garbage over pages and log: no damage passes without a finding.

Pages are checked one container at a time, so that thousands of cases take seconds. A case counts when its bytes differ
from the original. Of the log, the part that recovery reads is damaged: from undoLWM to the end of the last record.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import container, instant
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.recovery.start import find_start
from engine.derby.verify.check import verify
from engine.derby.verify.log_checks import check_log
from engine.derby.verify.page_checks import check_pages
from engine.events import SILENT
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import files_of, storage_of

FIVE = "crash-five-transactions"
SECTOR = 512
OUTSIDE = ("service.properties", "log/log.ctrl", "log/logmirror.ctrl")


def damaged(draw: random.Random, data: bytes, low: int, high: int, kind: str) -> bytes:
    at = draw.randrange(low, high)
    if kind == "flip":
        return data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :]
    if kind == "cut":
        return data[:at]
    at -= at % SECTOR
    if at < low:
        at = low
    length = min(SECTOR, high - at)
    put = bytes(length) if kind == "zeros" else draw.randbytes(length)
    return data[:at] + put + data[at + length :]


@pytest.mark.parametrize("name", [FIVE, "clean-shutdown", "crash-ddl"])
@pytest.mark.parametrize("kind", ["flip", "zeros", "garbage", "cut"])
def test_pages(name: str, kind: str) -> None:
    files = files_of(name)
    database = DerbyDatabase(storage_of(name))
    facts = check_log(DerbyLogFiles(database), database.controls(), SILENT).facts
    assert facts is not None
    small = {path: files[path] for path in OUTSIDE}
    paths = sorted(path for path in files if path.startswith("seg0/c"))
    draw = random.Random(f"{name} {kind}")
    silent, tried = Counter[str](), 0
    for path in draw.choices(paths, k=300):
        data = files[path]
        changed = damaged(draw, data, 0, len(data), kind)
        if changed == data:
            continue
        tried += 1
        known = {key: value for key, value in facts.versions.pages.items() if f"seg0/c{key[1]:x}.dat" == path}
        kept, facts.versions.pages = facts.versions.pages, known
        found = check_pages(DerbyDatabase(MemoryStorage({**small, path: changed})), facts.versions, SILENT).findings
        facts.versions.pages = kept
        if not found:
            silent[path] += 1
    assert tried > 60
    assert not silent


@pytest.mark.parametrize("name", [FIVE, "crash-xa-prepared"])
@pytest.mark.parametrize("kind", ["flip", "zeros", "garbage", "cut"])
def test_log(name: str, kind: str) -> None:
    files = files_of(name)
    database = DerbyDatabase(storage_of(name))
    log = DerbyLogFiles(database)
    start = find_start(log, database.controls())
    end = ForwardScan(log, start.undo_lwm).run().append
    assert instant.file_of(end) == 1
    path = "log/log1.dat"
    small = {one: files[one] for one in OUTSIDE}
    before = check_log(log, database.controls(), SILENT).findings
    draw = random.Random(f"{name} {kind}")
    low, high = instant.position_of(start.redo_lwm), instant.position_of(end)
    tried = 0
    for _ in range(250):
        changed = damaged(draw, files[path], low, high, kind)
        if changed == files[path]:
            continue
        tried += 1
        database = DerbyDatabase(MemoryStorage({**small, path: changed}))
        found = check_log(DerbyLogFiles(database), database.controls(), SILENT).findings
        assert found != before, (kind, tried)
    assert tried > 60


def test_pages_in_use_that_are_empty_or_cut_off() -> None:
    """Zeros and a cut at a page's end carry no wrong checksum: the container's map says that the page is in use."""
    files = dict(files_of("clean-shutdown"))
    path, size = max(
        ((path, len(data)) for path, data in files.items() if path.startswith("seg0/c")), key=lambda p: p[1]
    )
    page_size = container.header_in(files[path]).page_size
    assert size > 4 * page_size
    empty = files[path][: 2 * page_size] + bytes(page_size) + files[path][3 * page_size :]
    for changed, message in (
        (empty, "page 2 is in use and empty"),
        (files[path][: 2 * page_size], "page 2 is in use and missing"),
    ):
        found = verify(DerbyDatabase(MemoryStorage({**files, path: changed}))).findings
        assert [(one.code, one.page, one.message) for one in found] == [("DRB-PAGE-008", 2, message)]
