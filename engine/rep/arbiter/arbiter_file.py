"""The file of an arbiter, ``00000000.adb``: its id, and the last commit that it acknowledged (je-ha-protocol.md 15.3).

=======  ======  ==============================================================
offset   type    field
=======  ======  ==============================================================
0        int32   version: 1, 2, or 3 since log version 22
32       int32   id of the arbiter; -1 before it is a member
64       int64   VLSN of the last acknowledged commit
72       int64   the highest DTVLSN in acknowledged commits
80       int32   id of the master that logged the commit; since version 2
84       int64   term of this master; since version 3
=======  ======  ==============================================================

The fields from 64 on are missing before the first acknowledgement. JE meant offsets in bytes and took sizes in bits, so
the bytes between the fields are zeros. JE 18.3 reads versions up to 2, JE 25.3 up to 3. JE 25.3 leaves the version of a
file as it is and writes its term all the same; a term in a file of version 2 may be outdated, and is not read.

The whole file fits into one sector of a disk, and is written at once, so that a crash leaves the old or the new one.
The form has no place for a checksum. JE notices a later version and a missing end, nothing else. Here impossible values
and anything but zeros between the fields are damage, too; a wrong VLSN that is possible is not noticed.

Example: version 2, arbiter 3; it acknowledged VLSN 29 of master 1 (zeros between the fields left out)::

    00: 00000002   20: 00000003   40: 000000000000001d 000000000000001b 00000001
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from engine.errors import DamageError, UnsupportedError, plural
from engine.format.entry.txn_end import FIRST_TERM, LAST_TERM, PRE_TERM
from engine.format.vlsn import NULL_VLSN
from engine.log.files import LOCK_FILE, WRITER_BYTE
from engine.rep.group import FIRST_ID
from engine.rep.peers import DisconnectedError
from engine.storage.base import Lock, Storage, write_synced

FILE_NAME: Final = "00000000.adb"
_PART: Final = f"{FILE_NAME}.temp"
_VERSION_AT: Final = 0
_ID_AT: Final = 32
_COMMIT_AT: Final = 64
_NUMBER: Final = struct.Struct(">i")
_WITHOUT_MASTER: Final = struct.Struct(">qq")
_WITH_MASTER: Final = struct.Struct(">qqi")
_WITH_TERM: Final = struct.Struct(">qqiq")
_COMMITS: Final = {1: _WITHOUT_MASTER, 2: _WITH_MASTER, 3: _WITH_TERM}
_PLAIN: Final = 2
_TERMS: Final = 3
NO_ID: Final = -1


class ArbiterCommit(NamedTuple):
    """The last commit that an arbiter acknowledged.

    Attributes:
        vlsn, dtvlsn: ``NULL_VLSN`` before the first commit.
        master_id: the node that logged it; -1 if unknown.
        term: its term; None if the file has no terms.
    """

    vlsn: int
    dtvlsn: int
    master_id: int
    term: int | None

    def then(self, later: ArbiterCommit) -> ArbiterCommit:
        """What to keep after another commit.

        Commits of one master arrive in any order, and the highest VLSN counts. Another master was elected with this
        arbiter's vote, or by all data nodes: its commits replace those of the master before, whatever their VLSNs.
        """
        if (self.master_id, self.term) != (later.master_id, later.term) or later.vlsn > self.vlsn:
            return later
        return self


NOTHING: Final = ArbiterCommit(NULL_VLSN, NULL_VLSN, NO_ID, None)


class ArbiterState(NamedTuple):
    """The content of the file."""

    node_id: int
    commit: ArbiterCommit
    has_terms: bool


def encode_state(state: ArbiterState) -> bytes:
    """The bytes of the file."""
    data = bytearray(_COMMIT_AT)
    _NUMBER.pack_into(data, _VERSION_AT, _TERMS if state.has_terms else _PLAIN)
    _NUMBER.pack_into(data, _ID_AT, state.node_id)
    vlsn, dtvlsn, master_id, term = state.commit
    if vlsn == NULL_VLSN:
        return bytes(data[: _ID_AT + _NUMBER.size])
    if state.has_terms:
        return bytes(data) + _WITH_TERM.pack(vlsn, dtvlsn, master_id, term if term is not None else PRE_TERM)
    return bytes(data) + _WITH_MASTER.pack(vlsn, dtvlsn, master_id)


def decode_state(data: bytes) -> ArbiterState | None:
    """The content; None if JE was stopped while it created the file.

    Raises:
        UnsupportedError: the version is later than 3. DamageError: a value is impossible, or the end is missing.
    """
    if len(data) < _ID_AT + _NUMBER.size:
        return None
    version = _NUMBER.unpack_from(data, _VERSION_AT)[0]
    if version > _TERMS:
        raise UnsupportedError("version of an arbiter's file", file=FILE_NAME, expected="1 to 3", found=str(version))
    node_id = _NUMBER.unpack_from(data, _ID_AT)[0]
    has_terms = version == _TERMS
    layout = _COMMITS.get(version)
    if layout is None or node_id < NO_ID or node_id == 0:
        raise _damage(f"version {version}, id {node_id}")
    if any(data[_VERSION_AT + _NUMBER.size : _ID_AT]) or any(data[_ID_AT + _NUMBER.size : _COMMIT_AT]):
        raise _damage("bytes between the fields")
    if len(data) <= _COMMIT_AT:
        return ArbiterState(node_id, NOTHING._replace(term=FIRST_TERM if has_terms else None), has_terms)
    if len(data) < _COMMIT_AT + layout.size:
        raise _damage(plural(len(data), "byte"))
    vlsn, dtvlsn, master_id, term = (*layout.unpack_from(data, _COMMIT_AT), NO_ID, None)[:4]
    if layout is _WITHOUT_MASTER:
        master_id, term = NO_ID, None
    else:
        # JE 25.3 has no term for a commit of JE 18.3.
        term = (term or PRE_TERM) if has_terms else None
    if vlsn < NULL_VLSN or dtvlsn < NULL_VLSN or not (term is None or PRE_TERM <= term <= LAST_TERM):
        raise _damage(f"VLSN {vlsn}, DTVLSN {dtvlsn}, term {term}")
    return ArbiterState(node_id, ArbiterCommit(vlsn, dtvlsn, master_id, term), has_terms)


def _damage(found: str) -> DamageError:
    return DamageError(
        "the file of the arbiter is damaged",
        file=FILE_NAME,
        found=found,
        consequence="the last commit that it acknowledged is not known, so it cannot vote",
        hint="remove the member with jetool group delete, and start the arbiter with an empty directory",
    )


class ArbiterFile:
    """The file of a running arbiter.

    Arguments:
        storage: the directory of the arbiter.

    Attributes:
        state: what is on the disk.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock: Lock | None = None
        self.state = ArbiterState(NO_ID, NOTHING, has_terms=False)

    @property
    def is_member(self) -> bool:
        """Whether a master has made the arbiter a member."""
        return self.state.node_id >= FIRST_ID

    def open(self) -> None:
        """Lock the directory, and read the file or create it.

        Raises:
            RefusedError: another process uses the directory. UnsupportedError, DamageError: as ``decode_state``.
            StorageError: the directory cannot be read or written.
        """
        storage = self._storage
        if storage.stat() is None:
            storage.make_directory("")
        storage.open_rw(LOCK_FILE, create=True).close()
        self._lock = storage.lock(LOCK_FILE, WRITER_BYTE, exclusive=True)
        try:
            found = decode_state(self._read()) if storage.stat(FILE_NAME) is not None else None
            if found is not None:
                self.state = found
            else:
                write_synced(storage, _PART, encode_state(self.state))
                storage.rename(_PART, FILE_NAME)
                storage.sync_directory()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the directory."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def note_member(self, node_id: int, *, has_terms: bool) -> None:
        """Keep the id of the arbiter; ``has_terms``: the log of the master has terms."""
        state = self.state
        if has_terms and not state.has_terms:
            none_yet = state.commit.vlsn == NULL_VLSN
            commit = state.commit._replace(term=FIRST_TERM if none_yet else PRE_TERM)
            state = ArbiterState(node_id, commit, has_terms=True)
        self._keep(state._replace(node_id=node_id))

    def keep(self, commit: ArbiterCommit) -> None:
        """Keep a commit; afterwards it may be acknowledged.

        Raises:
            DisconnectedError: the commit is of an earlier term than the one that was acknowledged last.
            StorageError: the file cannot be written; what it holds is not known.
        """
        state = self.state
        if not state.has_terms:
            commit = commit._replace(term=None)
        elif PRE_TERM < (commit.term or 0) < (state.commit.term or 0):
            raise DisconnectedError(
                "the master's commit is of an earlier term than one that was acknowledged",
                expected=str(state.commit.term),
                found=str(commit.term),
            )
        self._keep(state._replace(commit=state.commit.then(commit)))

    def _keep(self, state: ArbiterState) -> None:
        if state == self.state:
            return
        file = self._storage.open_rw(FILE_NAME)
        try:
            file.write(0, encode_state(state))
            file.sync()
        finally:
            file.close()
        self.state = state

    def _read(self) -> bytes:
        file = self._storage.open(FILE_NAME)
        try:
            return file.read(0, _COMMIT_AT + _WITH_TERM.size)
        finally:
            file.close()


def is_arbiters(storage: Storage) -> bool:
    """Whether a directory is that of an arbiter."""
    return storage.stat(FILE_NAME) is not None
