"""Commands that connect, against servers that misbehave: a bounded time, an exit code that says why, no half result."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.rep.wire.entries import WireEntry
from jetool.app import exits
from jetool.commands.backup import taking
from tests.harness import Result, run
from tests.oracle.environments import named
from tests.rep.changes.group_double import NodeDouble
from tests.rep.changes.test_subscriber import operations, with_null_commit
from tests.support.hostile_server import Mischief, saying, serving

FILES = {path.name: path.read_bytes() for path in sorted((named("je-18.3.20/torn-base").path / "env").glob("*.jdb"))}
COMMANDS = ("group show", "stream", "backup take")
# Far more than the deadlines of the command lines below, for a busy machine.
MOST_S = 20.0
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x28"
HTTP = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "_LEAST_COPY_TIMEOUT_S", 0.3)
    monkeypatch.setattr("engine.rep.changes.subscriber._FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr("engine.rep.client.copying._FIRST_PAUSE_S", 0.01)


def node() -> NodeDouble:
    return NodeDouble("n1", 0, list(with_null_commit(operations())))


def words(command: str, port: int, place: Path) -> tuple[str, ...]:
    there = f"127.0.0.1:{port}"
    if command == "stream":
        idle = ("--from", "begin", "--fast", "--until-idle", "0.2", "--format", "ndjson")
        return ("stream", there, *idle, "--timeout", "0.3", "--to", str(place / "changes"))
    if command == "backup take":
        return (
            "backup",
            there,
            str(place / "backups"),
            "--from-master",
            "--timeout",
            "0.3",
            "--retries",
            "1",
            "--json",
        )
    return ("group", "show", there, "--timeout", "0.3", "--json")


def called(command: str, port: int, place: Path) -> Result:
    """Run it: it ends in time, and nothing that it leaves looks whole if it is not."""
    begun = time.monotonic()
    result = run(*words(command, port, place))
    assert time.monotonic() - begun < MOST_S
    assert result.code != exits.INTERNAL, result.err
    assert "Traceback" not in result.err
    if result.code not in (exits.DONE, exits.FINDINGS):
        assert result.err
    if (place / "backups").exists():
        manifests = len(list((place / "backups").glob("*.json"))) - (place / "backups/copy.json").exists()
        listed = run("backup", "list", place / "backups", "--json")
        count = len(listed.json()["records"]) if listed.code == exits.DONE else 0
        assert count == (result.code in (exits.DONE, exits.FINDINGS)), (manifests, result.err)
    return result


@pytest.mark.parametrize("command", COMMANDS)
def test_an_honest_server(command: str, tmp_path: Path) -> None:
    with serving(node(), FILES) as server:
        result = called(command, server.port, tmp_path)
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
        called("stream", server.port, whole)
        bytes_of_it = server.sent
    with serving(node(), FILES, Mischief(kind, bytes_of_it // 2)) as server:
        result = called("stream", server.port, tmp_path)
    assert result.code == exits.INCOMPLETE, result.err
    assert result.lines()[-1]["ended"] == "behind"
    assert "not everything is read" in result.err
