"""The manifest of one backup: which log files it is made of, and what they hold.

A manifest is JSON, one object. It may come from a place that others can write to, so it is treated as hostile input:
every value has a type and a bound, and no path in it leads outside the environment. A file has two names: ``path``,
where it belongs in the environment (``0000001f.jdb`` or ``data001/0000001f.jdb``), and its path in the repository,
which is not in the manifest but computed from number and digest (``BackupFile.stored``).

===============  =====================================================================================
key              value
===============  =====================================================================================
format           1
id               name of the backup: the time when it began, ``20261122T203000.123Z``
began_ms         the same, milliseconds since 1970 UTC
ended_ms         when its last file was durable
source           the directory of the environment, or ``HOST:PORT``
node, group      name of the node, name and UUID of its group; null for an environment without one
end_lsn          where the log ends: the next entry would go there
last_commit_ms   time of the last Commit, null without one
databases        names, sorted; null when the environment could not be recovered
files            in ascending order of their numbers
===============  =====================================================================================

Each file has ``path size_bytes sha256 version first_lsn last_lsn first_vlsn last_vlsn modified_ms``. ``last_lsn`` is
the LSN of the last whole entry; VLSNs are null for a file without VLSNs. LSNs are written as everywhere,
``0x1f/0x2a3c``.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from engine.errors import DamageError, UnsupportedError, UsageError
from engine.format.lsn import NULL_LSN, file_of, format_lsn, parse_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.files import MARKER_FILE_NUMBER

FORMAT: Final = 1
MOST_BYTES: Final = 256 << 20
_MOST_TEXT: Final = 4096
_MOST_FILE_BYTES: Final = 1 << 32
_MOST_NUMBER: Final = (1 << 63) - 1
# The end of the year 9999, after which there are no dates.
_MOST_MS: Final = 253_402_300_799_999
_PATH: Final = re.compile(r"(?:data\d{3}/)?([0-7][0-9a-f]{7})\.jdb", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
ID: Final = re.compile(r"\d{8}T\d{6}\.\d{3}Z", re.ASCII)


class BackupGroup(NamedTuple):
    """A replication group: its name, and its UUID in hex."""

    name: str
    uuid: str


class BackupFile(NamedTuple):
    """One log file of a backup.

    Attributes:
        path: where it belongs in the environment.
        size_bytes: its length; the last file counts up to its last whole entry.
        sha256: SHA-256 of these bytes, in hex.
        version: its log version.
        first_lsn, last_lsn: the first and last entry of the file; NULL_LSN if it holds no entry.
        first_vlsn, last_vlsn: NULL_VLSN when it holds none.
        modified_ms: when the original was last modified according to its file system; 0 if unknown.
    """

    path: str
    size_bytes: int
    sha256: str
    version: int
    first_lsn: int
    last_lsn: int
    first_vlsn: int
    last_vlsn: int
    modified_ms: int

    @property
    def number(self) -> int:
        """The number of the log file."""
        return number_of(self.path)

    @property
    def stored(self) -> str:
        """Where a repository keeps it."""
        return stored_path(self.number, self.sha256)


class Manifest(NamedTuple):
    """The manifest of one backup; see the module docstring."""

    id: str
    began_ms: int
    ended_ms: int
    source: str
    node: str | None
    group: BackupGroup | None
    end_lsn: int
    last_commit_ms: int | None
    databases: tuple[str, ...] | None
    files: tuple[BackupFile, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def vlsns(self) -> tuple[int, int]:
        """First and last VLSN of all files; NULL_VLSN if no file has VLSNs."""
        found = [file for file in self.files if file.first_vlsn != NULL_VLSN]
        return (found[0].first_vlsn, found[-1].last_vlsn) if found else (NULL_VLSN, NULL_VLSN)


def number_of(path: str) -> int:
    """The number of a log file by its path in an environment.

    Raises:
        UsageError: the path is not that of a log file, or it is that of the restore marker.
    """
    found = _PATH.fullmatch(path)
    if found is None or int(found[1], 16) == MARKER_FILE_NUMBER:
        raise UsageError(f"{path!r} is not the path of a log file")
    return int(found[1], 16)


def stored_path(number: int, sha256: str) -> str:
    """The path of a log file in a repository; a file with other content gets another path."""
    return f"files/{number:08x}-{sha256}.jdb"


def encode_manifest(manifest: Manifest) -> bytes:
    """The JSON of a manifest."""
    group = manifest.group
    content = {
        "format": FORMAT,
        **manifest._asdict(),
        "group": None if group is None else group._asdict(),
        "end_lsn": format_lsn(manifest.end_lsn),
        "databases": None if manifest.databases is None else list(manifest.databases),
        "files": [_file_fields(file) for file in manifest.files],
    }
    return json.dumps(content, indent=1).encode("utf-8") + b"\n"


def decode_manifest(data: bytes, name: str) -> Manifest:
    """Decode a manifest.

    Arguments:
        data: the bytes.
        name: name of the file for errors.

    Raises:
        DamageError: the content is not a manifest that a backup could have written. UnsupportedError: a format of a
            later release.
    """
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise _bad(name, "it is not JSON") from error
    if not isinstance(found, dict):
        raise _bad(name, "it is not a JSON object")
    if found.get("format") != FORMAT:
        raise UnsupportedError(
            "a manifest in a format that this program does not read",
            file=name,
            expected=str(FORMAT),
            found=repr(found.get("format"))[:40],
            hint="it may need a newer release of jetool; see jetool --version",
        )
    fields = _Fields(found, name)
    rows = found.get("files")
    if not isinstance(rows, list):
        raise _bad(name, "files is not a list")
    files = tuple(_file(row, name) for row in rows)
    numbers = [file.number for file in files]
    # Ascending without repetition: two entries for one number would be two contents for one file.
    if numbers != sorted(set(numbers)):
        raise _bad(name, "its files are not in ascending order")
    return Manifest(
        id=fields.text("id", ID),
        began_ms=fields.number("began_ms", _MOST_MS),
        ended_ms=fields.number("ended_ms", _MOST_MS),
        source=fields.text("source"),
        node=None if found.get("node") is None else fields.text("node"),
        group=_group(found.get("group"), name),
        end_lsn=fields.lsn("end_lsn"),
        last_commit_ms=None if found.get("last_commit_ms") is None else fields.number("last_commit_ms"),
        databases=_names(found.get("databases"), name),
        files=files,
    )


class _Fields:
    """Reads values of a JSON object by kind; a value of another kind, or out of bounds, is damage."""

    def __init__(self, found: dict[str, Any], name: str) -> None:
        self._found = found
        self._name = name

    def text(self, key: str, pattern: re.Pattern[str] | None = None) -> str:
        """A text without control characters."""
        value = self._found.get(key)
        if not isinstance(value, str) or len(value) > _MOST_TEXT or not value.isprintable():
            raise _bad(self._name, f"{key} is not a text")
        if pattern is not None and pattern.fullmatch(value) is None:
            raise _bad(self._name, f"{key} is {value[:80]!r}")
        return value

    def number(self, key: str, most: int = _MOST_NUMBER) -> int:
        """A number from 0."""
        value = self._found.get(key)
        # Python treats True and False as numbers.
        if type(value) is not int or not 0 <= value <= most:
            raise _bad(self._name, f"{key} is not a number from 0 to {most}")
        return value

    def lsn(self, key: str) -> int:
        """An LSN, or null."""
        if self._found.get(key) is None:
            return NULL_LSN
        try:
            lsn = parse_lsn(self.text(key))
        except UsageError as error:
            raise _bad(self._name, f"{key} is not an LSN") from error
        # The engine's LSNs are signed: a file number of 32 bits would give a different LSN.
        if file_of(lsn) > MARKER_FILE_NUMBER:
            raise _bad(self._name, f"{key} is not an LSN")
        return lsn


def _file_fields(file: BackupFile) -> dict[str, object]:
    named: dict[str, object] = {**file._asdict()}
    for key in ("first_lsn", "last_lsn"):
        lsn = getattr(file, key)
        named[key] = None if lsn == NULL_LSN else format_lsn(lsn)
    for key in ("first_vlsn", "last_vlsn"):
        vlsn = getattr(file, key)
        named[key] = None if vlsn == NULL_VLSN else vlsn
    return named


def _file(row: object, name: str) -> BackupFile:
    if not isinstance(row, dict):
        raise _bad(name, "an entry of files is not an object")
    fields = _Fields(row, name)
    path = fields.text("path", _PATH)
    try:
        number = number_of(path)
    except UsageError as error:
        raise _bad(name, f"path is {path!r}") from error
    found = BackupFile(
        path=path,
        size_bytes=fields.number("size_bytes", _MOST_FILE_BYTES),
        sha256=fields.text("sha256", _DIGEST),
        version=fields.number("version", 255),
        first_lsn=fields.lsn("first_lsn"),
        last_lsn=fields.lsn("last_lsn"),
        first_vlsn=NULL_VLSN if row.get("first_vlsn") is None else fields.number("first_vlsn"),
        last_vlsn=NULL_VLSN if row.get("last_vlsn") is None else fields.number("last_vlsn"),
        modified_ms=fields.number("modified_ms"),
    )
    for lsn in (found.first_lsn, found.last_lsn):
        if lsn != NULL_LSN and file_of(lsn) != number:
            raise _bad(name, f"{format_lsn(lsn)} is not in {path}")
    return found


def _group(found: object, name: str) -> BackupGroup | None:
    if found is None:
        return None
    if not isinstance(found, dict):
        raise _bad(name, "group is not an object")
    fields = _Fields(found, name)
    return BackupGroup(fields.text("name"), fields.text("uuid"))


def _names(found: object, name: str) -> tuple[str, ...] | None:
    if found is None:
        return None
    if not isinstance(found, list) or not all(isinstance(one, str) and len(one) <= _MOST_TEXT for one in found):
        raise _bad(name, "databases is not a list of names")
    return tuple(found)


def _bad(name: str, found: str) -> DamageError:
    return DamageError(
        "the manifest was not written by a backup",
        file=name,
        found=found,
        consequence="this backup cannot be used; nothing was changed",
        hint="jetool backup list shows the others",
    )
