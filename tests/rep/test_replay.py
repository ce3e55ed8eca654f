"""Streams: their form, reading them, replaying them (R-SYNC-2, R-SYNC-12, R-SYNC-30, je-log-format.md 7.6)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from engine.catalog.name_operations import DatabaseOptions
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.errors import DamageError, FormatError, NotFoundError, RefusedError
from engine.format.codecs import decode_body
from engine.format.entry.ln import LN
from engine.format.entry.ln_content import DatabaseConfig, NameLN, NameOperation
from engine.format.vlsn import NULL_VLSN
from engine.rep.group import read_membership
from engine.rep.replay import Replay
from engine.rep.stream import StreamEntry, StreamReader, entry_at, to_stream
from engine.storage.disk import DiskStorage
from engine.storage.memory import MemoryStorage
from engine.txn.lock_types import LockType
from engine.txn.payload import NAME, Payload
from tests.support.environments.copies import copy_of
from tests.support.environments.oracle import named
from tests.support.environments.workload import Workload, contents
from tests.support.groups.pairs import catch_up, lead, redo
from tests.support.groups.streams import check_index, open_alone, open_replicated, states, visible_stream
from tests.support.waiting import PATIENCE_S


def pair(seed: int, steps: int) -> tuple[Environment, Environment, Workload]:
    master, replica = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    workload = Workload(seed)
    workload.start(master)
    workload.run(master, steps)
    return master, replica, workload


@pytest.mark.parametrize("seed", range(4))
def test_a_replica_becomes_equal_and_stays_so(seed: int) -> None:
    """Entry for entry, through creations, removals, truncations, aborts, checkpoints, recovery on both sides."""
    master, replica, workload = pair(seed, 120)
    for _ in range(3):
        catch_up(master, replica)
        assert contents(replica) == contents(master) == workload.committed
        workload.run(master, 30)
        replica.close()
        replica = open_replicated(replica.engine.storage)
    catch_up(master, replica)
    check_index(replica)
    index = master.engine.vlsn_index
    assert index is not None
    for vlsn in range(1, index.range.last + 1, 5):
        assert entry_at(master.engine, vlsn)[1] == entry_at(replica.engine, vlsn)[1]
    replica.close()
    assert contents(open_replicated(replica.engine.storage)) == workload.committed


def test_a_crash_of_the_replica_between_two_entries_of_a_transaction() -> None:
    """Resurrected transactions go on where they were (R-REC-47): every place of the stream in turn."""
    master, _, workload = pair(5, 12)
    assert master.engine.vlsn_index is not None
    last = master.engine.vlsn_index.range.last
    for vlsn in range(8, last, 7):
        replica = open_replicated(MemoryStorage())
        catch_up(master, replica, up_to=vlsn)
        replica.engine.crash()
        replica = open_replicated(replica.engine.storage)
        assert replica.engine.vlsn_index is not None
        assert replica.engine.vlsn_index.range.last == vlsn
        catch_up(master, replica)
        assert contents(replica) == workload.committed
        check_index(replica)


def test_a_replica_can_become_master() -> None:
    """T-10: VLSNs and ids go on, open transactions of the old master are aborted."""
    master, replica, workload = pair(6, 30)
    txn = master.begin()
    with master.open_database("plain") as db:
        db.put(b"0001", b"never", txn)
    catch_up(master, replica)
    assert txn.id in replica.engine.txns.registered
    lead(replica, 2)
    assert contents(replica) == workload.committed
    workload.run(replica, 30)
    check_index(replica)
    assert replica.begin().id < txn.id
    third = open_replicated(MemoryStorage())
    catch_up(replica, third)
    assert contents(third) == workload.committed


def test_readers_lose_their_locks_to_the_replay() -> None:
    """R-TXN-26."""
    master, replica, _ = pair(7, 5)
    with master.open_database("plain") as db:
        db.put(b"k", b"1")
    catch_up(master, replica)
    with replica.engine.latch:
        state = replica.engine.catalog.by_name("plain")
    assert state is not None
    reader = replica.engine.txns.begin()
    assert replica.engine.records.get(state, b"k", reader, LockType.READ) == b"1"
    with master.open_database("plain") as db:
        db.put(b"k", b"2")
    catch_up(master, replica)
    with pytest.raises(RefusedError, match="a lock was taken away by the replay"):
        reader.check_usable()
    with replica.open_database("plain") as db:
        assert db.get(b"k") == b"2"
        with pytest.raises(RefusedError, match="replication group"):
            db.put(b"k", b"3")


def test_what_does_not_fit_is_refused() -> None:
    master, replica, _ = pair(8, 5)
    replay = catch_up(master, replica)
    before = contents(replica)
    assert master.engine.vlsn_index is not None
    last = master.engine.vlsn_index.range.last
    entries = {v: entry_at(master.engine, v)[1] for v in range(1, last + 1)}
    commit = next(e for e in entries.values() if e.type_number == 17)
    deletion = StreamEntry(last + 1, 31, b"")
    for entry in [
        entries[last], entries[1]._replace(vlsn=last + 2), commit._replace(vlsn=last + 2), deletion,
        StreamEntry(last + 1, 13, b"\0" * 30), StreamEntry(last + 1, 33, b"\xff" * 40), StreamEntry(last + 1, 200, b""),
        StreamEntry(last + 1, 17, commit.body[:-1]), StreamEntry(last + 1, 4, entries[1].body),
    ]:  # fmt: skip
        with pytest.raises((DamageError, FormatError)):
            redo(replay, entry)
    assert contents(replica) == before
    check_index(replica)


def reconfigure(env: Environment, name: str, config: DatabaseConfig, txn: Transaction) -> None:
    """What JE's master logs when a database is opened with other properties: the NameLN again, operation 5."""
    state = env.engine.naming.find(name, txn.inner)
    assert state is not None
    env.engine.naming.configure(state, config)
    payload = Payload(b"", NAME, 0, NameLN(state.id, 0), NameOperation(5, config, None))
    assert env.engine.naming.put_name(name, payload, txn.inner, replaces=True)


