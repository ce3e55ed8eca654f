"""Elections among nodes over TCP on loopback: who wins, what is kept, who gives way."""

from __future__ import annotations

import contextlib
import random
import socketserver
import threading
from itertools import count

import pytest

from engine.errors import JetoolError, RefusedError
from engine.rep.acks import AckPolicy
from engine.rep.election.ballot import FILE, Ballot
from engine.rep.election.messages import FrameKind, VoterJoin, encode_join
from engine.rep.frames import Channel, PeerError
from engine.rep.handshake import NO_UUID, Answerer, Identity, Purpose, call
from engine.rep.node import RepNode
from engine.rep.operator import ask_status, ask_transfer
from engine.rep.settings import ElectionConfig, Role
from engine.storage.memory import MemoryStorage
from tests.db.workload import contents
from tests.rep.nodes import (
    PATIENCE_S,
    SECRET,
    TIMEOUT_S,
    Address,
    ElectedGroup,
    config_of,
    elected_group,
    eventually,
    free_ports,
    started,
)
from tests.rep.streams import check_index, open_alone, open_replicated
from tests.rep.test_nodes import put, put_alone
from tests.support.faulty_storage import Effect, FaultyStorage, Rule


def put_all(node: RepNode, *keys: bytes) -> int:
    """Commit records, one transaction each; the database is made when it is missing."""
    if "t" not in node.environment.database_names():
        node.environment.create_database("t").close()
    return max(put(node, key) for key in keys)


def put_forever(node: RepNode, committed: list[bytes] | None = None) -> None:
    """Commit until that fails; ``committed`` gets the keys for which it did not."""
    for n in count():
        put(node, b"%06d" % n)
        if committed is not None:
            committed.append(b"%06d" % n)


def keys_of(node: RepNode) -> set[bytes]:
    return set(contents(node.environment)["t"])


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_the_first_election_makes_the_group(voters: int) -> None:
    with elected_group(*[1] * voters) as group:
        master = group.nodes[group.master()]
        assert master._term is not None
        assert master._term.gate.electable == voters
        vlsn = put_all(master, b"a", b"b")
        for node in group.nodes.values():
            assert node is master or node.await_vlsn(vlsn, PATIENCE_S)
            assert keys_of(node) == {b"a", b"b"}
            check_index(node.environment)
        status = ask_status(master.config.listen, SECRET)
        assert (status.role, status.priority, status.elects) == ("master", 1, True)
        assert status.term >= 1


def test_no_group_is_made_before_everybody_is_there() -> None:
    """Two of three are a majority; but the third may have data."""
    group = ElectedGroup([9, 1, 1])
    try:
        group.start(0, 1)
        eventually(lambda: "elected yet: this one, node2 are there" in str(group.nodes[0].problem), PATIENCE_S)
        assert not group.nodes[0].await_role(Role.MASTER, 6 * TIMEOUT_S)
        group.start(2)
        assert group.settled() == 0
    finally:
        group.close()


def test_the_newest_log_wins_against_priority() -> None:
    with elected_group(1, 1, 9) as group:
        assert group.settled() == 2
        vlsn = put_all(group.nodes[2], b"a")
        assert group.nodes[0].await_vlsn(vlsn, PATIENCE_S)
        group.network.isolate(1)
        kept = [b"kept %d" % n for n in range(20)]
        put_all(group.nodes[2], *kept)
        group.crash(2)
        group.network.mend()
        assert group.settled() == 0
        assert keys_of(group.nodes[1]) == {b"a", *kept}
        group.start(2)
        assert group.settled() in (0, 2)
        assert keys_of(group.nodes[2]) == {b"a", *kept}


def test_of_equals_the_priority_decides_and_zero_is_never_elected() -> None:
    with elected_group(0, 1, 2) as group:
        assert group.master() == 2
        put_all(group.nodes[2], b"a")
        group.settled()
        group.crash(2)
        assert group.settled() == 1
        put_all(group.nodes[1], b"b")
        group.settled()
        group.crash(1)
        assert not group.nodes[0].await_role(Role.MASTER, 2)


