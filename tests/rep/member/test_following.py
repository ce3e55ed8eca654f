"""A node of ours in a group of JE that is played: what it has at the end is what the group has, whatever happens."""

from __future__ import annotations

import json

import pytest

from engine.errors import RefusedError, StorageError
from engine.format.entry_types import ABORT
from engine.log.marker import MARKER
from engine.rep.rollback import RollbackProhibitedError
from engine.rep.status import Role
from engine.rep.wire import feeder as f
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.messages import Message
from engine.storage.memory import MemoryStorage
from tests.support.groups.copy_server import CopyServer
from tests.support.groups.playing import (
    described,
    failure_of,
    files_of,
    followed,
    group_of,
    joined,
    null_transaction,
    opened,
    operations,
)
from tests.support.groups.recordings import HOME, Player, read
from tests.support.groups.streams import check_index
from tests.support.waiting import PATIENCE_S, eventually

# Between the LNs of a transaction of the recording, and after its Commit.
INSIDE = next(e.vlsn for e, after in zip(operations()[30:], operations()[31:], strict=False) if e.type_number == 33
              and after.type_number == 33)  # fmt: skip
COMMITTED = next(e.vlsn for e in operations()[INSIDE:] if e.type_number == 17)


def manifest(scenario: str) -> dict[str, object]:
    found = json.loads((HOME / scenario / "manifest.json").read_bytes())
    databases: dict[str, object] = next(iter(found["atEnd"].values()))["databases"]
    return databases


def check(storage: MemoryStorage, log: list[WireEntry]) -> None:
    """What a node has that has followed this log from its beginning."""
    expected = MemoryStorage()
    followed(group_of(log), expected)
    env, other = opened(storage), opened(expected)
    check_index(env)
    assert env.engine.stream_range == other.engine.stream_range
    assert described(env) == described(other)
    env.close()
    other.close()


def test_an_empty_directory_follows_from_the_beginning() -> None:
    """Creations, a rename, a truncation, a removal, duplicates, an abort: the records that JE reported at the end."""
    group, storage = group_of(operations()), MemoryStorage()
    followed(group, storage)
    env = opened(storage)
    check_index(env)
    assert described(env) == manifest("database-operations")
    env.close()


def test_it_says_what_a_secondary_of_je_says() -> None:
    """Message for message, names, addresses, clocks and positions aside."""
    theirs = [
        played.what
        for played in Player(read(HOME / "join-secondary" / "003-Feeder-n1.jsonl")).play()
        if played.client and isinstance(played.what, Message)
    ]
    group = group_of(operations())
    followed(group, MemoryStorage())
    mine = group.streams[0].messages

    def shape(messages: list[Message]) -> list[object]:
        found: list[object] = []
        for said in messages:
            if isinstance(said, f.NodeGroupInfo):
                found.append((said.group, said.uuid_high, said.uuid_low, said.node.id, said.node_type, said.je_version))
            elif isinstance(said, f.ReplicaJEVersions | f.EntryRequest | f.StartStream):
                found.append(said)
            elif type(said) not in found:
                found.append(type(said))
        return found

    assert shape(mine) == shape(theirs)


@pytest.mark.parametrize("gone", [INSIDE, COMMITTED, 64])
def test_a_crash_at_any_place_and_another_master(gone: int) -> None:
    """Killed in the middle of a transaction, after a commit, in a rename; then the other node is the master."""
    log, storage = operations(), MemoryStorage()
    group = group_of(log[:gone], log)
    with joined(group, storage) as node:
        assert node.await_vlsn(gone, PATIENCE_S), node.failure
        assert node.role is Role.REPLICA
        env = node.environment
        assert env is not None
        env.engine.crash()
    group.master = "n2"
    followed(group, storage)
    check(storage, log)


def test_cuts_and_a_new_master_while_it_runs() -> None:
    log, storage = operations(), MemoryStorage()
    group = group_of(log[:-6], log, cut_after=[70, 400, 2000, 2500])
    with joined(group, storage) as node:
        assert node.await_vlsn(log[-7].vlsn, PATIENCE_S), node.failure
        group.master = ""
        eventually(lambda: node.role is Role.UNKNOWN and "no master" in str(node.problem))
        group.master = "n2"
        assert node.await_vlsn(log[-1].vlsn, PATIENCE_S), node.failure
        assert node.status().master == "localhost:7002"
    assert len(group.streams) == 6
    check(storage, log)


def test_open_work_that_the_group_does_not_have_is_rolled_back_in_the_log() -> None:
    mine, storage = operations()[:INSIDE], MemoryStorage()
    followed(group_of(mine), storage)
    before = next(e.vlsn for e in reversed(mine) if e.type_number == 17)
    # A new master of JE aborts what it alone has had open since an earlier term.
    theirs = [*mine[:before], null_transaction(before + 1), null_transaction(before + 2, -9001, ABORT)]
    followed(group_of(theirs), storage)
    check(storage, theirs)


def test_commits_that_the_group_does_not_have_are_given_up_within_the_limit() -> None:
    # Three commits, of which the last one says that the first one is durable.
    commits = [e.vlsn for e in operations() if e.type_number == 17]
    at = commits.index(COMMITTED)
    mine, before, storage = operations()[: commits[at + 2]], commits[at - 1], MemoryStorage()
    followed(group_of(mine), storage)
    group = group_of([*mine[:before], null_transaction(before + 1), null_transaction(before + 2, -9001)])
    assert isinstance(failure_of(group, storage, rollback_limit=0), RollbackProhibitedError)
    # The other electable members do not say that they follow it.
    group.nodes += group_of([], group.nodes[0].entries, mine).nodes[1:]
    group.down = {"n2", "n3"}
    with joined(group, storage) as node:
        eventually(lambda: "followed by a majority" in str(node.problem))
    group.down = {"n3"}
    followed(group, storage)
    check(storage, group.nodes[0].entries)


def test_copies_of_files() -> None:
    """Into an empty directory, where there is much to copy; cut on the way; where the master's stream begins late."""
    log, storage = operations(), MemoryStorage()
    files = CopyServer(files_of(log[:COMMITTED]), cut_after=[3000])
    followed(group_of(log), storage, files, most_replayed=10)
    assert len(files.connections) == 2
    check(storage, log)
    late = group_of(log[COMMITTED - 1 :])
    replica = MemoryStorage()
    followed(group_of(log[:20]), replica)
    error = failure_of(late, replica, files)
    assert "nothing in common" in str(error)
    assert isinstance(error, RefusedError)
    assert "--restore" in (error.hint or "")
    followed(late, replica, files, restore=True)
    assert "replaced" in replica.names()
    check(replica, log)


def test_no_room_for_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    log, storage = operations(), MemoryStorage()
    files = CopyServer(files_of(log))
    monkeypatch.setattr(MemoryStorage, "free_bytes", lambda _: 1 << 20)
    error = failure_of(group_of(log), storage, files, most_replayed=10)
    assert isinstance(error, StorageError)
    assert "there is no room" in str(error)
    assert storage.stat(MARKER) is None
    monkeypatch.undo()
    followed(group_of(log), storage)
    check(storage, log)
