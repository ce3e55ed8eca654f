"""A directory for files that belong to an environment, such as saved bytes and rejects. Undo opens the environment
itself in this way.

A user who may not read the environment must not be able to read its data there. So the directory, its new parent
directories and its files get the owner of the environment, and no more permissions than the log files have. Symbolic
links in it are not followed, since other users may be able to write there.
"""

from __future__ import annotations

import os
import stat as stat_module
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import StorageError
from engine.storage.base import WriteFile
from engine.storage.disk import DiskStorage

if TYPE_CHECKING:
    # Loaded when a directory is made: most commands make none.
    from pathlib import Path

_LOG_FILES: Final = ("*.jdb", "data???/*.jdb", "log/*.dat")


class Access(NamedTuple):
    """The permissions of directories and of files, and their owner."""

    directory: int
    file: int
    user: int
    group: int


def access_of(env: str) -> Access:
    """The permissions and the owner of an environment; without an environment, the defaults of the process."""
    try:
        found = os.stat(env)
    except OSError:
        mask = os.umask(0o077)
        os.umask(mask)
        return Access(0o777 & ~mask, 0o666 & ~mask, os.geteuid(), os.getegid())
    from pathlib import Path

    directory = stat_module.S_IMODE(found.st_mode) & 0o777
    files = directory & 0o666
    for path in (path for pattern in _LOG_FILES for path in Path(env).glob(pattern)):
        # The cleaner of a running process may delete a file meanwhile.
        with suppress(FileNotFoundError):
            files &= path.stat().st_mode
    return Access(directory | 0o700, files | 0o600, found.st_uid, found.st_gid)


def give(path: str | Path, mode: int, access: Access) -> None:
    """Set permissions and owner of a new file or directory; if its group cannot be set, the group gets no
    permissions.
    """
    if os.geteuid() == 0:
        os.chown(path, access.user, access.group)
    elif os.stat(path).st_gid != access.group:
        try:
            os.chown(path, -1, access.group)
        except OSError:
            mode &= ~0o070
    os.chmod(path, mode)


def make_directories(path: Path, access: Access) -> list[Path]:
    """Create a directory and its missing parents, durably; returns the created ones, the innermost last.

    Raises: StorageError if that is refused.
    """
    made = [one for one in (path, *path.parents) if not one.exists()][::-1]
    try:
        for one in made:
            one.mkdir(mode=0o700)
            give(one, access.directory, access)
            DiskStorage(one.parent).sync_directory()
        if not path.is_dir():
            raise NotADirectoryError(20, "it is not a directory")
    except OSError as error:
        raise StorageError(
            "cannot make the directory",
            file=str(path),
            found=(error.strerror or str(error)).lower(),
            consequence="nothing was changed",
            hint="name another one",
        ) from error
    return made


class DirectoryBeside(DiskStorage):
    """The storage for a directory of files that belong to an environment; it is created with its first file.

    Arguments:
        root: the directory.
        env: the environment that the directory belongs to.
    """

    __slots__ = ("_env",)

    def __init__(self, root: str | os.PathLike[str], env: str) -> None:
        super().__init__(root, follow=False)
        self._env = env

    def open_rw(self, path: str, *, create: bool = False) -> WriteFile:
        """Open a file; a new file, and its directory, get their permissions before any data is written."""
        if not create or self.stat(path) is not None:
            return super().open_rw(path)
        from pathlib import Path

        access = access_of(self._env)
        if self.stat() is None:
            make_directories(Path(self.root), access)
        file = super().open_rw(path, create=True)
        name = os.path.join(self.root, path)
        try:
            give(name, access.file, access)
        except OSError as error:
            file.close()
            # Remove it: it is empty, and readable by more users than it should be.
            with suppress(OSError):
                os.unlink(name)
            raise StorageError(
                "a new file cannot get the owner and the permissions of the log files",
                file=name,
                found=(error.strerror or str(error)).lower(),
                consequence="its bytes could be read by other users; nothing was written to it",
                hint="name a directory on a file system that has owners and permissions, or work as the owner of both",
            ) from error
        return file