def test_a_higher_vlsn_of_an_older_term_does_not_win() -> None:
    """The old master went on alone: its VLSNs are higher, and nobody acknowledged them."""
    with elected_group(1, 1, 1) as group:
        old = group.master()
        put_all(group.nodes[old], b"kept")
        group.settled()
        others = [n for n in range(3) if n != old]
        put_alone(group.nodes[old], 40)
        surplus = group.nodes[old].status().last_vlsn
        group.crash(old)
        new = group.settled()
        put_all(group.nodes[new], b"of term two")
        assert group.nodes[next(n for n in others if n != new)].await_vlsn(
            group.nodes[new].status().last_vlsn, PATIENCE_S
        )
        assert group.nodes[new].status().last_vlsn < surplus
        group.crash(new)
        group.start(old, rollback_limit=1000)
        third = next(n for n in others if n != new)
        assert group.master(old, third) == third
        assert group.settled() == third
        assert keys_of(group.nodes[old]) == {b"kept", b"of term two"}
        check_index(group.nodes[old].environment)


@pytest.mark.parametrize("silently", [False, True])
def test_a_master_without_a_majority_gives_way_and_acknowledges_nothing(silently: bool) -> None:
    with elected_group(1, 1, 1, ack_timeout_s=1) as group:
        old = group.master()
        put_all(group.nodes[old], b"kept")
        group.settled()
        group.network.isolate(old, silently=silently)
        with pytest.raises(JetoolError):
            put_forever(group.nodes[old])
        eventually(lambda: group.nodes[old].role is not Role.MASTER, PATIENCE_S)
        new = group.master(*(n for n in range(3) if n != old))
        put_all(group.nodes[new], b"new")
        assert group.nodes[old].role is Role.UNKNOWN
        assert "no master is elected" in str(group.nodes[old].problem)
        assert group.nodes[old].status().term < group.nodes[new].status().term
        group.network.mend()
        assert group.settled() == new
        assert keys_of(group.nodes[old]) == {b"kept", b"new"}
        check_index(group.nodes[old].environment)


def test_a_node_that_was_cut_off_does_not_disturb() -> None:
    """It cannot win, does not stand, and its term does not climb."""
    with elected_group(1, 1, 1) as group:
        master = group.master()
        put_all(group.nodes[master], b"a")
        cut = next(n for n in range(3) if n != master)
        term = group.nodes[master].status().term
        group.network.isolate(cut)
        eventually(lambda: group.nodes[cut].role is Role.UNKNOWN)
        assert not group.nodes[cut].await_role(Role.MASTER, 3)
        put_all(group.nodes[master], b"b")
        group.network.mend()
        assert group.settled() == master
        assert group.nodes[master].status().term == term


def test_five_nodes_lose_two_masters() -> None:
    with elected_group(1, 1, 1, 1, 1) as group:
        keys = []
        for turn in range(2):
            master = group.settled()
            keys += [b"%d %d" % (turn, n) for n in range(10)]
            put_all(group.nodes[master], *keys[-10:])
            group.crash(master)
        master = group.settled()
        put_all(group.nodes[master], b"last")
        group.start(*(n for n in range(5) if n not in group.nodes))
        group.settled()
        for node in group.nodes.values():
            assert keys_of(node) == {*keys, b"last"}


def test_all_are_started_again() -> None:
    with elected_group(1, 1, 1) as group:
        put_all(group.nodes[group.master()], b"a")
        group.settled()
        term = group.nodes[0].status().term
        for n in range(3):
            group.crash(n)
        group.start(0, 1, 2)
        master = group.nodes[group.settled()]
        assert master.status().term > term
        put_all(master, b"b")
        group.settled()
        assert [keys_of(node) for node in group.nodes.values()] == [{b"a", b"b"}] * 3
        assert all(Ballot(storage).voted >= 1 for storage in group.storages)


def test_mastership_is_handed_over_while_somebody_writes() -> None:
    with elected_group(1, 1, 1) as group:
        old = group.master()
        master = group.nodes[old]
        put_all(master, b"first")
        group.settled()
        new = next(n for n in range(3) if n != old)
        committed: list[bytes] = []

        def write() -> None:
            with pytest.raises(JetoolError):
                put_forever(master, committed)

        writer = threading.Thread(target=write)
        writer.start()
        eventually(lambda: len(committed) > 20)
        ask_transfer(master.config.listen, SECRET, f"node{new + 1}", force=False, timeout_s=PATIENCE_S)
        writer.join()
        assert group.settled() == new
        assert {b"first", *committed} <= keys_of(group.nodes[new])
        with pytest.raises(RefusedError, match="not the master"):
            master.transfer("node1", 1)
        with pytest.raises(RefusedError, match="masters are elected"):
            ask_transfer(group.addresses[new], SECRET, "another", force=True, timeout_s=1)
        ask_transfer(group.addresses[old], SECRET, f"node{old + 1}", force=True, timeout_s=PATIENCE_S)
        assert group.settled() == old
        assert keys_of(group.nodes[old]) == keys_of(group.nodes[new])


