"""Copies of the log files of a node: JE's recorded clients, our own, and whoever asks for what there is not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.db.environment import Environment
from engine.errors import NotFoundError, RefusedError
from engine.events import SILENT
from engine.format.entry_types import IMMUTABLE_FILE
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.rep.client.connection import SocketNetwork
from engine.rep.client.log_files import RemoteLog, new_client_id
from engine.rep.member.network_restore import NetworkRestore
from engine.rep.peers import PeerError
from engine.rep.services.copies import EngineFiles, FileList, ListedFile, LogFileServer
from engine.rep.services.port import Port
from engine.rep.wire import log_file_feeder as c
from engine.rep.wire.log_file_feeder import LOG_FILES, SERVICE
from engine.rep.wire.messages import Message
from engine.rep.wire.services import encode_service_request
from engine.storage.memory import MemoryStorage
from engine.vlsn.vlsn_range import EMPTY_RANGE, VLSNRange
from tests.rep.services.scripted import recorded, replayed, served
from tests.support.groups.nodes import free_ports
from tests.support.groups.playing import files_of, opened, operations
from tests.support.groups.recordings import HOME, Played
from tests.support.waiting import eventually

RECORDED = sorted((HOME / "restore").glob("*-LogFileFeeder-n1.jsonl"))


@dataclass
class Files:
    """The files of a node as a recording has them: a list whose copies are counted."""

    content: dict[str, tuple[bytes, int]]
    released: list[str] = field(default_factory=list)
    digests: dict[str, bytes] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.content)

    def open(self, name: str) -> ListedFile:
        if name not in self.content:
            raise NotFoundError("not in the list")
        data, modified_ms = self.content[name]
        storage = MemoryStorage()
        file = storage.open_rw(name, create=True)
        file.write(0, data)
        return ListedFile(file, len(data), modified_ms)

    def check(self) -> None:
        """Nothing changes here."""

    def passed(self, name: str) -> None:
        self.released.append(name)

    def release(self) -> None:
        self.released.append("all")


@dataclass
class Host:
    """A node."""

    begin: Callable[[], FileList]
    load: int = 0
    found: VLSNRange = EMPTY_RANGE

    def node_id(self) -> int:
        return 1

    def feeders(self) -> int:
        return self.load

    def stream_range(self) -> VLSNRange:
        return self.found

    def begin_copy(self) -> FileList:
        return self.begin()


def files_sent(played: list[Played]) -> dict[str, tuple[bytes, int]]:
    """The files that a recorded node listed and, where it sent them, their bytes."""
    found: dict[str, tuple[bytes, int]] = {}
    name = ""
    for one in played:
        what: Any = one.what
        if isinstance(what, c.FileListResp):
            found |= dict.fromkeys(what.names, (b"", 0))
        elif isinstance(what, c.FileInfoResp):
            found[what.name] = (bytes(what.length), what.modified_ms)
        elif isinstance(what, c.FileStart):
            name, data = what.name, bytearray(what.length)
            at = 0
            found[name] = (bytes(data), what.modified_ms)
        elif isinstance(what, bytes):
            data[at : at + len(what)] = what
            at += len(what)
            found[name] = (bytes(data), found[name][1])
    return found


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_it_serves_as_a_node_of_je(path: Path) -> None:
    """Nodes that restore, in one piece or after a cut, and a script: message for message, and every byte of a file."""
    recording, theirs = recorded(path)
    files = Files(files_sent(theirs))
    # Those that the node knew from an earlier connection.
    answers = [one.what for one in theirs if isinstance(one.what, c.FileInfoResp)]
    files.digests = {said.name: said.digest for said in answers if said.digest}
    info = next(played.what for played in theirs if isinstance(played.what, c.FeederInfoResp))
    found = VLSNRange(info.first_vlsn, info.last_vlsn, info.last_vlsn, info.last_vlsn)
    server = LogFileServer(Host(lambda: files, info.load, found))
    mine = replayed(lambda: server.services, recording, 5)

    sent, answered = (b"".join(one.raw for one in played) for played in (theirs, mine))
    # A client that broke off did not read on.
    assert answered[: len(sent)] == sent


def connected(*asked: Message, client_id: int = -7) -> bytes:
    """What a client says that asks for these."""
    hello = c.ClientVersion(version=4, client_id=client_id), c.FeederInfoReq(), c.FileListReq()
    return encode_service_request(SERVICE) + b"".join(
        LOG_FILES.encode(one, 2, client=True) for one in (*hello, *asked)
    )  # fmt: skip


def test_a_copy_that_breaks_off_leaves_its_list_to_the_client_of_the_same_id() -> None:
    made: list[Files] = []

    def begin() -> Files:
        made.append(Files({"00000000.jdb": (b"0" * 500, 1), "00000001.jdb": (b"1" * 300, 2)}))
        return made[-1]

    server = LogFileServer(Host(begin), lease_s=30)
    served(lambda: server.services, connected(c.FileReq(name="00000000.jdb")), 50)
    served(lambda: server.services, connected(c.FileReq(name="00000001.jdb")), 50)
    assert len(made) == 1
    assert made[0].released == []
    asked = (c.FileReq(name="00000000.jdb"), c.FileReq(name="00000001.jdb"), c.Done())
    served(lambda: server.services, connected(*asked), 50)
    assert made[0].released == ["00000000.jdb", "all"]
    # After it is done, or when the time is over, the next one has a list of its own.
    server = LogFileServer(Host(begin), lease_s=0.01)
    served(lambda: server.services, connected(), 50)
    eventually(lambda: made[1].released == ["all"])
    served(lambda: server.services, connected(c.Done()), 50)
    assert len(made) == 3


def test_whoever_begins_copies_and_goes_keeps_only_so_many_files() -> None:
    """Each list keeps the files of its moment from being deleted, and began a new log file."""
    made: list[Files] = []

    def begin() -> Files:
        made.append(Files({"00000000.jdb": (b"", 1)}))
        return made[-1]

    server = LogFileServer(Host(begin), lease_s=30)
    for client_id in range(10):
        served(lambda: server.services, connected(client_id=client_id), 50)
    assert [files.released for files in made] == [["all"]] * 2 + [[]] * 8
    server.end_all()
    assert [files.released for files in made] == [["all"]] * 10


@pytest.mark.parametrize(
    "asked", [c.FileReq(name="../../secret"), c.FileInfoReq(name="0000000f.jdb", with_digest=True), c.FeederInfoReq()],
    ids=repr,
)  # fmt: skip
def test_what_there_is_not_ends_the_connection_and_nothing_else(asked: Message) -> None:
    files = Files({"00000000.jdb": (b"x" * 10, 1)})
    server = LogFileServer(Host(lambda: files))
    answer = served(lambda: server.services, connected(asked), 9)
    assert answer.endswith(LOG_FILES.encode(c.FileListResp(names=files.names), 2, client=False))
    assert files.released == ["all"]
    assert len(served(lambda: server.services, connected(c.FileReq(name="00000000.jdb"), c.Done()), 9)) > len(answer)


@given(st.binary(max_size=60))
def test_whatever_is_said_to_it(data: bytes) -> None:
    server = LogFileServer(Host(lambda: Files({})))
    answer = served(lambda: server.services, encode_service_request(SERVICE) + data, 7)
    assert len(answer) < 80


def copy_of(env: Environment) -> dict[str, bytes]:
    """A copy of an open environment over the network, by our own client."""
    (listen,) = free_ports(1)
    server = LogFileServer(Host(lambda: EngineFiles(env.engine, lambda: env.engine)))
    port = Port(listen, lambda: server.services)
    port.start()
    copied = {}
    try:
        with RemoteLog(SocketNetwork(), listen, new_client_id(), 10) as log:
            assert log.version == 2
            log.info()
            files = [log.file(name, digest=True) for name in log.names()]
            for file in files:
                copied[file.name] = b"".join(log.read(file.name))
                assert hashlib.sha1(copied[file.name], usedforsecurity=False).digest() == file.digest
            log.done()
    finally:
        port.close()
        server.end_all()
    return copied


def node_storage() -> MemoryStorage:
    """The directory of a node of a group."""
    storage = MemoryStorage()
    for name, data in files_of(operations()).items():
        storage.open_rw(name, create=True).write(0, data)
    return storage


def test_a_copy_of_an_open_environment_is_whole_and_its_log_goes_on() -> None:
    storage = node_storage()
    env = opened(storage)
    copied = copy_of(env)
    last = max(copied)
    target = MemoryStorage()
    for name, data in copied.items():
        target.open_rw(name, create=True).write(0, data)
    *_, entry = scan_log(target, list_log_files(target), marker=True).entries()
    assert isinstance(entry, LogEntry)
    assert entry.type_number == IMMUTABLE_FILE
    names = set(env.database_names())
    env.engine.checkpoint(force=True)
    # What is logged after the copy began stands in a file of its own.
    assert max(name for name in storage.names() if name.endswith(".jdb")) > last
    assert storage.open(last).read(0, len(copied[last]) + 1) == copied[last]
    env.close()
    restored = opened(target)
    assert {*restored.database_names()} == names
    restored.close()


def test_a_damaged_file_is_not_handed_out() -> None:
    storage = node_storage()
    env = opened(storage)
    storage.open_rw(min(name for name in storage.names() if name.endswith(".jdb"))).write(200, b"\xff" * 8)
    with pytest.raises(PeerError):
        copy_of(env)
    env.engine.crash()


def test_a_copy_ends_when_the_log_is_another_one() -> None:
    """T-11: it was cut, or replaced, by a rollback."""
    env = opened(node_storage())
    current: list[Any] = [env.engine]
    files = EngineFiles(env.engine, lambda: current[0])
    files.open(files.names[0]).file.close()
    current[0] = None
    with pytest.raises(RefusedError, match="cut or replaced"):
        files.open(files.names[0])
    server = LogFileServer(Host(lambda: files))
    with server.log_changes():
        assert len(served(lambda: server.services, connected(), 9)) < 60
    files.release()
    env.close()


def test_our_network_restore_takes_it() -> None:
    env = opened(node_storage())
    (listen,) = free_ports(1)
    server = LogFileServer(Host(lambda: EngineFiles(env.engine, lambda: env.engine)))
    port = Port(listen, lambda: server.services)
    port.start()
    target = MemoryStorage()
    NetworkRestore(target, SocketNetwork(), 10, SILENT, lambda: False).run(listen)
    port.close()
    restored = opened(target)
    assert {*restored.database_names()} == {*env.database_names()}
    restored.close()
    env.close()
