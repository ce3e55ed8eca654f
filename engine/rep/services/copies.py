"""Service LogFileFeeder: copies the log files of this node while it runs (je-ha-protocol.md section 11).

The counterpart of ``engine.rep.client.log_files``; JE's network restore and ``jetool backup HOST:PORT`` use it. Like JE
18.3 the service answers with version 2, whatever the client offers: the client has to accept version 2 or leave.

* A copy begins like ``DbBackup``: the last file ends in an ImmutableFile entry, the log continues in a new file, and no
  listed file is deleted before the client has requested the next one.
* If a connection breaks, its list is kept for five minutes for a client with the same id. At most eight lists are kept,
  and the oldest is dropped first, since each of them keeps files from being deleted.
* The entries of a file are checked before the file is sent, so a caller that receives all of it has a file without
  damage.
* If the log itself changes (a rollback, a restore), all copies end, since their lists are no longer valid.

A request out of order, or for a name that is not in the list, only ends the connection of the client.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

from engine.cleaner.deletion import Protection
from engine.db.engine import Engine
from engine.errors import DamageError, JetoolError, NotFoundError, RefusedError
from engine.format.entry.markers import ImmutableFile, encode_immutable_file
from engine.format.entry_types import IMMUTABLE_FILE
from engine.format.lsn import format_lsn
from engine.log.files import LogFile
from engine.log.scan import scan_file
from engine.rep.peers import DisconnectedError
from engine.rep.services.caller import Caller
from engine.rep.services.port import Service
from engine.rep.wire.log_file_feeder import (
    LOG_FILES,
    OLDER_VERSION,
    SERVICE,
    ClientVersion,
    Done,
    FeederInfoReq,
    FeederInfoResp,
    FileEnd,
    FileInfoReq,
    FileInfoResp,
    FileListReq,
    FileListResp,
    FileReq,
    FileStart,
    ServerVersion,
)
from engine.storage.base import ReadFile
from engine.vlsn.vlsn_range import VLSNRange

_PLACES: Final = 8
_SILENCE_S: Final = 300.0
_LEASE_S: Final = 300.0
_MOST_LEASES: Final = 8
_PIECE_S: Final = 60.0
_PIECE_BYTES: Final = 1 << 18


class ListedFile(NamedTuple):
    """An open file of a list."""

    file: ReadFile
    size_bytes: int
    modified_ms: int


class FileList(Protocol):
    """The files of one copy; none of them is changed or deleted before it is released.

    Attributes:
        digests: digests computed so far, by name.
    """

    digests: dict[str, bytes]

    @property
    def names(self) -> tuple[str, ...]:
        """Without directories, ascending."""

    def open(self, name: str) -> ListedFile:
        """A file of the list, checked. Raises JetoolError: the file is damaged, or the log has changed."""

    def check(self) -> None:
        """Raises RefusedError: the log has changed."""

    def passed(self, name: str) -> None:
        """Release it."""

    def release(self) -> None:
        """Release all files."""


class CopyHost(Protocol):
    """A node whose files are copied."""

    def node_id(self) -> int:
        """The id of the node in the group."""

    def feeders(self) -> int:
        """How many replicas the node feeds."""

    def stream_range(self) -> VLSNRange:
        """The part of the stream that the node has."""

    def begin_copy(self) -> FileList:
        """Begin a copy. Raises RefusedError: there is no environment now."""


class EngineFiles:
    """The files of an open environment: a ``FileList``.

    Arguments:
        engine: the environment.
        current: returns the current environment of the node.

    Raises:
        StorageError: the log cannot be written.
    """

    def __init__(self, engine: Engine, current: Callable[[], Engine | None]) -> None:
        writer, cleaner = engine.writer, engine.cleaner
        assert writer is not None
        assert cleaner is not None
        self._engine = engine
        self._current = current
        # Protect the files before listing them, since the cleaner may delete unprotected files at any time.
        with cleaner.protect_from("a network copy", 0):
            with writer.latch:
                writer.log(IMMUTABLE_FILE, encode_immutable_file(ImmutableFile(0), writer.version))
                writer.flush(sync=False)
                last = writer.next_lsn >> 32
                # No entry may come between the last file of the list and the new file.
                writer.force_new_file()
                files = [file for file in engine.log_files() if file.number <= last]
            engine.sync()
            self._files = {file.path.rpartition("/")[2]: file for file in files}
            self._protected: dict[str, Protection] = {
                name: cleaner.protector.protect("a network copy", (file.number,)) for name, file in self._files.items()
            }
        self._checked: set[str] = set()
        self.digests: dict[str, bytes] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """Without directories, ascending."""
        return tuple(self._files)

    def open(self, name: str) -> ListedFile:
        """A file of the list."""
        file = self._files.get(name)
        if file is None:
            raise NotFoundError("a file is asked for that is not in the list", found=repr(name[:80]))
        self.check()
        storage = self._engine.storage
        if name not in self._checked:
            self._verify(file)
            self._checked.add(name)
        stat = storage.stat(file.path)
        if stat is None:
            raise NotFoundError("a file of the list has gone", file=f"{storage.root}/{file.path}")
        opened = storage.open(file.path)
        # Test this after the file is open, since a file that has replaced it meanwhile would belong to another log.
        try:
            self.check()
        except JetoolError:
            opened.close()
            raise
        return ListedFile(opened, stat.size_bytes, stat.modified_ms)

    def check(self) -> None:
        """Fail if the log was replaced since the copy began."""
        if self._current() is not self._engine:
            raise RefusedError("the log of this node was cut or replaced during a copy of it", file=self._engine.home)

    def passed(self, name: str) -> None:
        """Release it."""
        self._protected[name].release()

    def release(self) -> None:
        """Release all files."""
        for protection in self._protected.values():
            protection.release()

    def _verify(self, file: LogFile) -> None:
        storage = self._engine.storage
        stat = storage.stat(file.path)
        size = stat.size_bytes if stat is not None else file.size_bytes
        found = scan_file(storage, file._replace(size_bytes=size), is_last=False).check(with_sizes=False)
        if found.damages:
            damage = found.damages[0].damage
            raise DamageError(
                "a log file is damaged, and is not handed out",
                file=f"{storage.root}/{file.path}",
                lsn=format_lsn(damage.lsn),
                found=damage.reason,
            )


class LogFileServer:
    """The service.

    Arguments:
        host: the node.
        lease_s: how long the list of an interrupted copy is kept.

    Attributes:
        services: by name.
    """

    def __init__(self, host: CopyHost, lease_s: float = _LEASE_S) -> None:
        self._host = host
        self._lease_s = lease_s
        self._mutex = threading.Lock()
        self._begins = threading.Lock()
        self._copies: set[Caller] = set()
        self._leases: dict[int, tuple[FileList, threading.Timer]] = {}
        self.services = {SERVICE: Service(self._serve, _PLACES)}

    @contextmanager
    def log_changes(self) -> Iterator[None]:
        """A block in which the log is cut or replaced: all copies end, and none begins."""
        with self._begins:
            self.end_all()
            yield

    def end_all(self) -> None:
        """End all copies, including interrupted ones that might resume."""
        with self._mutex:
            copies, leases = list(self._copies), list(self._leases)
        for caller in copies:
            caller.close()
        for client_id in leases:
            self._end_lease(client_id)

    def _serve(self, caller: Caller) -> None:
        with self._mutex:
            self._copies.add(caller)
        try:
            self._converse(caller)
        finally:
            with self._mutex:
                self._copies.discard(caller)

    def _converse(self, caller: Caller) -> None:
        client_id = caller.receive(LOG_FILES, OLDER_VERSION, ClientVersion).client_id
        caller.send(LOG_FILES, OLDER_VERSION, ServerVersion(version=OLDER_VERSION, node_id=self._host.node_id()))
        caller.receive(LOG_FILES, OLDER_VERSION, FeederInfoReq)
        found = self._host.stream_range()
        with self._mutex:
            # Count the other copies, including interrupted ones that may resume.
            load = self._host.feeders() + len(self._copies) - 1 + len(self._leases)
        said = FeederInfoResp(load=load, first_vlsn=found.first, last_vlsn=found.last)
        caller.send(LOG_FILES, OLDER_VERSION, said)
        caller.receive(LOG_FILES, OLDER_VERSION, FileListReq, timeout_s=_SILENCE_S)
        files = self._end_lease(client_id, keep=True) or self._begin()
        try:
            caller.send(LOG_FILES, OLDER_VERSION, FileListResp(names=files.names))
            self._send_files(caller, files)
        except DisconnectedError:
            self._lease(client_id, files)
            raise
        except BaseException:
            files.release()
            raise
        files.release()

    def _begin(self) -> FileList:
        if not self._begins.acquire(blocking=False):
            raise RefusedError("the log of this node is being cut or replaced", hint="try again")
        try:
            return self._host.begin_copy()
        finally:
            self._begins.release()

    def _send_files(self, caller: Caller, files: FileList) -> None:
        digests, before = files.digests, ""
        while True:
            asked = caller.receive(LOG_FILES, OLDER_VERSION, FileInfoReq, FileReq, Done, timeout_s=_SILENCE_S)
            if isinstance(asked, Done):
                return
            assert isinstance(asked, FileInfoReq | FileReq)
            name = asked.name
            file, size, modified_ms = files.open(name)
            try:
                if isinstance(asked, FileInfoReq):
                    # A known digest is sent even without a request, as in JE.
                    if asked.with_digest and name not in digests:
                        digests[name] = self._read(file, size, lambda _: None)
                    answer = FileInfoResp(
                        name=name, length=size, modified_ms=modified_ms, digest=digests.get(name, b"")
                    )
                    caller.send(LOG_FILES, OLDER_VERSION, answer)
                    continue
                if before and before != name:
                    files.passed(before)
                before = name
                start = FileStart(name=name, length=size, modified_ms=modified_ms)
                caller.send(LOG_FILES, OLDER_VERSION, start)
                digests[name] = self._read(file, size, lambda piece: caller.send_all(piece, _PIECE_S))
            finally:
                file.close()
            # Send no digest: it would claim that the bytes are those of the listed file.
            files.check()
            end = FileEnd(name=name, length=size, modified_ms=modified_ms, digest=digests[name])
            caller.send(LOG_FILES, OLDER_VERSION, end)

    def _read(self, file: ReadFile, size: int, take: Callable[[bytes], None]) -> bytes:
        """Pass on the pieces of a file, and compute its digest."""
        digest, at = hashlib.sha1(usedforsecurity=False), 0
        while at < size:
            piece = file.read(at, min(_PIECE_BYTES, size - at))
            if not piece:
                raise RefusedError("a log file became shorter while it was copied", file=file.path)
            digest.update(piece)
            take(piece)
            at += len(piece)
        return digest.digest()

    def _lease(self, client_id: int, files: FileList) -> None:
        timer = threading.Timer(self._lease_s, self._end_lease, (client_id,))
        timer.daemon = True
        with self._mutex:
            gone = [self._leases.pop(client_id)] if client_id in self._leases else []
            while len(self._leases) >= _MOST_LEASES:
                gone.append(self._leases.pop(next(iter(self._leases))))
            self._leases[client_id] = files, timer
        for left, its_timer in gone:
            its_timer.cancel()
            left.release()
        timer.start()

    def _end_lease(self, client_id: int, *, keep: bool = False) -> FileList | None:
        """Take the list of an interrupted copy; it is released unless the copy resumes."""
        with self._mutex:
            files, timer = self._leases.pop(client_id, (None, None))
        if files is None or timer is None:
            return None
        timer.cancel()
        if not keep:
            files.release()
        return files
