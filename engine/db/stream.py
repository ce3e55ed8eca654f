"""The replication stream of an open environment: who may write to it, and where its entries are registered.

An environment of a replication group is in one of three roles:

* *detached*: recovered and checkpointed, but nothing is added to the stream. Every environment is opened in this role.
* *master*: transactions are replicated; their entries take the next VLSNs, and a ``CommitGate`` consults the group.
* *replica*: only the replay of the master's stream writes; all other users read.

VLSNs are allocated under the log write latch and registered outside it (R-LOG-8, R-VLSN-10). The index may therefore
receive VLSN 3 before VLSN 2; a checkpoint waits until no VLSN is missing.

Example, a master alone in its group: ``NameLN_TX VLSN 22 txn -20 | Commit VLSN 23 txn -20 master 1 dtvlsn 23``.
"""

from __future__ import annotations

from engine.errors import JetoolError
from engine.txn.manager import Stamp
from engine.txn.txn import Txn
from engine.vlsn.entry_waiters import LogItem
from engine.vlsn.index import VLSNIndex


class EnvironmentStream:
    """Connects the log writer with the VLSN index.

    Arguments:
        index: the index of the environment.
    """

    def __init__(self, index: VLSNIndex) -> None:
        self._index = index

    def bump(self) -> int:
        """Allocate the next VLSN; called under the log write latch."""
        return self._index.bump()

    def note_allocated(self, vlsn: int) -> None:
        """Note a VLSN that the master has allocated; called under the log write latch."""
        self._index.note_allocated(vlsn)

    def logged(self, vlsn: int, lsn: int, type_number: int, body: bytes) -> None:
        """Register an entry, and hand it to feeders that wait for it."""
        # Entries may arrive out of order; the index waits for missing ones (R-VLSN-10).
        self._index.put(vlsn, lsn, type_number, LogItem(vlsn, lsn, type_number, body))

    def fail(self, error: JetoolError) -> None:
        """End all waits with an error: the entry of an allocated VLSN may never arrive."""
        self._index.fail(error)


class AloneGate:
    """The commit gate of a master that is the only electable member, and so forms a majority alone.

    Arguments:
        index: gives the VLSN of the entry that is being logged.
        master_id: node id.
    """

    def __init__(self, index: VLSNIndex, master_id: int) -> None:
        self._index = index
        self._master_id = master_id

    def committing(self) -> None:
        """Do nothing: no replica has to be connected."""

    def stamp(self, *, awaited: bool) -> Stamp:  # noqa: ARG002 - of the protocol
        """The DTVLSN is the entry's own VLSN, since a majority of one has it."""
        # Under the log write latch the last allocated VLSN is that of the entry.
        vlsn = self._index.latest_allocated
        return Stamp(vlsn, self._master_id, vlsn)

    def committed(self, txn: Txn) -> None:
        """Do nothing: no replica has to acknowledge."""
