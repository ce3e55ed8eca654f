"""Container files: opening them, creating them from a record, marking them dropped, removing them.

Order of writes: a stub is written and synced before the container file is removed; a header is written before its file
is synced. The header is kept here, not on page 0. It is put into page 0 when that page is written, since the checksum
of the page is computed without it.
"""

from __future__ import annotations

from engine.derby.database import DerbyDatabase
from engine.derby.format import container, page
from engine.derby.format.container import ContainerHeader, ContainerKey
from engine.derby.pages import LiveAllocation, fresh_page
from engine.errors import DamageError, FormatError
from engine.storage.base import Storage, WriteFile, write_synced

_OPEN_FILES = 100
# Byte offsets are 63 bits wide, and pages have up to 32 768 bytes.
_LARGEST_PAGE = 2**47


class Container:
    """One container.

    Attributes:
        key: name of the container.
        header: the current header.
        header_dirty: whether the header on disk is older.
    """

    __slots__ = ("_files", "header", "header_dirty", "key", "page_count")

    def __init__(self, files: Containers, key: ContainerKey, header: ContainerHeader, size_bytes: int) -> None:
        self._files = files
        self.key = key
        self.header = header
        self.header_dirty = False
        self.page_count = size_bytes // header.page_size

    @property
    def path(self) -> str:
        """Path of the file below the database directory."""
        return container.path_of(self.key)

    def read_page(self, number: int) -> bytes:
        """The bytes of a page; fewer, or none, if the file ends earlier.

        Raises: FormatError when the page number is so high that no file could be that long.
        """
        if number > _LARGEST_PAGE:
            raise FormatError("a page number is out of range", found=str(number))
        size = self.header.page_size
        return self._files.file(self.path).read(number * size, size)

    def write_page(self, number: int, data: bytes) -> None:
        """Write a page."""
        self._files.file(self.path).write(number * self.header.page_size, data)
        self._files.unsynced.add(self.path)
        self.page_count = max(self.page_count, number + 1)

    def change_header(self, *, status: int, version: int) -> None:
        """Give the container another status and version; written with ``write_header``."""
        self.header = self.header._replace(status=status, version=version)
        self.header_dirty = True

    def write_header(self) -> None:
        """Write the header alone."""
        self._files.file(self.path).write(container.HEADER_OFFSET, container.encode_header(self.header))
        self._files.unsynced.add(self.path)
        self.header_dirty = False


