"""``jetool backup HOST:PORT``: what the command does and says; the copies themselves are in tests/rep/client."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from engine.rep.client.looking import GroupLook, NodeLook
from engine.rep.wire.node_state import NodeStateResponse
from jetool.app import exits
from jetool.commands.backup import command
from tests.harness import assert_valid, run
from tests.rep.client.copy_server import CopyServer
from tests.rep.client.test_copying import contents

FILES = {f"{number:08x}.jdb": random.Random(number).randbytes(5000) for number in range(3)}


def node(name: str, state: str, release: str) -> NodeLook:
    said = NodeStateResponse(
        node=name, group="G", master="n1", je_version=release, joined_ms=1, state=state, commit_vlsn=5,
        master_commit_vlsn=5, feeders=0, log_version=17, app_state=b"", load="1.0",
    )  # fmt: skip
    return NodeLook(name, (f"{name}.example.org", 5001), None, said)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> CopyServer:
    """A master n1 and a replica n2, which serves copies."""
    serving = CopyServer(dict(FILES))
    monkeypatch.setattr(command, "SocketNetwork", lambda: serving)
    found: list[Any] = [node("n1", "MASTER", "18.3.20"), node("n2", "REPLICA", "18.3.20")]
    looked = GroupLook("G", None, tuple(found), "")  # type: ignore[arg-type]
    monkeypatch.setattr(command, "look", lambda *_: looked)
    monkeypatch.setattr("engine.rep.client.copying._FIRST_PAUSE_S", 0.0)
    return serving


def test_a_copy(server: CopyServer, tmp_path: Path) -> None:
    result = run("backup", "n1:5001", tmp_path / "copy", "--json")
    assert result.code == exits.DONE, result.err
    assert_valid("backup", result.out)
    said = result.json()
    assert (said["node"], said["address"], said["state"]) == ("n2", "n2.example.org:5001", "REPLICA")
    assert (said["files"], said["bytes"], said["kept_files"], said["last_vlsn"]) == (3, 15_000, 0, 100)
    assert said["directory"] == str(tmp_path / "copy")
    assert contents(tmp_path / "copy") == FILES


def test_it_goes_on(server: CopyServer, tmp_path: Path) -> None:
    server.cut_after = [9_000]
    cut = run("backup", "n1:5001", tmp_path / "copy", "--retries", "0", "--json")
    assert cut.code == exits.INCOMPLETE
    error = cut.error()
    assert (error["kind"], error["file"]) == ("disconnected", str(tmp_path / "copy.part"))
    assert "run it again" in error["hint"]
    server.cut_after = [7_000]
    result = run("backup", "n1:5001", tmp_path / "copy", "--json")
    assert (result.code, result.json()["attempts"], result.json()["kept_files"]) == (exits.DONE, 2, 2)
    assert "the copy was cut and goes on" in result.err
    assert contents(tmp_path / "copy") == FILES


def test_only_the_master_is_there(server: CopyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = GroupLook("G", None, (node("n1", "MASTER", "18.3.20"),), "")  # type: ignore[arg-type]
    monkeypatch.setattr(command, "look", lambda *_: looked)
    assert run("backup", "n1:5001", tmp_path / "copy").code == exits.REFUSED
    assert run("backup", "n1:5001", tmp_path / "copy", "--from-master").code == exits.DONE
    assert run("backup", "n1:5001", tmp_path / "again", "--node", "n1").code == exits.DONE
    assert run("backup", "n1:5001", tmp_path / "third", "--node", "n7").code == exits.NOT_FOUND


def test_a_release_that_nobody_tried(server: CopyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked = GroupLook("G", None, (node("n2", "REPLICA", "26.1.2"),), "")  # type: ignore[arg-type]
    monkeypatch.setattr(command, "look", lambda *_: looked)
    assert run("backup", "n1:5001", tmp_path / "copy").code == exits.UNSUPPORTED
    assert server.connections == []
    assert run("backup", "n1:5001", tmp_path / "copy", "--force").code == exits.DONE


def test_places(server: CopyServer, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert run("backup", "n1:5001", tmp_path / "full").code == exits.REFUSED
    assert run("backup", "n1:5001", tmp_path / "none" / "copy").code == exits.NOT_FOUND
    assert run("backup", "n1:5001", "/").code == exits.USAGE


@pytest.mark.parametrize(
    "words", [["--node", "n1", "--from-master"], ["--group", "a|b"], ["--rate", "5"], ["--timeout", "0"]]
)
def test_what_makes_no_sense(server: CopyServer, tmp_path: Path, words: list[str]) -> None:
    assert run("backup", "n1:5001", tmp_path / "copy", *words).code == exits.USAGE
    assert run("backup", "n1", tmp_path / "copy").code == exits.USAGE
    assert server.connections == []
