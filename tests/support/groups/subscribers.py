"""Groups that are played for subscribers, and a reader of their stream."""

from __future__ import annotations

from collections.abc import Callable

from engine.format.codecs import encode_body
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.rep.changes.position import Position
from engine.rep.changes.subscriber import Retraction, Subscriber, SubscriberSettings
from engine.rep.changes.transactions import CommittedTransaction, RecordChange
from engine.rep.wire.entries import WireEntry
from tests.support.groups.group_double import HOST, GroupDouble, NodeDouble, recorded_entries

OPERATIONS = "database-operations/003-Feeder-n1.jsonl.gz"

DURABLE = SubscriberSettings(patience_s=5, first_pause_s=0.001, longest_pause_s=0.002)

FAST = DURABLE._replace(durable=False)


def group_of(*logs: list[WireEntry]) -> GroupDouble:
    nodes = [NodeDouble(f"n{at + 1}", 7001 + at, log) for at, log in enumerate(logs)]
    return GroupDouble(nodes, "n1")


def operations() -> list[WireEntry]:
    return list(recorded_entries(OPERATIONS))


class Reader:
    """Reads a stream until it is quiet, and keeps what it handed out."""

    def __init__(self, group: GroupDouble, begin: Position | str | int, settings: SubscriberSettings = FAST) -> None:
        self.notices: list[str] = []
        self.subscriber = Subscriber(
            group,
            [(HOST, node.port) for node in group.nodes],
            settings,
            begin,
            lambda *said: self.notices.append(str(said)),
        )
        self.transactions: list[tuple[int, int, bool, list[RecordChange]]] = []
        self.retractions: list[Retraction] = []

    def read(self, until: Callable[[], bool] = lambda: True) -> Reader:
        events = self.subscriber.events()
        for event in events:
            if isinstance(event, CommittedTransaction):
                self.handed_out(event)
            elif isinstance(event, Retraction):
                self.retractions.append(event)
            elif event.caught_up and until():
                break
        events.close()
        return self

    def handed_out(self, event: CommittedTransaction) -> None:
        self.transactions.append((event.point.vlsn, event.point.txn_id, event.torn, list(event.changes())))

    @property
    def changes(self) -> list[RecordChange]:
        return [change for *_, changes in self.transactions for change in changes]

    @property
    def position(self) -> Position:
        assert self.subscriber.position is not None
        return self.subscriber.position


def with_null_commit(log: list[WireEntry]) -> list[WireEntry]:
    """A log and what a master adds when it is idle: a Commit of its own that says what is durable."""
    last = next(entry for entry in reversed(log) if entry.type_number == COMMIT)
    end = last.record()
    assert isinstance(end, TxnEnd)
    null = end._replace(id=end.id - 100, dtvlsn=last.vlsn)
    return [*log, last._replace(vlsn=log[-1].vlsn + 1, body=encode_body(COMMIT, last.log_version, null))]


def forked(log: list[WireEntry], after: int) -> list[WireEntry]:
    """The history of another master from a VLSN on: the same transactions, committed by node 2."""
    found = []
    for entry in log:
        record = entry.record()
        if entry.vlsn > after and isinstance(record, TxnEnd):
            record = record._replace(master_id=2, dtvlsn=min(record.dtvlsn, after))
            entry = entry._replace(body=encode_body(entry.type_number, entry.log_version, record))
        found.append(entry)
    return found
