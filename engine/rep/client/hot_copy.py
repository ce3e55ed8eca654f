"""A hot copy of a running node: a backup of its log files (je-ha-protocol.md section 11).

Files go to a repository of backups (``engine.backup.repository``), each when it is whole and durable, and when all
listed files are stored the manifest is written: a backup is either complete or absent.

An interrupted copy is resumed, in the same run or in a later one. The node is asked for its list again, under the same
client id, so that within five minutes it is the same list. Files already stored by this copy or by an earlier backup
are not fetched again if length and digest agree. So the result is always the files of one list.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from engine.backup.manifest import number_of, stored_path
from engine.backup.manifest_builder import CopiedFile, ManifestResult, Origin, describe, view_of
from engine.backup.repository import Repository, StoredFile, pieces_of
from engine.errors import JetoolError, NotFoundError, RefusedError
from engine.events import Listener
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import MASTER, GroupLook, NodeLook
from engine.rep.client.handshake import check_release
from engine.rep.client.log_files import RemoteFile, RemoteLog, new_client_id
from engine.rep.peers import DisconnectedError, PeerError
from engine.storage.room import require_room
from engine.storage.throttle import Throttle

STATE: Final = "copy.json"
STEP: Final = "copy"
# JE excludes such a node when a replica chooses a node for a network restore.
_MOST_BEHIND: Final = 50_000
_STATE_BYTES: Final = 4096
# The node computes the digest of a whole file in one step, and waits for a checkpoint before the first file.
LEAST_TIMEOUT_S: Final = 60.0
FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


class CutError(JetoolError):
    """The connection ended before the copy was complete, more often than ``retries`` allows."""

    exit_code = 7
    kind = "disconnected"


class CopyResult(NamedTuple):
    """The result of a copy.

    Attributes:
        version: of the protocol.
        first_vlsn, last_vlsn: the node's part of the stream when the copy began.
        files: files of the complete copy, ascending.
        kept_files, kept_bytes: files that were already stored, by an earlier attempt or backup.
        attempts: number of connections used.
    """

    version: int
    first_vlsn: int
    last_vlsn: int
    files: tuple[CopiedFile, ...]
    kept_files: int
    kept_bytes: int
    attempts: int

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)


def choose(
    network: Network, found: GroupLook, node: str | None, timeout_s: float, *, allow_master: bool, force: bool
) -> NodeLook:
    """Choose the node to copy from: the named one, or the least busy replica that is not far behind.

    Raises:
        NotFoundError: there is no node of that name, or no replica that answers.
        RefusedError: only the master answers, and copying it is not allowed.
        UnsupportedError: an untested release, without ``force``.
    """
    there = [one for one in found.nodes if one.said is not None and node in (None, one.name)]
    if not there:
        raise NotFoundError("no such node answers" if node else "no node answers", found=node)
    allowed = [one for one in there if allow_master or node is not None or one.state != MASTER]
    if not allowed:
        raise RefusedError(
            "only the master answers, and a copy would slow it down",
            found=there[0].name,
            consequence="nothing was copied",
            hint="add --from-master, or name it with --node",
        )
    for one in allowed:
        assert one.said is not None
        check_release(one.said.je_version, one.name, force=force)
    return _least_busy(network, allowed, timeout_s) if len(allowed) > 1 else allowed[0]


def _least_busy(network: Network, nodes: list[NodeLook], timeout_s: float) -> NodeLook:
    """JE's choice: the lowest load among nodes whose stream ends near the furthest end; replicas first."""
    infos = []
    problem: PeerError | None = None
    for node in nodes:
        try:
            with RemoteLog(network, node.address, new_client_id(), timeout_s) as log:
                infos.append((node, log.info()))
        except PeerError as error:
            problem = error
    if not infos:
        assert problem is not None
        raise problem
    end = max(info.last_vlsn for _, info in infos)
    near = [(node, info) for node, info in infos if end - info.last_vlsn <= _MOST_BEHIND]
    return min(near, key=lambda pair: (pair[0].state == MASTER, pair[1].load, -pair[1].last_vlsn))[0]


