"""A hot copy of a running node: its log files, an environment that recovers (je-ha-protocol.md section 11).

Files go to ``DEST.part`` beside the place where the copy is to be, each first under a name that ends in ``.part``, and
are synced. When all of the list are there, the directory gets its name: DEST is a whole environment or is not there.

A copy that was cut goes on, in the same run or in a later one. The node is asked for its list again, under the same
client id so that within five minutes it is the same list; files that are there are kept when length and digest agree,
and what is not in the list goes. So whatever happened in between, the result is the files of one list.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable
from typing import Final, NamedTuple

from engine.errors import JetoolError, NotFoundError, RefusedError
from engine.events import Listener
from engine.rep.client.connection import Address, Network
from engine.rep.client.handshake import check_release
from engine.rep.client.log_files import RemoteFile, RemoteLog, new_client_id
from engine.rep.client.looking import MASTER, GroupLook, NodeLook
from engine.rep.frames import DisconnectedError, PeerError
from engine.storage.base import Storage

PART: Final = ".part"
STATE: Final = "copy.json"
LOCK: Final = "copy.lock"
STEP: Final = "copy"
# JE leaves such a node out when a replica looks for one to restore itself from.
_MOST_BEHIND: Final = 50_000
_READ_BYTES: Final = 1 << 20
_STATE_BYTES: Final = 4096
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0


class CutError(JetoolError):
    """The connection ended before the copy was whole, as often as it may."""

    exit_code = 7
    kind = "disconnected"


class Copied(NamedTuple):
    """What came of a copy.

    Attributes:
        version: of the protocol.
        first_vlsn, last_vlsn: what the node had of the stream when the copy began.
        files, size_bytes: of the whole copy.
        kept_files: those that an earlier attempt had fetched.
        attempts: connections that it took.
    """

    version: int
    first_vlsn: int
    last_vlsn: int
    files: int
    size_bytes: int
    kept_files: int
    attempts: int


class Throttle:
    """Holds the mean rate of a transfer at a limit.

    Arguments:
        bytes_per_s: the limit; None for none.
    """

    def __init__(self, bytes_per_s: int | None) -> None:
        self._rate = bytes_per_s
        self._free_at = 0.0

    def passed(self, length: int) -> None:
        """So many bytes have passed: wait as long as they take at that rate."""
        if self._rate is None:
            return
        now = time.monotonic()
        # Time in which nothing came does not count: no burst makes up for it.
        self._free_at = max(self._free_at, now) + length / self._rate
        if self._free_at > now:
            time.sleep(self._free_at - now)


def choose(
    network: Network, found: GroupLook, node: str | None, timeout_s: float, *, allow_master: bool, force: bool
) -> NodeLook:
    """The node to copy from: the one that was named, or the least busy replica that is not far behind.

    Raises:
        NotFoundError: there is no node of that name, or no replica that answers.
        RefusedError: only the master is there, and it is not allowed.
        UnsupportedError: a release that was never tried, without ``force``.
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
    """As JE chooses: the lowest load of those whose part of the stream ends near that of the best; replicas first."""
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
    """One copy, until it is whole.

    Arguments:
        parent: the directory in which the copy is to appear.
        name: its name there.
        throttle: called with the length of each piece.
    """

    def __init__(self, parent: Storage, name: str, listener: Listener, throttle: Throttle) -> None:
        self._storage = parent
        self._name = name
        self._part = f"{name}{PART}"
        self._listener = listener
        self._throttle = throttle
        self._attempts = 0

    def run(
        self, network: Network, address: Address, timeout_s: float, retries: int, retried: Callable[[PeerError], None]
    ) -> Copied:
        """Copy all files, over as many connections as it takes.

        Arguments:
            address: of the node.
            timeout_s: the longest that each step may take.
            retries: how often a cut may be followed by another attempt; what was fetched is kept in any case.
            retried: hears why there is another attempt.

        Raises:
            RefusedError: something is there already, or another run is at it.
            PeerError: the node cannot be reached, or answers wrongly.
            StorageError: there is no room.
        """
        found = self._storage.stat(self._name)
        if found is not None and (not found.is_directory or self._storage.names(self._name)):
            raise RefusedError(
                "the place for the copy is not empty",
                file=f"{self._storage.root}/{self._name}",
                consequence="nothing was copied",
                hint="name a directory that does not exist",
            )
        self._storage.make_directory(self._part)
        # A file of its own: closing one that is locked would give the lock up.
        self._storage.open_rw(f"{self._part}/{LOCK}", create=True).close()
        lock = self._storage.lock(f"{self._part}/{LOCK}", 0, exclusive=True)
        try:
            client_id = self._client_id()
            pause = _FIRST_PAUSE_S
            while True:
                self._attempts += 1
                try:
                    with RemoteLog(network, address, client_id, timeout_s) as log:
                        copied = self._attempt(log)
                    break
                except DisconnectedError as error:
                    if self._attempts > retries:
                        raise CutError(
                            "the copy is not whole",
                            file=f"{self._storage.root}/{self._part}",
                            found=str(error),
                            consequence="files that have come are kept",
                            hint="run it again: it goes on with them",
                        ) from error
                    retried(error)
                    time.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_S)
            self._finish()
        finally:
            lock.release()
        return copied

    def _attempt(self, log: RemoteLog) -> Copied:
        info = log.info()
        names = log.names()
        # Whatever else is there is of another list.
        self._remove_others(set(names))
        asked = [(name, self._size(name)) for name in names]
        files = [log.file(name, digest=size is not None) for name, size in asked]
        total, done, kept = sum(file.size_bytes for file in files), 0, 0
        missing = []
        for file in files:
            if self._same(file):
                kept += 1
                done += file.size_bytes
            else:
                missing.append(file)
        self._listener.step(STEP, done, total)
        for file in missing:
            done = self._fetch(log, file, done, total)
        log.done()
        return Copied(
            version=log.version,
            first_vlsn=info.first_vlsn,
            last_vlsn=info.last_vlsn,
            files=len(files),
            size_bytes=total,
            kept_files=kept,
            attempts=self._attempts,
        )

    def _fetch(self, log: RemoteLog, file: RemoteFile, done: int, total: int) -> int:
        directory, slash, _ = file.name.rpartition("/")
        if slash:
            self._storage.make_directory(f"{self._part}/{directory}")
        path = f"{self._part}/{file.name}"
        target = self._storage.open_rw(path + PART, create=True)
        at = 0
        try:
            target.truncate(0)
            for piece in log.read(file.name):
                target.write(at, piece)
                at += len(piece)
                self._throttle.passed(len(piece))
                self._listener.step(STEP, done + at, total)
            # Length and digest were right, or ``read`` has raised.
            target.sync()
        finally:
            target.close()
        self._storage.rename(path + PART, path)
        return done + at

    def _finish(self) -> None:
        """Give the directory its name; from then on the copy is there."""
        for directory in self._directories():
            self._storage.sync_directory(directory)
        for name in (STATE, LOCK):
            self._storage.remove(f"{self._part}/{name}")
        self._storage.sync_directory(self._part)
        self._storage.rename(self._part, self._name)
        self._storage.sync_directory()

    def _same(self, file: RemoteFile) -> bool:
        """Whether a file has been fetched already: the bytes that the node has now."""
        if not file.digest or self._size(file.name) != file.size_bytes:
            return False
        digest = hashlib.new("sha1" if len(file.digest) == 20 else "sha256", usedforsecurity=False)
        source = self._storage.open(f"{self._part}/{file.name}")
        try:
            for at in range(0, file.size_bytes, _READ_BYTES):
                digest.update(source.read(at, _READ_BYTES))
        finally:
            source.close()
        return digest.digest() == file.digest

    def _size(self, name: str) -> int | None:
        found = self._storage.stat(f"{self._part}/{name}")
        return None if found is None else found.size_bytes

    def _directories(self) -> list[str]:
        names = self._storage.names(self._part)
        paths = [f"{self._part}/{name}" for name in names]
        stats = [(path, self._storage.stat(path)) for path in paths]
        return [path for path, found in stats if found is not None and found.is_directory]

    def _remove_others(self, wanted: set[str]) -> None:
        for directory in ("", *(path.rpartition("/")[2] for path in self._directories())):
            prefix = f"{directory}/" if directory else ""
            for name in self._storage.names(f"{self._part}/{directory}".rstrip("/")):
                path = f"{self._part}/{prefix}{name}"
                found = self._storage.stat(path)
                if found is None or found.is_directory or name in (STATE, LOCK) or f"{prefix}{name}" in wanted:
                    continue
                self._storage.remove(path)

    def _client_id(self) -> int:
        """The id of this copy, kept for the next run: by it the node knows that it goes on."""
        path = f"{self._part}/{STATE}"
        file = self._storage.open_rw(path, create=True)
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
