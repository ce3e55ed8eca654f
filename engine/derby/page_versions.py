"""The versions of pages according to the log, and containers that were filled without logging.

Each record of a page must carry the version that the record before it led to, where a purge of n rows counts n
(R-DRB-4); a break means that a record is missing. There is one exception (R-DRB-74). CREATE INDEX, COMPRESS_TABLE, DROP
COLUMN and imports fill a new container without logging. Its creation is logged, and the first record of its page 1;
then its pages are filled, written and synced, and later changes are logged again. So the version may jump once on each
page of a container whose creation is in the log. If the log shows the jump, the page on disk must have at least the
version after the jump. Otherwise its version may be above the last one in the log.

The log does not record whether a new container was filled this way. The second record of a row on page 1 shows it: if
it carries the next version, rows are logged, the container is an ordinary one, and its pages must agree with the log.

Example: CREATE INDEX makes container 0x4b1, records (1,139693) to (1,139860) for its pages 0 and 1, both to version 2.
Page 1 has version 97 on disk. The next record for it, the split at (1,147376), carries 97.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from engine.derby.format import btree, instant
from engine.derby.format.container import ContainerKey
from engine.derby.format.operations import container, page, registry
from engine.derby.format.operations.transaction import End
from engine.derby.format.record import LAST, Record
from engine.derby.log import DerbyLogFiles
from engine.derby.loggable import raised_by, raised_by_undo
from engine.errors import DamageError, FormatError

PageKey: TypeAlias = tuple[int, int, int]
FileKey: TypeAlias = tuple[int, int]
Report: TypeAlias = Callable[[str, Record, str], None]
UNBOUNDED: Final = 2**63 - 1


class VersionRange(NamedTuple):
    """The versions of a page in the log from the redo low water mark on.

    Attributes:
        first: version before the first record, or before the first record after a jump.
        last: version after the last record.
        first_at: instant of that first record.
        recreated: whether the first record initialises the page, so that redo recreates a missing page. False after a
            jump.
        filled: whether the last record follows the filling of its container without logging.
    """

    first: int
    last: int
    first_at: int
    recreated: bool
    filled: bool = False


class PageVersions:
    """Follows the versions of pages through a scan.

    Arguments:
        log: read for the records that CLRs compensate.
        redo_lwm: records before it are on disk; only creations among them are used.
        report: called with code, record and message for each break (DRB-LOG-011) and for each CLR whose undo instant
            names no record (DRB-LOG-006).

    Attributes:
        pages: the range of each page.
    """

    __slots__ = ("_filled", "_fresh", "_log", "_redo_lwm", "_report", "pages")

    def __init__(self, log: DerbyLogFiles, redo_lwm: int, report: Report | None = None) -> None:
        # The records that CLRs compensate lie far before them. A reader of their own keeps the window of the scan.
        self._log = DerbyLogFiles(log.database)
        self._redo_lwm = redo_lwm
        self._report = report or _ignore
        # Containers that may have been filled without logging, with the transaction that created them.
        self._fresh: dict[FileKey, int | None] = {}
        # Containers that were filled without logging and have later records.
        self._filled: set[FileKey] = set()
        self.pages: dict[PageKey, VersionRange] = {}

    def see(self, one: Record) -> None:
        """Note a record; called in log order."""
        operation = one.operation
        if isinstance(operation, container.ContainerOperation):
            if operation.kind == container.CREATE:
                self._fresh[operation.segment, operation.container] = one.transaction
        elif isinstance(operation, End) and one.instant < self._redo_lwm and one.group & LAST:
            # The transaction filled its containers before its end, and the checkpoint wrote all later changes before
            # redoLWM.
            self._fresh = {key: maker for key, maker in self._fresh.items() if maker != one.transaction}
        elif one.instant >= self._redo_lwm and registry.is_page_operation(operation):
            self._see_page(one, operation)

    def by_container(self) -> dict[ContainerKey, dict[int, VersionRange]]:
        """The ranges, by container and page; without an upper bound where Derby may have filled the page."""
        found: dict[ContainerKey, dict[int, VersionRange]] = {}
        for key, known in self.pages.items():
            ranges = found.setdefault(ContainerKey(key[0], key[1]), {})
            ranges[key[2]] = known._replace(last=UNBOUNDED) if self._may_be_ahead(key) else known
        return found

    def may_lack_rows(self, key: FileKey) -> bool:
        """Whether a container whose creation is in the log may have been filled without logging."""
        return key in self._fresh

    def needs_pages(self, key: FileKey) -> bool:
        """Whether the log changes a page of the container without creating that page."""
        return any(not known.recreated for page_key, known in self.pages.items() if page_key[:2] == key)

    def _may_be_ahead(self, key: PageKey) -> bool:
        """Whether a page may be newer than the log shows: it was filled without logging and not changed since."""
        return key[:2] in self._fresh and not self.pages[key].filled

    def _see_page(self, one: Record, operation: registry.PageOperation) -> None:
        key = operation.segment, operation.container, operation.page
        version = operation.version
        after = version + self._raised(one, operation)
        known = self.pages.get(key)
        if known is None:
            recreated = isinstance(operation, page.InitPage)
            # A page without a record for its creation was filled without logging.
            if key[2] > btree.ROOT_PAGE and not recreated and key[:2] in self._fresh:
                self._filled.add(key[:2])
            self.pages[key] = VersionRange(version, after, one.instant, recreated, filled=key[:2] in self._filled)
            return
        if version > known.last and self._may_be_ahead(key):
            self._filled.add(key[:2])
            self.pages[key] = VersionRange(version, after, one.instant, False, filled=True)
            return
        if known.last != version:
            message = f"page {key[2]} of container {key[1]} has version {known.last} in front of a record for {version}"
            self._report("DRB-LOG-011", one, message)
        elif key[2] == btree.ROOT_PAGE and key[:2] not in self._filled and not _begins(operation):
            # This row is logged without a jump, so the container was not filled without logging.
            self._fresh.pop(key[:2], None)
        self.pages[key] = known._replace(last=after, filled=key[:2] in self._filled)

    def _raised(self, one: Record, operation: registry.PageOperation) -> int:
        """By how much the record raises the version of its page."""
        try:
            if one.undo_instant is None:
                return raised_by(operation)
            return raised_by_undo(self._log.record(one.undo_instant).operation)
        except (DamageError, FormatError) as error:
            undone = "" if one.undo_instant is None else f"a CLR undoes {instant.show(one.undo_instant)}, but "
            self._report("DRB-LOG-006", one, undone + error.what)
            # The increase is unknown: assume the most common one, and continue with the next record.
            return 1


def _begins(operation: registry.PageOperation) -> bool:
    """Whether a record for page 1 creates its container: it is an index's control row, or a heap's first row."""
    return isinstance(operation, page.InitPage) or (isinstance(operation, page.Insert) and operation.slot == 0)


def _ignore(code: str, one: Record, message: str) -> None:
    """Ignore the call."""
    del code, one, message
