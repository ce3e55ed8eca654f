"""Commands that connect, against servers that misbehave: a bounded time, an exit code that says why, no half result."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.rep.changes.subscriber import SubscriberSettings
from engine.rep.client.hot_copy import HotCopy
from engine.rep.wire import log_file_feeder as c
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.feeder import NodeGroupInfo, NodeGroupInfoReject
from engine.rep.wire.group_lines import Members
from jetool.commands.backup import take
from jetool.commands.stream import command as stream_command
from jetool.frame import exits
from tests.support.environments.oracle import named
from tests.support.groups.copy_server import CopyServer, changing
from tests.support.groups.group_double import GroupDouble, NodeDouble
from tests.support.groups.hostile_server import Mischief, saying, serving
from tests.support.groups.subscribers import operations, with_null_commit
from tests.support.harness import Result, run

FILES = {path.name: path.read_bytes() for path in sorted((named("je-18.3.20/torn-base").path / "env").glob("*.jdb"))}
COMMANDS = ("group show", "stream", "backup take")
# Far more than the deadlines of the command lines below, for a busy machine.
MOST_S = 20.0
# A test of deadlines waits for one; what is to succeed has time, also on a busy machine.
SOON_S, PATIENT_S = "0.3", "10"
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x28"
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "HotCopy", partial(HotCopy, first_pause_s=0.01, least_timeout_s=0.3))
    monkeypatch.setattr(stream_command, "SubscriberSettings", partial(SubscriberSettings, first_pause_s=0.01))


def node() -> NodeDouble:
    return NodeDouble("n1", 0, list(with_null_commit(operations())))


def words(command: str, port: int, place: Path, timeout: str = SOON_S) -> tuple[str, ...]:
    there = f"127.0.0.1:{port}"
    if command == "stream":
        idle = ("--from", "begin", "--fast", "--until-idle", "0.2", "--format", "ndjson")
        return ("stream", there, *idle, "--timeout", timeout, "--to", str(place / "changes"))
    if command == "backup take":
        return (
            "backup",
            there,
            str(place / "backups"),
            "--from-master",
            "--timeout",
            timeout,
            "--retries",
            "1",
            "--json",
        )
    return ("group", "show", there, "--timeout", timeout, "--json")


def called(command: str, port: int, place: Path, timeout: str = SOON_S) -> Result:
    """Run it: it ends in time, and nothing that it leaves looks whole if it is not."""
    begun = time.monotonic()
    result = run(*words(command, port, place, timeout))
    assert time.monotonic() - begun < MOST_S
    assert result.code != exits.INTERNAL, result.err
    assert "Traceback" not in result.err
    if result.code not in (exits.DONE, exits.FINDINGS):
        assert result.err
    if (place / "backups").exists():
        listed = run("backup", "list", place / "backups", "--json")
        count = len(listed.json()["records"]) if listed.code == exits.DONE else 0
        assert count == (result.code in (exits.DONE, exits.FINDINGS)), result.err
    return result


@pytest.mark.parametrize("command", COMMANDS)
def test_an_honest_server(command: str, tmp_path: Path) -> None:
    with serving(node(), FILES) as server:
        result = called(command, server.port, tmp_path, PATIENT_S)
    assert result.code == exits.DONE, result.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", [HTTP, TLS_ALERT, b"SSH-2.0-OpenSSH_9.6\r\n", b"", b"\n", b"\0" * 70_000])
def test_another_server(command: str, data: bytes, tmp_path: Path) -> None:
    with saying(data) as port:
        assert called(command, port, tmp_path).code in (exits.REFUSED, exits.NOT_FOUND, exits.INCOMPLETE)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", [b"\0" * 65536, b"0" * 65536, b"\n" * 65536])
def test_a_message_without_end(command: str, data: bytes, tmp_path: Path) -> None:
    with saying(data, again=True) as port:
        assert called(command, port, tmp_path).code in (exits.REFUSED, exits.NOT_FOUND, exits.INCOMPLETE)


class Announcing(NodeDouble):
    """Announces commits that it never sends."""

    @property
    def last_sync(self) -> WireEntry:
        return super().last_sync._replace(vlsn=self.last + 5)


def test_a_server_that_announces_more_than_it_sends(tmp_path: Path) -> None:
    log = node()
    with serving(Announcing(log.name, 0, log.entries), FILES) as server:
        result = called("stream", server.port, tmp_path)
    assert result.code == exits.INCOMPLETE, result.err
    assert f"has announced VLSN {log.last + 5} and sent up to {log.last}" in result.err
    summary = result.lines()[-1]
    assert (summary["ended"], summary["last_vlsn"]) == ("behind", log.last)


@pytest.mark.parametrize("kind", ["silent", "close", "drip"])
def test_a_stream_that_stops(kind: str, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    with serving(node(), FILES) as server:
        called("stream", server.port, whole, PATIENT_S)
        bytes_of_it = server.sent
    with serving(node(), FILES, Mischief(kind, bytes_of_it // 2)) as server:
        result = called("stream", server.port, tmp_path)
    assert result.code == exits.INCOMPLETE, result.err
    assert result.lines()[-1]["ended"] == "behind"
    assert "not everything is read" in result.err


# How a command may end that has not heard all of an answer; what drips may yet be whole in time for a look.
STOPPED = {
    "group show": {exits.FINDINGS, exits.NOT_FOUND, exits.INCOMPLETE},
    "stream": {exits.NOT_FOUND, exits.INCOMPLETE},
    "backup take": {exits.NOT_FOUND, exits.INCOMPLETE},
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["silent", "close", "drip"])
@pytest.mark.parametrize("at", [0, 1, 150])
def test_a_conversation_that_stops(command: str, kind: str, at: int, tmp_path: Path) -> None:
    with serving(node(), FILES, Mischief(kind, at)) as server:
        result = called(command, server.port, tmp_path)
    in_time = {exits.DONE} if (command, kind) == ("group show", "drip") else set()
    assert result.code in STOPPED[command] | in_time, result.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xff" * 8, bytes(8)])
@pytest.mark.parametrize("at", [1, 160, 437])
def test_an_extreme_in_an_answer(command: str, data: bytes, at: int, tmp_path: Path) -> None:
    with serving(node(), FILES, Mischief("replace", at, data)) as server:
        result = called(command, server.port, tmp_path)
    # Some of these numbers may be anything: what remains of the answer then makes sense, or does not.
    assert result.code in STOPPED[command] | {exits.DONE, exits.FINDINGS, exits.REFUSED, exits.UNSUPPORTED}, result.err
    assert result.code == exits.DONE or "jetool: " in result.err or result.out


WRONG_GROUPS: dict[str, tuple[dict[str, Any], set[int]]] = {
    "an old protocol": ({"protocol": 3}, {exits.UNSUPPORTED, exits.REFUSED}),
    "a release of the future": ({"je_version": "99.1.0"}, {exits.UNSUPPORTED}),
    "no release": ({"je_version": ""}, {exits.UNSUPPORTED}),
    "no master": ({"master": ""}, {exits.INCOMPLETE}),
}


@pytest.mark.parametrize("wrong", WRONG_GROUPS)
def test_a_group_that_cannot_be_followed(wrong: str, tmp_path: Path) -> None:
    attributes, codes = WRONG_GROUPS[wrong]

    def change(group: GroupDouble) -> None:
        for name, value in attributes.items():
            setattr(group, name, value)

    with serving(node(), FILES, change=change) as server:
        result = called("stream", server.port, tmp_path)
    assert result.code in codes, result.err


@pytest.mark.parametrize("attributes", [{"group": "OTHER"}, {"uuid": (5, 6)}])
def test_another_group_than_before(attributes: dict[str, Any], tmp_path: Path) -> None:
    def change(group: GroupDouble) -> None:
        for name, value in attributes.items():
            setattr(group, name, value)

    with serving(node(), FILES) as server:
        assert called("stream", server.port, tmp_path, PATIENT_S).code == exits.DONE
    before = {path.name: path.read_bytes() for path in (tmp_path / "changes").iterdir()}
    with serving(node(), FILES, change=change) as server:
        again = [word for word in words("stream", server.port, tmp_path, PATIENT_S) if word not in ("--from", "begin")]
        result = run(*again)
    assert result.code == exits.REFUSED, result.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "changes").iterdir()} == before


class Crowded(GroupDouble):
    """Lists more members than a group can have."""

    @property
    def members(self) -> Members:
        group, (one,) = super().members
        return Members(group, tuple(one._replace(name=f"n{at}", id=at + 1, port=1) for at in range(300)))


@pytest.mark.parametrize("command", COMMANDS)
def test_too_many_members(command: str, tmp_path: Path) -> None:
    def change(group: GroupDouble) -> None:
        group.__class__ = Crowded

    with serving(node(), FILES, change=change) as server:
        result = called(command, server.port, tmp_path)
    assert result.code == exits.REFUSED, result.err
    assert "the list of nodes is too long for a group" in result.err


WRONG_COPIES = {
    "a name above": changing(c.FileListResp, names=("../../00000000.jdb",)),
    "an absolute name": changing(c.FileListResp, names=("/etc/00000000.jdb",)),
    "no file": changing(c.FileListResp, names=()),
    "another size": changing(c.FileInfoResp, length=7),
    "a negative size": changing(c.FileInfoResp, length=-1),
    "a huge size": changing(c.FileInfoResp, length=(1 << 63) - 1),
    "another size at the start": changing(c.FileStart, length=7),
    "another name at the start": changing(c.FileStart, name="00000077.jdb"),
    "another size at the end": changing(c.FileEnd, length=7),
    "a wrong digest": changing(c.FileEnd, digest=bytes(20)),
    "no digest": changing(c.FileEnd, digest=b""),
}


@pytest.mark.parametrize("wrong", WRONG_COPIES)
def test_a_copy_of_something_else(wrong: str, tmp_path: Path) -> None:
    place = tmp_path / "inside"
    place.mkdir()

    def spoil(files: CopyServer) -> None:
        files.spoil = WRONG_COPIES[wrong]

    with serving(node(), FILES, spoil=spoil) as server:
        result = called("backup take", server.port, place)
    assert result.code == exits.REFUSED, result.err
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert [path.name for path in place.iterdir()] == ["backups"]
    assert list((place / "backups").rglob("*.jdb")) == []


def test_a_file_that_drips(tmp_path: Path) -> None:
    with serving(node(), FILES, Mischief("drip", 5000)) as server:
        result = called("backup take", server.port, tmp_path)
    assert result.code == exits.INCOMPLETE, result.err
    assert "does not answer in time" in result.err
    assert list((tmp_path / "backups").rglob("*.jdb")) == []


def test_a_refusal_of_many_words(tmp_path: Path) -> None:
    def change(group: GroupDouble) -> None:
        said = NodeGroupInfoReject(text="no " * 20_000)
        group.refuse = lambda asked: said if isinstance(asked, NodeGroupInfo) else None

    with serving(node(), FILES, change=change) as server:
        result = called("stream", server.port, tmp_path)
    assert result.code == exits.REFUSED, result.err
    said = result.err.splitlines()[0]
    assert "characters more]" in said
    assert len(said) < 4_000


class Escaping(GroupDouble):
    """Lists a member whose name would change a terminal."""

    @property
    def members(self) -> Members:
        group, (one,) = super().members
        bad = one._replace(name="n2\x1b[2J\x9b31m\r\nall is well", id=2, port=1, host="h\x1b[1m")
        return Members(group, (one, bad))


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_a_name_that_would_change_a_terminal(form: str, tmp_path: Path) -> None:
    def change(group: GroupDouble) -> None:
        group.__class__ = Escaping

    with serving(node(), FILES, change=change) as server:
        result = run("group", "show", f"127.0.0.1:{server.port}", "--timeout", "0.3", "--format", form)
    assert result.code != exits.INTERNAL, result.err
    assert not [char for char in result.text + result.err if char in "\x1b\x9b"]
    assert "\nall is well" not in result.text + result.err
