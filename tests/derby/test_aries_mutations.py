"""Flips, zeroed sectors, cuts, garbage and doubled pages over containers and log: no damage passes without a finding.

Pages are checked one container at a time, so that thousands of cases take seconds. A case counts when its bytes differ
from the original. Of the log, the part that recovery reads is damaged: from undoLWM to the end of the last record.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from engine.derby.database import DerbyDatabase
from engine.derby.format import allocation, btree, container, instant, page
from engine.derby.format import row as rows
from engine.derby.log import DerbyLogFiles, ForwardScan
from engine.derby.recovery.start import find_start
from engine.derby.verify.agreement import Agreement
from engine.derby.verify.check import verify
from engine.derby.verify.log_checks import check_log
from engine.derby.verify.page_checks import check_pages
from engine.events import SILENT
from engine.storage.memory import MemoryStorage
from tests.derby.derby_fixtures import files_of, storage_of

pytestmark = pytest.mark.exhaustive

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


def page_of(files: dict[str, bytes], path: str, number: int) -> bytes:
    size = container.header_in(files[path]).page_size
    return files[path][number * size : (number + 1) * size]


def tables_of(files: dict[str, bytes]) -> dict[int, list[str]]:
    """The containers of a table and of its indexes, by the table's number."""
    found: dict[int, list[str]] = {}
    for path in sorted(path for path in files if path.startswith("seg0/c") and len(page_of(files, path, 1))):
        first = rows.decode_row(page.decode(page_of(files, path, 1)).rows[0].record)
        control = btree.control_row(first)
        described = btree.decode_descriptor(control.descriptor or b"").table if control is not None else None
        found.setdefault(described or int(path[6:-4], 16), []).append(path)
    return found


def test_doubled_pages() -> None:
    """A page that stands in the place of another one of its container, in a database at rest.

    Pages that continue long rows pass when both hold the same record ids, as the manual's table says; tables of SQL's
    catalogue have indexes, all of them.
    """
    files = files_of("clean-shutdown")
    draw = random.Random("doubled")
    kinds, silent = Counter[str](), Counter[str]()
    small = {path: files[path] for path in OUTSIDE}
    for paths in tables_of(files).values():
        group = {path: files[path] for path in paths}
        assert not check_pages(
            DerbyDatabase(MemoryStorage({**small, **group})), None, SILENT, Agreement((), {})
        ).findings
        for path in paths:
            found = allocation.decode(page_of(files, path, 0))
            used = [bit + 1 for bit in range(found.extent.allocated) if not found.free.get(bit)]
            pairs = [(p, q) for p in used for q in used if page_of(files, path, p) != page_of(files, path, q)]
            for source, target in draw.sample(pairs, min(len(pairs), 40)):
                data, put = bytearray(files[path]), page_of(files, path, source)
                data[target * len(put) : (target + 1) * len(put)] = put
                damaged = DerbyDatabase(MemoryStorage({**small, **group, path: bytes(data)}))
                headers = [page.read_page_header(page_of(files, path, number)) for number in (source, target)]
                kind = "index" if path.endswith("1.dat") else "rows"
                if all(header.overflow for header in headers):
                    kind = "long rows"
                kinds[kind] += 1
                codes = {one.code for one in check_pages(damaged, None, SILENT, Agreement((), {})).findings}
                assert codes <= {"DRB-IDX-001", "DRB-IDX-002"}
                silent[kind] += not codes
    assert kinds["index"] > 50
    assert kinds["rows"] > 100
    assert {kind for kind, number in silent.items() if number} == {"long rows"}


def test_an_index_and_a_table_of_other_rows() -> None:
    """The messages, by the command's check: an entry without its row, and a root that is another page."""
    files = dict(files_of("clean-shutdown"))
    table, index = "seg0/c490.dat", "seg0/c4b1.dat"
    one, two = (page_of(files, table, number) for number in (1, 2))
    found = verify(DerbyDatabase(MemoryStorage({**files, table: files[table].replace(two, one, 1)}))).findings
    assert {one.code for one in found} == {"DRB-IDX-002"}
    assert [one.container for one in found] == [0x4A1, 0x4B1]
    assert " entries for " in found[0].message
    root, leaf = (page_of(files, index, number) for number in (1, 2))
    found = verify(DerbyDatabase(MemoryStorage({**files, index: files[index].replace(root, leaf, 1)}))).findings
    assert [(one.code, one.container, one.page) for one in found] == [("DRB-IDX-001", 0x4B1, 1)]
    assert verify(DerbyDatabase(MemoryStorage(files))).not_checked == ("order of keys in indexes",)
