"""Network restore: a node's log files replaced by copies of the master's (R-SYNC-21).

The master begins a new log file and sends all files before it, which no longer change. The replica, closed meanwhile:

1. receives them into ``restore/``, each with its SHA-256 compared, and fsyncs them;
2. writes the marker ``7fffffff.jdb`` (RestoreRequired), so that neither JE nor jetool opens what is half replaced;
3. moves its own files into ``replaced/`` (``replaced.1/`` ... when there is one), where they stay;
4. moves the new files to their places, and removes the marker.

Files that are being sent are protected from deletion (R-CLN-41), as are those that a feeder still has to read.

A crash before step 2 leaves the old environment as it was. After it the environment refuses to be opened, and the next
network restore begins again with step 1: nothing is lost, since nothing was removed.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from engine.db.engine import Engine
from engine.errors import DamageError, FormatError, NotFoundError
from engine.events import Listener
from engine.format.entry.markers import RestoreRequired
from engine.log.files import LogFile, list_log_files
from engine.log.marker import MARKER, write_marker
from engine.log.writer import LogWriter
from engine.rep import messages
from engine.rep.frames import Channel, Frame
from engine.rep.messages import Message, nonsense
from engine.storage.base import Storage

STAGING: Final = "restore"
REPLACED: Final = "replaced"
_NAME: Final = re.compile(r"(?:data\d{3}/)?[0-7][0-9a-f]{7}\.jdb")
_PIECE_BYTES: Final = 1 << 20
_TIMEOUT_S: Final = 60.0


def send_files(engine: Engine, channel: Channel) -> None:
    """Send the log of an open environment; its writers go on in a new file.

    Raises:
        DisconnectedError: the replica has gone. StorageError: a file cannot be read.
    """
    writer = engine.writer
    assert writer is not None
    assert engine.cleaner is not None
    # Before they are listed: the cleaner deletes what nobody protects.
    with engine.cleaner.protect_from("a network restore", 0):
        _send_all(engine, writer, channel)


def _send_all(engine: Engine, writer: LogWriter, channel: Channel) -> None:
    # No entry may come between the last file that is sent and the new one.
    with writer.latch:
        writer.flush(sync=False)
        last = writer.next_lsn >> 32
        writer.force_new_file()
        files = [file for file in engine.log_files() if file.number <= last]
    # A replica must not have what its master could lose in a crash.
    engine.sync()
    for file in files:
        _send_file(engine.storage, file, channel)
    channel.send(Message.RESTORED, len(files).to_bytes(4, "big"))


def _send_file(storage: Storage, file: LogFile, channel: Channel) -> None:
    source = storage.open(file.path)
    try:
        size, at, digest = source.size(), 0, hashlib.sha256()
        channel.send(Message.FILE, messages.encode_file(file.path, size))
        while at < size:
            piece = source.read(at, min(_PIECE_BYTES, size - at))
            if not piece:
                raise DamageError("a log file became shorter while it was sent", file=f"{storage.root}/{file.path}")
            digest.update(piece)
            channel.send(Message.PIECE, piece)
            at += len(piece)
        channel.send(Message.FILE_END, digest.digest())
    finally:
        source.close()


def receive_files(storage: Storage, channel: Channel, listener: Listener) -> int:
    """Receive the master's log into ``restore/``.

    Arguments:
        storage: the replica's directory; nothing of the environment is touched.

    Returns:
        How many files came.

    Raises:
        PeerError: the master sends what makes no sense, or a file whose SHA-256 differs. DisconnectedError: it has
            gone. StorageError: there is no room, or a file cannot be written.
    """
    for path in staged_files(storage):
        storage.remove(f"{STAGING}/{path}")
    storage.make_directory(STAGING)
    channel.send(Message.RESTORE)
    names: list[str] = []
    while (frame := _next(channel)).type == Message.FILE:
        try:
            name, size = messages.decode_file(frame.payload)
        except FormatError as error:
            raise nonsense(channel.peer, error) from error
        # A peer says this name: it must be that of a log file, and lead nowhere else.
        if not _NAME.fullmatch(name) or name in names or name.endswith(MARKER) or size < 0:
            raise nonsense(channel.peer, f"a file {messages.decode_text(name.encode('utf-8', 'replace'))!r}")
        listener.step("restore file", len(names), 0)
        _receive_file(storage, channel, name, size)
        names.append(name)
    if frame.type != Message.RESTORED or int.from_bytes(frame.payload, "big") != len(names) or not names:
        raise nonsense(channel.peer, f"message {frame.type} among files")
    # Durable before the marker: from then on these copies are the only whole log.
    storage.sync_directory(STAGING)
    storage.sync_directory()
    return len(names)


def _receive_file(storage: Storage, channel: Channel, name: str, size: int) -> None:
    directory = f"{STAGING}/{name}".rpartition("/")[0]
    storage.make_directory(directory)
    target = storage.open_rw(f"{STAGING}/{name}", create=True)
    try:
        at, digest = 0, hashlib.sha256()
        while (frame := _next(channel)).type == Message.PIECE and at + len(frame.payload) <= size:
            target.write(at, frame.payload)
            digest.update(frame.payload)
            at += len(frame.payload)
        if frame.type != Message.FILE_END or at != size or frame.payload != digest.digest():
            raise nonsense(channel.peer, f"{name} does not match its checksum")
        target.sync()
    finally:
        target.close()
    storage.sync_directory(directory)


def install_files(storage: Storage, now_ms: int, listener: Listener) -> None:
    """Put received files in place of the environment's own (steps 2 to 4).

    Arguments:
        storage: the directory of the closed environment.
        now_ms: for the marker.
    """
    # Before the first move: nobody opens what is half replaced.
    write_marker(storage, RestoreRequired("NETWORK_RESTORE", now_ms, ""))
    listener.step("restore replace", 0, 0)
    own = _log_paths(storage)
    kept = _new_directory(storage) if own else ""
    for path in own:
        _move(storage, path, f"{kept}/{path}")
    listener.step("restore install", 0, 0)
    for path in _log_paths(storage, STAGING):
        _move(storage, path, path.removeprefix(f"{STAGING}/"))
    # Last, since every move is durable by now.
    storage.remove(MARKER)
    storage.sync_directory()


def _next(channel: Channel) -> Frame:
    frame = channel.receive(_TIMEOUT_S)
    if frame.type == Message.FAILED:
        raise nonsense(channel.peer, messages.decode_text(frame.payload))
    return frame


def _log_paths(storage: Storage, under: str = "") -> list[str]:
    """Log files below a directory, the marker left out."""
    prefix = f"{under}/" if under else ""
    found = []
    for name in storage.names(under):
        if name.startswith("data") and name[4:].isdecimal() and len(name) == 7:
            found += [f"{prefix}{name}/{inner}" for inner in storage.names(f"{prefix}{name}") if inner.endswith(".jdb")]
        elif name.endswith(".jdb") and name != MARKER:
            found.append(prefix + name)
    return found


def _move(storage: Storage, old: str, new: str) -> None:
    directory = new.rpartition("/")[0]
    parent = directory.rpartition("/")[0]
    if directory:
        for path in (parent, directory):
            if path:
                storage.make_directory(path)
    storage.rename(old, new)
    # The new name first: a crash in between leaves two names, never none.
    storage.sync_directory(directory)
    storage.sync_directory(old.rpartition("/")[0])


def _new_directory(storage: Storage) -> str:
    name, count = REPLACED, 0
    while storage.stat(name) is not None:
        count += 1
        name = f"{REPLACED}.{count}"
    storage.make_directory(name)
    storage.sync_directory()
    return name


def staged_files(storage: Storage) -> list[str]:
    """What an earlier attempt has received, by the names that the files shall have."""
    try:
        return [path.removeprefix(f"{STAGING}/") for path in _log_paths(storage, STAGING)]
    except NotFoundError:
        return []


def holds_log(storage: Storage) -> bool:
    """Whether there are log files at all."""
    try:
        return bool(list_log_files(storage).files)
    except NotFoundError:
        return False
