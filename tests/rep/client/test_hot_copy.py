"""Hot copies: from recorded nodes, and from one that cuts, lies and changes."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest

from engine.backup.manifest_builder import Origin
from engine.backup.repository import Repository
from engine.errors import JetoolError, NotFoundError, RefusedError, StorageError, UnsupportedError
from engine.rep.client.call import Call
from engine.rep.client.group_state import GroupLook, NodeLook
from engine.rep.client.hot_copy import CopyResult, CutError, HotCopy, choose
from engine.rep.client.log_files import RemoteLog, new_client_id
from engine.rep.peers import DisconnectedError, PeerError
from engine.rep.wire import log_file_feeder as c
from engine.rep.wire.messages import Message
from engine.rep.wire.node_state import NodeStateResponse
from engine.storage.disk import DiskStorage
from engine.storage.throttle import Throttle
from tests.support.environments.backups import contents
from tests.support.groups.copy_server import CopyServer, changing
from tests.support.groups.networks import RecordedNetwork, recordings
from tests.support.groups.recordings import Player, Recording
from tests.support.logs.golden_logs import GOLDEN

HERE = ("localhost", 5001)
ORIGIN = Origin("localhost:5001", "n1", 1_700_000_000_000)
FILES = {f"{number:08x}.jdb": random.Random(number).randbytes(3000 + 700 * number) for number in range(5)}


class Steps:
    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int]] = []

    def step(self, name: str, done: int, total: int) -> None:
        self.seen.append((name, done, total))


def copy(server: Any, place: Path, retries: int = 0) -> CopyResult:
    made = HotCopy(Repository(DiskStorage(str(place))), Steps(), Throttle(None), first_pause_s=0.0)
    return made.run(server, HERE, 5, retries, lambda _: None, ORIGIN)[0]


def stored(place: Path) -> list[int]:
    """Numbers of the log files that are stored, whether a backup needs them or not."""
    return sorted(int(path.name[:8], 16) for path in (place / "files").glob("*.jdb"))


@pytest.mark.parametrize("version", [2, 4])
def test_a_copy(version: int, tmp_path: Path) -> None:
    server = CopyServer(FILES, version)
    copied = copy(server, tmp_path / "copy")
    assert contents(tmp_path / "copy") == FILES
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["backups", "files", "lock"]
    assert (copied.version, len(copied.files), copied.size_bytes) == (version, 5, sum(map(len, FILES.values())))
    assert (copied.first_vlsn, copied.last_vlsn, copied.kept_files, copied.attempts) == (1, 100, 0, 1)
    assert all(connection.closed for connection in server.connections)
    assert isinstance(server.connections[-1].messages[-1], c.Done)


def test_a_node_of_25_3_that_closes_on_version_2(tmp_path: Path) -> None:
    server = CopyServer(FILES, version=4, lowest=3)
    assert copy(server, tmp_path / "copy").version == 4


def test_a_node_that_grants_a_connection_before_it_knows_the_service(tmp_path: Path) -> None:
    """One of 25.3 does so now and then."""
    copied = copy(CopyServer(FILES, version=4, late=2), tmp_path / "copy")
    assert (copied.version, copied.attempts) == (4, 1)


def test_a_node_that_closes_on_version_4(tmp_path: Path) -> None:
    """Then it is asked in version 2, and never in 3."""
    server = CopyServer(FILES, version=2)
    answers = iter([True])
    inner = server.connect

    def connect(address: Any, deadline: float) -> Any:
        connection = inner(address, deadline)
        if next(answers, False):
            connection.end_after(1)
        return connection

    server.connect = connect  # type: ignore[method-assign]
    assert copy(server, tmp_path / "copy").version == 2
    offered = [m.version for one in server.connections for m in one.messages if isinstance(m, c.ClientVersion)]
    assert offered == [4, 2]


def test_version_3_is_refused_before_anything_is_begun(tmp_path: Path) -> None:
    server = CopyServer(FILES, version=3)
    with pytest.raises(PeerError, match="does not speak"):
        copy(server, tmp_path / "copy")
    assert [type(message) for message in server.connections[0].messages] == [c.ClientVersion]


@pytest.mark.parametrize("version", [2, 4])
def test_cut_anywhere_it_goes_on(version: int, tmp_path: Path) -> None:
    """Every attempt gets a little further; what has come whole is not asked for again."""
    total = sum(map(len, FILES.values()))
    for seed in range(12):
        chance = random.Random(seed)
        cuts = [chance.randrange(1, total + 800) for _ in range(6)]
        server = CopyServer(FILES, version, cut_after=list(cuts))
        place = tmp_path / f"copy-{seed}"
        copied = copy(server, place, retries=10)
        assert contents(place) == FILES, (seed, cuts)
        # What was fetched whole is asked for once; one that was cut is asked for again.
        assert len(server.asked) <= len(FILES) + len(cuts)
        assert copied.attempts > 1
        ids = {m.client_id for one in server.connections for m in one.messages if isinstance(m, c.ClientVersion)}
        assert len(ids) == 1


def test_a_later_run_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "copy"
    server = CopyServer(FILES, cut_after=[9_000])
    with pytest.raises(CutError) as caught:
        copy(server, place)
    assert caught.value.exit_code == 7
    assert contents(place) == {}
    assert stored(place) == [0, 1]
    copied = copy(server, place)
    assert (contents(place), copied.kept_files) == (FILES, 2)
    ids = [m.client_id for one in server.connections for m in one.messages if isinstance(m, c.ClientVersion)]
    assert ids[0] == ids[1] < 0


def test_what_changed_in_between_is_fetched_again(tmp_path: Path) -> None:
    """The lease has run out: a rollback has marked entries, a file was deleted, one is new."""
    place = tmp_path / "copy"
    with pytest.raises(CutError):
        copy(CopyServer(FILES, cut_after=[16_000]), place)
    now = dict(FILES)
    now["00000001.jdb"] = b"x" + now["00000001.jdb"][1:]
    del now["00000000.jdb"]
    now["00000005.jdb"] = b"new"
    copied = copy(CopyServer(now), place)
    assert contents(place) == now
    assert copied.kept_files == 1


def test_a_state_that_cannot_be_read(tmp_path: Path) -> None:
    place = tmp_path / "copy"
    with pytest.raises(CutError):
        copy(CopyServer(FILES, cut_after=[9_000]), place)
    for text in ("", "{", "[]", '{"client_id": 5}', '{"client_id": "x"}', '{"client_id": -99999999999}'):
        (place / "copy.json").write_text(text)
        with pytest.raises(CutError):
            copy(CopyServer(FILES, cut_after=[200]), place)
        assert json.loads((place / "copy.json").read_text())["client_id"] < 0
    copy(CopyServer(FILES), place)
    assert contents(place) == FILES


def test_files_in_subdirectories(tmp_path: Path) -> None:
    files = {f"data00{1 + number % 2}/{number:08x}.jdb": data for number, data in enumerate(FILES.values())}
    place = tmp_path / "copy"
    with pytest.raises(CutError):
        copy(CopyServer(files, cut_after=[9_000]), place)
    copy(CopyServer(files), place)
    assert contents(place) == files


@pytest.mark.parametrize("name", [
    "../00000000.jdb", "/etc/passwd", "00000000.jdb/..", "a.jdb", "7fffffff.jdb", "data001/../0.jdb", "", "je.lck",
    "00000000.JDB", "data001/data001/00000000.jdb", "00000000.jdb\0", "00000000.jdb\n", "data0001/00000000.jdb",
])  # fmt: skip
def test_names_that_lead_elsewhere(name: str, tmp_path: Path) -> None:
    server = CopyServer({"00000000.jdb": b"x", "00000001.jdb": b"y"})
    server.spoil = lambda message: (
        message  # the text would not be sent by a table of ours
        if not isinstance(message, c.FileListResp) or not name.isprintable()
        else dataclasses.replace(message, names=(*message.names, name))
    )
    if not name.isprintable():
        with pytest.raises(PeerError, match="lists what is no log"):
            RemoteLogNames(name)
        return
    with pytest.raises(PeerError, match="lists what is no log"):
        copy(server, tmp_path / "copy")
    assert stored(tmp_path / "copy") == []


def RemoteLogNames(name: str) -> list[str]:  # noqa: N802
    """What a log makes of a list with such a name."""
    log = RemoteLog(CopyServer({"00000000.jdb": b"x"}), HERE, -5, 5)
    log.info()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Call, "receive", lambda *_: c.FileListResp(names=(name,)))
        return log.names()


def test_a_list_with_a_file_twice(tmp_path: Path) -> None:
    files = {"00000000.jdb": b"x", "data001/00000000.jdb": b"y"}
    with pytest.raises(PeerError, match="lists what is no log"):
        copy(CopyServer(files), tmp_path / "copy")


@pytest.mark.parametrize("kind", [c.FileInfoResp, c.FileStart, c.FileEnd])
@pytest.mark.parametrize("change", [{"length": 7}, {"length": -1}, {"length": 1 << 40}, {"name": "00000003.jdb"}])
def test_a_node_that_contradicts_itself(kind: type[Message], change: dict[str, Any], tmp_path: Path) -> None:
    server = CopyServer({"00000000.jdb": b"0123456"[:6]})
    server.spoil = changing(kind, **change)
    with pytest.raises(PeerError):
        copy(server, tmp_path / "copy")
    assert contents(tmp_path / "copy") == {}


def test_bytes_that_are_not_those_of_the_digest(tmp_path: Path) -> None:
    server = CopyServer(dict(FILES))
    server.spoil = changing(c.FileEnd, digest=bytes(20))
    with pytest.raises(PeerError, match="another digest"):
        copy(server, tmp_path / "copy")
    assert stored(tmp_path / "copy") == []


def test_a_second_backup_fetches_what_is_new(tmp_path: Path) -> None:
    place = tmp_path / "copy"
    copy(CopyServer(FILES), place)
    later = {**FILES, "00000005.jdb": b"new"}
    server = CopyServer(later)
    copied = copy(server, place)
    assert (copied.kept_files, copied.kept_bytes) == (5, sum(map(len, FILES.values())))
    assert server.asked == ["00000005.jdb"]
    assert contents(place) == later
    assert len(Repository(DiskStorage(str(place))).ids()) == 2


def test_progress_and_rate(tmp_path: Path) -> None:
    steps, slept = Steps(), [0.0]
    throttle = Throttle(1000, clock=lambda: sum(slept), sleep=slept.append)
    made = HotCopy(Repository(DiskStorage(str(tmp_path / "copy"))), steps, throttle)
    made.run(CopyServer(FILES), HERE, 5, 0, print, ORIGIN)
    total = sum(map(len, FILES.values()))
    assert steps.seen[0] == ("copy", 0, total)
    assert [step for step in steps.seen if step[0] == "copy"][-1] == ("copy", total, total)
    # A thousand bytes a second.
    assert sum(slept) == pytest.approx(total / 1000, rel=0.01)


def copies(scenario: str) -> tuple[RecordedNetwork, dict[str, bytes]]:
    """The recorded node, and the files that it sent."""
    files: dict[str, bytes] = {}
    for recording in recordings(scenario):
        name = ""
        for played in Player(recording).play() if recording.meta["serverNode"] == "n1" else ():
            if isinstance(played.what, c.FileStart):
                name = played.what.name
                files[name] = b""
            elif isinstance(played.what, bytes):
                files[name] += played.what
    return RecordedNetwork(scenario, same=bytes), files


def test_a_recorded_node_of_18_3(tmp_path: Path) -> None:
    """Its list, asked about and fetched as JE's own network restore did."""
    _, files = copies("restore")
    recording = next(one for one in recordings("restore") if one.path.name.startswith("018-"))
    said = next(one.what for one in Player(recording).play() if isinstance(one.what, c.ClientVersion))
    address = ("localhost", recording.meta["port"])
    network = RecordedNetwork([_in_version_4(recording)], same=bytes)
    with RemoteLog(network, address, said.client_id, 5) as log:
        assert log.version == 2
        assert log.info().last_vlsn > 100
        names = log.names()
        found = [log.file(name, digest=False) for name in names]
        asked = [piece.what.name for piece in Player(recording).play() if isinstance(piece.what, c.FileReq)]
        read = {name: b"".join(log.read(name)) for name in asked}
        log.done()
    assert [file.size_bytes for file in found if file.name in read] == [len(data) for data in read.values()]
    assert read == {name: files[name] for name in read}
    assert len(read) > 2


