"""``jetool node``: two nodes as processes on loopback, asked, their roles changed, stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetool.app import exits
from tests.harness import assert_valid, environment, run
from tests.rep.changes.tcp_double import listening
from tests.rep.joined.playing import group_of, operations
from tests.rep.nodes import PATIENCE_S, eventually, free_ports


def address() -> str:
    ((host, port),) = free_ports(1)
    return f"{host}:{port}"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("a secret that is long enough\n")
    path.chmod(0o600)
    return path


class Process:
    """``jetool node run``, with what it has printed."""

    def __init__(self, *words: str | Path) -> None:
        command = [sys.executable, "-m", "jetool", "node", "run", *map(str, words), "--format", "ndjson"]
        # A file, beside the environment, which can be read while the node runs.
        self._out = Path(f"{words[0]}.out")
        with self._out.open("wb") as out:
            self.popen = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE, env=environment())

    def events(self) -> list[dict[str, Any]]:
        """The whole lines that it has printed."""
        printed = self._out.read_bytes()
        return [json.loads(line) for line in printed[: printed.rfind(b"\n") + 1].splitlines()]

    def stop(self) -> tuple[int, list[dict[str, Any]], str]:
        self.popen.send_signal(signal.SIGTERM)
        _, err = self.popen.communicate(timeout=PATIENCE_S)
        assert_valid("node run", self._out.read_bytes(), "ndjson")
        return self.popen.returncode, self.events(), err.decode()


@pytest.fixture
def pair(tmp_path: Path, secret: Path) -> Iterator[tuple[list[str], list[Process]]]:
    one, two = (f"{host}:{port}" for host, port in free_ports(2))
    assert run("create", tmp_path / "n1", "--replicated", "--node", "n1", "--address", one, "--db", "users").code == 0
    assert run("put", tmp_path / "n1", "k", "v", "--db", "users").code == 0
    nodes = [
        Process(tmp_path / "n1", "--node", "n1", "--listen", one, "--peers", two, "--secret-file", secret, "--master"),
        Process(tmp_path / "n2", "--node", "n2", "--listen", two, "--peers", one, "--secret-file", secret),
    ]
    yield [one, two], nodes
    for node in nodes:
        if node.popen.poll() is None:
            node.popen.kill()
            node.popen.communicate()


def test_a_node_that_joins_a_group_of_je(tmp_path: Path) -> None:
    """Read while it follows; stopped and started again; in the end what JE reported of the recorded group."""
    log, env = operations(), tmp_path / "copy"
    group = group_of(log[:-5])
    words = (env, "--node", "copy1", "--listen", address(), "--join")
    with listening(group) as addresses:
        node = Process(*words, addresses)
        try:
            eventually(lambda: run("get", env, "tx1", "--db", "beta").code == 0)
            eventually(lambda: "replica" in [event["role"] for event in node.events()])
        finally:
            code, lines, err = node.stop()
        assert code == 0, err
        assert lines[-1]["last_vlsn"] > 50
        group.nodes[0].entries = log
        node = Process(*words, addresses, "--group", "WIREGRP", "--type", "secondary")
        try:
            eventually(lambda: run("info", env, "--json").json()["last_vlsn"] == log[-1].vlsn)
        finally:
            code, lines, err = node.stop()
        assert code == 0, err
        refused = run("node", "run", *words, addresses, "--group", "OTHER")
    assert (refused.code, "of another group" in refused.err) == (3, True)
    assert run("verify", env, "--full").code == 0
    assert run("node", "run", tmp_path / "new", *words[1:], "127.0.0.1:1").code == 4


def test_a_node_that_leads_a_group_of_je(tmp_path: Path) -> None:
    """A new group; a member of ours, which is another process, follows it, and then leads it."""
    lead, copy = address(), address()
    words = (tmp_path / "m1", "--node", "m1", "--listen", lead)
    refused = run("node", "run", *words, "--master")
    assert (refused.code, "a new group needs a name" in refused.err) == (2, True)
    master = Process(*words, "--group", "STORE", "--master", "--policy", "none")
    eventually(lambda: bool(master.events()))
    event = master.events()[0]
    assert (event["role"], event["master"], event["last_vlsn"]) == ("master", lead, 11)
    member = ("--type", "electable", "--priority", "1", "--policy", "none", "--replica-sync", "no-sync")
    follower = Process(tmp_path / "copy", "--node", "copy", "--listen", copy, "--join", lead, *member)
    shown = await_members(copy)
    assert {node["name"]: node["state"] for node in shown["nodes"]} == {"m1": "MASTER", "copy": "REPLICA"}
    assert run("node", "transfer-master", copy, "--to", "nobody").code == 3
    assert run("node", "transfer-master", copy, "--to", "copy", "--force").code == 2
    moved = run("node", "transfer-master", copy, "--to", "copy", "--json")
    assert (moved.code, json.loads(moved.out)["node"]) == (0, "copy"), moved.err
    _, err = master.popen.communicate(timeout=20)
    assert (master.popen.returncode, b"copy at" in err) == (3, True), err
    eventually(lambda: b'"state":"MASTER"' in run("group", "show", copy, "--format", "ndjson").out)
    assert follower.stop()[0] == 0
    assert run("diff", tmp_path / "m1", tmp_path / "copy").code == 0


def await_members(place: str) -> dict[str, Any]:
    """The group as a node shows it, when all follow."""
    for _ in range(100):
        found = run("group", "show", place, "--format", "json")
        if found.code == 0:
            shown: dict[str, Any] = json.loads(found.out)
            return shown
        time.sleep(0.1)
    raise AssertionError(found.err)


def test_options_of_one_kind_of_group(tmp_path: Path, secret: Path) -> None:
    words = ("node", "run", tmp_path / "n", "--node", "n", "--listen", "localhost:1")
    for more, said in (
        (("--join", "h:1", "--secret-file", secret), "--secret-file is for groups of jetool nodes"),
        (("--join", "h:1", "--elect"), "--elect is for"),
        (("--join", "h:1", "--priority", "1"), "--priority has no meaning with --join unless --type is electable"),
        (("--secret-file", secret, "--type", "secondary"), "--type has no meaning without --join"),
        (("--secret-file", secret, "--force"), "--force has no meaning"),
        (("--secret-file", secret, "--plain"), "--plain has no meaning"),
        ((), "give --secret-file, or --join or --master for a group of JE"),
        (("--master", "--elect"), "--elect has no meaning for the master of a group of JE"),
        (("--master", "--restore"), "--restore has no meaning for the master of a group of JE"),
        (("--secret-file", secret, "--master", "--force"), "--force has no meaning without --join"),
    ):
        result = run(*words, *more)
        assert (result.code, said in result.err) == (2, True), result.err
    assert not (tmp_path / "n").exists()


@pytest.mark.parametrize("words", [("--master", "--group", "G"), ("--join", "localhost:1")])
def test_without_tls_it_listens_on_its_own_machine(tmp_path: Path, words: tuple[str, ...]) -> None:
    started = ("node", "run", str(tmp_path / "n"), "--node", "n", *words, "--listen")
    result = run(*started, "192.0.2.1:5001")
    assert (result.code, "192.0.2.1:5001 can be reached from other machines" in result.err) == (exits.USAGE, True)
    assert "--plain" in result.err
    assert not (tmp_path / "n").exists()
    # An address that is no machine's: with --plain it goes on to that.
    assert run(*started, "192.0.2.1:5001", "--plain").code in (exits.INCOMPLETE, exits.NOT_FOUND)


def status(addresses: list[str], secret: Path) -> dict[str, dict[str, Any]]:
    result = run("node", "status", *addresses, "--secret-file", secret, "--json")
    return {row["node"]: row for row in result.json()["records"]} if result.code in (0, 1) else {}


def await_roles(addresses: list[str], secret: Path, wanted: dict[str, str]) -> dict[str, dict[str, Any]]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = status(addresses, secret)
        if {name: row["role"] for name, row in found.items()} == wanted:
            return found
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


def test_two_nodes(pair: tuple[list[str], list[Process]], secret: Path, tmp_path: Path) -> None:
    addresses, nodes = pair
    await_roles(addresses, secret, {"n1": "master", "n2": "replica"})
    result = run("node", "transfer-master", addresses[0], "--to", "n2", "--secret-file", secret, "--json")
    assert (result.code, json.loads(result.out)["node"]) == (0, "n2")
    assert_valid("node transfer-master", result.out)
    found = await_roles(addresses, secret, {"n1": "replica", "n2": "master"})
    assert found["n1"]["master"] == addresses[1]
    deadline = time.monotonic() + PATIENCE_S
    while not (found := status(addresses, secret))["n2"]["replicas"]:
        assert time.monotonic() < deadline
    result = run("node", "status", *addresses, "--secret-file", secret, "--json")
    assert_valid("node status", result.out)
    again = run("node", "transfer-master", addresses[0], "--to", "n2", "--secret-file", secret)
    assert again.code == 3
    assert "not the master" in again.err
    assert run("node", "transfer-master", addresses[1], "--to", "n9", "--secret-file", secret).code == 3
    lost = run("node", "status", addresses[0], "127.0.0.1:1", "--secret-file", secret)
    assert lost.code == 1
    assert b"cannot be reached" in lost.out
    busy = run("put", tmp_path / "n1", "k", "v", "--db", "users")
    assert busy.code == 3
    for node, name in zip(nodes, ("n1", "n2"), strict=True):
        code, lines, err = node.stop()
        assert code == 0, err
        assert [line["role"] for line in lines if line["rec"] == "event"][-1] in ("replica", "master", "unknown")
        assert (lines[-1]["rec"], lines[-1]["node"]) == ("summary", name)
    assert run("dump", tmp_path / "n2", "--db", "users").out == run("dump", tmp_path / "n1", "--db", "users").out
    assert run("verify", tmp_path / "n2").code == 0


def test_records_of_a_running_node(pair: tuple[list[str], list[Process]], secret: Path) -> None:
    """Written through the replica, which names the master; read from the replica as soon as it has it."""
    addresses, _ = pair
    await_roles(addresses, secret, {"n1": "master", "n2": "replica"})
    words = ("--db", "users", "--secret-file", secret)
    result = run("node", "put", addresses[1], "ada", "first", *words, "--json")
    assert_valid("node put", result.out)
    done = result.json()
    assert (done["master"], done["db"], done["key"], done["records"]) == (addresses[0], "users", "616461", 1)
    read = ("node", "get", addresses[1], "ada", *words, "--data-format", "utf8", "--json")
    result = run(*read, "--vlsn", str(done["vlsn"]))
    assert_valid("node get", result.out)
    assert [row["data"] for row in result.json()["records"]] == ["first"]
    result = run("node", "put", addresses[0], "ada", "second", "--no-overwrite", *words)
    assert (result.code, "there is a record of this key" in result.err) == (3, True)
    result = run("node", "delete", addresses[0], "ada", *words, "--json")
    assert_valid("node delete", result.out)
    assert result.json()["vlsn"] > done["vlsn"]
    assert run("node", "get", addresses[0], "ada", *words).code == 4
    assert run("node", "delete", addresses[0], "ada", *words).code == 4
    assert run("node", "put", addresses[0], "k", "v", "--db", "nope", "--secret-file", secret).code == 4
    assert run("node", "put", "127.0.0.1:1", "k", "v", *words).code == 3


def test_a_wrong_secret_stops_a_node(pair: tuple[list[str], list[Process]], secret: Path, tmp_path: Path) -> None:
    addresses, _ = pair
    await_roles(addresses, secret, {"n1": "master", "n2": "replica"})
    wrong = tmp_path / "wrong"
    wrong.write_text("another secret, long enough")
    wrong.chmod(0o600)
    listen = address()
    third = Process(
        tmp_path / "n3", "--node", "n3", "--listen", listen, "--peers", ",".join(addresses), "--secret-file", wrong
    )
    _, err = third.popen.communicate(timeout=PATIENCE_S)
    assert third.popen.returncode == 3
    assert b"the shared secret is not the right one" in err
    result = run("node", "status", *addresses, "--secret-file", wrong)
    assert result.code == 4
    assert "secret" in result.err


def test_three_nodes_that_elect(tmp_path: Path, secret: Path) -> None:
    """Each is given the same list. The master is killed: another one takes over; with one node left nobody does."""
    addresses = [f"{host}:{port}" for host, port in free_ports(3)]
    names = ["n1", "n2", "n3"]
    assert run("create", tmp_path / "n1", "--replicated", "--node", "n1", "--address", addresses[0]).code == 0
    nodes = {
        name: Process(
            tmp_path / name, "--node", name, "--listen", address, "--peers", ",".join(addresses),
            "--secret-file", secret, "--elect", "--election-timeout", "1", "--priority", str(9 - number),
        )
        for number, (name, address) in enumerate(zip(names, addresses, strict=True))
    }  # fmt: skip
    try:
        found = await_roles(addresses, secret, {"n1": "master", "n2": "replica", "n3": "replica"})
        assert [found[name]["priority"] for name in names] == [9, 8, 7]
        term = found["n1"]["term"]
        transfer = run("node", "transfer-master", addresses[0], "--to", "n3", "--secret-file", secret)
        assert transfer.code == 0, transfer.err
        found = await_roles(addresses, secret, {"n1": "replica", "n2": "replica", "n3": "master"})
        assert found["n3"]["term"] > term
        assert run("node", "transfer-master", addresses[0], "--to", "n9", "--force", "--secret-file", secret).code == 3
        nodes["n3"].popen.kill()
        await_roles(addresses[:2], secret, {"n1": "master", "n2": "replica"})
        nodes["n1"].popen.kill()
        await_roles(addresses[1:2], secret, {"n2": "unknown"})
        eventually(lambda: status(addresses[1:2], secret)["n2"]["master"] is None)
        eventually(lambda: nodes["n2"].events()[-1]["term"] > term)
        code, _, err = nodes["n2"].stop()
        assert code == 0, err
    finally:
        for node in nodes.values():
            if node.popen.returncode is None:
                node.popen.kill()
                node.popen.communicate()


def test_options_of_elections(tmp_path: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words: list[str | Path] = [
        "node",
        "run",
        tmp_path / "n1",
        "--node",
        "n1",
        "--listen",
        address(),
        "--secret-file",
        secret,
    ]
    assert run(*words, "--elect", "--master").code == 2
    assert run(*words, "--priority", "1").code == 2
    assert run(*words, "--master", "--election-timeout", "1").code == 2
    assert run(*words, "--elect", "--priority", "-1").code == 2
    monkeypatch.setitem(sys.modules, "pysyncobj", None)
    missing = run(*words, "--elect")
    assert missing.code == 5
    assert "pip install 'jetool[elect]'" in missing.err
    assert not (tmp_path / "n1").exists()


def test_what_cannot_be_run(tmp_path: Path, secret: Path) -> None:
    (tmp_path / "short").write_text("short")
    (tmp_path / "short").chmod(0o600)
    assert run("create", tmp_path / "alone").code == 0
    listen = address()
    words = ["--node", "n1", "--listen", listen]
    result = run("node", "run", tmp_path / "alone", *words, "--secret-file", secret)
    assert (result.code, "not replicated" in result.err) == (2, True)
    assert run("node", "run", tmp_path / "new", *words, "--secret-file", tmp_path / "short").code == 2
    assert not (tmp_path / "new").exists()
    assert run("node", "run", tmp_path / "new", "--node", "", "--listen", listen, "--secret-file", secret).code == 2
    assert run("node", "run", tmp_path / "new", *words, "--peers", "nobody", "--secret-file", secret).code == 2
    assert run("node", "status", "nobody", "--secret-file", secret).code == 2
    assert run("node", "status", "127.0.0.1:1", "--secret-file", tmp_path / "none").code == 4
