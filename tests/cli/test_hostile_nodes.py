"""Commands that read and write through a node, or move the master, over a link that spoils the node's answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Final

import pytest

from engine.rep.member.node import JoinedNode
from jetool.frame import exits
from tests.support.groups.hostile_server import Mischief
from tests.support.groups.nodes import group_of_two
from tests.support.groups.spoiled_link import spoiled
from tests.support.harness import Result, run

# Far more than the deadlines of the command lines below, for a busy machine.
MOST_S: Final = 20.0
COMMANDS: Final = ("get", "put", "delete", "transfer-master", "group show", "watch")
# They ask several nodes, and one of these may not answer.
LOOKS: Final = ("group show", "watch")
SPOILT: Final = {exits.REFUSED, exits.NOT_FOUND, exits.INCOMPLETE}
_KEYS: Final = itertools.count()


@pytest.fixture(scope="module")
def master() -> Iterator[JoinedNode]:
    with group_of_two() as (master, _):
        with master.environment.create_database("t") as db:
            db.put(b"there", b"x" * 500)
        yield master


def words(command: str, port: int, key: str) -> tuple[str, ...]:
    there = f"127.0.0.1:{port}"
    if command == "group show":
        return ("group", "show", there, "--timeout", "0.5", "--json")
    if command == "watch":
        return ("watch", there, "--count", "1", "--timeout", "0.5", "--json")
    if command == "transfer-master":
        return ("node", "transfer-master", there, "--to", "node2", "-n", "--timeout", "1", "--json")
    data = ("new",) if command == "put" else ()
    return ("node", command, there, key, *data, "--db", "t", "--timeout", "0.5", "--json")


def called(master: JoinedNode, command: str, mischief: Mischief | None) -> tuple[Result, int]:
    """Run it: it ends in time and says why. Also the bytes that the node has answered."""
    key = "there" if command == "get" else f"k{next(_KEYS)}"
    if command == "delete":
        assert run("node", "put", f"127.0.0.1:{master.config.listen[1]}", key, "old", "--db", "t").code == exits.DONE
    begun = time.monotonic()
    with spoiled(master.config.listen, mischief) as link:
        result = run(*words(command, link.port, key))
    assert time.monotonic() - begun < MOST_S
    assert result.code != exits.INTERNAL, result.err
    assert "Traceback" not in result.err
    if result.code in SPOILT:
        assert "error:" in result.err
        assert f"127.0.0.1:{link.port}" in result.err or command == "delete", result.err
    # A write that was refused is not there, and one that was acknowledged is.
    with master.environment.open_database("t") as db:
        found = db.get(key.encode())
    if command == "put" and result.code != exits.INCOMPLETE:
        assert (found is not None) == (result.code == exits.DONE), result.err
    if command == "delete" and result.code in (exits.DONE, exits.REFUSED):
        assert (found is None) == (result.code == exits.DONE), result.err
    return result, link.answered


@pytest.mark.parametrize("command", COMMANDS)
def test_an_honest_link(command: str, master: JoinedNode) -> None:
    assert called(master, command, None)[0].code == exits.DONE


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", ["close", "flood", "silent"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_an_answer_that_does_not_end(command: str, kind: str, share: float, master: JoinedNode) -> None:
    size = called(master, command, None)[1]
    result, _ = called(master, command, Mischief(kind, int(size * share), b"\xff" * 8192))
    # The rest of a record that was announced may be anything.
    more = {("get", "flood"): exits.DONE}.get((command, kind), exits.FINDINGS if command in LOOKS else None)
    assert result.code in SPOILT | {more}, result.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xff" * 8, bytes(8)])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.8])
def test_an_extreme_in_an_answer(command: str, data: bytes, share: float, master: JoinedNode) -> None:
    size = called(master, command, None)[1]
    result, _ = called(master, command, Mischief("replace", int(size * share), data))
    assert result.code in SPOILT | {exits.DONE, exits.FINDINGS}, result.err


def test_a_group_whose_members_no_node_names(master: JoinedNode) -> None:
    """The node says its name, and then nothing of the others: the message names it, and what to check."""
    size = called(master, "group show", None)[1]
    for share in range(1, 20):
        result, _ = called(master, "group show", Mischief("close", size * share // 20))
        if "no node says who is in the group" in result.err:
            break
    assert result.code == exits.NOT_FOUND
    assert "check the addresses" in result.err
