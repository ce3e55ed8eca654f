"""Network restore from a node of JE: copies its log files, with the service that ``jetool backup HOST:PORT`` uses.

As in ``engine.rep.restore``, files are received into ``restore/`` first, and then replace the node's own files,
protected by the marker that JE also knows. Completely received files are kept if the connection breaks: the next
attempt, in this or a later run, fetches only files whose length or digest differs on the node.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Final

from engine.db.startup import WriterLock
from engine.events import Listener
from engine.rep.client.connection import Address, Network
from engine.rep.client.log_files import RemoteFile, RemoteLog, new_client_id
from engine.rep.peers import DisconnectedError
from engine.rep.restore import STAGING, install_files, staged_files
from engine.storage.base import Storage
from engine.storage.room import require_room

_PIECE_BYTES: Final = 1 << 20
_SHA1_BYTES: Final = 20
# Room for recovery and the first replayed entries.
_MARGIN_BYTES: Final = 16 << 20
STEP: Final = "restore file"


class NetworkRestore:
    """Tries to copy one node after another, until a copy is complete.

    Arguments:
        storage: the directory; its environment is closed.
        network: opens connections to nodes.
        timeout_s: timeout of each step.
        listener: receives progress in bytes.
        stopping: returns whether to stop; complete files are kept.
    """

    def __init__(
        self, storage: Storage, network: Network, timeout_s: float, listener: Listener, stopping: Callable[[], bool]
    ) -> None:
        self._storage = storage
        self._network = network
        self._timeout_s = timeout_s
        self._listener = listener
        self._stopping = stopping
        # The client id is the same for all attempts, so that a node recognises a resumed copy.
        self._client_id = new_client_id()

    def run(self, address: Address) -> int:
        """Replace the log by that of a node.

        Returns:
            The number of files.

        Raises:
            RefusedError: another process has the directory open. PeerError: the node is gone, or its answers are
                invalid.
            StorageError: there is no room, or a file cannot be written. Nothing was replaced in all these cases.
        """
        self._storage.make_directory("")
        lock = WriterLock(self._storage)
        try:
            with RemoteLog(self._network, address, self._client_id, self._timeout_s) as log:
                log.info()
                names = log.names()
                staged = set(staged_files(self._storage))
                files = [log.file(name, digest=name in staged) for name in names]
                kept = {file.name for file in files if file.digest and self._is_there(file)}
                self._check_room([file for file in files if file.name not in kept])
                for path in staged - kept:
                    self._storage.remove(f"{STAGING}/{path}")
                total, done = sum(file.size_bytes for file in files), 0
                for file in files:
                    if file.name not in kept:
                        self._fetch(log, file, done, total)
                    done += file.size_bytes
                log.done()
            # Sync the copies before the marker is written: from then on they are the only complete log.
            self._storage.sync_directory(STAGING)
            self._storage.sync_directory()
            install_files(self._storage, int(time.time() * 1000), self._listener)
        finally:
            lock.release()
        return len(names)

    def _check_room(self, wanted: list[RemoteFile]) -> None:
        require_room(
            self._storage,
            sum(file.size_bytes for file in wanted) + _MARGIN_BYTES,
            "the files of the group",
            consequence="nothing was replaced",
            hint="make room, or move what replaced/ keeps of earlier restores; then run it again",
        )

    def _is_there(self, file: RemoteFile) -> bool:
        source = self._storage.open(f"{STAGING}/{file.name}")
        try:
            if source.size() != file.size_bytes:
                return False
            kind = "sha1" if len(file.digest) == _SHA1_BYTES else "sha256"
            digest = hashlib.new(kind, usedforsecurity=False)
            for at in range(0, file.size_bytes, _PIECE_BYTES):
                digest.update(source.read(at, min(_PIECE_BYTES, file.size_bytes - at)))
            return digest.digest() == file.digest
        finally:
            source.close()

    def _fetch(self, log: RemoteLog, file: RemoteFile, done: int, total: int) -> None:
        path = f"{STAGING}/{file.name}"
        self._storage.make_directory(STAGING)
        self._storage.make_directory(path.rpartition("/")[0])
        target = self._storage.open_rw(path, create=True)
        try:
            at = 0
            # The iteration ends only if length and digest are right; otherwise it raises an error.
            for piece in log.read(file.name):
                if self._stopping():
                    raise DisconnectedError("the copy was left off")
                target.write(at, piece)
                at += len(piece)
                self._listener.step(STEP, done + at, total)
            target.sync()
        finally:
            target.close()
        self._storage.sync_directory(path.rpartition("/")[0])
