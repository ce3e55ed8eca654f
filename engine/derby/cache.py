"""The page cache: pages are read once, changed in memory, and written when the log allows.

Write-ahead rule (R-DRB-8): before a page is written, the log is flushed through the last record applied to it. The
cache defines the protocol for that (``LogGuard``) and calls it before every write, both when a page is evicted and when
all pages are written for a checkpoint. Pages are written in the order of their keys; the files are synced by
``write_all`` before it returns.

With ``copies`` every page is written twice, so that a torn write can be repaired (``page_copies``).
"""

from __future__ import annotations

from itertools import islice
from typing import Final, NamedTuple, Protocol

from engine.derby.containers import Container, Containers
from engine.derby.format import container, page
from engine.derby.format.container import ContainerKey
from engine.derby.page_copies import PageCopies, PageCopy
from engine.derby.pages import LivePage, Page, decode_page, fresh_page
from engine.errors import DamageError, FormatError, caused_by

_new_tuple: Final = tuple.__new__
# 64 MB of pages; in memory, with an object for each row, four times as much.
DEFAULT_PAGES: Final = 16_384
_USUAL_PAGE_BYTES: Final = 4096
# Share of a full cache whose changed pages are written together, and the size at which the file of copies is restarted.
_BATCH_SHARE: Final = 8
_MOST_COPIES_BYTES: Final = 1 << 24


class CacheKey(NamedTuple):
    """Names a page; sorts by container, then by number."""

    container: ContainerKey
    page: int


class LogGuard(Protocol):
    """Flushes the log before the cache writes a page."""

    def before_pages(self) -> None:
        """Return when every record applied so far is durable."""


class NoLog:
    """The guard for pages that are written only to an overlay; there is no log to flush."""

    __slots__ = ()

    def before_pages(self) -> None:
        """Nothing to do."""


class WriteNotice(Protocol):
    """Is called with the ranges about to be overwritten, so that they can be saved in one step."""

    def protect(self, ranges: list[tuple[str, int, int]]) -> None:
        """Save the old bytes of ranges, each given by path, offset and length."""


