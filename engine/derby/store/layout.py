"""The files of a new store, and the property that distinguishes a store from an SQL database.

``service.properties`` has ``jetool.store=1``. Its service is Derby's raw store, so that the raw store opens it and SQL
Derby does not. Files are created in an order in which an incomplete store never looks like a store: log directory and
segment, log file 1 (header, then zeros to the switch interval), the properties, then the control files, which name no
checkpoint yet. Opening creates the catalogue if it is missing, and takes the first checkpoint.
"""

from __future__ import annotations

from typing import Final

from engine.derby.checkpoint import ARCHIVE_PROPERTY, write_controls
from engine.derby.database import LOG_DIRECTORY, DerbyDatabase
from engine.derby.format import container, log_file
from engine.derby.format.control import Control
from engine.derby.format.log_file import HEADER_SIZE, LogFileHeader
from engine.derby.log_writer import DEFAULT_SWITCH_BYTES, preallocate
from engine.derby.service_properties import PROPERTIES, PROTOCOL, STORE_PROPERTY, STORE_SERVICE
from engine.errors import RefusedError, UsageError
from engine.storage.base import Storage, write_synced

SWITCH_PROPERTY: Final = "derby.storage.logSwitchInterval"
SMALLEST_SWITCH: Final = 100_000
LARGEST_SWITCH: Final = 134_217_728
_VERSION: Final = "1"
_LAST_LINE: Final = "#--- last line, don't put anything after this line ---"


def require_store(database: DerbyDatabase) -> None:
    """UsageError if the database has an SQL catalogue."""
    if database.properties.get(STORE_PROPERTY) != _VERSION:
        raise UsageError(
            "the database is no page store of jetool",
            file=database.storage.root,
            expected=f"{STORE_PROPERTY}={_VERSION} in {PROPERTIES}",
            found=database.properties.get(STORE_PROPERTY) or "a database with an SQL catalogue",
            consequence="its tables can be changed by Derby only, and have no keys",
            hint=f"jetool scan {database.storage.root} and jetool dump read them; Derby's ij changes them",
        )


def switch_bytes(database: DerbyDatabase) -> int:
    """The log switch interval of a store; the default if its properties have no usable value."""
    text = database.properties.get(SWITCH_PROPERTY, "")
    found = int(text) if text.isdigit() else DEFAULT_SWITCH_BYTES
    return found if SMALLEST_SWITCH <= found <= LARGEST_SWITCH else DEFAULT_SWITCH_BYTES


def make_files(storage: Storage, log_file_bytes: int, *, archive: bool) -> None:
    """Make the files of a store without tables.

    Arguments:
        storage: a directory that is empty or does not exist.
        log_file_bytes: log switch interval, 100 000 to 134 217 728.
        archive: whether log files are kept.

    Raises: RefusedError when the directory is not empty; UsageError if the interval is out of range.
    """
    if not SMALLEST_SWITCH <= log_file_bytes <= LARGEST_SWITCH:
        raise UsageError(
            "the log switch interval is out of range",
            expected=f"{SMALLEST_SWITCH} to {LARGEST_SWITCH} bytes",
            found=str(log_file_bytes),
        )
    if storage.stat() is not None and storage.names():
        raise RefusedError(
            "the directory is not empty",
            file=storage.root,
            found=", ".join(storage.names()[:5]),
            consequence="nothing was made",
            hint="name a directory that is not there yet",
        )
    for directory in ("", LOG_DIRECTORY, container.directory(0)):
        storage.make_directory(directory)
    log = storage.open_rw(f"{LOG_DIRECTORY}/{log_file.file_name(1)}", create=True)
    try:
        log.write(0, log_file.encode(LogFileHeader(1, 0)))
        preallocate(log, HEADER_SIZE, log_file_bytes)
        log.sync()
    finally:
        log.close()
    properties = {STORE_PROPERTY: _VERSION, PROTOCOL: STORE_SERVICE, SWITCH_PROPERTY: str(log_file_bytes)}
    if archive:
        properties[ARCHIVE_PROPERTY] = "true"
    # The properties make the directory a store, so the log is written before them.
    write_properties(storage, properties)
    write_controls(storage, Control())
    for directory in (LOG_DIRECTORY, ""):
        storage.sync_directory(directory)


def write_properties(storage: Storage, properties: dict[str, str]) -> None:
    """Replace the service properties in one step."""
    lines = ["#A page store of jetool", *(f"{name}={value}" for name, value in sorted(properties.items())), _LAST_LINE]
    temporary = f"{PROPERTIES}.new"
    write_synced(storage, temporary, "".join(f"{line}\n" for line in lines).encode("latin-1"))
    # A crash leaves the old file or the new one, never a partial one.
    storage.rename(temporary, PROPERTIES)
    storage.sync_directory()
