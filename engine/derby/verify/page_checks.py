"""Checks of containers and pages: each page by itself, and compared with the log.

For each container file: its header and checksum; whether it is marked dropped; whether the file ends with a whole page.
For each page: the checksum; the slot table, which must cover the records without gap or overlap; that every row can be
decoded to its last byte; that record ids are unique and below the next record id; that the number of deleted rows in
the header is right; and the version against the range that the log allows (see ``verify``).

A page of zeros, or page 0 with only a container header, is left by a crash while a container is created or extended. It
is a note if the log recreates the page or never names it.

A page that is zero or missing although the container's map marks it as in use is damage, unless the log recreates it.
What these checks cannot detect is a page with the content of another page of its kind, if the log does not name it,
since a page does not hold its own number. ``agreement``, which is given the pages in use, can.

Example: in ``crash-five-transactions`` page 1 of container 0x490 has version 14 on disk and the log holds records for
it from version 14 to 18. An image with version 13 would be DRB-PAGE-004 (an earlier record is missing), one with
version 20 would be DRB-PAGE-005 (the log has lost its end).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from engine.derby.database import DerbyDatabase
from engine.derby.format import allocation, container, page
from engine.derby.format import row as rows
from engine.derby.format.container import ContainerKey
from engine.derby.page_versions import PageVersions, VersionRange
from engine.derby.verify.agreement import Agreement
from engine.derby.verify.findings import ERROR, DerbyFinding, finding
from engine.errors import FormatError, plural
from engine.events import Listener
from engine.storage.base import ReadFile


class PageCheck(NamedTuple):
    """The result, with counts of checked items, and the containers whose files have errors."""

    findings: list[DerbyFinding]
    containers: int
    pages: int
    rows: int
    damaged: frozenset[ContainerKey] = frozenset()


def check_pages(
    database: DerbyDatabase,
    versions: PageVersions | None,
    listener: Listener,
    agreement: Agreement | None = None,
    unused: Collection[ContainerKey] = (),
    catalogue: Collection[int] = (),
    only: Collection[ContainerKey] | None = None,
) -> PageCheck:
    """Check every container file.

    Arguments:
        database: the database.
        versions: versions of pages in the log; None if they are unknown.
        listener: receives progress of ``pages`` steps in containers.
        agreement: compares indexes and tables; None skips this comparison.
        unused: containers that neither log nor catalogue names: each gets a note, and its pages are not checked.
        catalogue: numbers of the containers that the catalogue names; each needs a page 0.
        only: check these containers; None: all.
    """
    found = {key: is_stub for key, is_stub in database.containers().items() if only is None or key in only}
    findings: list[DerbyFinding] = []
    damaged: set[ContainerKey] = set()
    ranges = versions.by_container() if versions is not None else {}
    pages = count = 0
    for done, (key, is_stub) in enumerate(sorted(found.items())):
        listener.step("pages", done, len(found))
        if key in unused:
            findings.append(_unused(database, key, is_stub=is_stub))
            continue
        if is_stub:
            findings += _check_stub(database, key)
            continue
        # Page 0 maps the pages in use, but nothing on disk shows whether page 0 itself is in use.
        in_use = {0} if key.segment == 0 and key.container in catalogue else set[int]()
        checker = _Container(database, key, ranges.get(key, {}), agreement, in_use)
        checker.run()
        if any(one.severity == ERROR for one in checker.findings):
            damaged.add(key)
            if agreement is not None:
                agreement.leave_out(key)
        findings += checker.findings
        pages += checker.pages
        count += checker.rows
    if agreement is not None:
        findings += agreement.findings()
    containers = sum(1 for is_stub in found.values() if not is_stub)
    return PageCheck(findings, containers, pages, count, frozenset(damaged))


def _unused(database: DerbyDatabase, key: ContainerKey, *, is_stub: bool) -> DerbyFinding:
    """The note about a file that nothing names."""
    if is_stub:
        path, code, what = container.stub_path_of(key), "DRB-CONT-004", "is removed, its stub is left"
    elif _is_dropped(database, key):
        path, code, what = container.path_of(key), "DRB-CONT-003", "is marked dropped"
    else:
        path, code, what = container.path_of(key), "DRB-CONT-005", "belongs to no table or index"
    return finding(code, f"container {key.container} {what}", file=path, container=key.container)


def _is_dropped(database: DerbyDatabase, key: ContainerKey) -> bool:
    file = database.storage.open(container.path_of(key))
    try:
        return bool(container.header_in(file.read(0, container.HEADER_END)).status & container.DROPPED)
    except FormatError:
        return False
    finally:
        file.close()


def _check_stub(database: DerbyDatabase, key: ContainerKey) -> list[DerbyFinding]:
    path = container.stub_path_of(key)
    file = database.storage.open(path)
    try:
        container.header_in(file.read(0, container.HEADER_END))
    except FormatError as error:
        return [finding("DRB-CONT-001", str(error), file=path, container=key.container)]
    finally:
        file.close()
    message = f"container {key.container} is removed, its stub is left"
    return [finding("DRB-CONT-004", message, file=path, container=key.container)]


class _Container:
    """One container file."""

    __slots__ = ("_agreement", "_in_use", "_key", "_path", "_ranges", "_storage", "findings", "pages", "rows")

    def __init__(
        self,
        database: DerbyDatabase,
        key: ContainerKey,
        ranges: dict[int, VersionRange],
        agreement: Agreement | None,
        in_use: set[int],
    ) -> None:
        self._storage = database.storage
        self._key = key
        self._path = container.path_of(key)
        self._ranges = ranges
        self._agreement = agreement
        # Pages in use, from the allocation pages read so far; each allocation page precedes the pages that it maps.
        self._in_use = in_use
        self.findings: list[DerbyFinding] = []
        self.pages = 0
        self.rows = 0

    def run(self) -> None:
        file = self._storage.open(self._path)
        try:
            header = container.header_in(file.read(0, container.HEADER_END))
            if header.status & container.DROPPED:
                self._report("DRB-CONT-003", f"container {self._key.container} is marked dropped", None)
            self._check_all(file, header.page_size)
        except FormatError as error:
            self._report("DRB-CONT-001", str(error), None)
        finally:
            file.close()

    def _check_all(self, file: ReadFile, page_size: int) -> None:
        size = file.size()
        for number in range(size // page_size):
            self._check_page(number, file.read(number * page_size, page_size))
            self.pages += 1
        whole = size // page_size
        # A crash while the file grew; redo rewrites the page if the log names it.
        if size % page_size:
            self._report("DRB-PAGE-007", f"the file ends inside page {whole}", whole)
        for page_number in sorted(self._in_use):
            if page_number >= whole and page_number not in self._ranges:
                self._report("DRB-PAGE-008", f"page {page_number} is in use and missing", page_number)
                break
        for page_number, known in self._ranges.items():
            # Redo would stop: the page is missing, and no init record creates it.
            if page_number >= whole and not known.recreated:
                self._report("DRB-PAGE-004", f"page {page_number} is missing", page_number, known.first_at)

    def _check_page(self, number: int, data: bytes) -> None:
        known = self._ranges.get(number)
        # A crash while the container grew; harmless if the log recreates the page or never names it.
        if _never_written(number, data) and (known is None or known.recreated):
            # A page is written before the map marks it as in use.
            if known is None and number in self._in_use:
                self._report("DRB-PAGE-008", f"page {number} is in use and empty", number)
                return
            self._report("DRB-PAGE-007", f"page {number} was never written", number)
            return
        try:
            version = self._check_content(number, data)
        except FormatError as error:
            code = "DRB-PAGE-001" if "checksum" in error.what else "DRB-PAGE-002"
            self._report(code, str(error), number)
            return
        if known is None:
            return
        # An init record recreates the page, whatever version is on disk.
        if version < known.first and not known.recreated:
            message = f"page version {version}, the first record for it needs {known.first}"
            self._report("DRB-PAGE-004", message, number, known.first_at)
        elif version > known.last:
            message = f"page version {version}, the log ends at {known.last}"
            self._report("DRB-PAGE-005", message, number, known.first_at)

    def _check_content(self, number: int, data: bytes) -> int:
        """Check one page; its version. FormatError when the page as such is damaged."""
        if page.read_page_header(data).page_format == page.ALLOCATION:
            found = allocation.decode(data)
            first = found.extent.first_page
            self._in_use.update(first + bit for bit in range(found.extent.allocated) if not found.free.get(bit))
            return found.header.version
        decoded = page.decode(data)
        deleted = 0
        seen: set[int] = set()
        found_rows = []
        for slot, stored in enumerate(decoded.rows):
            self.rows += 1
            try:
                row = rows.decode_row(stored.record)
            except FormatError as error:
                self._report("DRB-PAGE-003", f"slot {slot}: {error}", number)
                continue
            found_rows.append(row)
            header = row.header
            deleted += header.deleted
            if header.record_id in seen or header.record_id >= decoded.header.next_record_id:
                self._report("DRB-PAGE-002", f"slot {slot} has the impossible record id {header.record_id}", number)
            seen.add(header.record_id)
        # 0 means unknown; it occurs on pages of very old releases.
        stated = decoded.header.deleted_plus_one
        if stated not in (0, deleted + 1):
            message = f"the page states {plural(stated - 1, 'deleted row')} and has {deleted}"
            self._report("DRB-PAGE-006", message, number)
        if self._agreement is not None and number in self._in_use:
            self._agreement.see(self._key, number, decoded.header, found_rows)
        return decoded.header.version

    def _report(self, code: str, message: str, number: int | None, at: int = 0) -> None:
        where = self._key.container
        self.findings.append(finding(code, message, file=self._path, at=at, container=where, page=number))


def _never_written(number: int, data: bytes) -> bool:
    """Whether a page holds only zeros, and on page 0 the container header, as after a crash during creation."""
    if number == 0:
        # The header of page 0 is written with the creation, before any page content.
        data = data[: container.LENGTH_OFFSET] + data[container.HEADER_END :]
    return data.count(0) == len(data)
