"""The environment of a node that follows: it is created or copied, opened, cut, replaced, and reopened here.

* An empty directory is filled with a copy of a node's log files, preferably a replica's. If these files are small, the
  stream is replayed from VLSN 1 instead.
* A new log has the version of the master's log, as the files have that are copied.
* Commits are given up only for a master that a majority of the electable members follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from engine.db.environment import Environment
from engine.errors import UsageError, plural
from engine.events import Listener
from engine.format.entry.group_db import GroupNode
from engine.format.entry.txn_end import FIRST_TERM, PRE_TERM
from engine.format.versions import MASTER_TERM, NEWEST_VERSION
from engine.log.marker import MARKER
from engine.rep.client.connection import Address, Network
from engine.rep.client.group_state import GroupLook, NodeLook
from engine.rep.client.handshake import NEW_NODE
from engine.rep.client.hot_copy import choose
from engine.rep.group import ELECTABLE, VOTERS, Membership, committed_members, form_group, may_form, read_membership
from engine.rep.master.promises import NO_PROMISES, PromiseFile, Promises
from engine.rep.member.config import JoinConfig
from engine.rep.member.network_restore import NetworkRestore
from engine.rep.peers import DisconnectedError
from engine.rep.restore import holds_log, replica_config
from engine.rep.rollback import hard_recover
from engine.rep.stream import last_end
from engine.rep.syncup import Action, SyncupPlan, check_rollback_limit, refuse_without_restore
from engine.storage.base import Storage
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange

_FOLLOWING: Final = ("MASTER", "REPLICA")


class Home:
    """The environment.

    Arguments:
        storage: the directory of the environment.
        config: how the node joins.
        network: opens connections to nodes that are copied.
        listener: receives progress of the steps of recovery, rollback and restore.
        stopping: returns whether to abandon a copy.

    Attributes:
        env: the environment; replaced by another object after a rollback or restore; None until it is open.
        dtvlsn: the highest DTVLSN in Commits and Aborts of the log, except those being replayed.
        master_term: the term in the last of these: ``PRE_TERM`` after an entry of a master without terms, so that
            elections compare by DTVLSN again.
    """

    def __init__(
        self, storage: Storage, config: JoinConfig, network: Network, listener: Listener, stopping: Callable[[], bool]
    ) -> None:
        self._storage = storage
        self._config = config
        self._network = network
        self._listener = listener
        self._promises = PromiseFile(storage)
        self._restore = NetworkRestore(storage, network, config.timeout_s, listener, stopping)
        self._membership: Membership | None = None
        self.env: Environment | None = None
        self.dtvlsn = self.master_term = 0
        self._new_version = config.environment.log_version

    @property
    def is_empty(self) -> bool:
        """Whether there is no log, and no unfinished network restore."""
        return not holds_log(self._storage) and self._storage.stat(MARKER) is None

    @property
    def has_no_group(self) -> bool:
        """Whether the environment has nothing of a group."""
        return self.is_empty or (self.env is not None and may_form(self.env.engine, self._config.name))

    @property
    def root(self) -> str:
        """The directory."""
        return self._storage.root

    @property
    def stream_range(self) -> VLSNRange:
        """The part of the stream in the environment."""
        env = self.env
        return env.engine.stream_range if env is not None else EMPTY_RANGE

    @property
    def log_version(self) -> int:
        """The version of the log, or of the log that ``open`` would create."""
        return self.env.engine.log_version if self.env is not None else self._new_version

    def members(self) -> Membership | None:
        """The group as it was when its database was first read; name and UUID never change."""
        if self._membership is None and self.env is not None:
            self._membership = read_membership(self.env.engine)
        return self._membership

    def voters(self) -> list[Address]:
        """Addresses of the members that vote, as currently recorded in the environment."""
        members = read_membership(self.env.engine) if self.env is not None else None
        return [(node.host or "", node.port) for node in members.voters] if members is not None else []

    def own_record(self) -> tuple[Membership, GroupNode] | None:
        """The current group, and the record of this node in it; None if it is not an electable member."""
        env, config = self.env, self._config
        members = committed_members(env.engine) if env is not None else None
        mine = members.node(config.name) if members is not None else None
        if members is None or mine is None or mine.removed or mine.type != ELECTABLE:
            return None
        return (members, mine) if (mine.host, mine.port) == config.listen else None

    def recorded_id(self) -> int:
        """The id of this member in its own log, also of a record that is not confirmed; -1 without a record.

        A node says this id to a master, as JE does. A SECONDARY has no record, and gets an id with each connection.
        """
        members = committed_members(self.env.engine) if self.env is not None and self._config.votes else None
        mine = members.node(self._config.name) if members is not None else None
        return mine.id if mine is not None and not mine.removed else NEW_NODE

    def open_if_there(self) -> None:
        """Open the environment, if it is complete.

        Raises:
            JetoolError: as ``open``.
        """
        # An interrupted network restore left its marker: nothing can be opened before it is complete.
        if holds_log(self._storage) and self._storage.stat(MARKER) is None:
            self.open()

    def open(self) -> None:
        """Open the environment, or create an empty one.

        Raises:
            JetoolError: as ``Environment``. UsageError: the environment is not replicated.
        """
        config = replace(self._config.environment, log_version=self._new_version)
        env = Environment(self._storage, replica_config(config), self._listener)
        if not env.replicated:
            env.close()
            raise UsageError("the environment is not replicated", file=self._storage.root)
        self._opened(env)

    def _opened(self, env: Environment) -> None:
        end = last_end(env.engine)
        self.dtvlsn = max(end.dtvlsn, 0) if end is not None else 0
        self.master_term = (end.master_term or PRE_TERM) if end is not None else FIRST_TERM
        self._new_version = env.engine.log_version
        self.env = env

    def promises(self) -> Promises:
        """The promises of the member whose environment this is, kept since log version 22."""
        return self._promises.read() if self.log_version >= MASTER_TERM else NO_PROMISES

    def keep(self, promises: Promises) -> None:
        """Keep promises for the time after a restart."""
        if self.log_version >= MASTER_TERM:
            self._promises.write(promises)

    def note_end(self, dtvlsn: int, master_term: int) -> None:
        """Note the highest DTVLSN and the last term of entries that were replayed; 0: none."""
        self.dtvlsn, self.master_term = max(self.dtvlsn, dtvlsn), master_term or self.master_term

    def form(self, group: str) -> None:
        """Make a new group whose only member is this node, if the environment has no group."""
        if self.env is None:
            self.open()
        assert self.env is not None
        form_group(self.env, group, self._config.name, *self._config.listen)

    def reopen(self) -> None:
        """Recover the environment as after a crash: transactions left open by a master stay open."""
        env, self.env = self.env, None
        assert env is not None
        # The master may have requested acknowledgements without a sync, so acknowledged entries may be unsynced.
        env.sync()
        env.engine.crash()
        self.open()

    def close(self) -> None:
        """Close it."""
        env, self.env = self.env, None
        if env is not None:
            index = env.engine.vlsn_index
            if index is not None:
                index.close(flush=False)
            env.close()

    def begin(self, found: GroupLook, master: NodeLook, admitted: Callable[[], None]) -> None:
        """Get the first environment: a copy if the logs are large or a copy was interrupted, otherwise a new one.

        Arguments:
            admitted: called before anything is copied; raises an error if the master refuses this node.
        """
        said = master.said
        if said is not None:
            self._new_version = min(max(self._new_version, said.log_version), NEWEST_VERSION)
        worth = said is not None and said.commit_vlsn > self._config.most_replayed
        if worth or self._storage.stat(MARKER) is not None:
            admitted()
            self._copy(found)
        self.open()

    def begin_again(self, plan: SyncupPlan, found: GroupLook, master: NodeLook) -> None:
        """Cut or replace the log, and open the result.

        Raises:
            RefusedError: the configuration does not allow it. DisconnectedError: it is not certain that a majority
                follows the master.
        """
        assert self.env is not None
        engine = self.env.engine
        if plan.action is Action.HARD_RECOVERY and plan.matchpoint is not None:
            check_rollback_limit(engine, plan, self._config.rollback_limit)
            self._confirm(found, master)
            self.env = None
            self._opened(hard_recover(engine, plan.matchpoint, self._listener))
            return
        # Without any part of the stream there is nothing to lose.
        if not self._config.restore and not engine.stream_range.is_empty:
            refuse_without_restore(plan, self._storage.root)
        self._confirm(found, master)
        # A checkpoint would be useless: the files are about to be replaced.
        engine.crash()
        self.env = None
        self._copy(found)
        self.open()

    def _copy(self, found: GroupLook) -> None:
        config = self._config
        there = tuple(node for node in found.nodes if node.said is not None)
        # In a mixed group the log keeps its version while a node has files of that version or an earlier one.
        fit = tuple(node for node in there if node.said is not None and node.said.log_version <= self.log_version)
        node = choose(
            self._network,
            found._replace(nodes=fit or there),
            None,
            config.timeout_s,
            allow_master=True,
            force=config.force,
        )
        self._restore.run(node.address)

    def _confirm(self, found: GroupLook, master: NodeLook) -> None:
        """Check that a majority of the electable members follows the master, before commits are given up for it.

        Raises:
            DisconnectedError: no majority follows the master, or not yet.
        """
        voters = [node for node in found.nodes if node.member is not None and node.member.type in VOTERS]
        followers = [
            node.name
            for node in voters
            if node.said is not None and node.said.state in _FOLLOWING and node.said.master == master.name
        ]
        # This node counts as a follower if it votes, since it is about to follow the master.
        if self._config.votes and self._config.name in (node.name for node in voters):
            followers.append(self._config.name)
        if 2 * len(followers) <= len(voters):
            raise DisconnectedError(
                f"{master.name} is not known to be followed by a majority",
                expected=f"more than half of {plural(len(voters), 'electable member')}",
                found=str(len(followers)),
                consequence="this node gives up nothing of its log for it, and waits",
            )
