"""A Derby database directory: its layout, the control files, and the process that has it open.

========================  ==================================================================
path                      content
========================  ==================================================================
service.properties        Java properties; says whether the database is enciphered
db.lck, dbex.lck          left behind by a crash; a running JVM holds a lock on dbex.lck
log/log.ctrl              control file
log/logmirror.ctrl        second copy of it
log/logN.dat              log files, N = 1, 2, ...
seg0/cHEX.dat, dHEX.dat   containers, and stubs of removed ones
========================  ==================================================================

Control files (R-DRB-40 to 43): ``log.ctrl`` is used if it is intact and names a checkpoint. Otherwise the mirror is
used, which may be one checkpoint behind; that is safe, since truncation of the log comes after both are written. When
both fail, there is no checkpoint and the log is read from the first file. Derby does not look at the mirror when
``log.ctrl`` is absent, and then writes no checksum records; this program uses the mirror and reports it.

``logDevice`` in the properties names another directory that holds ``log``. Derby then ignores a ``log`` in the database
directory itself, even if one exists. Readers see the two directories merged (``with_its_log``); commands that write
refuse such a database (``DerbyDatabase.require_start``).
"""

from __future__ import annotations

import re
import time
from typing import Final, NamedTuple

from engine.derby.format import container, control, instant
from engine.derby.format.control import Control
from engine.derby.service_properties import OLD_PROPERTIES, PROPERTIES, read_properties
from engine.errors import FormatError, NotFoundError, RefusedError, UnsupportedError
from engine.storage import base
from engine.storage.base import Lock, ReadFile, Stat, Storage
from engine.storage.disk import DiskStorage
from engine.storage.overlay import WrappedStorage

LOG_DIRECTORY = "log"
CONTROL = "log/log.ctrl"
MIRROR = "log/logmirror.ctrl"
LOCK_FILE: Final = base.DERBY_LOCK_FILE
OWNER_FILE = "db.lck"
LOCK_BYTE: Final = base.WRITER_BYTE
_POLL_S: Final = 0.2

# Recovery was compared with Derby's for each of these releases (derby-log-format.md 20).
OLDEST = (10, 0)
NEWEST_READ = (10, 17)
NEWEST_RECOVERED = (10, 17)
# A database of an older release has no checksum records in its log.
OLDEST_WITH_CHECKSUMS = (10, 1)
# Assumed where no control file names a release: every release from this one on opens it.
_USUAL = (10, 14)


class ControlCopy(NamedTuple):
    """One of the two control files.

    Attributes:
        path: the path of the file below the database directory.
        present: whether the file exists.
        control: the content of the file; None if the file is absent or invalid.
        problem: why the file is invalid; None if it is valid or absent.
    """

    path: str
    present: bool
    control: Control | None
    problem: str | None


class Controls(NamedTuple):
    """Both control files, and the file in use (None: no checkpoint is known)."""

    primary: ControlCopy
    mirror: ControlCopy
    chosen: Control | None
    source: str | None

    @property
    def checkpoint(self) -> int:
        """Instant of the last checkpoint record; 0 if no checkpoint record is known."""
        return self.chosen.checkpoint if self.chosen is not None else instant.NONE


