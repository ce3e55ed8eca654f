"""``jetool node``: two nodes as processes on loopback, asked, their roles changed, stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jetool.frame import exits
from tests.support.groups.nodes import free_ports
from tests.support.groups.playing import group_of, operations
from tests.support.groups.tcp_double import listening
from tests.support.harness import assert_valid, environment, run
from tests.support.waiting import PATIENCE_S, eventually


def address() -> str:
    ((host, port),) = free_ports(1)
    return f"{host}:{port}"


class Process:
    """``jetool node run``, with what it has printed."""

    def __init__(self, *words: str | Path) -> None:
        command = [sys.executable, "-m", "jetool", "node", "run", *map(str, words), "--format", "ndjson"]
        # Files, beside the environment, which can be read while the node runs.
        self._out, self._err = Path(f"{words[0]}.out"), Path(f"{words[0]}.err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.popen = subprocess.Popen(command, stdout=out, stderr=err, env=environment())

    def __str__(self) -> str:
        printed = "".join(path.read_text(errors="replace") for path in (self._out, self._err))
        return f"process {self.popen.pid} (exit code {self.popen.poll()}), which has printed\n{printed}"

    def has_ended(self) -> bool:
        return self.popen.poll() is not None

    def events(self) -> list[dict[str, Any]]:
        """The whole lines that it has printed."""
        printed = self._out.read_bytes()
        return [json.loads(line) for line in printed[: printed.rfind(b"\n") + 1].splitlines()]

    def wait(self) -> tuple[int, str]:
        """Its exit code, and what it has complained of."""
        code = self.popen.wait(PATIENCE_S)
        return code, self._err.read_text()

    def stop(self) -> tuple[int, list[dict[str, Any]], str]:
        self.popen.send_signal(signal.SIGTERM)
        code, err = self.wait()
        assert_valid("node run", self._out.read_bytes(), "ndjson")
        return code, self.events(), err

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()


class Processes:
    """The nodes that a test starts."""

    def __init__(self) -> None:
        self.all: list[Process] = []

    def start(self, *words: str | Path) -> Process:
        self.all.append(Process(*words))
        return self.all[-1]


@pytest.fixture
def nodes() -> Iterator[Processes]:
    """They end with the test; when it has failed, what they have printed is shown."""
    started = Processes()
    yield started
    for node in started.all:
        print(node)
        node.kill()


@pytest.fixture
def pair(tmp_path: Path, nodes: Processes) -> tuple[list[str], list[Process]]:
    """A master that ``create`` has made, and an electable replica."""
    one, two = (f"{host}:{port}" for host, port in free_ports(2))
    assert run("create", tmp_path / "n1", "--replicated", "--node", "n1", "--address", one, "--db", "users").code == 0
    assert run("put", tmp_path / "n1", "k", "v", "--db", "users").code == 0
    words = ("--type", "electable", "--priority", "1")
    return [one, two], [
        nodes.start(tmp_path / "n1", "--node", "n1", "--listen", one, "--join", two, *words),
        nodes.start(tmp_path / "n2", "--node", "n2", "--listen", two, "--join", one, *words),
    ]


def test_a_node_that_joins_a_group_of_je(tmp_path: Path, nodes: Processes) -> None:
    """Read while it follows; stopped and started again; in the end what JE reported of the recorded group."""
    log, env = operations(), tmp_path / "copy"
    group = group_of(log[:-5])
    words = (env, "--node", "copy1", "--listen", address(), "--join")
    with listening(group) as addresses:
        node = nodes.start(*words, addresses)
        eventually(lambda: run("get", env, "tx1", "--db", "beta").code, 0, running=[node])
        eventually(lambda: "replica" in [event["role"] for event in node.events()], running=[node])
        code, lines, err = node.stop()
        assert code == 0, err
        assert lines[-1]["last_vlsn"] > 50
        group.nodes[0].entries = log
        node = nodes.start(*words, addresses, "--group", "WIREGRP", "--type", "secondary")
        eventually(lambda: run("info", env, "--json").json()["last_vlsn"], log[-1].vlsn, running=[node])
        code, lines, err = node.stop()
        assert code == 0, err
        refused = run("node", "run", *words, addresses, "--group", "OTHER")
    assert (refused.code, "of another group" in refused.err) == (3, True)
    assert run("verify", env, "--full").code == 0
    assert run("node", "run", tmp_path / "new", *words[1:], "127.0.0.1:1").code == 4


def test_a_node_that_leads_a_group_of_je(tmp_path: Path, nodes: Processes) -> None:
    """A new group; a member of ours, which is another process, follows it, and then leads it."""
    lead, copy = address(), address()
    words = (tmp_path / "m1", "--node", "m1", "--listen", lead)
    refused = run("node", "run", *words, "--master")
    assert (refused.code, "a new group needs a name" in refused.err) == (2, True)
    master = nodes.start(*words, "--group", "STORE", "--master", "--policy", "none")
    eventually(lambda: [event["role"] for event in master.events()][-1:], ["master"], running=[master])
    event = master.events()[-1]
    assert (event["master"], event["last_vlsn"]) == (lead, 11)
    member = ("--type", "electable", "--priority", "1", "--policy", "none", "--replica-sync", "no-sync")
    follower = nodes.start(tmp_path / "copy", "--node", "copy", "--listen", copy, "--join", lead, *member)
    eventually(lambda: states(copy), {"m1": "MASTER", "copy": "REPLICA"}, running=nodes.all)
    assert run("node", "transfer-master", copy, "--to", "nobody").code == 3
    moved = run("node", "transfer-master", copy, "--to", "copy", "--yes", "--json")
    assert (moved.code, json.loads(moved.out)["node"]) == (0, "copy"), moved.err
    eventually(lambda: states(lead), {"m1": "REPLICA", "copy": "MASTER"}, running=nodes.all)
    assert (follower.stop()[0], master.stop()[0]) == (0, 0)
    assert run("diff", tmp_path / "m1", tmp_path / "copy").code == 0


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    words = ("node", "run", tmp_path / "n", "--node", "n", "--listen", "localhost:1")
    for more, said in (
        ((), "give --join, or --lead to create or lead a group"),
        (("--lead", "--node-type", "secondary"), "--lead has no meaning unless --node-type is electable"),
        (("--join", "h:1", "--priority", "1"), "--priority has no meaning unless --node-type is electable"),
        (("--join", "h:1", "--master"), "--lead has no meaning unless --node-type is electable"),
        (("--join", "nobody"), "nobody"),
        (("--node-type", "arbiter", "--lead"), "--lead has no meaning unless --node-type is electable"),
        (("--join", "h:1", "--node-type", "arbiter", "--restore"), "--restore has no meaning for an arbiter"),
        (("--join", "h:1", "--node-type", "arbiter", "--log-version", "17"), "--log-version has no meaning for an"),
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


def states(address: str) -> dict[str, str | None]:
    """Of each member what it is, as one node shows them."""
    result = run("group", "show", address, "--json")
    return {node["name"]: node["state"] for node in result.json()["nodes"]} if result.out else {}


def test_two_nodes(pair: tuple[list[str], list[Process]], tmp_path: Path) -> None:
    addresses, nodes = pair
    eventually(lambda: states(addresses[1]), {"n1": "MASTER", "n2": "REPLICA"}, running=nodes)
    words = ("node", "transfer-master", addresses[1], "--to", "n2", "--timeout", "60", "--json")
    refused = run(*words)
    assert (refused.code, "n1 would give the role of master to n2" in refused.err) == (3, True)
    for more, dry in (("-n", True), ("--yes", False)):
        result = run(*words, more)
        assert result.code == 0, result.err
        assert_valid("node transfer-master", result.out)
        done = result.json()
        assert (done["group"], done["master"], done["node"], done["dry_run"]) == ("jetool", "n1", "n2", dry)
    eventually(lambda: states(addresses[0]), {"n1": "REPLICA", "n2": "MASTER"}, running=nodes)
    nobody = run("node", "transfer-master", addresses[0], "--to", "n9", "--yes")
    assert (nobody.code, "expected n1, n2" in nobody.err) == (3, True), nobody.err
    assert run("node", "transfer-master", "127.0.0.1:1", "--to", "n1").code == 4
    busy = run("put", tmp_path / "n1", "k", "v", "--db", "users")
    assert busy.code == 3
    for node, name in zip(nodes, ("n1", "n2"), strict=True):
        code, lines, err = node.stop()
        assert code == 0, err
        assert (lines[-1]["rec"], lines[-1]["node"]) == ("summary", name)
    assert run("diff", tmp_path / "n1", tmp_path / "n2").code == 0
    assert run("verify", tmp_path / "n2").code == 0


def test_records_of_a_running_node(pair: tuple[list[str], list[Process]]) -> None:
    """Written through the replica, which names the master; read from the replica as soon as it has it."""
    addresses, nodes = pair
    eventually(lambda: states(addresses[1]), {"n1": "MASTER", "n2": "REPLICA"}, running=nodes)
    words = ("--db", "users")
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
    assert run("node", "put", addresses[0], "k", "v", "--db", "nope").code == 4
    assert run("node", "put", addresses[1], "k", "v", "--db", "new", "--create").code == 0
    assert run("node", "get", addresses[0], "k", "--db", "new").code == 0
    assert run("node", "put", "127.0.0.1:1", "k", "v", *words).code == 3


def test_three_nodes_that_elect(tmp_path: Path, nodes: Processes) -> None:
    """The master is killed: another one takes over; with one node left nobody does."""
    addresses = [f"{host}:{port}" for host, port in free_ports(3)]

    def start(number: int, *more: str) -> Process:
        name, others = f"n{number}", ",".join(addresses[: number - 1] + addresses[number:])
        return nodes.start(
            tmp_path / name, "--node", name, "--listen", addresses[number - 1], "--join", others,
            "--type", "electable", "--priority", str(9 - number), *more,
        )  # fmt: skip

    one = start(1, "--master", "--group", "STORE")
    eventually(lambda: states(addresses[0]), {"n1": "MASTER"}, running=[one])
    two, three = start(2), start(3)
    eventually(lambda: states(addresses[2]), {"n1": "MASTER", "n2": "REPLICA", "n3": "REPLICA"}, running=nodes.all)
    one.kill()
    eventually(lambda: states(addresses[2]), {"n1": None, "n2": "MASTER", "n3": "REPLICA"}, running=[two, three])
    two.kill()
    # What to do is said, too.
    eventually(lambda: "where they are lost for good" in (three.events()[-1]["problem"] or ""), running=[three])
    eventually(lambda: states(addresses[2]), {"n1": None, "n2": None, "n3": "UNKNOWN"}, running=[three])
    code, lines, err = three.stop()
    assert code == 0, err
    assert "master" not in [line["role"] for line in lines if line["rec"] == "event"]


def test_an_arbiter(pair: tuple[list[str], list[Process]], tmp_path: Path, nodes: Processes) -> None:
    """It takes the place of the node that is killed, also after it was killed itself; its directory is no node's."""
    (one, two), running = pair
    words = (tmp_path / "a1", "--node", "a1", "--listen", address(), "--join", f"{one},{two}")
    arbiter = nodes.start(*words, "--node-type", "arbiter")
    eventually(lambda: arbiter.events()[-1:] and arbiter.events()[-1]["role"], "replica", running=nodes.all)
    # An arbiter counts only beside two members.
    eventually(lambda: sorted(map(str, states(one).values())), ["MASTER", "REPLICA", "REPLICA"], running=nodes.all)
    master = next(name for name, state in states(one).items() if state == "MASTER")
    left, lost = (one, running[1]) if master == "n1" else (two, running[0])
    lost.kill()
    written = run("node", "put", left, "k", "kept", "--db", "users", "--json")
    assert written.code == 0, written.err
    arbiter.kill()
    again = nodes.start(*words, "--node-type", "arbiter")
    eventually(lambda: again.events()[-1:] and again.events()[-1]["last_vlsn"], written.json()["vlsn"], running=[again])
    eventually(lambda: states(left)["a1"], "REPLICA", running=[again])
    code, lines, err = again.stop()
    assert (code, lines[-1]["last_vlsn"]) == (0, written.json()["vlsn"]), err
    refused = run("node", "run", *words, "--node-type", "electable")
    assert (refused.code, "is that of an arbiter" in refused.err) == (3, True)
    assert run("node", "run", tmp_path / "n1", *words[1:], "--node-type", "arbiter").code == 3


def test_what_cannot_be_run(tmp_path: Path) -> None:
    assert run("create", tmp_path / "alone").code == 0
    words = ("--node", "n1", "--listen", address(), "--join", "127.0.0.1:1")
    result = run("node", "run", tmp_path / "alone", *words)
    assert (result.code, "not replicated" in result.err) == (2, True)
    assert run("node", "run", tmp_path / "new", "--node", "", *words[2:]).code == 2
    assert not (tmp_path / "new").exists()
