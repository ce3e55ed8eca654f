"""The page cache: pages are read once, changed in memory, and written when the log allows.

Write-ahead rule (R-DRB-8): before a page is written, the log is flushed through the last record applied to it. The
cache owns the protocol for that (``LogGuard``) and calls it before every write, whether a page leaves the cache because
it is full or everything is written for a checkpoint. Pages are written in the order of their keys; the files are synced
by ``write_all`` before it returns.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from engine.aries.containers import Container, Containers
from engine.aries.format import container, page
from engine.aries.format.container import ContainerKey
from engine.aries.pages import LivePage, Page, decode_page, fresh_page
from engine.errors import DamageError, FormatError

DEFAULT_PAGES = 4096


class CacheKey(NamedTuple):
    """Names a page; sorts by container, then by number."""

    container: ContainerKey
    page: int


class LogGuard(Protocol):
    """What the cache needs of the log before it writes a page."""

    def before_pages(self) -> None:
        """Return when every record that was applied so far is durable."""


class WriteNotice(Protocol):
    """Hears which bytes are going to be overwritten, so that they can be saved in one step."""

    def protect(self, ranges: list[tuple[str, int, int]]) -> None:
        """Save the old bytes of ranges (path, offset, length)."""


class PageCache:
    """Pages by key, the most recently used last.

    Arguments:
        containers: the container files.
        guard: the write-ahead rule.
        capacity: pages that stay in memory.
        notice: told about pages in front of ``write_all``.
    """

    __slots__ = ("_capacity", "_dirty", "_guard", "_notice", "_pages", "containers", "written")

    def __init__(
        self,
        containers: Containers,
        guard: LogGuard,
        capacity: int = DEFAULT_PAGES,
        notice: WriteNotice | None = None,
    ) -> None:
        self.containers = containers
        self._guard = guard
        self._capacity = capacity
        self._notice = notice
        self._pages: dict[CacheKey, Page] = {}
        self._dirty: set[CacheKey] = set()
        self.written = 0

    @property
    def dirty(self) -> int:
        """Number of pages that differ from the disk."""
        return len(self._dirty)

    def get(self, found: Container, number: int) -> Page | None:
        """A page, or None when it lies behind the end of the file or was never formatted.

        Raises: DamageError when its checksum or its content is wrong (R-DRB-33).
        """
        key = CacheKey(found.key, number)
        cached = self._pages.pop(key, None)
        if cached is None:
            cached = self._read(found, number)
            if cached is None:
                return None
            self._make_room()
        self._pages[key] = cached
        return cached

    def make(self, found: Container, number: int, page_format: int) -> Page:
        """A page of version 0 in the place of one that cannot be read."""
        header_length = container.HEADER_SIZE if number == 0 else 0
        size, minimum = found.header.page_size, found.header.minimum_record_size
        made = fresh_page(page_format, number, size, minimum, header_length)
        self._make_room()
        self._pages[CacheKey(found.key, number)] = made
        return made

    def changed(self, found: Container, number: int) -> None:
        """A page differs from the disk from now on."""
        self._dirty.add(CacheKey(found.key, number))

    def page_count(self, found: Container) -> int:
        """Number of pages of a container, those in memory only included."""
        highest = max((key.page + 1 for key in self._dirty if key.container == found.key), default=0)
        return max(found.page_count, highest)

    def forget(self, key: ContainerKey) -> None:
        """Drop the pages of a container that is going away."""
        for cached in [one for one in self._pages if one.container == key]:
            del self._pages[cached]
            self._dirty.discard(cached)

    def write_all(self) -> int:
        """Write every changed page, then every changed container header, and sync; the number of pages."""
        headers = self.containers.changed_headers()
        if not self._dirty and not headers:
            self.containers.sync()
            return 0
        self._guard.before_pages()
        keys = sorted(self._dirty)
        if self._notice is not None:
            self._notice.protect([self._range(key) for key in keys])
        for key in keys:
            self._write(key)
        for one in self.containers.changed_headers():
            one.write_header()
        self.containers.sync()
        return len(keys)

    def _range(self, key: CacheKey) -> tuple[str, int, int]:
        found = self.containers.find(key.container)
        assert found is not None
        size = found.header.page_size
        return found.path, key.page * size, size

    def _make_room(self) -> None:
        """Let the page go that was not used for longest, written first when it was changed."""
        while len(self._pages) >= self._capacity:
            oldest = next(iter(self._pages))
            if oldest in self._dirty:
                self._guard.before_pages()
                self._write(oldest)
            del self._pages[oldest]

    def _write(self, key: CacheKey) -> None:
        found = self.containers.find(key.container)
        assert found is not None
        cached = self._pages[key]
        if isinstance(cached, LivePage):
            data = cached.encode()
        else:
            data = cached.encode(container.encode_header(found.header))
            if key.page == 0:
                found.header_dirty = False
        found.write_page(key.page, data)
        self._dirty.discard(key)
        self.written += 1

    def _read(self, found: Container, number: int) -> Page | None:
        data = found.read_page(number)
        if len(data) < found.header.page_size:
            return None
        if int.from_bytes(data[:2], "big") not in (page.STORED, page.ALLOCATION):
            return None
        try:
            return decode_page(data, found.header.minimum_record_size)
        except FormatError as error:
            raise DamageError(
                f"page {number} of {found.key} cannot be used: {error}",
                file=found.path,
                consequence="recovery cannot go on",
                hint="restore the file from a backup, with the log files written since",
            ) from error
