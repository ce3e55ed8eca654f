"""Acknowledgements: when a commit of the master may return, and which VLSN a majority has (DTVLSN).

=================  ========================================================================
policy             a commit returns when
=================  ========================================================================
NONE               it is durable on the master
SIMPLE_MAJORITY    and on replicas, so that with the master they are a majority
ALL                and on every electable member
=================  ========================================================================

* Before a commit is logged, enough replicas must be connected; otherwise the commit is refused and the transaction
  stays open.
* Once logged, a commit is not undone. If the acknowledgements do not arrive in time, the caller gets an error: it is
  unknown whether the commit would survive the loss of the master.
* In a group of two data nodes an arbiter may acknowledge in place of the missing one (``engine.rep.arbiter_acks``).
* The DTVLSN is the highest VLSN that a majority has acknowledged; each Commit carries it, and syncup on another node
  reads from it which commits were durable (R-SYNC-5). A node that reports up to where it has synced its log, as JE 24.1
  and later do, counts with that position.
* Since log version 22 the DTVLSN rises only when a majority has an entry of this master: elections prefer the later
  term, so until then entries of earlier masters may still be lost.

Example, three members, SIMPLE_MAJORITY: one acknowledgement is needed. Replicas have acknowledged 40 and 37: with the
master that is a majority at 40, so the DTVLSN is 40.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from engine.errors import RefusedError, plural
from engine.format.vlsn import NULL_VLSN
from engine.rep.arbiter_acks import ARBITRATED, ArbiterAcks
from engine.txn.manager import Stamp
from engine.txn.txn import Txn
from engine.vlsn.index import VLSNIndex


class AckPolicy(Enum):
    """Number of replicas that have to acknowledge a commit."""

    NONE = "none"
    SIMPLE_MAJORITY = "simple-majority"
    ALL = "all"


class InsufficientReplicasError(RefusedError):
    """Too few replicas are connected; the commit was not logged."""

    kind = "insufficient_replicas"


class InsufficientAcksError(RefusedError):
    """Too few replicas have acknowledged in time; the commit is in the master's log."""

    kind = "insufficient_acks"


