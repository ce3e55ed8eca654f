"""The replica's side of its master: syncup, rollback or restore, then the stream.

Syncup repeats until the stream can begin: a hard recovery or a network restore is followed by another search, since
both change the log. Entries are replayed as they come; when no more are waiting, or enough time has passed, everything
is fsynced once and acknowledged.

The master says first of which terms its stream is; what it was told by a master of an earlier term is of no use.

Example: TERMS 5@41. ASK 120, beyond the master's range -> ALTERNATE 100, which differs; ASK 96 -> equal. T = 96: soft
rollback to 96, START 97, ENTRIES 97..140, fsync, ACK 140.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Final, NamedTuple

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.opening import WriterLock
from engine.errors import FormatError
from engine.events import Listener
from engine.format.codecs import decode_body
from engine.format.versions import WRITTEN_VERSION
from engine.rep import messages
from engine.rep.frames import Channel, DisconnectedError, Frame
from engine.rep.messages import Message, nonsense
from engine.rep.replay import Replay
from engine.rep.restore import install_files, receive_files
from engine.rep.rollback import SoftRollback, hard_recover
from engine.rep.syncup import (
    Action,
    Answer,
    AnswerKind,
    SyncupPlan,
    check_rollback_limit,
    find_plan,
    refuse_without_restore,
)
from engine.rep.terms import NO_TERMS, Terms, decode_terms
from engine.storage.base import Storage

_ACK_INTERVAL_S: Final = 0.05
_SILENCE: Final = 15
_KINDS: Final = {Message.ENTRY: AnswerKind.ENTRY, Message.ALTERNATE: AnswerKind.ALTERNATE}


class SessionEnd(Enum):
    """Why a session has ended without an error."""

    PROMOTED = "promoted"
    STOPPED = "stopped"


class JoinLimits(NamedTuple):
    """What a replica may do to join.

    Attributes:
        rollback_limit: durable commits that a hard recovery may give up.
        restore: replace its files by the master's when nothing else helps.
        heartbeat_s: the master's longest silence.
    """

    rollback_limit: int
    restore: bool
    heartbeat_s: float


class ReplicaSession:
    """One connection with a master.

    Arguments:
        env: detached.
        channel: past the handshake.
        limits: what is allowed.
        listener: hears the steps of rollback and restore.

    Attributes:
        env: of that directory, opened again where syncup needs that; None when a network restore was cut off.
        replay: once the stream has begun.
    """

    def __init__(self, env: Environment, channel: Channel, limits: JoinLimits, listener: Listener) -> None:
        self.env: Environment | None = env
        self._channel = channel
        self._limits = limits
        self._listener = listener
        self.replay: Replay | None = None

    def sync_up(self, terms: Terms = NO_TERMS, agreed: Callable[[], None] = lambda: None) -> Replay:
        """Find the matchpoint, get there, and ask for the stream.

        Arguments:
            terms: of the master's stream.
            agreed: called when the log is the beginning of the master's, before the stream is asked for.

        Raises:
            RollbackProhibitedError: too much would be given up. RefusedError: a network restore is needed and not
                allowed. PeerError, DamageError, StorageError: see the parts.
        """
        env = self.env
        # It ends: each round cuts the log further back, or replaces it.
        while True:
            assert env is not None
            plan = find_plan(env.engine, self._asker(), terms)
            if plan.action is Action.SOFT_ROLLBACK and plan.matchpoint is not None:
                SoftRollback(env.engine, plan.matchpoint, self._listener).run()
            if plan.action in (Action.START, Action.SOFT_ROLLBACK):
                break
            env = self.env = self._begin_again(env, plan)
        self.replay = Replay(env.engine)
        # Before START: nothing is acknowledged to this master until its terms are on disk.
        agreed()
        self._channel.send(Message.START, messages.encode_vlsn(plan.start))
        return self.replay

    def follow(self, stopping: Callable[[], bool]) -> SessionEnd:
        """Replay and acknowledge until the master is gone, or makes this node the master.

        Raises:
            DisconnectedError: it has gone, or ends the session. PeerError: it says what makes no sense.
            DamageError: the stream does not fit this node. StorageError: the log cannot be written.
        """
        replay = self.replay
        assert replay is not None
        synced = time.monotonic()
        while not stopping():
            frame = self._channel.receive(self._limits.heartbeat_s * _SILENCE)
            try:
                promoted = self._hear(replay, frame)
            except FormatError as error:
                raise nonsense(self._channel.peer, error) from error
            now = time.monotonic()
            if promoted:
                # As the master this node answers for all that it was sent.
                replay.sync()
                return SessionEnd.PROMOTED
            # One fsync for all that has come, but not too late: commits on the master wait for it.
            if not self._channel.has_frame() or now - synced > _ACK_INTERVAL_S:
                synced = now
                self._channel.send(Message.ACK, messages.encode_vlsn(replay.sync()))
        return SessionEnd.STOPPED

    def _hear(self, replay: Replay, frame: Frame) -> bool:
        """Do what one message asks for; True when this node shall be the master."""
        if frame.type == Message.ENTRIES:
            for entry in messages.decode_entries(frame.payload):
                replay.apply(entry)
        elif frame.type == Message.HEARTBEAT:
            beat = messages.decode_heartbeat(frame.payload)
            replay.master_vlsn = beat.last_vlsn
            replay.dtvlsn = max(replay.dtvlsn, beat.dtvlsn)
        elif frame.type == Message.FAILED:
            raise DisconnectedError(f"{self._channel.peer} ends the stream", found=messages.decode_text(frame.payload))
        elif frame.type != Message.PROMOTE:
            raise nonsense(self._channel.peer, f"message {frame.type}")
        return frame.type == Message.PROMOTE

    def _begin_again(self, env: Environment, plan: SyncupPlan) -> Environment:
        """Cut the log or replace it, and open what is then there."""
        engine = env.engine
        if plan.action is Action.HARD_RECOVERY and plan.matchpoint is not None:
            check_rollback_limit(engine, plan, self._limits.rollback_limit)
            return hard_recover(engine, plan.matchpoint, self._listener)
        if not self._limits.restore:
            refuse_without_restore(plan, env.home)
        # A checkpoint would be of no use: the files are about to be replaced.
        engine.crash()
        # When the restore is cut off there is no environment to go back to.
        self.env = None
        restore(engine.storage, self._channel, self._listener)
        return Environment(engine.storage, engine.config, self._listener)

    def _asker(self) -> Callable[[int], Answer]:
        first = True

        def ask(vlsn: int) -> Answer:
            nonlocal first
            self._channel.send(Message.ASK, messages.encode_vlsn(vlsn, first))
            first = False
            frame = self._channel.receive(self._limits.heartbeat_s * _SILENCE)
            if frame.type == Message.NOT_FOUND:
                return Answer(AnswerKind.NOT_FOUND)
            if frame.type == Message.FAILED:
                raise DisconnectedError(
                    f"{self._channel.peer} ends the syncup", found=messages.decode_text(frame.payload)
                )
            if frame.type not in _KINDS:
                raise nonsense(self._channel.peer, f"message {frame.type}")
            try:
                entry = messages.decode_entry(frame.payload)
                # Decoded here, where nonsense of the master is not mistaken for damage of this log.
                decode_body(entry.type_number, WRITTEN_VERSION, entry.body)
                return Answer(_KINDS[Message(frame.type)], entry)
            except FormatError as error:
                raise nonsense(self._channel.peer, error) from error

        return ask


def hear_terms(channel: Channel, heartbeat_s: float) -> Terms:
    """The first message of a master.

    Raises:
        DisconnectedError: it has gone, or does not feed this node. PeerError: it says what makes no sense.
    """
    frame = channel.receive(heartbeat_s * _SILENCE)
    if frame.type == Message.FAILED:
        raise DisconnectedError(f"{channel.peer} does not feed this node", found=messages.decode_text(frame.payload))
    if frame.type != Message.TERMS:
        raise nonsense(channel.peer, f"message {frame.type}")
    try:
        return decode_terms(frame.payload)
    except FormatError as error:
        raise nonsense(channel.peer, error) from error


def restore(storage: Storage, channel: Channel, listener: Listener) -> None:
    """Replace the files of an environment that is closed, or cannot be opened, by the master's.

    Raises:
        RefusedError: somebody else has it open. PeerError, StorageError: see ``engine.rep.restore``.
    """
    # Nothing is open here, so the writer's lock is not held yet (R-LOG-28).
    lock = WriterLock(storage)
    try:
        receive_files(storage, channel, listener)
        install_files(storage, int(time.time() * 1000), listener)
    finally:
        lock.release()


def replica_config(config: EnvironmentConfig) -> EnvironmentConfig:
    """How a node opens its environment. One that meets damage is marked: its next start restores it from the group."""
    return replace(config, create=True, replicated=True, vlsn_cache_size=1024, mark_damage=True)
