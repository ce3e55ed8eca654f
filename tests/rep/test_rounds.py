"""Three nodes as processes; kill -9, partitions, old masters that rejoin, round after round.

After each round all nodes hold the same records, among them every acknowledged commit; VLSNs are contiguous;
rolled-back entries are invisible; rollback periods are well formed; ``diff`` says identical.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import RefusedError
from engine.rep.frames import PeerError
from engine.rep.messages import NodeStatus
from engine.rep.operator import ask_status, ask_transfer
from engine.storage.disk import DiskStorage
from tests.db.workload import State, contents
from tests.harness import environment, run
from tests.rep.nodes import SECRET, free_ports
from tests.rep.proxy import Network
from tests.rep.streams import visible_stream

PATIENCE_S = 60


class Group:
    """Three processes, and the network between them; ``elects``: nobody names their master."""

    def __init__(self, directory: Path, seed: int, *, elects: bool = False) -> None:
        self.elects = elects
        self.random = random.Random(seed)
        self.homes = [directory / f"n{n}" for n in range(3)]
        self.ports = [port for _, port in free_ports(3)]
        self.journal = directory / "journal"
        self.network = Network(self.ports)
        self.processes: list[subprocess.Popen[str] | None] = [None] * 3
        self.acknowledged = 0

    def start(self, n: int, *, master: bool = False) -> None:
        peers = ",".join(str(self.network.port(n, other)) for other in range(3) if other != n)
        words = [str(self.homes[n]), f"n{n}", str(self.ports[n]), str(self.journal), peers]
        how = ["--elect"] if self.elects else ["--master"] if master else []
        command = [sys.executable, "-m", "tests.rep.worker", *words, *how]
        self.processes[n] = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )

    def kill(self, n: int) -> None:
        process = self.processes[n]
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.processes[n] = None

    def say(self, word: str) -> None:
        for process in self.processes:
            if process is not None:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(word + "\n")
                process.stdin.flush()
                assert process.stdout.readline() == "ok\n"

    def status(self, n: int) -> NodeStatus | None:
        try:
            return ask_status(("127.0.0.1", self.ports[n]), SECRET)
        except PeerError:
            return None

    def make_master(self, n: int) -> None:
        def asked() -> bool:
            try:
                ask_transfer(("127.0.0.1", self.ports[n]), SECRET, f"n{n}", force=True, timeout_s=5)
            except RefusedError:
                return False
            return True

        self.eventually(asked, f"n{n} takes over")

    def give_way(self, n: int) -> None:
        ask_transfer(("127.0.0.1", self.ports[n]), SECRET, "another", force=True, timeout_s=5)

    def master(self, among: list[int]) -> int | None:
        for n in among:
            found = self.status(n)
            if found is not None and found.role == "master":
                return n
        return None

    def the_master(self) -> int:
        self.eventually(lambda: self.master([0, 1, 2]) is not None, "there is a master")
        found = self.master([0, 1, 2])
        assert found is not None
        return found

    def commits(self) -> int:
        return self.journal.read_bytes().count(b"\n") if self.journal.exists() else 0

    def await_commits(self, more: int) -> None:
        wanted = self.commits() + more
        self.eventually(lambda: self.commits() >= wanted, f"{more} more commits")

    def eventually(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            states = [self.status(n) for n in range(3)] if time.monotonic() > deadline else []
            assert not states, f"{what}: {states}"
            time.sleep(0.03)

    def close(self) -> None:
        for n, process in enumerate(self.processes):
            if process is not None:
                self.kill(n)
        self.network.close()


def disaster(group: Group, commits: int) -> None:
    """Something happens to one node; the others go on; it comes back."""
    group.say("go")
    group.await_commits(commits)
    master = group.master([0, 1, 2])
    assert master is not None
    victim = group.random.choice([master, master, *range(3)])
    killed = group.random.random() < 0.5
    if killed:
        group.kill(victim)
    else:
        group.network.isolate(victim)
    others = [n for n in range(3) if n != victim]
    if victim == master:
        if not killed:
            time.sleep(group.random.random() * 0.5)  # It goes on alone for a while.
        group.eventually(lambda: all(group.status(n) for n in others), "the others answer")
        found = {n: group.status(n) for n in others}
        group.make_master(max(others, key=lambda n: getattr(found[n], "last_vlsn", -1)))
    group.await_commits(commits)
    group.network.mend()
    if not killed and victim == master:
        if group.random.random() < 0.5:
            group.kill(victim)
        else:
            group.give_way(victim)
    come_back(group, victim, commits // 3)


def elected_disaster(group: Group, commits: int) -> None:
    """One node is killed, or cut off with or without a sign; the two others find a master; it comes back."""
    group.say("go")
    group.await_commits(commits)
    master = group.the_master()
    victim = group.random.choice([master, master, *range(3)])
    others = [n for n in range(3) if n != victim]
    what = group.random.choice(("kill", "cut", "freeze"))
    if what == "kill":
        group.kill(victim)
    else:
        group.network.isolate(victim, silently=what == "freeze")
    if victim == master:
        group.eventually(lambda: group.master(others) is not None, "another one is elected")
    group.await_commits(commits)
    if what != "kill" and group.random.random() < 0.3:
        group.kill(victim)
    group.network.mend()
    come_back(group, victim, commits // 3)


def come_back(group: Group, victim: int, commits: int) -> None:
    """The victim runs again, beside the others; then all come to rest."""
    if group.processes[victim] is None:
        group.start(victim)
        group.say("go")
    group.await_commits(commits)
    group.say("pause")
    settle(group)


def settle(group: Group) -> None:
    """Wait until nothing is under way and all have the same."""

    def equal() -> bool:
        found = [group.status(n) for n in range(3)]
        if any(status is None for status in found):
            return False
        masters = [status for status in found if status is not None and status.role == "master"]
        ends = {status.last_vlsn for status in found if status is not None}
        return (
            len(masters) == 1
            and len(ends) == 1
            and [r.acked_vlsn for r in masters[0].replicas if r.connected] == [masters[0].last_vlsn] * 2
        )

    group.eventually(equal, "all nodes have the same")
    time.sleep(0.2)
    group.eventually(equal, "all nodes still have the same")


def check(group: Group) -> None:
    """What must be so after every round."""
    found: list[State] = []
    for home in group.homes:
        storage = DiskStorage(home)
        stream = visible_stream(storage)
        with Environment(storage, EnvironmentConfig(read_only=True)) as env:
            found.append(contents(env))
            for period in env.engine.recovery.periods:
                assert period.matchpoint_lsn < period.start_lsn
        assert list(stream) == list(range(1, max(stream) + 1))
    assert found[0] == found[1] == found[2]
    journal = group.journal.read_bytes().splitlines()
    missing = set(journal) - found[0]["t"].keys()
    assert not missing, f"{len(missing)} acknowledged commits are lost: {sorted(missing)[:5]}"
    group.acknowledged = len(journal)
    for other in group.homes[1:]:
        result = run("diff", group.homes[0], other)
        assert result.code == 0, result.text + result.err


def play_elected(directory: Path, seed: int, rounds: int, commits: int) -> Group:
    group = Group(directory, seed, elects=True)
    try:
        for n in range(3):
            group.start(n)
        group.the_master()
        for _ in range(rounds):
            elected_disaster(group, commits)
            check(group)
    finally:
        group.close()
    return group


def play(directory: Path, seed: int, rounds: int, commits: int) -> Group:
    group = Group(directory, seed)
    try:
        group.start(0, master=True)
        group.eventually(lambda: group.master([0]) == 0, "n0 leads")
        for n in (1, 2):
            group.start(n)
        group.eventually(lambda: len(getattr(group.status(0), "replicas", ())) == 2, "all are there")
        for _ in range(rounds):
            disaster(group, commits)
            check(group)
    finally:
        group.close()
    return group


def test_a_few_rounds(tmp_path: Path) -> None:
    group = play(tmp_path, 1, 4, 60)
    assert group.acknowledged > 4 * 120


def test_a_few_rounds_with_elections(tmp_path: Path) -> None:
    group = play_elected(tmp_path, 3, 4, 60)
    assert group.acknowledged > 4 * 120


@pytest.mark.slow
def test_fifty_rounds_with_elections(tmp_path: Path) -> None:
    group = play_elected(tmp_path, 4, 50, 200)
    assert group.acknowledged >= 50 * 400


@pytest.mark.slow
def test_fifty_rounds(tmp_path: Path) -> None:
    """50,000 transactions."""
    group = play(tmp_path, 2, 50, 430)
    assert group.acknowledged >= 50_000