class GroupGate:
    """The gate of a master with replicas.

    Arguments:
        index: of the master.
        node_id: the master's.
        policy: for all commits.
        timeout_s: longest wait for replicas, and again for acknowledgements.
        durable: the DTVLSN in the log; it never falls below this.
        inherited: the last VLSN of earlier masters, which a majority has to pass before the DTVLSN rises.

    Attributes:
        timeout_s: may be changed at any time; it holds for waits that begin later.
        electable: number of electable members with a log, this node included; arbiters are not counted.
        voters: number of members that vote: the electable ones and the arbiter.
    """

    def __init__(
        self, index: VLSNIndex, node_id: int, policy: AckPolicy, timeout_s: float, durable: int, inherited: int = 0
    ) -> None:
        self._index = index
        self._node_id = node_id
        self._policy = policy
        self._of_thread = threading.local()
        self.timeout_s = timeout_s
        self._changed = threading.Condition()
        self._durable = durable
        self._inherited = inherited
        self._acked: dict[str, int] = {}
        # By replica, the VLSN that it has reported without a request; entries up to it may not be on its disk.
        self._reached: dict[str, int] = {}
        # By replica, the VLSN up to which it has reported its log to be synced.
        self._synced: dict[str, int] = {}
        self._awaited: set[int] = set()
        self._connected: set[str] = set()
        self._closed: str | None = None
        self._held = False
        self._under_way = 0
        self._arbiter = ArbiterAcks(self._changed)
        self.electable = self.voters = 1

    # What feeders say.

    def connected(self, node: str) -> None:
        """A replica has synced up and is being fed."""
        with self._changed:
            self._connected.add(node)
            self._acked.setdefault(node, NULL_VLSN)
            self._changed.notify_all()

    def disconnected(self, node: str) -> None:
        """A replica is disconnected; its acknowledgements remain valid."""
        with self._changed:
            self._connected.discard(node)
            self._changed.notify_all()

    def acked(self, node: str, vlsn: int) -> None:
        """A replica has everything up to a VLSN on disk. A VLSN after the end of the log is ignored."""
        with self._changed:
            # A VLSN beyond the end of the log would count as an acknowledgement of commits that are logged only later.
            if vlsn <= self._index.latest_allocated and vlsn > self._acked.get(node, NULL_VLSN):
                self._acked[node] = vlsn
                self._changed.notify_all()

    def reached(self, node: str, vlsn: int) -> None:
        """A replica reports its position; that counts for the DTVLSN, but not for waiting commits."""
        with self._changed:
            if vlsn <= self._index.latest_allocated and vlsn > self._reached.get(node, NULL_VLSN):
                self._reached[node] = vlsn

    def synced(self, node: str, vlsn: int) -> None:
        """A replica reports up to which VLSN its log is on disk; for the DTVLSN nothing else of it counts then."""
        with self._changed:
            if vlsn <= self._index.latest_allocated:
                self._synced[node] = max(vlsn, self._synced.get(node, NULL_VLSN))

    def forget(self, node: str) -> None:
        """A replica rolls back or starts over: entries that it had acknowledged may be lost."""
        with self._changed:
            self._acked.pop(node, None)
            self._reached.pop(node, None)
            self._synced.pop(node, None)

    def arbiter_connected(self, name: str) -> ArbiterAcks:
        """An arbiter is connected; return the commits for it."""
        with self._changed:
            self._arbiter.connected(name)
            return self._arbiter

    def arbiter_disconnected(self, name: str) -> None:
        """The arbiter is disconnected."""
        with self._changed:
            self._arbiter.disconnected(name)

    def arbiter_acked(self, vlsn: int) -> None:
        """The arbiter has kept a VLSN."""
        with self._changed:
            if self._arbiter.acked < vlsn <= self._index.latest_allocated:
                self._arbiter.acked = vlsn
                self._changed.notify_all()

    def hold(self, timeout_s: float) -> None:
        """Block new commits during a transfer of mastership, and wait for commits that have begun.

        Raises:
            RefusedError: a commit is not logged in time. That commit would be missing in the next master's log, and be
                lost. New commits are allowed again.
        """
        with self._changed:
            # Block before waiting: otherwise new commits could begin during the wait.
            self._held = True
            if not self._changed.wait_for(lambda: not self._under_way, timeout_s):
                self.go_on()
                raise RefusedError(
                    f"a commit is still being written after {timeout_s:g} s",
                    consequence="this node is still the master",
                    hint="ask again",
                )

    def go_on(self) -> None:
        """Let commits begin again."""
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def close(self, why: str) -> None:
        """Refuse commits from now on."""
        with self._changed:
            self._closed = self._closed or why
            self._changed.notify_all()

    @property
    def has_majority(self) -> bool:
        """Whether enough replicas, or the arbiter, are connected for a majority of the votes."""
        return len(self._connected) + (self._arbiter.name is not None) >= self.voters // 2

    def progress(self) -> dict[str, tuple[bool, int]]:
        """For each replica, whether it is connected and the VLSN that it has acknowledged."""
        with self._changed:
            return {node: (node in self._connected, vlsn) for node, vlsn in sorted(self._acked.items())}

    def await_acked(self, node: str, vlsn: int, timeout_s: float) -> bool:
        """Wait until at least one replica has everything up to a VLSN."""
        with self._changed:
            return self._changed.wait_for(lambda: self._acked.get(node, NULL_VLSN) >= vlsn, timeout_s)

    # The gate.

    @property
    def _policy_here(self) -> AckPolicy:
        found: AckPolicy = getattr(self._of_thread, "policy", self._policy)
        return found

    @property
    def _counts_arbiter(self) -> bool:
        """Whether an arbiter's acknowledgement counts for commits of the calling thread."""
        return self.electable == ARBITRATED and self._policy_here is AckPolicy.SIMPLE_MAJORITY

    @property
    def _has_arbiter(self) -> bool:
        return self._counts_arbiter and self._arbiter.name is not None

    @property
    def needed(self) -> int:
        """Number of acknowledgements needed by a commit of the calling thread."""
        policy = self._policy_here
        if policy is AckPolicy.NONE:
            return 0
        return self.electable - 1 if policy is AckPolicy.ALL else self.electable // 2

    @contextmanager
    def under(self, policy: AckPolicy) -> Iterator[None]:
        """A block in which commits of this thread use the given policy; for changes of the group's own database."""
        self._of_thread.policy = policy
        try:
            yield
        finally:
            del self._of_thread.policy

    @property
    def dtvlsn(self) -> int:
        """The highest VLSN that a majority has; 0 while unknown."""
        needed, least = self.electable // 2, self._durable
        if needed == 0:
            # Alone this node is the majority.
            return self._index.range.last
        with self._changed:
            found = [
                self._synced.get(node, max(vlsn, self._reached.get(node, NULL_VLSN)))
                for node, vlsn in self._acked.items()
            ]
            acked = sorted([*found, *([self._arbiter.acked] if self.electable == ARBITRATED else [])], reverse=True)
        # The master has all VLSNs, so the needed-th highest acknowledgement completes a majority.
        reached = acked[needed - 1] if len(acked) >= needed else NULL_VLSN
        return max(reached, least) if reached > self._inherited else least

    def committing(self) -> None:
        """Wait until enough replicas are connected, or the arbiter in place of the missing one.

        Raises:
            InsufficientReplicasError: too few were connected within the timeout; nothing was logged.
            RefusedError: this node is no longer the master.
        """
        deadline = time.monotonic() + self.timeout_s
        with self._changed:
            while self._closed is None and (self._held or (self._lacks_replicas and not self._has_arbiter)):
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise self._not_begun()
            if self._closed is not None:
                raise RefusedError(
                    f"this node is no longer the master: {self._closed}", consequence="nothing was committed"
                )
            # Count the commit under the lock that ``hold`` takes, so that no commit slips past a transfer.
            self._under_way += 1

    @property
    def _lacks_replicas(self) -> bool:
        return len(self._connected) < self.needed

    def _not_begun(self) -> InsufficientReplicasError:
        consequence = "nothing was committed; the transaction is still open"
        if self._held:
            return InsufficientReplicasError(
                "another node is to become the master", consequence=consequence, hint="commit again, there or here"
            )
        return InsufficientReplicasError(
            "too few replicas are connected for a commit",
            expected=f"{self.needed} (policy {self._policy.value}, {plural(self.electable, 'electable member')})",
            found=", ".join(sorted(self._connected)) or "none",
            consequence=consequence,
            hint="commit again when replicas are back, or abort",
        )

    def stamp(self, *, awaited: bool) -> Stamp:
        """The values for a Commit or Abort that is being logged; called under the log write latch."""
        vlsn = self._index.latest_allocated
        # Add the VLSN before a feeder can see the entry, since feeders request acknowledgements for awaited VLSNs.
        if awaited and self.needed:
            self._awaited.add(vlsn)
        durable = vlsn if self.electable < 2 else self.dtvlsn
        # The DTVLSN never falls: replicas would treat that as damage.
        self._durable = durable = max(self._durable, durable)
        return Stamp(vlsn, self._node_id, durable)

    @property
    def stamped(self) -> int:
        """The DTVLSN in the last Commit or Abort of the log, even if it was logged in an earlier term."""
        return self._durable

    def is_awaited(self, vlsn: int) -> bool:
        """Whether a commit waits for acknowledgements of this VLSN."""
        return vlsn in self._awaited

    def committed(self, txn: Txn) -> None:
        """Wait for the acknowledgements of a commit.

        Raises:
            InsufficientAcksError: the acknowledgements did not arrive in time.
        """
        vlsn = txn.end_vlsn
        with self._changed:
            # The commit is logged and has its VLSN, so ``hold`` need not wait for its acknowledgements.
            self._under_way -= 1
            self._changed.notify_all()
        # When the commit was logged it needed no acknowledgement; a member that joined later was not asked for one.
        if vlsn not in self._awaited:
            return
        try:
            self._await_acks(vlsn)
        finally:
            self._awaited.discard(vlsn)

    def _await_acks(self, vlsn: int) -> None:
        needed, deadline, asked = self.needed, time.monotonic() + self.timeout_s, False
        with self._changed:
            while (found := self._found(vlsn)) < needed:
                left = deadline - time.monotonic()
                if self._closed is None and not asked and (left <= 0 or self._lacks_replicas) and self._has_arbiter:
                    self._arbiter.ask(vlsn)
                    deadline, asked = time.monotonic() + self.timeout_s, True
                    continue
                if left <= 0 or self._closed is not None:
                    raise InsufficientAcksError(
                        f"the commit at VLSN {vlsn} was not acknowledged by enough replicas",
                        expected=str(needed),
                        found=str(found),
                        consequence="it is in the log of this node, and is lost if a node without it becomes master",
                        hint="read it again when the replicas are back",
                    )
                self._changed.wait(left)

    def _found(self, vlsn: int) -> int:
        """Number of acknowledgements of a commit of the calling thread."""
        # Disconnected replicas count too: acknowledged entries are on their disks.
        found = sum(acked >= vlsn for acked in self._acked.values())
        return found + (self._counts_arbiter and self._arbiter.acked >= vlsn)