def test_a_node_that_lacks_commits_is_not_elected_even_by_force() -> None:
    with elected_group(1, 1, 1) as group:
        master = group.master()
        behind, other = (n for n in range(3) if n != master)
        put_all(group.nodes[master], b"a")
        group.settled()
        group.network.isolate(behind)
        vlsn = put_all(group.nodes[master], b"b", b"c")
        assert group.nodes[other].await_vlsn(vlsn, PATIENCE_S)
        with pytest.raises(RefusedError, match="was not elected"):
            group.nodes[behind].lead()
        assert group.nodes[master].role is Role.MASTER


def test_who_does_not_know_the_secret_does_not_vote() -> None:
    with elected_group(1, 1, 1) as group:
        stranger = Identity("GROUP", NO_UUID, "node2", "127.0.0.1", 1)
        with pytest.raises(PeerError, match="secret is not the right one"):
            call(group.addresses[0], stranger, Purpose.ELECT, b"another secret, long enough", 5)
        listen = free_ports(1)[0]
        wrong = started(
            MemoryStorage(),
            config_of(0, [listen, *group.addresses], name="node9", secret=b"another secret, long enough",
                      election=ElectionConfig(timeout_s=0.5)),
        )  # fmt: skip
        assert wrong.await_end(PATIENCE_S)
        assert "the shared secret is not the right one" in str(wrong.failure)
        wrong.stop()
        group.settled()


def test_nonsense_from_a_voter_ends_its_connection() -> None:
    """One that knows the secret, and takes the name of a voter: nothing changes, nobody is deposed."""
    with elected_group(1, 1, 1) as group:
        master = group.nodes[group.master()]
        put_all(master, b"a")
        term, seeded = master.status().term, random.Random(1)
        voter = Identity("GROUP", NO_UUID, f"node{1 + (group.master() == 0)}", "127.0.0.1", 1)
        greeting = encode_join(VoterJoin(3, voter.node))
        for turn in range(30):
            channel = call(master.config.listen, voter, Purpose.ELECT, SECRET, 5)
            if turn % 3:
                channel.send(FrameKind.JOIN, greeting)
                assert channel.receive(5).type == FrameKind.JOIN
            channel.send(seeded.choice((*FrameKind, 0, 255)), seeded.randbytes(seeded.choice((0, 7, 9, 40, 2000))))
            with pytest.raises(PeerError):
                channel.receive(5)
            channel.close()
        put_all(master, b"b")
        assert (master.role, master.status().term) == (Role.MASTER, term)
        group.settled()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", "refused"])
