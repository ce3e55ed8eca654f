"""Snapshots in the archive of JE 25.3's automatic backups (je.env.runBackup), checked as its CheckSnapshot does.

An archive has a directory for each node, and in it one for each snapshot, named by its hour (``26112902``: year, month,
day, hour, UTC). ``manifest.json`` there lists the log files. A file that an earlier snapshot has copied is not copied
again: its entry names that snapshot, whose directory has the file.

=============================================  =======================================================================
key of the manifest                            value
=============================================  =======================================================================
version                                        0 to 2
sequence, startTimeMs, lastFileCopiedTimeMs    numbers
snapshot, nodeName                             names of the snapshot and the node
endOfLog                                       end of the log, -1 while it is unknown
isMaster, isComplete                           complete: every file has been copied and verified
checksum                                       SHA-256 of all values in hex; "0": not computed
snapshotFiles, erasedFiles                     by name: ``checksum checksumAlg encryptionAlg compressionAlg isCopied
                                               copyStartTimeMs snapshot nodeName``, since version 2 ``verifyFailed``
=============================================  =======================================================================
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from engine.backup.repository import pieces_of
from engine.errors import FormatError, JetoolError, NotFoundError, UnsupportedError, plural
from engine.events import SILENT, Listener
from engine.storage.base import Storage

MANIFEST: Final = "manifest.json"
_NEWEST: Final = 2
_SNAPSHOT: Final = re.compile(r"\d{8}", re.ASCII)
_FILE: Final = re.compile(r"(?:data\d{3}/)?[0-7][0-9a-f]{7}\.jdb", re.ASCII)
_MOST_BYTES: Final = 256 << 20
_ALGORITHMS: Final = {"SHA-256": "sha256", "SHA-1": "sha1", "SHA1": "sha1", "SHA-512": "sha512", "MD5": "md5"}
_UNKNOWN_SUM: Final = "0"
_MAPS: Final = ("snapshotFiles", "erasedFiles")


class SnapshotFile(NamedTuple):
    """A log file of a snapshot.

    Attributes:
        snapshot: the snapshot that has copied it.
        algorithm: a name of JE's.
        copied: whether it is in the archive.
    """

    name: str
    snapshot: str
    checksum: str
    algorithm: str
    copied: bool


class SnapshotManifest(NamedTuple):
    """The manifest of a snapshot; ``files`` are those of the log, and those that were erased since."""

    snapshot: str
    node: str
    complete: bool
    files: tuple[SnapshotFile, ...]


class SnapshotCheckup(NamedTuple):
    """The result for a snapshot.

    Attributes:
        manifest: None if it cannot be read.
        size_bytes: bytes of the files that were read.
        bad_files: files that are missing, changed or not copied.
        problems: descriptions of the faults.
    """

    id: str
    manifest: SnapshotManifest | None
    size_bytes: int
    bad_files: int
    problems: tuple[str, ...]


def snapshots_in(storage: Storage) -> list[str]:
    """The snapshots in the directory of a node, ascending."""
    if storage.stat() is None:
        return []
    return sorted(
        name for name in storage.names() if _SNAPSHOT.fullmatch(name) and storage.stat(f"{name}/{MANIFEST}") is not None
    )


def decode_snapshot(data: bytes) -> SnapshotManifest:
    """The manifest in JE's JSON.

    Raises:
        FormatError: it is no such manifest, or its checksum is wrong. UnsupportedError: its version is unknown.
    """
    try:
        value = json.loads(data)
        version = value["version"]
        if type(version) is int and version > _NEWEST:
            raise UnsupportedError("version of a manifest of JE", expected=f"at most {_NEWEST}", found=str(version))
        files = [(name, entry) for key in _MAPS for name, entry in value[key].items()]
        found = SnapshotManifest(
            snapshot=_matched(_SNAPSHOT, value["snapshot"]),
            node=_text(value["nodeName"]),
            complete=value["isComplete"] is True,
            files=tuple(
                SnapshotFile(
                    name=_matched(_FILE, name),
                    snapshot=_matched(_SNAPSHOT, entry["snapshot"]) if entry["isCopied"] is True else "",
                    checksum=_text(entry["checksum"]),
                    algorithm=_text(entry.get("checksumAlg") or "SHA-256"),
                    copied=entry["isCopied"] is True,
                )
                for name, entry in files
            ),
        )
        counted = hashlib.sha256(b"".join(_summed(value))).hexdigest()
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError("not a manifest of JE's backups", found=f"{type(error).__name__}: {error}") from error
    if value.get("checksum") not in (_UNKNOWN_SUM, counted):
        raise FormatError("checksum of the manifest", expected=counted, found=str(value.get("checksum"))[:80])
    return found


def check_snapshot(storage: Storage, name: str, listener: Listener = SILENT) -> SnapshotCheckup:
    """Check one snapshot; its faults are returned, not raised.

    Arguments:
        storage: the directory of the node in the archive.
        listener: receives the number of files that were read.
    """
    try:
        manifest = _read_manifest(storage, name)
        if manifest.snapshot != name:
            raise FormatError("the manifest is that of another snapshot", expected=name, found=manifest.snapshot)
    except JetoolError as error:
        return SnapshotCheckup(name, None, 0, 0, (f"{name}/{MANIFEST}: {error}",))
    problems, size_bytes = [], 0
    for done, file in enumerate(manifest.files):
        listener.step("check", done, len(manifest.files))
        try:
            if not file.copied:
                raise NotFoundError("it has not been copied")
            size_bytes += _check_file(storage, file)
        except JetoolError as error:
            problems.append(f"{file.name}: {error}")
    bad = len(problems)
    if not manifest.complete:
        problems.append("the snapshot is not complete")
    return SnapshotCheckup(name, manifest, size_bytes, bad, tuple(problems))


def _read_manifest(storage: Storage, name: str) -> SnapshotManifest:
    path = f"{name}/{MANIFEST}"
    found = storage.stat(path)
    if found is None or found.is_directory:
        raise NotFoundError("the snapshot has no manifest")
    if found.size_bytes > _MOST_BYTES:
        raise FormatError("a manifest", expected=f"at most {_MOST_BYTES} bytes", found=plural(found.size_bytes, "byte"))
    file = storage.open(path)
    try:
        return decode_snapshot(file.read(0, found.size_bytes))
    finally:
        file.close()


def _check_file(storage: Storage, file: SnapshotFile) -> int:
    """The size of a copy whose checksum is right."""
    path = f"{file.snapshot}/{file.name}"
    algorithm, found = _ALGORITHMS.get(file.algorithm.upper()), storage.stat(path)
    if algorithm is None:
        raise UnsupportedError("algorithm of a checksum", expected=", ".join(_ALGORITHMS), found=file.algorithm)
    if found is None or found.is_directory:
        raise NotFoundError(f"{path} is missing")
    digest, copy = hashlib.new(algorithm, usedforsecurity=False), storage.open(path)
    try:
        for piece in pieces_of(copy, found.size_bytes):
            digest.update(piece)
    finally:
        copy.close()
    if digest.hexdigest() != file.checksum.lower():
        raise FormatError(f"{path} has another checksum", expected=file.checksum, found=digest.hexdigest())
    return found.size_bytes


def _summed(value: dict[str, Any]) -> Iterator[bytes]:
    """What the checksum of the manifest covers."""
    version = value["version"]
    yield from (_number(version, 4), _number(value["sequence"], 4), _text(value["snapshot"]).encode())
    yield from (_number(value["startTimeMs"], 8), _number(value["lastFileCopiedTimeMs"], 8))
    yield from (_text(value["nodeName"]).encode(), _number(value["endOfLog"], 8))
    yield from (bytes([value["isMaster"]]), bytes([value["isComplete"]]))
    for key in _MAPS:
        yield _number(len(value[key]), 4)
        for name, entry in sorted(value[key].items()):
            yield from (name.encode(), _text(entry["checksum"]).encode())
            if version >= 2:
                yield from (_text(entry[word]).encode() for word in ("checksumAlg", "encryptionAlg", "compressionAlg"))
            yield from (bytes([entry["isCopied"]]), _number(entry["copyStartTimeMs"], 8))
            yield from (_text(entry[word]).encode() for word in ("snapshot", "nodeName"))
            if version >= 2:
                yield bytes([entry["verifyFailed"]])


def _number(value: object, size: int) -> bytes:
    if type(value) is not int:
        raise FormatError("a number of a manifest", found=repr(value)[:80])
    return value.to_bytes(size, "big", signed=True)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise FormatError("a text of a manifest", found=repr(value)[:80])
    return value


def _matched(pattern: re.Pattern[str], value: object) -> str:
    text = _text(value)
    if pattern.fullmatch(text) is None:
        raise FormatError("a name in a manifest", found=repr(text[:80]))
    return text
