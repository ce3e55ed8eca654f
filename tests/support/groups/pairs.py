"""Masters and replicas in one process, without a network: the stream is carried over by calls."""

from __future__ import annotations

from engine.db.environment import Environment
from engine.db.stream import AloneGate
from engine.events import SILENT, Listener
from engine.format.codecs import decode_body
from engine.format.versions import WRITTEN_VERSION
from engine.rep.replay import Replay, StreamRecord
from engine.rep.rollback import SoftRollback, hard_recover
from engine.rep.stream import StreamEntry, StreamReader, entry_at
from engine.rep.syncup import Action, Answer, AnswerKind, SyncupPlan, find_plan


def lead(env: Environment, node_id: int) -> None:
    """Make a node the master, whatever the group says."""
    assert env.engine.vlsn_index is not None
    env.engine.lead(AloneGate(env.engine.vlsn_index, node_id))


def catch_up(master: Environment, replica: Environment, *, up_to: int | None = None) -> Replay:
    """Replay what the replica lacks, as far as ``up_to``; asserts nothing."""
    replay = Replay(replica.engine)
    reader = StreamReader(master.engine, replay.next_vlsn)
    for entry in reader.read():
        if up_to is not None and entry.vlsn > up_to:
            break
        redo(replay, entry)
    reader.close()
    replay.sync()
    return replay


def redo(replay: Replay, entry: StreamEntry) -> None:
    """Replay an entry as a connection hands it over."""
    record = decode_body(entry.type_number, WRITTEN_VERSION, entry.body)
    replay.redo(StreamRecord(entry.vlsn, entry.type_number, record))


def plan_for(master: Environment, replica: Environment) -> SyncupPlan:
    """What syncup finds."""
    has, asked = master.engine.stream_range, list[int]()

    def answer(vlsn: int) -> Answer:
        asked.append(vlsn)
        if has.contains(vlsn):
            return Answer(AnswerKind.ENTRY, entry_at(master.engine, vlsn)[1])
        if asked == [vlsn] and vlsn > has.last and has.last_sync > 0:
            return Answer(AnswerKind.ALTERNATE, entry_at(master.engine, has.last_sync)[1])
        return Answer(AnswerKind.NOT_FOUND)

    return find_plan(replica.engine, answer)


def join(
    master: Environment, replica: Environment, listener: Listener = SILENT
) -> tuple[Environment, list[SyncupPlan]]:
    """Sync up and replay; returns the replica, perhaps opened again, and the plans on the way."""
    plans = []
    while True:
        plan = plan_for(master, replica)
        plans.append(plan)
        assert plan.action is not Action.NETWORK_RESTORE, plan
        if plan.action is Action.HARD_RECOVERY:
            assert plan.matchpoint is not None
            replica = hard_recover(replica.engine, plan.matchpoint)
            continue
        if plan.action is Action.SOFT_ROLLBACK:
            assert plan.matchpoint is not None
            SoftRollback(replica.engine, plan.matchpoint, listener).run()
        catch_up(master, replica)
        return replica, plans