class PageCache:
    """Pages by key, the most recently used last.

    Arguments:
        containers: the container files.
        guard: the write-ahead rule.
        capacity: pages of 4096 bytes that stay in memory; larger pages count several times.
        notice: called with the ranges of pages before they are written.
        copies: the file where pages are written first; None writes them once.
    """

    __slots__ = ("_capacity", "_copies", "_dirty", "_filled", "_guard", "_notice", "_pages", "containers", "written")

    def __init__(
        self,
        containers: Containers,
        guard: LogGuard,
        capacity: int = DEFAULT_PAGES,
        notice: WriteNotice | None = None,
        copies: PageCopies | None = None,
    ) -> None:
        self.containers = containers
        self._guard = guard
        self._capacity = capacity
        self._notice = notice
        self._copies = copies
        self._pages: dict[CacheKey, Page] = {}
        self._filled = 0
        self._dirty: set[CacheKey] = set()
        self.written = 0

    @property
    def dirty(self) -> int:
        """Number of pages that differ from the disk."""
        return len(self._dirty)

    def get(self, found: Container, number: int) -> Page | None:
        """A page; None if it lies after the end of the file or was never formatted.

        Raises: DamageError if the checksum or the content of the page is wrong (R-DRB-33).
        """
        # Faster than CacheKey(...): a NamedTuple's constructor is a Python function.
        key = _new_tuple(CacheKey, (found.key, number))
        # Remove the page and insert it again: the order of the dict is the order of use.
        cached = self._pages.pop(key, None)
        if cached is None:
            cached = self._read(found, number)
            if cached is None:
                return None
            self._make_room(cached)
        self._pages[key] = cached
        return cached

    def make(self, found: Container, number: int, page_format: int) -> Page:
        """A page of version 0 that replaces an unreadable one."""
        header_length = container.HEADER_SIZE if number == 0 else 0
        size, minimum = found.header.page_size, found.header.minimum_record_size
        made = fresh_page(page_format, number, size, minimum, header_length)
        self._make_room(made)
        self._pages[CacheKey(found.key, number)] = made
        return made

    def changed(self, found: Container, number: int) -> None:
        """Mark a page as changed."""
        self._dirty.add(_new_tuple(CacheKey, (found.key, number)))

    def page_count(self, found: Container) -> int:
        """Number of pages of a container, including those that are only in memory."""
        highest = max((key.page + 1 for key in self._dirty if key.container == found.key), default=0)
        return max(found.page_count, highest)

    def forget(self, key: ContainerKey) -> None:
        """Drop the pages of a container that is about to be removed."""
        for cached in [one for one in self._pages if one.container == key]:
            self._filled -= _weight(self._pages.pop(cached))
            self._dirty.discard(cached)

    def write_all(self) -> int:
        """Write every changed page, then every changed container header, and sync; the number of pages."""
        # The headers are determined again after the pages are written, since writing page 0 also writes its header.
        headers = self.containers.changed_headers()
        if not self._dirty and not headers:
            # Nothing is left to write, but evicted pages may have been written without a sync.
            self._sync()
            return 0
        self._guard.before_pages()
        if self._copies is not None:
            # Add page 0 of each changed header: the header is then written with a page that has a copy.
            for one in headers:
                self.get(one, 0)
                self.changed(one, 0)
        # If there are copies, these keys include page 0 of every changed header.
        keys = sorted(self._dirty)
        if self._notice is not None:
            self._notice.protect([self._range(key) for key in keys])
        self._write(keys)
        # A header is written before its file is synced (see ``containers``).
        for one in self.containers.changed_headers():
            one.write_header()
        self._sync()
        return len(keys)

    def _sync(self) -> None:
        self.containers.sync()
        if self._copies is not None:
            # Restart the copies only after the sync: until then a torn page can only be repaired from its copy.
            self._copies.forget()

    def _range(self, key: CacheKey) -> tuple[str, int, int]:
        found = self.containers.find(key.container)
        assert found is not None
        size = found.header.page_size
        return found.path, key.page * size, size

    def _make_room(self, wanted: Page) -> None:
        """Count a page that is about to be kept, and evict the least recently used ones until there is room.

        A changed page is written first. That costs up to three syncs: of the log, of the saved bytes and of the copies.
        So the changed pages of the least recently used part of the cache are written with it.
        """
        self._filled += _weight(wanted)
        while self._filled > self._capacity and self._pages:
            oldest = next(iter(self._pages))
            if oldest in self._dirty:
                self._guard.before_pages()
                share = islice(self._pages, max(self._capacity // _BATCH_SHARE, 1))
                batch = sorted(key for key in share if key in self._dirty)
                if self._notice is not None:
                    self._notice.protect([self._range(key) for key in batch])
                self._write(batch)
            self._filled -= _weight(self._pages.pop(oldest))

    def _write(self, keys: list[CacheKey]) -> None:
        """Write pages, copies of them first."""
        images = [self._image(key) for key in keys]
        if self._copies is not None:
            # After a sync of the containers the old copies are not needed, so the file is restarted.
            if self._copies.size_bytes > _MOST_COPIES_BYTES:
                self._sync()
            self._copies.keep(
                [
                    PageCopy(found.path, key.page * len(data), data)
                    for key, (found, data) in zip(keys, images, strict=True)
                ]
            )
        for key, (found, data) in zip(keys, images, strict=True):
            found.write_page(key.page, data)
            self._dirty.discard(key)
        self.written += len(keys)

    def _image(self, key: CacheKey) -> tuple[Container, bytes]:
        found = self.containers.find(key.container)
        assert found is not None
        cached = self._pages[key]
        if isinstance(cached, LivePage):
            return found, cached.encode()
        if key.page == 0:
            found.header_dirty = False
        return found, cached.encode(container.encode_header(found.header))

    def _read(self, found: Container, number: int) -> Page | None:
        data = found.read_page(number)
        if len(data) < found.header.page_size:
            return None
        if int.from_bytes(data[:2], "big") not in (page.STORED, page.ALLOCATION):
            return None
        try:
            return decode_page(data, found.header.minimum_record_size)
        except FormatError as error:
            damage = DamageError(
                f"page {number} of {found.key} cannot be used: {error}",
                file=found.path,
                consequence="recovery cannot go on",
                hint="restore the file from a backup, with the log files written since",
            )
            raise caused_by(damage, error) from error


def _weight(kept: Page) -> int:
    return max(kept.page_size // _USUAL_PAGE_BYTES, 1)