class DerbyDatabase:
    """A database directory behind a storage.

    Arguments:
        storage: the database directory.

    Attributes:
        service: the service properties that Derby uses.
        device: the directory that holds ``log`` instead of the database, None without a ``logDevice``.

    Raises: NotFoundError when the directory holds no Derby database.
    """

    __slots__ = ("device", "service", "storage")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        if not is_database(storage):
            raise NotFoundError(
                "no Derby database",
                file=storage.root,
                expected="service.properties or log/log.ctrl",
                hint="name the directory that holds service.properties",
            )
        self.service = read_properties(storage)
        self.device = device_of(storage)

    @property
    def properties(self) -> dict[str, str]:
        """The service properties."""
        return self.service.values

    def start_problem(self) -> str | None:
        """Why Derby does not find or start the database, apart from its log and containers; None if it does."""
        if self.service.problem is not None and self.storage.stat(container.directory(0)) is None:
            return f"{self.service.problem}, and so is {container.directory(0)}"
        problem = self.service.start_problem()
        if problem is None and self.device is not None and not has_log(self.device):
            problem = f"{self.service.path} has the log on another device, and it is not there: {self.device}"
        return problem

    def require_start(self) -> None:
        """Raise an error if the database must not be written.

        Raises:
            RefusedError: Derby would not find or start the database.
            UnsupportedError: the log of the database is on another device.
        """
        path = self.name(self.service.path or PROPERTIES)
        problem = self.start_problem()
        if problem is not None:
            lost = "" if self.service.values else ", and whether it is encrypted is not known"
            raise RefusedError(
                problem,
                file=path,
                consequence=f"Derby does not start the database{lost}; nothing was changed",
                hint="bring the file back from a copy of this database; jetool verify checks the rest",
            )
        if self.device is not None:
            raise UnsupportedError(
                f"the log of the database lies on another device: {self.device}",
                file=path,
                consequence="jetool reads such a database and does not write to it; nothing was changed",
                hint=f"let Derby recover it, or work on a copy that has {self.device}/log as its log directory and "
                "no logDevice in its properties",
            )

    @property
    def encrypted(self) -> bool:
        """Whether pages and log bodies are enciphered (only envelopes can be read then)."""
        return self.properties.get("dataEncryption", "").lower() == "true"

    @property
    def is_page_store(self) -> bool:
        """Whether it is a page store of jetool, without an SQL catalogue (``store.layout``)."""
        return self.service.is_page_store

    def require_clear(self) -> None:
        """UnsupportedError when the database is enciphered."""
        if self.encrypted:
            raise UnsupportedError(
                "the database is encrypted",
                file=PROPERTIES,
                expected="dataEncryption absent",
                found="dataEncryption=true",
                consequence="its log records and pages cannot be read without the boot password",
                hint="use Derby itself: connect with bootPassword",
            )

    def name(self, path: str) -> str:
        """A path as the user would name it."""
        return f"{self.storage.root}/{path}"

    def controls(self) -> Controls:
        """Both control files, and the file in use."""
        primary, mirror = _read_copy(self.storage, CONTROL), _read_copy(self.storage, MIRROR)
        # R-DRB-40: the first intact copy that names a checkpoint is used.
        for copy in (primary, mirror):
            if copy.control is not None and copy.control.checkpoint != instant.NONE:
                return Controls(primary, mirror, copy.control, copy.path)
        # A new database names no checkpoint yet; release and flags still count.
        chosen = primary.control or mirror.control
        return Controls(primary, mirror, chosen, None)

    def require_version(self, controls: Controls, newest: tuple[int, int] = NEWEST_READ) -> None:
        """UnsupportedError when the control files name a release outside the known range."""
        found = controls.chosen or controls.primary.control or controls.mirror.control
        if found is None:
            return
        if not OLDEST <= (found.major, found.minor) <= newest:
            raise UnsupportedError(
                f"the database is of Derby release {found.major}.{found.minor}",
                file=self.name(controls.source or CONTROL),
                expected=f"a release from {OLDEST[0]}.{OLDEST[1]} to {newest[0]}.{newest[1]}",
                found=f"{found.major}.{found.minor}",
                consequence="its records may mean something else",
                hint="use Derby of that release",
            )

    def likely_release(self, controls: Controls) -> tuple[int, int]:
        """The release of the database; taken from a control file with a wrong checksum if no valid one is left."""
        known = controls.chosen or controls.primary.control or controls.mirror.control
        if known is not None:
            return known.major, known.minor
        for path in (CONTROL, MIRROR):
            # The checksum may be wrong because of one other byte; a release in the known range is believed.
            release = control.stated_release(_bytes_of(self.storage, path))
            if release is not None and OLDEST <= release <= NEWEST_READ:
                return release
        return _USUAL

    def containers(self) -> dict[container.ContainerKey, bool]:
        """Every container file (False) and stub (True) by key; a container file wins over its stub."""
        found: dict[container.ContainerKey, bool] = {}
        for directory in self.storage.names():
            if not re.fullmatch(r"seg\d{1,9}", directory):
                continue
            for name in self.storage.names(directory):
                parts = container.number_of(name)
                if parts is not None:
                    key = container.ContainerKey(int(directory[3:]), parts[1])
                    # A crash after a stub was written and before the file was removed leaves both: then the file
                    # counts.
                    found[key] = parts[0] and found.get(key, True)
        return found

    def lock_holder(self) -> int | None:
        """The pid of the JVM that has the database open (0 if unknown), or None."""
        return self.storage.lock_holder(LOCK_FILE, LOCK_BYTE)

    def wait_unlocked(self, timeout_s: float) -> None:
        """Wait until the JVM closes the database, up to the given time."""
        end = time.monotonic() + timeout_s
        while self.lock_holder() is not None and time.monotonic() < end:
            time.sleep(_POLL_S)

    def lock(self) -> Lock:
        """Lock the database as a JVM does; RefusedError if another process has it open."""
        if self.storage.stat(LOCK_FILE) is None:
            # Create the lock file; ``recovery.unlock`` removes it unless a JVM created it.
            self.storage.open_rw(LOCK_FILE, create=True).close()
        return self.storage.lock(LOCK_FILE, LOCK_BYTE, exclusive=True)


def device_of(storage: Storage) -> str | None:
    """The directory that holds ``log``, None when that is the database itself."""
    # Derby also accepts the form of a URL.
    return read_properties(storage).values.get("logDevice", "").removeprefix("file:") or None


def has_log(device: str) -> bool:
    """Whether a log directory exists."""
    return DiskStorage(device).stat(LOG_DIRECTORY) is not None


def with_its_log(storage: Storage) -> Storage:
    """A read-only view of a database directory as Derby sees it: ``log`` is on the device that its properties name."""
    found = storage.stat()
    device = device_of(storage) if found is not None and found.is_directory else None
    return storage if device is None else _TwoDirectories(storage, DiskStorage(device))


class _TwoDirectories(WrappedStorage):
    """Names below ``log`` are those of the device."""

    def __init__(self, base: Storage, device: Storage) -> None:
        super().__init__(base)
        self._device = device

    def names(self, path: str = "") -> list[str]:
        return self._at(path).names(path)

    def stat(self, path: str = "") -> Stat | None:
        return self._at(path).stat(path)

    def open(self, path: str) -> ReadFile:
        return self._at(path).open(path)

    def _at(self, path: str) -> Storage:
        return self._device if path.partition("/")[0] == LOG_DIRECTORY else self._base


def is_database(storage: Storage) -> bool:
    """Whether a directory looks like a Derby database: a control file, or properties beside a log directory."""
    if storage.stat(CONTROL) is not None or storage.stat(MIRROR) is not None:
        return True
    return any(storage.stat(path) is not None for path in (PROPERTIES, OLD_PROPERTIES))


def _read_copy(storage: Storage, path: str) -> ControlCopy:
    if storage.stat(path) is None:
        return ControlCopy(path, False, None, None)
    try:
        return ControlCopy(path, True, control.decode(_bytes_of(storage, path)), None)
    except FormatError as error:
        return ControlCopy(path, True, None, str(error))


def _bytes_of(storage: Storage, path: str) -> bytes:
    if storage.stat(path) is None:
        return b""
    file = storage.open(path)
    try:
        return file.read(0, control.SIZE)
    finally:
        file.close()
