"""What waits for the end of a transaction: the second half of naming operations, and discards of records.

Example: a database that was removed keeps its records until the transaction has committed.
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
    """What most naming operations have to do at one of the two ends."""


class EndAction(NamedTuple):
    """What a naming operation does when its transaction has ended."""

    committed: Callable[[], None]
    aborted: Callable[[], None]


class TxnEnds:
    """The actions of one environment.

    Arguments:
        parts: the environment.
        daemons: its threads.

    Attributes:
        waiting: the actions by the id of their transaction.
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
        """Note again what waits for the end of a transaction that recovery or a rollback has left open."""
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
        """A transaction of a master has written the task of this key: when it commits, discard the records here too."""
        extinctions = self._parts.extinctions
        assert extinctions is not None
        extinctions.note(sorted_unpack(key)[0])
        # The replay of the stream does not wait for the scan where there is a thread to do it.
        cleaning = self._daemons.cleaner
        self.at_end(locker, committed=extinctions.run if cleaning is None else cleaning.wake)

    def take(self, locker: Txn) -> list[EndAction]:
        """The actions of a transaction, which no longer wait."""
        return self.waiting.pop(locker.id, [])

    def committed(self, locker: Txn) -> None:
        """Run the actions of a transaction that has committed."""
        actions, writer = self.take(locker), self._parts.writer
        # After a failure recovery does it, and what has happened must stay the error that is raised.
        if writer is None or not writer.failed:
            for action in actions:
                action.committed()
