"""The frontend's files beside the environment: ``<meta_dir>/image`` next to ``<meta_dir>/bdb`` (fe-journals.md 1)."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from engine.contents.frontend_files import IMAGE_DIRECTORIES, ROLE_FILE, VERSION_FILE, FrontendFiles, frontend_files
from engine.storage.base import Storage

_LONGEST: Final = 1 << 16


def read_metadata(images: Storage) -> FrontendFiles | None:
    """The facts from the directory ``image``; None if it does not exist.

    Raises:
        StorageError: a file cannot be read.
    """
    found = images.stat()
    if found is None or not found.is_directory:
        return None
    names = [name for directory in IMAGE_DIRECTORIES for name in directory_names(images, directory)]
    return frontend_files(_small(images, ROLE_FILE), _small(images, VERSION_FILE), names)


def directory_names(storage: Storage, path: str) -> list[str]:
    """The names in a directory; empty if it does not exist."""
    found = storage.stat(path)
    return storage.names(path) if found is not None and found.is_directory else []


def _small(storage: Storage, path: str) -> bytes:
    found = storage.stat(path)
    if found is None or found.is_directory:
        return b""
    with closing(storage.open(path)) as file:
        return file.read(0, _LONGEST)
