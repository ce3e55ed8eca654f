"""The promises of a member, kept in JE's own file beside the log: ``election.persisted``, since JE 21.3.

A node that forgot a promise could promise again to an earlier proposal, or acknowledge commits of a master that an
election has replaced. JE 25.3 reads the file when it opens the same directory as a member, and the other way round.

Example::

    {"acceptedValue":"db2$$$5001$$$n2$$$2","acceptedProposal":"000001a2...00000001","promisedProposal":"000001a2..."}

A proposal is 56 hex digits; the first 16 are its time. For a node that has promised nothing yet JE writes a
time and text; such a proposal counts as the first one of that time.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

from engine.errors import FormatError
from engine.log.files import PROMISES_FILE
from engine.rep.wire.election_lines import PROPOSAL, SUGGESTION, Proposal, Suggestion
from engine.storage.base import Storage, write_synced

_PART: Final = f"{PROMISES_FILE}.temp"
_MOST_BYTES: Final = 1 << 16
_TIME: Final = re.compile(r"[0-9a-fA-F]{16}", re.ASCII)
_TIME_DIGITS: Final = 16
_PROPOSAL_DIGITS: Final = 56


class Promises(NamedTuple):
    """What a member has promised, and what it has accepted last."""

    promised: Proposal | None
    accepted: tuple[Proposal, Suggestion] | None


NO_PROMISES: Final = Promises(None, None)


class PromiseFile:
    """The file of one environment.

    Arguments:
        storage: the directory of the environment.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def read(self) -> Promises:
        """The promises; none if there is no file, or none that JE would accept.

        Raises:
            StorageError: the file cannot be read.
        """
        found = self._storage.stat(PROMISES_FILE)
        if found is None or found.is_directory or found.size_bytes > _MOST_BYTES:
            return NO_PROMISES
        file = self._storage.open(PROMISES_FILE)
        try:
            data = file.read(0, found.size_bytes)
        finally:
            file.close()
        try:
            value = json.loads(data)
            if not isinstance(value, dict):
                return NO_PROMISES
            promised, at, accepted = (
                value.get(name) for name in ("promisedProposal", "acceptedProposal", "acceptedValue")
            )
            given = (_proposal(at), SUGGESTION.read(str(accepted))) if at and accepted else None
            return Promises(_proposal(promised) if promised else None, given)
        except (ValueError, RecursionError, FormatError):
            # As JE does, begin anew rather than refuse to open the environment.
            return NO_PROMISES

    def write(self, promises: Promises) -> None:
        """Replace the file.

        Raises:
            StorageError: the file cannot be written; the old one is kept.
        """
        promised, accepted = promises
        value: dict[str, Any] = {
            "acceptedValue": SUGGESTION.write(accepted[1]) if accepted is not None else None,
            "acceptedProposal": PROPOSAL.write(accepted[0]) if accepted is not None else None,
            "promisedProposal": PROPOSAL.write(promised) if promised is not None else None,
        }
        write_synced(self._storage, _PART, json.dumps(value, separators=(",", ":")).encode("ascii"))
        self._storage.rename(_PART, PROMISES_FILE)
        self._storage.sync_directory()


def _proposal(text: object) -> Proposal:
    word = str(text)
    if _TIME.match(word) is None:
        raise FormatError("a proposal", expected="hex digits", found=repr(word[:80]))
    if len(word) == _PROPOSAL_DIGITS:
        return PROPOSAL.read(word)
    return Proposal(int(word[:_TIME_DIGITS], 16), 0, 0)
