"""``jetool group remove``, ``delete``, ``update-address``: what the master is asked for, and what is refused before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from engine.rep.acks import AckPolicy
from engine.rep.group import committed_members
from engine.rep.member.node import JoinedNode
from engine.rep.membership import MembershipChange, Voters, plan_change
from engine.rep.peers import address_text
from jetool.commands.group import membership
from jetool.frame import exits
from tests.rep.master.leaders import ELECTABLE, PlayedReplica, follower, leading
from tests.support.harness import assert_valid, run
from tests.support.waiting import eventually

MOVE = ("--new-address", "localhost:7099")
CHANGES = {"remove": (), "delete": (), "update-address": MOVE}


def members(node: JoinedNode) -> dict[str, tuple[bool, int]]:
    """Of each member whether it was removed, and its port."""
    found = committed_members(node.environment.engine)
    assert found is not None
    return {one.name or "": (one.removed, one.port) for one in found.nodes}


@contextmanager
def group_of_three() -> Iterator[JoinedNode]:
    """The master n1, n3, which acknowledges, and n2, which has ended."""
    with leading() as node:
        n2 = follower(node)
        with n2.acknowledging():
            n3 = PlayedReplica(node.config.listen, "n3", ELECTABLE, 7012)
            n3.start()
        n2.close()
        with n3.acknowledging():
            eventually(lambda: node.feeders() == 1)
            yield node
        n3.close()


@pytest.mark.parametrize("change", CHANGES)
def test_a_member_changes(change: str) -> None:
    with group_of_three() as node:
        before = members(node)
        words = ("group", change, address_text(node.config.listen), "--node", "n2", *CHANGES[change], "--json")
        asked = run(*words)
        assert asked.code == exits.REFUSED
        assert "n2, an electable member at localhost:7011" in asked.err.replace("\n    ", " ")
        preview = run(*words, "-n")
        assert members(node) == before
        done = run(*words, "--yes")
        assert (preview.code, done.code) == (0, 0), done.err
        assert_valid(f"group {change}", done.out)
        assert {**preview.json(), "dry_run": False} == done.json()
        said = done.json()
        voters = 3 if change == "update-address" else 2
        assert (said["master"], said["electable"], said["majority"], said["running"]) == ("n1", voters, 2, 1)
        after = {"remove": (True, 7011), "delete": None, "update-address": (False, 7099)}[change]
        assert members(node).get("n2") == after
        if change == "delete":
            again = follower(node)
            assert again.id == 4
            again.close()
        # n3 acknowledges, but its service does not answer here.
        assert "1 electable member answers, of 3" in done.err
        assert "the master needs 2 of them to acknowledge the change" in done.err.replace("\n    ", " ")


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_refused_before_the_master_is_asked(change: str) -> None:
    with leading(policy=AckPolicy.NONE) as node:
        follower(node).close()
        before = members(node)
        address = address_text(node.config.listen)
        for name, reason in (("n1", "'n1' is the master"), ("n9", "'n9' is no member of group")):
            refused = run("group", change, address, "--node", name, *CHANGES[change], "--yes")
            assert refused.code == exits.REFUSED
            assert reason in refused.err.replace("\n    ", " ")
        assert members(node) == before
    nobody = run("group", change, address, "--node", "n2", *CHANGES[change], "--yes", "--timeout", "1")
    assert nobody.code == exits.NOT_FOUND


def test_the_master_knows_better() -> None:
    """A member that is fed is active, also if it does not answer here."""
    with leading() as node:
        replica = follower(node)
        before = members(node)
        for change in ("delete", "update-address"):
            words = ("group", change, address_text(node.config.listen), "--node", "n2", *CHANGES[change])
            refused = run(*words, "--yes")
            assert refused.code == exits.REFUSED
            assert "n1, the master, does not change 'n2'" in refused.err
            assert "active" in refused.err
        assert members(node) == before
        replica.close()


def test_a_member_is_removed_once() -> None:
    with group_of_three() as node:
        words = ("group", "remove", address_text(node.config.listen), "--node", "n2", "--yes")
        assert run(*words).code == 0
        before = members(node)
        for change in CHANGES:
            again = run("group", change, address_text(node.config.listen), "--node", "n2", "--yes", *CHANGES[change])
            assert (again.code, "'n2' was removed before" in again.err) == (exits.REFUSED, True)
        assert members(node) == before


def test_an_answer_that_does_not_come() -> None:
    """No other member acknowledges it: the master waits for longer than the caller."""
    with leading() as node:
        follower(node).close()
        eventually(lambda: node.feeders() == 0)
        words = ("group", "remove", address_text(node.config.listen), "--node", "n2", "--yes", "--timeout", "0.3")
        unknown = run(*words)
        assert unknown.code == exits.INCOMPLETE
        assert "whether the member was changed is not known" in unknown.err


def test_a_member_without_which_there_is_no_majority(monkeypatch: pytest.MonkeyPatch) -> None:
    def two_of_three(*arguments: Any) -> MembershipChange:
        return plan_change(*arguments)._replace(before=Voters(3, 2), after=Voters(2, 1))

    monkeypatch.setattr(membership, "plan_change", two_of_three)
    with leading(policy=AckPolicy.NONE) as node:
        follower(node).close()
        preview = run("group", "remove", address_text(node.config.listen), "--node", "n2", "-n")
        assert preview.code == 0
        assert "afterwards 1 of 2 electable members would answer" in preview.err.replace("\n    ", " ")


def test_an_address_that_it_has() -> None:
    with leading(policy=AckPolicy.NONE) as node:
        follower(node).close()
        eventually(lambda: node.feeders() == 0)
        words = ("group", "update-address", address_text(node.config.listen), "--node", "n2", "--yes")
        same = run(*words, "--new-address", "localhost:7011")
        assert (same.code, "has the address localhost:7011 already" in same.err) == (exits.REFUSED, True)
