"""What a voter must not forget: in which term it voted last, and the terms of its log.

One small file in the directory of the environment, replaced as a whole: written beside it, fsynced, renamed, directory
fsynced. Only then a vote leaves the node. After a restart the node gives no vote in that term or an earlier one, to
anybody: it does not have to know for whom it voted. A node whose disk was replaced has forgotten its votes as well as
what it acknowledged: like in any Raft, that counts as the loss of one node.

Example: ``{"voted":7,"term":7,"starts":[[5,41],[7,120]],"check":"..."}``
"""

from __future__ import annotations

import hashlib
import json
import threading
from typing import Final

from engine.errors import DamageError, FormatError, RefusedError
from engine.rep.terms import Terms, TermStart, check_terms
from engine.storage.base import Storage

FILE: Final = "jetool.ballot"
_NEW: Final = "jetool.ballot.new"
_MOST_BYTES: Final = 1 << 16


def refuse_voter(storage: Storage) -> None:
    """Refuse to run a node by hand that took part in elections: it could be master beside an elected one.

    Raises:
        RefusedError: there is a record of its votes.
    """
    if storage.stat(FILE) is not None:
        raise RefusedError(
            "this node took part in elections",
            file=f"{storage.root}/{FILE}",
            consequence="a master that is named by hand, beside an elected one, would part the group",
            hint="start it with --elect; to name masters by hand from now on, stop all nodes and move this file away"
            " on each",
        )


class Ballot:
    """The file. Any thread may ask and change.

    Arguments:
        storage: of the environment; the directory exists.

    Attributes:
        voted: the last term in which this node voted, for itself or another; 0 before the first.
        terms: of its log.

    Raises:
        DamageError: the file is there and cannot be understood.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._mutex = threading.Lock()
        self.voted, self.terms = 0, Terms()
        if storage.stat(FILE) is not None:
            self.voted, self.terms = self._read()

    def vote(self, term: int) -> None:
        """Note a vote. When this returns, it survives a crash.

        Raises:
            StorageError: it cannot be written; the vote must not be sent.
        """
        with self._mutex:
            # The file first: a vote that is seen in memory may be sent.
            self._write(term, self.terms)
            self.voted = term

    def note_terms(self, terms: Terms) -> None:
        """Note the terms of the log, as ``vote``."""
        with self._mutex:
            if terms != self.terms:
                self._write(self.voted, terms)
                self.terms = terms

    def _write(self, voted: int, terms: Terms) -> None:
        said = {"voted": voted, "term": terms.term, "starts": terms.starts}
        data = json.dumps({**said, "check": _check(said)}, separators=(",", ":")).encode()
        file = self._storage.open_rw(_NEW, create=True)
        try:
            file.truncate(0)
            file.write(0, data)
            # Before the rename: a crash must not leave the name on bytes that never reached the disk.
            file.sync()
        finally:
            file.close()
        self._storage.rename(_NEW, FILE)
        # A rename that is lost brings the old ballot back, and a second vote with it.
        self._storage.sync_directory()

    def _read(self) -> tuple[int, Terms]:
        file = self._storage.open(FILE)
        try:
            data = file.read(0, _MOST_BYTES)
        finally:
            file.close()
        try:
            said = json.loads(data)
            if not isinstance(said, dict) or said.pop("check", None) != _check(said):
                raise FormatError("its checksum does not fit")
            starts = tuple(TermStart(term, vlsn) for term, vlsn in said["starts"])
            return int(said["voted"]), check_terms(Terms(int(said["term"]), starts))
        except (ValueError, KeyError, TypeError, RecursionError, FormatError) as error:
            raise DamageError(
                "the record of this node's votes is damaged",
                file=f"{self._storage.root}/{FILE}",
                found=str(error),
                consequence="the node could vote twice in a term",
                hint="move the file away while all other nodes run and have a master, then start this one again",
            ) from error


def _check(said: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:16]