class HotCopy:
    """One copy, until it is complete.

    Arguments:
        repository: where it goes.
        throttle: called with the length of each piece.
        first_pause_s: before the first new attempt; each later pause is twice the one before.
        least_timeout_s: the timeout of a step is never below this.
    """

    def __init__(
        self,
        repository: Repository,
        listener: Listener,
        throttle: Throttle,
        first_pause_s: float = FIRST_PAUSE_S,
        least_timeout_s: float = LEAST_TIMEOUT_S,
    ) -> None:
        self._repository = repository
        self._listener = listener
        self._throttle = throttle
        self._first_pause_s = first_pause_s
        self._least_timeout_s = least_timeout_s
        self._attempts = 0

    def run(
        self,
        network: Network,
        address: Address,
        timeout_s: float,
        retries: int,
        retried: Callable[[PeerError], None],
        origin: Origin,
    ) -> tuple[CopyResult, ManifestResult]:
        """Copy all files, over several connections if needed, and add the backup.

        Arguments:
            address: of the node.
            timeout_s: timeout of each step.
            retries: number of new attempts after interruptions; fetched files are kept in any case.
            retried: called with the reason for each new attempt.
            origin: the node, as described in the manifest.

        Raises:
            RefusedError: another run is active.
            PeerError: the node cannot be reached, or its answers are invalid.
            StorageError: there is no room.
        """
        with self._repository.locked():
            previous = self._repository.latest(origin.source)
            copied = self._copied(network, address, timeout_s, retries, retried)
            view = view_of(self._repository, copied.files)
            made = self._repository.new_id()
            described = describe(made, view, copied.files, origin, previous, self._listener)
            self._repository.add(described.manifest)
            self._repository.storage.remove(STATE)
        return copied, described

    def _copied(
        self, network: Network, address: Address, timeout_s: float, retries: int, retried: Callable[[PeerError], None]
    ) -> CopyResult:
        client_id = self._client_id()
        pause, timeout_s = self._first_pause_s, max(timeout_s, self._least_timeout_s)
        while True:
            self._attempts += 1
            try:
                with RemoteLog(network, address, client_id, timeout_s) as log:
                    return self._attempt(log)
            except DisconnectedError as error:
                if self._attempts > retries:
                    raise CutError(
                        "the copy is incomplete",
                        file=self._repository.root,
                        found=str(error),
                        consequence="no backup was added; files that have come are kept",
                        hint="run it again: it continues with these files",
                    ) from error
                retried(error)
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _attempt(self, log: RemoteLog) -> CopyResult:
        info = log.info()
        names = log.names()
        asked = [(name, bool(self._repository.stored(number_of(name)))) for name in names]
        files = [log.file(name, digest=there) for name, there in asked]
        total, done, kept_bytes = sum(file.size_bytes for file in files), 0, 0
        copied: dict[str, CopiedFile] = {}
        for file in files:
            sha256 = self._kept(file)
            if sha256 is not None:
                copied[file.name] = CopiedFile(file.name, number_of(file.name), file.size_bytes, sha256, 0)
                kept_bytes += file.size_bytes
        kept_files, done = len(copied), kept_bytes
        require_room(
            self._repository.storage,
            total - kept_bytes,
            "the copy",
            consequence="nothing was fetched",
            hint="make room, or copy to another disk",
        )
        self._listener.step(STEP, done, total)
        for file in files:
            if file.name not in copied:
                copied[file.name] = self._fetch(log, file, done, total)
                done += file.size_bytes
        log.done()
        return CopyResult(
            version=log.version,
            first_vlsn=info.first_vlsn,
            last_vlsn=info.last_vlsn,
            files=tuple(copied[name] for name in names),
            kept_files=kept_files,
            kept_bytes=kept_bytes,
            attempts=self._attempts,
        )

    def _fetch(self, log: RemoteLog, file: RemoteFile, done: int, total: int) -> CopiedFile:
        def pieces() -> Iterator[bytes]:
            at = 0
            # ``read`` verifies length and digest, and raises an error if one is wrong.
            for piece in log.read(file.name):
                yield piece
                at += len(piece)
                self._throttle.passed(len(piece))
                self._listener.step(STEP, done + at, total)

        number = number_of(file.name)
        stored = self._repository.put_file(number, pieces())
        return CopiedFile(file.name, number, stored.size_bytes, stored.sha256, 0)

    def _kept(self, file: RemoteFile) -> str | None:
        """The SHA-256 of a stored file that equals the node's file; None if there is no such file."""
        number = number_of(file.name)
        for stored in self._repository.stored(number) if file.digest else ():
            if stored.size_bytes == file.size_bytes and self._digest_of(number, stored, file.digest) == file.digest:
                return stored.sha256
        return None

    def _digest_of(self, number: int, stored: StoredFile, wanted: bytes) -> bytes:
        digest = hashlib.new("sha1" if len(wanted) == 20 else "sha256", usedforsecurity=False)
        source = self._repository.storage.open(stored_path(number, stored.sha256))
        try:
            for piece in pieces_of(source, stored.size_bytes):
                digest.update(piece)
        finally:
            source.close()
        return digest.digest()

    def _client_id(self) -> int:
        """The id of this copy, saved for the next run, so that the node recognises a resumed copy."""
        file = self._repository.storage.open_rw(STATE, create=True)
        try:
            with contextlib.suppress(ValueError, TypeError, KeyError):
                client_id = json.loads(file.read(0, _STATE_BYTES))["client_id"]
                if isinstance(client_id, int) and -(1 << 31) <= client_id < 0:
                    return client_id
            client_id = new_client_id()
            file.truncate(0)
            file.write(0, json.dumps({"client_id": client_id}).encode() + b"\n")
            file.sync()
            return client_id
        finally:
            file.close()
