"""Actions that wait for the end of a transaction: the second half of naming operations, and discards of records.

Example: the records of a removed database stay until the removing transaction has committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engine.catalog.name_replay import await_end
from engine.db.daemons import Daemons
from engine.db.parts import EnvironmentParts
from engine.format.bytecursor import sorted_unpack
from engine.format.entry.ln import LN
from engine.format.entry_types import EXTINCT_SCAN_LNS
from engine.format.lsn import NULL_LSN
from engine.txn.txn import Txn


def _nothing() -> None:
    """The default action: most naming operations have nothing to do at one of the two ends."""


class EndAction(NamedTuple):
    """The actions for the end of a transaction: one for a commit, one for an abort."""

    committed: Callable[[], None]
    aborted: Callable[[], None]


class TxnEnds:
    """The waiting actions of one environment.

    Arguments:
        parts: the parts of the environment.
        daemons: the background threads of the environment.

    Attributes:
        waiting: the actions by transaction id.
    """

    def __init__(self, parts: EnvironmentParts, daemons: Daemons) -> None:
        self._parts = parts
        self._daemons = daemons
        self.waiting: dict[int, list[EndAction]] = {}

    def at_end(
        self, locker: Txn, *, committed: Callable[[], None] = _nothing, aborted: Callable[[], None] = _nothing
    ) -> None:
        """Run an action when a transaction has committed, or when it has been aborted."""
        self.waiting.setdefault(locker.id, []).append(EndAction(committed, aborted))

    def restore(self, locker: Txn) -> None:
        """Register again the actions of a transaction that recovery or a rollback has left open."""
        self.take(locker)
        lsn = locker.last_lsn
        while lsn != NULL_LSN:
            with self._parts.ctx.latch:
                entry = self._parts.ctx.access.read(lsn)
                record = entry.record()
            assert isinstance(record, LN)
            if entry.type_number in EXTINCT_SCAN_LNS:
                self.await_discard(record.key, locker)
            await_end(self._parts.naming, record, locker, self.at_end)
            lsn = record.last_lsn

    def await_discard(self, key: bytes, locker: Txn) -> None:
        """Discard records when a transaction commits that has written the extinction task with this key, on this node
        or on the master.
        """
        extinctions = self._parts.extinctions
        assert extinctions is not None
        extinctions.note(sorted_unpack(key)[0])
        # If there is a cleaner thread, it discards the records, so that the replay of the stream does not wait.
        cleaning = self._daemons.cleaner
        self.at_end(locker, committed=extinctions.run if cleaning is None else cleaning.wake)

    def take(self, locker: Txn) -> list[EndAction]:
        """Remove and return the actions of a transaction."""
        return self.waiting.pop(locker.id, [])

    def committed(self, locker: Txn) -> None:
        """Run the actions of a transaction that has committed."""
        actions, writer = self.take(locker), self._parts.writer
        # After a failure of the writer, the next recovery runs the actions; here they would raise another error.
        if writer is None or not writer.failed:
            for action in actions:
                action.committed()