def test_strangers_on_the_ports_of_the_peers_do_not_end_a_master(answer: bytes | str) -> None:
    """Both peers stop, and strangers take their ports: the master gives its role up, and leads again with its peers."""
    with elected_group(1, 1, 1) as group:
        master = group.master()
        put_all(group.nodes[master], b"a")
        others = [n for n in range(3) if n != master]
        for number in others:
            group.nodes[number].stop()
        said = threading.Event()

        class Stranger(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                if isinstance(answer, str):
                    channel = Channel(self.request, "caller")
                    with contextlib.suppress(PeerError):
                        raise Answerer(channel, b"another secret").refusal("the shared secret is not the right one")
                else:
                    self.request.sendall(answer)
                said.set()

        strangers = [_serving(group.addresses[number], Stranger) for number in others]
        assert said.wait(PATIENCE_S)
        # Long enough for several rounds of calls on both links.
        assert not group.nodes[master].await_end(3 * TIMEOUT_S)
        assert group.nodes[master].failure is None
        for server in strangers:
            server.shutdown()
            server.server_close()
        for number in others:
            group.start(number)
        group.settled()


def _serving(address: Address, handler: type[socketserver.BaseRequestHandler]) -> socketserver.ThreadingTCPServer:
    class Server(socketserver.ThreadingTCPServer):
        allow_reuse_address = True
        daemon_threads = True

    server = Server(address, handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def test_another_number_of_voters_is_refused() -> None:
    with elected_group(1, 1, 1) as group:
        listen = free_ports(1)[0]
        fourth = started(
            MemoryStorage(),
            config_of(0, [listen, *group.addresses], name="node9", election=ElectionConfig(timeout_s=0.5)),
        )
        assert fourth.await_end(PATIENCE_S)
        assert "knows 3 voters, 'node9' knows 4" in str(fourth.failure)
        fourth.stop()


def test_nodes_that_elect_and_nodes_that_do_not() -> None:
    """Neither follows the other; a master named by hand in an elected group is no master of anybody."""
    with elected_group(1, 1, 1) as group:
        master = group.nodes[group.master()]
        listen = free_ports(1)[0]
        plain = started(MemoryStorage(), config_of(0, [listen, master.config.listen], name="node9"))
        assert plain.await_end(PATIENCE_S)
        assert "start this node with --elect" in str(
            plain.failure.hint if isinstance(plain.failure, JetoolError) else ""
        )
        plain.stop()
    addresses = free_ports(2)
    by_hand = started(MemoryStorage(), config_of(0, addresses, master=True))
    voter = started(MemoryStorage(), config_of(1, addresses, election=ElectionConfig(timeout_s=0.5)))
    assert voter.await_end(PATIENCE_S)
    assert "started without --elect" in str(voter.failure)
    voter.stop()
    by_hand.stop()


def test_who_has_voted_acknowledges_nothing_more_in_earlier_terms() -> None:
    """What ``leave_masters_before`` promises: replicas acknowledge nothing, the master gets nothing acknowledged."""
    with elected_group(1, 1, 1, ack_timeout_s=0.5) as group:
        number = group.master()
        master = group.nodes[number]
        put_all(master, b"kept")
        group.settled()
        eventually(lambda: {replica.acked_vlsn for replica in master.status().replicas} == {master.status().last_vlsn})
        acked = master.status().last_vlsn
        others = [node for n, node in group.nodes.items() if n != number]
        for node in others:
            node.leave_masters_before(1 << 40)
        with pytest.raises(JetoolError):
            put(master, b"late")
        for node in others:
            eventually(lambda: "was the master in term" in str(node.problem), PATIENCE_S)  # noqa: B023
            assert node.role is Role.UNKNOWN
        assert all(replica.acked_vlsn <= acked for replica in master.status().replicas)
        master.leave_masters_before(1 << 40)
        with pytest.raises(RefusedError, match="no longer the master"):
            put(master, b"later")


def test_a_master_that_cannot_write_gives_way() -> None:
    group = ElectedGroup([1, 1, 2])
    rules: list[Rule] = []
    group.storages[2] = FaultyStorage(MemoryStorage(), rules)
    try:
        group.start(0, 1, 2)
        assert group.settled() == 2
        put_all(group.nodes[2], b"kept")
        group.settled()
        rules.append(Rule("write", Effect.FAIL, nth=0, path="*.jdb"))
        with pytest.raises(JetoolError):
            put_forever(group.nodes[2])
        new = group.nodes[group.master(0, 1)]
        assert b"kept" in keys_of(new)
        put_all(new, b"new")
        assert group.nodes[2].await_end(PATIENCE_S)
        assert group.nodes[2].status().role == "unknown"
    finally:
        rules.clear()
        group.close()


def test_a_voter_is_not_run_by_hand() -> None:
    with elected_group(1, 1, 1) as group:
        put_all(group.nodes[group.master()], b"a")
    addresses = free_ports(3)
    for changes in ({"master": True}, {}):
        node = RepNode(group.storages[0], config_of(0, addresses, **changes))
        with pytest.raises(RefusedError, match="took part in elections") as caught:
            node.start()
        assert caught.value.file is not None
        assert caught.value.file.endswith(FILE)
    group.storages[0].remove(FILE)
    node = started(group.storages[0], config_of(0, addresses, master=True))
    assert node.await_role(Role.MASTER, PATIENCE_S)
    node.stop()


def test_policy_all_waits_for_every_voter() -> None:
    with elected_group(1, 1, 1, policy=AckPolicy.ALL, ack_timeout_s=0.5) as group:
        master = group.master()
        put_all(group.nodes[master], b"a")
        group.crash(next(n for n in range(3) if n != master))
        with pytest.raises(JetoolError):
            put_forever(group.nodes[master])


def test_an_environment_that_was_made_before_is_taken_over() -> None:
    """``jetool create --replicated`` makes a group of one; the others have nothing, and vote for it."""
    group = ElectedGroup([1, 1, 1])
    try:
        with open_alone(group.storages[0]) as env:
            env.create_database("t").close()
        group.start(1, 2)
        group.start(0)
        assert group.settled() == 0
        put_all(group.nodes[0], b"a")
        for n in (1, 2):
            eventually(lambda: group.nodes[n].status().last_vlsn == group.nodes[0].status().last_vlsn)  # noqa: B023
        group.settled()
        group.crash(0)
        assert keys_of(group.nodes[group.settled()]) == {b"a"}
    finally:
        group.close()
    with open_replicated(group.storages[1]) as env:
        check_index(env)