def properties(env: Environment, name: str) -> tuple[int, int, bool]:
    """Flags and sizes of nodes as the MapLN has them, and whether nodes have prefixes."""
    state = env.engine.catalog.by_name(name)
    assert state is not None
    assert state.max_entries == state.impl.max_entries
    return state.impl.flags, state.max_entries, state.prefixing


def test_another_configuration_of_a_database() -> None:
    """NameLN operation 5, as JE 18.3.20 logs and replays it: it stays when its transaction aborts."""
    master, replica = open_alone(MemoryStorage()), open_replicated(MemoryStorage())
    master.create_database("users", DatabaseOptions(max_entries=128)).close()
    catch_up(master, replica)
    assert properties(replica, "users") == (0x4, 128, False)
    with master.begin() as txn:
        reconfigure(master, "users", DatabaseConfig(0x14, 64, 0, b"", b"", ()), txn)
    aborted = master.begin()
    reconfigure(master, "users", DatabaseConfig(0x14, 8, 0, b"", b"", ()), aborted)
    aborted.abort()
    with master.open_database("users") as db:
        for number in range(100):
            db.put(b"key/%03d" % number, b"x" * 20)
    catch_up(master, replica)
    for _ in range(2):
        assert properties(replica, "users") == (0x14, 8, True) == properties(master, "users")
        assert states(replica) == states(master)
        replica.engine.crash()
        replica = open_replicated(replica.engine.storage)
    wrong = DatabaseConfig(0x14, 3, 0, b"", b"", ())
    with master.begin() as txn:
        reconfigure(master, "users", wrong, txn)
    with pytest.raises(DamageError, match="impossible configuration"):
        catch_up(master, replica)


def test_the_entry_that_je_logs_for_another_configuration() -> None:
    """Written by JE 18.3.20: ``openDatabase`` with key prefixing and 64 slots in a node, the database being there."""
    record: object = decode_body(5, 17, bytes.fromhex("200101794308eeff2c00888b00057573657273051440000000"))
    assert isinstance(record, LN)
    assert record.key == b"users"
    assert record.content == NameLN(-258, 0)
    assert record.tail == NameOperation(5, DatabaseConfig(0x14, 64, 0, b"", b"", ()), None)


def test_waiting_for_a_vlsn() -> None:
    master, replica, _ = pair(9, 3)
    assert master.engine.vlsn_index is not None
    last = master.engine.vlsn_index.range.last
    replay = Replay(replica.engine)
    assert not replay.await_vlsn(1, 0.01)
    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(replay.await_vlsn(last, PATIENCE_S)))
    waiter.start()
    for entry in StreamReader(master.engine, 1).read():
        redo(replay, entry)
    assert replay.sync() == last
    waiter.join(PATIENCE_S)
    assert found == [True]


def test_reading_from_any_vlsn_beside_the_writer() -> None:
    master, _, workload = pair(10, 40)
    assert master.engine.vlsn_index is not None
    last = master.engine.vlsn_index.range.last
    for vlsn in range(1, last + 1, 9):
        assert [e.vlsn for e in StreamReader(master.engine, vlsn).read()] == list(range(vlsn, last + 1))
    tail = StreamReader(master.engine, last + 1)
    assert list(tail.read()) == []
    workload.run(master, 10)
    assert next(tail.read()).vlsn == last + 1
    for vlsn in (0, last + 100_000, NULL_VLSN):
        with pytest.raises(NotFoundError):
            StreamReader(master.engine, vlsn)


def test_real_logs_have_the_same_form_on_all_nodes() -> None:
    """Three nodes of a group that JE wrote agree at every VLSN that they share."""
    forms: list[dict[int, StreamEntry]] = []
    for node in (1, 2, 3):
        storage = DiskStorage(named(f"je-18.3.20/ha-group/node{node}").path / "env")
        forms.append({v: to_stream(v, e.type_number, e.version, e.body) for v, e in visible_stream(storage).items()})
    shared = forms[0].keys() & forms[1].keys() & forms[2].keys()
    assert len(shared) > 100
    assert all(forms[0][v].agrees(forms[1][v]) and forms[1][v].agrees(forms[2][v]) for v in shared)
    assert not forms[0][3].agrees(forms[0][4]._replace(vlsn=3))


def test_a_stream_that_je_wrote_is_replayed(tmp_path: Path) -> None:
    """Everything that JE's master had logged, from VLSN 1, into an empty environment."""
    env = open_replicated(copy_of(named("je-18.3.20/ha-group/node1"), tmp_path / "env"))
    replica = open_replicated(MemoryStorage())
    catch_up(env, replica)
    check_index(replica)
    assert states(replica) == states(env)
    assert read_membership(replica.engine) == read_membership(env.engine)
    assert states(replica)[1]
    assert len(states(replica)[2]) > 2