class Containers:
    """The container files of a database.

    Arguments:
        database: the database.
        storage: where changes go; the database's own storage when left out.

    Attributes:
        stubs: stubs created or found in this run, with the instant of the record that removed the container.
        unsynced: paths written since the last sync.
    """

    __slots__ = ("_database", "_known", "_open", "_storage", "stubs", "unsynced")

    def __init__(self, database: DerbyDatabase, storage: Storage | None = None) -> None:
        self._database = database
        self._storage = storage or database.storage
        self._known: dict[ContainerKey, Container] = {}
        self._open: dict[str, WriteFile] = {}
        self.stubs: dict[ContainerKey, int] = {}
        self.unsynced: set[str] = set()

    def find(self, key: ContainerKey) -> Container | None:
        """The container, or None if it has no file with a header. DamageError when the header cannot be read."""
        known = self._known.get(key)
        if known is not None:
            return known
        path = container.path_of(key)
        stat = self._storage.stat(path)
        if stat is None:
            return None
        front = self.file(path).read(0, container.HEADER_END)
        if len(front) < container.HEADER_END or not any(front):
            # The creation of the file was interrupted. The create record repeats it; for other records the file is
            # missing.
            return None
        try:
            header = container.header_in(front)
        except FormatError as error:
            raise DamageError(
                f"{key} cannot be used: {error}",
                file=f"{self._storage.root}/{path}",
                consequence="its pages cannot be recovered",
                hint="restore the file from a backup",
            ) from error
        self._known[key] = Container(self, key, header, stat.size_bytes)
        return self._known[key]

    def all_keys(self) -> list[ContainerKey]:
        """Every container that has a file or a stub."""
        return sorted(self._database.containers())

    def has_stub(self, key: ContainerKey) -> bool:
        """Whether a stub shows that the container was removed."""
        return self._storage.stat(container.stub_path_of(key)) is not None

    def create(self, key: ContainerKey, header: ContainerHeader) -> Container:
        """Recreate a container from the header in its create record: page 0, version 0 (R-DRB-33)."""
        path = container.path_of(key)
        directory = container.directory(key.segment)
        if self._storage.stat(directory) is None:
            self._storage.make_directory(directory)
        # A create record has -1 here; on disk the first allocation page is page 0.
        made = Container(self, key, header._replace(first_allocation_page=0, first_allocation_offset=0), 0)
        first = fresh_page(page.ALLOCATION, 0, header.page_size, header.minimum_record_size, container.HEADER_SIZE)
        assert isinstance(first, LiveAllocation)
        # The file is created together with page 0, so a crash leaves a complete container or none.
        self._put(path, first.encode(container.encode_header(made.header)))
        made.page_count = 1
        self._known[key] = made
        return made

    def _put(self, path: str, first_page: bytes) -> None:
        """Create a file that is never visible without its first page: Derby does not start with such a file."""
        temporary = f"{path}.new"
        write_synced(self._storage, temporary, first_page)
        self._close(path)
        # Content first, name second: the file is synced before it becomes visible.
        self._storage.rename(temporary, path)
        self._storage.sync_directory(path.rpartition("/")[0])

    def remove(self, key: ContainerKey, at: int) -> None:
        """Write a stub and delete the file; ``at`` is the instant of the record that removes the container."""
        found = self.find(key)
        self.stubs[key] = at
        if found is None:
            # There is no header for a stub: the file is missing, or its creation was interrupted.
            self._remove_file(container.path_of(key))
            return
        stub = container.stub_path_of(key)
        removed = container.DROPPED | container.DROP_COMMITTED
        header = found.header._replace(status=found.header.status | removed)
        # The stub is durable before the file is removed: redo of older records must find the stub or the file.
        file = self._storage.open_rw(stub, create=True)
        file.write(0, container.encode_stub(header))
        file.sync()
        file.close()
        directory = container.directory(key.segment)
        self._storage.sync_directory(directory)
        self._remove_file(found.path)
        del self._known[key]

    def _remove_file(self, path: str) -> None:
        self._close(path)
        self.unsynced.discard(path)
        if self._storage.stat(path) is not None:
            self._storage.remove(path)
            self._storage.sync_directory(path.rpartition("/")[0])

    def changed_headers(self) -> list[Container]:
        """Containers whose header on disk is older, in order of their keys."""
        return [self._known[key] for key in sorted(self._known) if self._known[key].header_dirty]

    def sync(self) -> None:
        """Make everything written durable."""
        for path in sorted(self.unsynced):
            self.file(path).sync()
        self.unsynced.clear()

    def adopt_stubs(self) -> None:
        """Register the stubs found on disk: their records lie before all new records."""
        for directory in self._storage.names():
            if not directory.startswith("seg") or not directory[3:].isdigit():
                continue
            for name in self._storage.names(directory):
                parts = container.number_of(name)
                # Stubs found here get instant 0, which lies before every low water mark, so the next checkpoint deletes
                # them.
                if parts is not None and parts[0]:
                    self.stubs.setdefault(ContainerKey(int(directory[3:]), parts[1]), 0)

    def drop_stubs(self, before: int) -> list[str]:
        """Delete stubs whose record lies before an instant; return their paths."""
        gone = []
        for key, at in sorted(self.stubs.items()):
            path = container.stub_path_of(key)
            if at < before and self._storage.stat(path) is not None:
                self._storage.remove(path)
                gone.append(path)
        for directory in sorted({path.rpartition("/")[0] for path in gone}):
            self._storage.sync_directory(directory)
        return gone

    def file(self, path: str) -> WriteFile:
        """The open file; at most a hundred stay open."""
        found = self._open.get(path)
        if found is None:
            if len(self._open) >= _OPEN_FILES:
                # A file with unsynced writes is closed only after a sync: closing would lose the error of its write.
                idle = next((p for p in self._open if p not in self.unsynced), None)
                if idle is None:
                    self.sync()
                    idle = next(iter(self._open))
                self._close(idle)
            found = self._open[path] = self._storage.open_rw(path)
        return found

    def close(self) -> None:
        """Close every file."""
        for path in list(self._open):
            self._close(path)

    def _close(self, path: str) -> None:
        found = self._open.pop(path, None)
        if found is not None:
            found.close()
