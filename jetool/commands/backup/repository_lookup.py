"""``jetool backup``: finding a directory of backups, and a backup in it."""

from __future__ import annotations

from typing import Final

from engine.backup.manifest import ID
from engine.backup.repository import Repository
from engine.errors import NotFoundError, UsageError
from engine.storage.disk import DiskStorage
from engine.storage.remote import RemoteStorage, is_url

LATEST: Final = "latest"
DEST_HELP: Final = "The directory of backups, or a URL of fsspec."


def open_repository(dest: str) -> Repository:
    """The directory of backups at a path or URL.

    Raises:
        UnsupportedError: the place is a URL, and the package for this kind of URL is not installed. UsageError: the
            kind of URL is unknown.
    """
    if is_url(dest):
        return Repository(RemoteStorage(dest), is_remote=True)
    # Links in the directory are not followed, because other users may be able to write there.
    return Repository(DiskStorage(dest, follow=False))


def chosen_id(repository: Repository, asked: str) -> str:
    """The backup that an operator named: by its id, the beginning of its id, or ``latest``.

    Raises:
        NotFoundError: no backup has this name. UsageError: several ids begin with it.
    """
    made = chosen_of(repository.ids(), repository.root, asked)
    assert ID.fullmatch(made)
    return made


def chosen_of(ids: list[str], root: str, asked: str) -> str:
    """The one of some ids that an operator named; errors as of ``chosen_id``."""
    if asked == LATEST and ids:
        return ids[-1]
    found = [made for made in ids if made.startswith(asked)]
    if len(found) > 1 and asked not in found:
        raise UsageError(f"{len(found)} backups begin with {asked!r}", hint=f"jetool backup list {root}")
    if not found:
        what = f"no backup {asked!r}" if ids else "no backup yet"
        raise NotFoundError(what, file=root, hint=f"jetool backup list {root} shows them")
    return found[0]
