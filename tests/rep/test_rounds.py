"""Three members as processes; kill -9, partitions, elections, old masters that rejoin, round after round.

After each round all nodes hold the same records, among them every acknowledged commit; VLSNs are contiguous;
rolled-back entries are invisible; rollback periods are well formed; ``diff`` says identical.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.disk import DiskStorage
from tests.rep.proxy import Network
from tests.support.environments.workload import State, contents
from tests.support.groups.nodes import free_ports
from tests.support.groups.streams import visible_stream
from tests.support.harness import environment, run
from tests.support.waiting import PATIENCE_S


class Group:
    """Three processes, and the network between them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.homes = [directory / f"n{n}" for n in range(3)]
        self.ports = [port for _, port in free_ports(3)]
        self.directory = directory
        self.journal = directory / "journal"
        self.network = Network(self.ports)
        self.processes: list[subprocess.Popen[str] | None] = [None] * 3
        self.acknowledged = 0

    def start(self, n: int) -> None:
        others = [other for other in range(3) if other != n]
        peers = ",".join(f"{self.ports[other]}={self.network.port(n, other)}" for other in others)
        words = [str(self.homes[n]), f"n{n}", str(self.ports[n]), str(self.journal), peers]
        command = [sys.executable, "-m", "tests.rep.worker", *words, *(["--master"] if n == 0 else [])]
        with (self.directory / f"n{n}.err").open("ab") as err:
            self.processes[n] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True, env=environment()
            )

    def kill(self, n: int) -> None:
        process = self.processes[n]
        assert process is not None
        process.send_signal(signal.SIGKILL)
        # A word that it was not told may be left in the pipe.
        with contextlib.suppress(BrokenPipeError):
            process.communicate()
        self.processes[n] = None

    def ask(self, n: int, word: str) -> dict[str, Any]:
        """How a node is, after it was told something."""
        process = self.processes[n]
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        # One that has ended is noticed by what it does not answer.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(word + "\n")
            process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"n{n} has ended with {process.wait(PATIENCE_S)}: {self.complaints()}"
        said: dict[str, Any] = json.loads(line)
        return said

    def complaints(self) -> dict[str, str]:
        """What the nodes have written to standard error."""
        return {path.name: path.read_text()[-2000:] for path in sorted(self.directory.glob("n?.err"))}

    def say(self, word: str) -> None:
        for n, process in enumerate(self.processes):
            if process is not None:
                self.ask(n, word)

    def master(self, among: list[int]) -> int | None:
        running = [n for n in among if self.processes[n] is not None]
        return next((n for n in running if self.ask(n, "status")["role"] == "master"), None)

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
            late = time.monotonic() > deadline
            states = [self.ask(n, "status") for n in range(3) if self.processes[n] is not None] if late else []
            assert not late, f"{what}: {states}, {self.complaints()}"
            time.sleep(0.03)

    def close(self) -> None:
        for n, process in enumerate(self.processes):
            if process is not None:
                self.kill(n)
        self.network.close()


def disaster(group: Group, commits: int, kinds: tuple[str, ...]) -> None:
    """One node is killed, or cut off with or without a sign; the two others find a master; it comes back."""
    group.say("go")
    group.await_commits(commits)
    master = group.the_master()
    victim = group.random.choice([master, master, *range(3)])
    others = [n for n in range(3) if n != victim]
    what = group.random.choice(kinds)
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
        found = [group.ask(n, "status") for n in range(3)]
        masters = [status for status in found if status["role"] == "master"]
        ends = {status["last"] for status in found}
        return len(masters) == len(ends) == 1 and masters[0]["acked"] == [masters[0]["last"]] * 2

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
        # The nodes run: the master may log a transaction without records, which carries its DTVLSN, at any moment.
        group.eventually(partial(equal_logs, group.homes[0], other), f"{other} has the same log")


def equal_logs(home: Path, other: Path) -> bool:
    return run("diff", home, other).code == 0


def play(directory: Path, seed: int, rounds: int, commits: int, kinds: tuple[str, ...] = ("kill", "cut")) -> Group:
    group = Group(directory, seed)
    try:
        group.start(0)
        group.the_master()
        for n in (1, 2):
            group.start(n)
        group.eventually(lambda: len(group.ask(group.the_master(), "status")["acked"]) == 2, "all are there")
        for _ in range(rounds):
            disaster(group, commits, kinds)
            check(group)
    finally:
        group.close()
    return group


@pytest.mark.exhaustive
def test_a_few_rounds(tmp_path: Path) -> None:
    group = play(tmp_path, 3, 4, 60)
    assert group.acknowledged > 4 * 120


@pytest.mark.slow
def test_fifty_rounds(tmp_path: Path) -> None:
    """A cut without a sign is noticed when a heartbeat is missed for long enough."""
    group = play(tmp_path, 4, 50, 200, ("kill", "cut", "freeze"))
    assert group.acknowledged >= 50 * 400
