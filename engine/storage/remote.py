"""Files at a URL, through fsspec: object stores such as S3, SFTP, and everything else with a driver.

This is sufficient for directories of backups: files are written sequentially, read anywhere, renamed and removed.
Limitations, and their consequences:

* Files have no locks: two concurrent runs do not notice each other. A user of such a storage must not write to a file
  that another run could have begun, and must not remove one that another run may be creating.
* A written file exists once it is closed; there is nothing to sync.
* A renamed file is copied and removed on most object stores, one after the other.

Drivers raise arbitrary exceptions, so every foreign error counts as an error of the storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from engine.errors import JetoolError, NotFoundError, StorageError, UnsupportedError, UsageError
from engine.storage.base import Lock, ReadFile, Stat, WriteFile


def is_url(path: str) -> bool:
    """Whether a path is a URL and not a directory."""
    return "://" in path


class RemoteStorage:
    """The files under one URL.

    Arguments:
        url: such as ``s3://bucket/backups``.

    Raises:
        UnsupportedError: fsspec, or the driver for this kind of URL, is not installed. UsageError: the kind is unknown.
    """

    def __init__(self, url: str) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise UnsupportedError(
                "URLs need fsspec, which is not installed", file=url, hint="pip install 'jetool[remote]'"
            ) from error
        self._url = url.rstrip("/")
        try:
            # Cached listings would hide the changes of other runs.
            self._fs, self._path = url_to_fs(url, use_listings_cache=False)
        except ImportError as error:
            raise UnsupportedError("the driver for this URL is not installed", file=url, found=str(error)) from error
        except ValueError as error:
            raise UsageError("not a URL of a known kind", file=url, found=str(error)) from error
        self._path = self._path.rstrip("/")

    @property
    def root(self) -> str:
        return self._url

    def names(self, path: str = "") -> list[str]:
        with _translated(self._name(path)):
            found = self._fs.ls(self._full(path), detail=False)
        # Some stores list the directory among its contents.
        names = {one.rstrip("/").rpartition("/")[2] for one in found if one.rstrip("/") != self._full(path)}
        return sorted(names - {""})

    def stat(self, path: str = "") -> Stat | None:
        try:
            with _translated(self._name(path)):
                found = self._fs.info(self._full(path))
        except NotFoundError:
            return None
        is_directory = found.get("type") == "directory"
        return Stat(0 if is_directory else int(found.get("size") or 0), _modified_ms(found), is_directory)

    def open(self, path: str) -> ReadFile:
        with _translated(self._name(path)):
            return _RemoteFile(path, self._name(path), self._fs.open(self._full(path), "rb"))

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        there = self.stat(path)
        if there is None and not create:
            raise NotFoundError(f"cannot open {self._name(path)}: no such file", file=self._name(path))
        return _NewFile(path, self._name(path), self._fs, self._full(path), is_there=there is not None)

    def make_directory(self, path: str) -> None:
        with _translated(self._name(path)):
            self._fs.makedirs(self._full(path), exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        with _translated(self._name(old)):
            self._fs.mv(self._full(old), self._full(new))

    def remove(self, path: str) -> None:
        with _translated(self._name(path)):
            self._fs.rm_file(self._full(path))

    def sync_directory(self, path: str = "") -> None:
        """Do nothing: there is nothing to sync."""

    def free_bytes(self) -> int | None:
        return None

    def lock(self, path: str, byte: int, *, exclusive: bool) -> Lock:
        return _NoLock()

    def lock_holder(self, path: str, byte: int) -> int | None:
        return None

    def _full(self, path: str) -> str:
        return f"{self._path}/{path}" if path else self._path

    def _name(self, path: str) -> str:
        return f"{self._url}/{path}" if path else self._url


class _RemoteFile:
    """An existing file, opened for reading."""

    def __init__(self, path: str, name: str, file: Any) -> None:
        self._path = path
        self._name = name
        self._file = file

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        with _translated(self._name):
            return int(self._file.seek(0, 2))

    def read(self, offset: int, length: int) -> bytes:
        with _translated(self._name):
            self._file.seek(offset)
            parts = []
            # One call may return less; an empty result is the end of the file.
            while length > 0 and (part := self._file.read(length)):
                parts.append(part)
                length -= len(part)
            return b"".join(parts)

    def close(self) -> None:
        with _translated(self._name):
            self._file.close()


class _NewFile:
    """A file that is written sequentially, and exists once it is closed."""

    def __init__(self, path: str, name: str, fs: Any, full: str, *, is_there: bool) -> None:
        self._path = path
        self._name = name
        self._fs = fs
        self._full = full
        self._is_there = is_there
        self._stream: Any = None
        self._at = 0
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        if self._stream is not None or not self._is_there:
            return self._at
        with _translated(self._name):
            return int(self._fs.info(self._full)["size"])

    def read(self, offset: int, length: int) -> bytes:
        if self._stream is not None or not self._is_there:
            return b""
        with _translated(self._name), self._fs.open(self._full, "rb") as file:
            file.seek(offset)
            return bytes(file.read(length))

    def write(self, offset: int, data: bytes) -> None:
        if offset != self._at:
            raise UnsupportedError("files at a URL are written from their beginning to their end", file=self._name)
        with _translated(self._name):
            if self._stream is None:
                self._stream = self._fs.open(self._full, "wb")
            self._stream.write(data)
        self._at += len(data)

    def truncate(self, length: int) -> None:
        if length or self._at:
            raise UnsupportedError("files at a URL are written from their beginning to their end", file=self._name)
        self._is_there = False

    def sync(self) -> None:
        """Do nothing: there is nothing to sync."""

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        with _translated(self._name):
            if self._stream is not None:
                self._stream.close()
            elif not self._is_there:
                self._fs.pipe_file(self._full, b"")


class _NoLock:
    """A lock object that locks nothing."""

    def release(self) -> None:
        """Do nothing."""


def _modified_ms(found: dict[str, Any]) -> int:
    """The time of the last change, under any of the names that drivers use; 0 if the driver gives no time."""
    for name in ("mtime", "LastModified", "last_modified", "created"):
        value = found.get(name)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return 0


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except JetoolError:
        raise
    except FileNotFoundError as error:
        raise NotFoundError(f"cannot open {name}: not there", file=name) from error
    except Exception as error:
        words = str(error).split("\n", 1)[0][:200] or type(error).__name__
        raise StorageError(
            words,
            file=name,
            consequence="what was being done is not complete",
            hint="check the URL and the credentials",
        ) from error
