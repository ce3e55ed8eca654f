"""A Derby database directory: where things are, the control files, and who has it open.

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

Control files (R-DRB-40 to 43): ``log.ctrl`` counts when it is whole and names a checkpoint. Otherwise the mirror does,
which may be one checkpoint behind; that is safe, since truncation of the log comes after both are written. When both
fail, there is no checkpoint and the log is read from the first file. Derby does not look at the mirror when
``log.ctrl`` is absent, and then writes no checksum records; this program takes the mirror and says so.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from engine.derby.format import container, control, instant
from engine.derby.format.control import Control
from engine.errors import FormatError, NotFoundError, UnsupportedError, UsageError, plural
from engine.storage.base import Lock, Storage

PROPERTIES = "service.properties"
STORE_PROPERTY = "jetool.store"
LOG_DIRECTORY = "log"
CONTROL = "log/log.ctrl"
MIRROR = "log/logmirror.ctrl"
LOCK_FILE = "dbex.lck"
OWNER_FILE = "db.lck"
LOCK_BYTE = 0

# The layouts have not changed from 10.1 to 10.16; recovery was compared with Derby's for databases up to 10.14.
OLDEST = (10, 0)
NEWEST_READ = (10, 16)
NEWEST_RECOVERED = (10, 14)

_LARGEST_PROPERTIES = 1 << 20
_ESCAPE = re.compile(r"\\(.)")


class ControlCopy(NamedTuple):
    """One of the two control files.

    Attributes:
        path: its path below the database directory.
        present: whether the file exists.
        control: its content, None when it is absent or not right.
        problem: why it is not right, None when it is or when it is absent.
    """

    path: str
    present: bool
    control: Control | None
    problem: str | None


class Controls(NamedTuple):
    """Both control files and the one that counts (None: no checkpoint is known)."""

    primary: ControlCopy
    mirror: ControlCopy
    chosen: Control | None
    source: str | None

    @property
    def checkpoint(self) -> int:
        """Instant of the last checkpoint record, 0 when none is known."""
        return self.chosen.checkpoint if self.chosen is not None else instant.NONE


class DerbyDatabase:
    """A database directory behind a storage.

    Arguments:
        storage: the database directory.

    Raises: NotFoundError when it holds no Derby database; UnsupportedError when the log lies on another device.
    """

    __slots__ = ("properties", "storage")

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        if not is_database(storage):
            raise NotFoundError(
                "no Derby database",
                file=storage.root,
                expected="service.properties or log/log.ctrl",
                hint="name the directory that holds service.properties",
            )
        self.properties = read_properties(storage)
        device = self.properties.get("logDevice")
        if device and storage.stat(LOG_DIRECTORY) is None:
            raise UnsupportedError(
                f"the log of the database lies on another device: {device}",
                file=PROPERTIES,
                consequence="nothing can be said of the database without its log",
                hint=f"make a copy of the database with {device}/log as its log directory",
            )

    @property
    def encrypted(self) -> bool:
        """Whether pages and log bodies are enciphered (only envelopes can be read then)."""
        return self.properties.get("dataEncryption", "").lower() == "true"

    @property
    def is_page_store(self) -> bool:
        """Whether it is a page store of this program, without an SQL catalogue (``store.layout``)."""
        return STORE_PROPERTY in self.properties

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
        """Both control files, and the one that counts."""
        primary, mirror = _read_copy(self.storage, CONTROL), _read_copy(self.storage, MIRROR)
        # R-DRB-40: the first whole copy that names a checkpoint counts.
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
        """The release of the database, from a control file that fails its checksum when no other is left."""
        known = controls.chosen or controls.primary.control or controls.mirror.control
        if known is not None:
            return known.major, known.minor
        for path in (CONTROL, MIRROR):
            # The checksum may be wrong because of one other byte; a release in the known range is believed.
            release = control.stated_release(_bytes_of(self.storage, path))
            if release is not None and OLDEST <= release <= NEWEST_READ:
                return release
        return NEWEST_RECOVERED

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
                    # A crash between stub and removal leaves both: the container file counts.
                    found[key] = parts[0] and found.get(key, True)
        return found

    def lock_holder(self) -> int | None:
        """The pid of a JVM that has the database open (0 when it cannot be told), or None."""
        return self.storage.lock_holder(LOCK_FILE, LOCK_BYTE)

    def lock(self) -> Lock:
        """Lock the database as a JVM does; RefusedError when somebody has it open."""
        if self.storage.stat(LOCK_FILE) is None:
            # A lock needs a file; ``recovery.unlock`` removes it when no JVM has made it.
            self.storage.open_rw(LOCK_FILE, create=True).close()
        return self.storage.lock(LOCK_FILE, LOCK_BYTE, exclusive=True)


def is_database(storage: Storage) -> bool:
    """Whether a directory looks like a Derby database: a control file, or properties beside a log directory."""
    if storage.stat(CONTROL) is not None or storage.stat(MIRROR) is not None:
        return True
    return storage.stat(PROPERTIES) is not None


def read_properties(storage: Storage) -> dict[str, str]:
    """The service properties; empty when the file is absent. UsageError when it is absurdly large."""
    found = storage.stat(PROPERTIES)
    if found is None:
        return {}
    if found.size_bytes > _LARGEST_PROPERTIES:
        raise UsageError("service.properties is no properties file", found=plural(found.size_bytes, "byte"))
    file = storage.open(PROPERTIES)
    try:
        # Java writes properties in Latin-1.
        text = file.read(0, _LARGEST_PROPERTIES).decode("latin-1")
    finally:
        file.close()
    properties = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, _, value = line.partition("=")
            properties[_ESCAPE.sub(r"\1", key.strip())] = _ESCAPE.sub(r"\1", value.strip())
    return properties


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
