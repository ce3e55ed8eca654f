"""The stream of a group that is played: what comes out is what the group committed, whatever happens on the way."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import JetoolError, NotFoundError, RefusedError, UnsupportedError
from engine.format.codecs import encode_body
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.rep.acks import AckPolicy
from engine.rep.changes.feed import BEGIN, LATEST, LostPositionError, RewrittenError
from engine.rep.changes.position import position_of
from engine.rep.changes.state_file import StateFile
from engine.rep.changes.subscriber import NoMasterError, Quiet, Retraction, StalledError, Subscriber, SubscriberSettings
from engine.rep.changes.transactions import CommittedTransaction, RecordChange
from engine.rep.client.connection import SocketNetwork
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire import feeder as f
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.messages import Message
from tests.rep.master.leaders import leading
from tests.support.groups.group_double import recorded_entries
from tests.support.groups.recordings import HOME
from tests.support.groups.subscribers import DURABLE, FAST, Reader, forked, group_of, operations, with_null_commit


def contents(changes: list[RecordChange]) -> dict[str, dict[str, object]]:
    """Databases as the manifests of the recordings describe them."""
    databases: dict[str, set[tuple[bytes, bytes]]] = {}
    for change in changes:
        assert change.db is not None
        if change.op == "remove_database":
            databases.pop(change.db)
        elif change.op == "rename_database":
            assert change.old_name is not None
            databases[change.db] = databases.pop(change.old_name)
        elif change.op in ("create_database", "truncate_database"):
            databases[change.db] = set()
        else:
            assert change.key is not None
            records = databases[change.db]
            # Of sorted duplicates one data item is deleted, of other databases the record.
            gone = {one for one in records if one[0] == change.key and (change.db != "dups" or one[1] == change.data)}
            records -= gone
            if change.op != "delete":
                records.add((change.key, change.data or b""))
    return {
        name: {
            "count": len(records),
            "sha256": hashlib.sha256(
                "".join(sorted(f"{key.hex()} {data.hex()}\n" for key, data in records)).encode()
            ).hexdigest(),
        }
        for name, records in databases.items()
    }


@pytest.mark.parametrize("scenario", ["database-operations", "join-electable", "large-record"])
def test_changes_give_what_je_had_at_the_end(scenario: str) -> None:
    path = next(path for path in sorted((HOME / scenario).glob("003-Feeder-n1.jsonl*")))
    reader = Reader(group_of(list(recorded_entries(f"{scenario}/{path.name}"))), BEGIN).read()
    manifest = json.loads((HOME / scenario / "manifest.json").read_bytes())
    assert contents(reader.changes) == next(iter(manifest["atEnd"].values()))["databases"]
    assert not any(torn for *_, torn, _ in reader.transactions)


def test_what_comes_out() -> None:
    reader = Reader(group_of(operations()), BEGIN).read()
    words = [(change.vlsn, change.op, change.db) for change in reader.changes if change.op.endswith("_database")]
    assert words[:3] == [
        (17, "create_database", "alpha"),
        (19, "create_database", "beta"),
        (21, "create_database", "dups"),
    ]
    assert words[3:] == [
        (59, "create_database", "tmp"), (63, "rename_database", "tmp2"), (67, "truncate_database", "tmp2"),
        (71, "create_database", "bye"), (75, "remove_database", "bye"),
    ]  # fmt: skip
    by_vlsn = {change.vlsn: change for change in reader.changes}
    assert by_vlsn[23][1:6] == ("insert", -260, "dups", b"d0", b"v0")
    assert by_vlsn[31][1:6] == ("delete", -260, "dups", b"d1", b"v1")
    assert by_vlsn[40][1:6] == ("delete", -258, "alpha", b"gone", None)
    assert by_vlsn[44].expiration < 0 < by_vlsn[46].expiration
    assert [txn for _, txn, _, changes in reader.transactions if len(changes) > 2] == [-35]
    assert reader.position.names[-263].name == "tmp2"


@pytest.mark.parametrize("batch", [1, 1000])
def test_durable_is_the_same_up_to_what_a_majority_has(batch: int) -> None:
    group = group_of(operations())
    group.batch = batch
    fast = Reader(group, BEGIN).read().transactions
    beats = iter(range(5))
    ended: list[bool] = []
    group.quiet = lambda: ended.append(next(beats, None) is None)
    durable = Reader(group, BEGIN, DURABLE)
    for event in durable.subscriber.events():
        if isinstance(event, CommittedTransaction):
            durable.handed_out(event)
        elif any(ended):
            break
    # The last commit says that VLSN 76 is durable.
    assert durable.transactions == [one for one in fast if one[0] <= 76]
    assert fast[-1][0] == 139


@pytest.mark.parametrize("settings", [FAST, DURABLE])
def test_a_cut_at_every_byte_loses_and_repeats_nothing(settings: SubscriberSettings) -> None:
    log = with_null_commit(list(recorded_entries("join-electable/003-Feeder-n1.jsonl")))
    whole = [one for one in Reader(group_of(log), BEGIN).read().transactions if one[3]]
    seen = []
    for at in range(0, sum(len(entry.body) + 25 for entry in log) + 300, 23):
        group = group_of(log)
        group.cut_after = [at, 400 + at % 50]
        reader = Reader(group, BEGIN, settings).read()
        assert [one for one in reader.transactions if one[3]] == whole
        seen.append(len(group.streams))
    assert seen.count(3) > 40


def test_a_new_master_goes_on() -> None:
    log = operations()
    group = group_of(log[:60], log[:58])
    group.batch = 3

    def fail() -> None:
        if group.master == "n1":
            group.master = ""
            group.down.add("n1")
            group.nodes[1].entries = log

    def elect() -> None:
        if not group.master and len(reader.notices) == 1:
            group.master = "n2"

    group.quiet, group.on_connect = fail, elect
    reader = Reader(group, BEGIN)
    reader.read(lambda: group.master == "n2")
    assert reader.transactions == Reader(group_of(log), BEGIN).read().transactions
    assert len(reader.notices) == 1
    assert "goes on" in reader.notices[0]


@pytest.mark.parametrize("shorter", [False, True])
def test_a_fork_is_a_retraction(shorter: bool) -> None:
    """Fast: the new master has other commits after VLSN 60, or ends at VLSN 64; names are taken back, too."""
    log = operations()
    other = forked(log, 60)
    group = group_of(log[:76], other[:64] if shorter else other)
    group.batch = 1000
    reader = Reader(group, BEGIN).read()
    group.master = "n2"
    again = Reader(group, position_of(json.loads(json.dumps(reader.position.as_json())))).read()
    assert again.retractions == [Retraction(60, 76, 8)]
    names = {change.vlsn: (change.op, change.db, change.old_name) for change in again.changes}
    assert names[63] == ("rename_database", "tmp2", "tmp")
    assert [one[0] for one in again.transactions][:2] == [62, 64]
    assert all(point.master_id == 2 for point in again.position.commits if point.vlsn > 60)


def test_durable_never_takes_back() -> None:
    log = operations()
    group = group_of(log, forked(log, 60))
    group.master = "n1"
    reader = Reader(group, BEGIN, DURABLE)
    for event in reader.subscriber.events():
        if isinstance(event, CommittedTransaction) and event.point.vlsn >= 74:
            break
    group.master = "n2"
    with pytest.raises(RewrittenError, match="another commit at VLSN 74"):
        Reader(group, reader.position, DURABLE).read()
    # A node that calls itself master and ends before is not the master for long.
    group.nodes[1].entries = log[:70]
    with pytest.raises(NoMasterError, match="ends before the last durable commit"):
        Reader(group, reader.position, DURABLE._replace(patience_s=0.02)).read()


@pytest.mark.parametrize("stop_after", range(1, 60, 7))
def test_a_stream_goes_on_from_its_file(tmp_path: Path, stop_after: int) -> None:
    group = group_of(operations())
    whole = Reader(group, BEGIN).read().transactions
    state = StateFile.at(str(tmp_path / "state"))
    got: list[tuple[int, int, bool, list[RecordChange]]] = []
    for _ in range(100):
        found = state.read()
        reader = Reader(group, found[0] if found is not None else BEGIN)
        count = 0
        events = reader.subscriber.events()
        for event in events:
            if isinstance(event, Quiet) and event.caught_up:
                break
            if isinstance(event, CommittedTransaction):
                got.append((event.point.vlsn, event.point.txn_id, event.torn, list(event.changes())))
                count += 1
                if count == stop_after:
                    break
        events.close()
        state.write(reader.position)
        if count < stop_after:
            break
    assert got == whole
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_an_open_transaction_is_read_again() -> None:
    """Transaction -36 begins at VLSN 54; at the commit of VLSN 51 nothing is open, at that of 56 it is."""
    log = operations()
    commit = next(entry for entry in log if entry.vlsn == 56)
    end = commit.record()
    assert isinstance(end, TxnEnd)
    # It commits at VLSN 58 instead of aborting.
    log[57] = commit._replace(vlsn=58, body=encode_body(COMMIT, commit.log_version, end._replace(id=-36)))
    group = group_of(log)
    reader = Reader(group, BEGIN)
    for event in reader.subscriber.events():
        if isinstance(event, CommittedTransaction) and event.point.vlsn == 56:
            break
    assert reader.position.restart == 54
    again = Reader(group, reader.position).read()
    assert [(vlsn, torn, [change.vlsn for change in changes]) for vlsn, _, torn, changes in again.transactions][:1] == [
        (58, False, [54, 57])
    ]
    asked = [message.vlsn for message in group.streams[-1].messages if isinstance(message, f.EntryRequest)]
    assert asked == [56, 54]


def test_torn_transactions_are_marked() -> None:
    log = operations()
    found = Reader(group_of(log), 55).read().transactions
    # Of transaction -35 only the record of VLSN 55 came; its log names the one before.
    assert [(vlsn, torn) for vlsn, _, torn, _ in found][:2] == [(56, True), (60, False)]
    assert not any(torn for _, _, torn, _ in found[2:])


def test_now_and_names() -> None:
    log = operations()
    group = group_of(log[:132])
    group.batch = 1000
    more = iter([log[132:]])
    group.quiet = lambda: group.nodes[0].entries.extend(next(more, []))
    reader = Reader(group, LATEST).read(lambda: group.nodes[0].last == 139)
    assert [(vlsn, torn, [(c.db, c.db_id) for c in changes]) for vlsn, _, torn, changes in reader.transactions] == [
        (139, False, [(None, -258)])
    ]


def test_places_to_begin_at() -> None:
    log = operations()
    group = group_of(log[20:])
    assert Reader(group, BEGIN).read().position.torn.start == 21
    assert Reader(group, 140).read().transactions == []
    with pytest.raises(LostPositionError, match="the first is 21"):
        Reader(group, 5).read()
    with pytest.raises(NotFoundError, match="not come to VLSN 200"):
        Reader(group, 200).read()
    group = group_of(log)
    group.long_history = True
    assert Reader(group, BEGIN).read().transactions == Reader(group_of(log), BEGIN).read().transactions
    assert len(group.streams) == 2


def test_older_masters() -> None:
    log = operations()
    changes = Reader(group_of(log), BEGIN).read().changes
    for protocol in (6, 7, 8):
        group = group_of(log)
        group.protocol = protocol
        reader = Reader(group, BEGIN).read()
        assert reader.changes == changes
        assert Reader(group, reader.position).read().transactions == []
        assert Reader(group, LATEST).read().position.torn.start == 140
    group.protocol = 5
    with pytest.raises(UnsupportedError, match="protocol of the stream"):
        Reader(group, BEGIN).read()


@pytest.mark.parametrize(
    ("asked", "answer", "error", "words"),
    [
        (f.ReplicaProtocolVersion, f.DuplicateNodeReject(text="in use"), NoMasterError, "in use"),
        (f.ReplicaJEVersions, f.JEVersionsReject(text="Unsupported JE version"), UnsupportedError, "Unsupported"),
        (f.NodeGroupInfo, f.NodeGroupInfoReject(text="wrong host"), PeerError, "wrong host"),
        (f.EntryRequest, f.EntryNotFound(), PeerError, "has no stream"),
    ],
)
def test_refusals(asked: type, answer: Message, error: type[JetoolError], words: str) -> None:
    group = group_of(operations())
    group.refuse = lambda message: answer if isinstance(message, asked) else None
    with pytest.raises(error, match=words):
        Reader(group, 5, FAST._replace(patience_s=0.01)).read()


def test_other_groups() -> None:
    group = group_of(operations())
    position = Reader(group, BEGIN).read().position
    position.uuid = (1, 2)
    with pytest.raises(PeerError, match="another uuid"):
        Reader(group, position).read()
    position.group = "OTHER"
    with pytest.raises(RefusedError, match="another group"):
        Reader(group, position).read()
    group.je_version = "26.1.0"
    with pytest.raises(UnsupportedError, match="never tried"):
        Reader(group, BEGIN).read()
    group.down = {"n1"}
    with pytest.raises(NotFoundError, match="no node answers"):
        Reader(group, BEGIN).read()


def test_a_position_that_is_gone() -> None:
    log = operations()
    position = Reader(group_of(log[:60]), BEGIN).read().position
    with pytest.raises(LostPositionError, match="does not have VLSN 60 any more"):
        Reader(group_of(log[80:]), position).read()


def test_a_shutdown_is_answered() -> None:
    group = group_of(operations())

    def shut_down() -> None:
        stream = group.streams[-1]
        stream.say(f.ShutdownRequest(time_ms=5))
        group.quiet = lambda: None

    group.quiet = shut_down
    reader = Reader(group, BEGIN).read(lambda: len(group.streams) > 1)
    assert any(isinstance(message, f.ShutdownResponse) for message in group.streams[0].messages)
    assert len({vlsn for vlsn, *_ in reader.transactions}) == len(reader.transactions)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda entry: entry._replace(vlsn=71), lambda entry: entry._replace(vlsn=69),
        lambda entry: entry._replace(body=b"\2\0"), lambda entry: entry._replace(body=b""),
    ],
)  # fmt: skip
def test_a_stream_that_makes_no_sense(spoil: Callable[[WireEntry], WireEntry]) -> None:
    log = operations()
    log[69] = spoil(log[69])
    with pytest.raises(PeerError, match="makes no sense"):
        Reader(group_of(log), BEGIN).read()


def test_large_transactions_leave_memory() -> None:
    log = operations()
    whole = Reader(group_of(log), BEGIN).read().transactions
    for memory in (1, 500, 3000):
        assert Reader(group_of(log), BEGIN, FAST._replace(memory_bytes=memory)).read().transactions == whole


def test_a_slow_reader_leaves() -> None:
    """It is at the end once; then the group grows faster than it reads, until that is too much."""
    log = operations()
    group = group_of(log[:110])
    group.batch = 1
    reader = Reader(group, BEGIN, FAST._replace(hold_bytes=5000))
    group.quiet = lambda: setattr(group.nodes[0], "entries", log)
    group.beats = True
    with pytest.raises(StalledError, match="slower than the group"):
        reader.read(lambda: False)
    assert reader.position.commits[-1].vlsn == 76


def test_a_clock_that_is_off_is_told() -> None:
    group = group_of(operations())
    group.clock_ms = -90_000
    assert "-90000 ms ahead" in Reader(group, BEGIN).read().notices[0]


def test_a_group_that_does_not_say_what_is_durable() -> None:
    log = []
    for entry in operations():
        record = entry.record()
        if isinstance(record, TxnEnd):
            entry = entry._replace(body=encode_body(entry.type_number, entry.log_version, record._replace(dtvlsn=0)))
        log.append(entry)
    with pytest.raises(RefusedError, match="do not say what is durable"):
        Reader(group_of(log), BEGIN, DURABLE._replace(durable_wait_s=0.0)).read()
    assert len(Reader(group_of(log), BEGIN).read().changes) == 30


def test_disconnections_are_not_for_ever() -> None:
    group = group_of(operations())
    group.cut_after = [0] * 1000
    with pytest.raises(NoMasterError, match="no master for") as caught:
        Reader(group, BEGIN, FAST._replace(patience_s=0.05)).read()
    assert isinstance(caught.value.__cause__, DisconnectedError)
    assert caught.value.exit_code == 7


def test_a_range_that_is_discarded_is_one_change() -> None:
    """Without it whoever follows would keep the records for ever; removing a database writes a task, too."""
    with leading(policy=AckPolicy.NONE) as master:
        env = master.environment
        env.create_database("gone").close()
        with env.create_database("x") as db:
            db.put(b"k", b"v")
        env.discard_extinct(["x"], begin=b"a", end=b"l")
        env.remove_database("gone")
        subscriber = Subscriber(SocketNetwork(), [master.config.listen], FAST, BEGIN, lambda *_: None)
        found: list[RecordChange] = []
        events = subscriber.events()
        for event in events:
            if isinstance(event, CommittedTransaction):
                found += event.changes()
            elif isinstance(event, Quiet) and event.caught_up:
                break
        events.close()
    assert [(one.op, one.db, one.key, one.data) for one in found] == [
        ("create_database", "gone", None, None),
        ("create_database", "x", None, None),
        ("insert", "x", b"k", b"v"),
        ("discard", "x", b"a", b"l"),
        ("remove_database", "gone", None, None),
    ]