def _in_version_4(recording: Recording) -> Recording:
    """The same with 4 for 2 where JE said what it speaks: a node of 18.3 answers 2 to either."""
    pieces, done = [], False
    for piece in recording.pieces:
        data = piece.data
        if piece.client and not done and data[:2] == b"\xe9\x03":
            data, done = data[:6] + b"\4" + data[7:], True
        pieces.append(piece._replace(data=data))
    assert done
    return recording._replace(pieces=pieces)


def test_ids_of_clients() -> None:
    ids = {new_client_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(-(1 << 31) <= one < 0 for one in ids)


def node(name: str, state: str, release: str = "18.3.20") -> NodeLook:
    said = NodeStateResponse(
        node=name, group="G", master="n1", je_version=release, joined_ms=1, state=state, commit_vlsn=5,
        master_commit_vlsn=5, feeders=0, log_version=17, app_state=b"", load="1.0",
    )  # fmt: skip
    return NodeLook(name, (name, 5001), None, said)


class Nodes:
    """A network of nodes with loads and ends of their streams."""

    def __init__(self, **infos: tuple[int, int]) -> None:
        self._infos = infos

    def connect(self, address: tuple[str, int], deadline: float) -> Any:
        load, last = self._infos[address[0]]
        if load < 0:
            raise DisconnectedError("gone")
        server = CopyServer({})
        server.spoil = lambda message: (
            dataclasses.replace(message, load=load, last_vlsn=last)
            if isinstance(message, c.FeederInfoResp)
            else message
        )
        return server.connect(address, deadline)


def chosen(network: Nodes, *nodes: NodeLook, name: str | None = None, master: bool = False, force: bool = False) -> str:
    found = GroupLook("G", None, nodes, "")  # type: ignore[arg-type]
    return choose(network, found, name, 5, allow_master=master, force=force).name


def test_which_node_is_copied() -> None:
    nodes = (node("n1", "MASTER"), node("n2", "REPLICA"), node("n3", "REPLICA"))
    assert chosen(Nodes(n2=(3, 100), n3=(1, 90)), *nodes) == "n3"
    # 50,000 VLSNs late is too late.
    assert chosen(Nodes(n2=(3, 100_000), n3=(1, 90)), *nodes) == "n2"
    assert chosen(Nodes(n2=(-1, 0), n3=(9, 90)), *nodes) == "n3"
    assert chosen(Nodes(), *nodes, name="n1") == "n1"
    assert chosen(Nodes(n1=(0, 100), n2=(7, 100), n3=(8, 100)), *nodes, master=True) == "n2"
    assert chosen(Nodes(), nodes[0], master=True) == "n1"
    with pytest.raises(RefusedError, match="only the master"):
        chosen(Nodes(), nodes[0])
    with pytest.raises(NotFoundError):
        chosen(Nodes(), *nodes, name="n9")
    with pytest.raises(NotFoundError):
        chosen(Nodes(), NodeLook("n1", ("n1", 1), None, None, "gone"))
    with pytest.raises(DisconnectedError):
        chosen(Nodes(n2=(-1, 0), n3=(-1, 0)), *nodes)
    with pytest.raises(UnsupportedError):
        chosen(Nodes(), node("n2", "REPLICA", "5.0.103"))
    assert chosen(Nodes(), node("n2", "REPLICA", "5.0.103"), force=True) == "n2"


def test_what_is_copied_is_an_environment(tmp_path: Path) -> None:
    from tests.support.harness import run

    env = GOLDEN / "je-17" / "txn-crash"
    logs = {path.name: path.read_bytes() for path in sorted(env.glob("*.jdb"))}
    copy(CopyServer(logs), tmp_path / "copy")
    assert contents(tmp_path / "copy") == logs
    assert run("backup", "verify", tmp_path / "copy").code == run("verify", env, "--full").code


def test_errors_are_jetools_own(tmp_path: Path) -> None:
    """Whatever the answers are cut to or changed to: an error that says so, never another one."""
    for seed in range(60):
        chance = random.Random(seed)
        server = CopyServer({"00000000.jdb": b"x" * 50})
        inner = server.connect

        def connect(address: Any, deadline: float, inner: Any = inner, chance: random.Random = chance) -> Any:
            connection = inner(address, deadline)
            receive = connection.receive

            def spoiled(deadline: float) -> bytes:
                data = bytearray(receive(deadline))
                if data and chance.random() < 0.3:
                    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
                return bytes(data)

            connection.receive = spoiled
            return connection

        server.connect = connect  # type: ignore[method-assign]
        place = tmp_path / f"copy-{seed}"
        try:
            copy(server, place)
        except JetoolError:
            assert contents(place) == {}
            continue
        assert contents(place) == {"00000000.jdb": b"x" * 50}


def test_more_than_the_disk_can_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "copy"
    needed = sum(map(len, FILES.values()))
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: needed - 1)
    server = CopyServer(FILES)
    with pytest.raises(StorageError, match="there is no room for the copy"):
        copy(server, place)
    assert (server.asked, stored(place)) == ([], [])
    monkeypatch.setattr(DiskStorage, "free_bytes", lambda _: needed)
    copy(server, place)
    assert contents(place) == FILES
