"""``python -m tests.bench.je_groups``: groups by JE's protocol: commits per second, and a copy that keeps up.

Three nodes as processes on loopback, on the same cores and disk: a group of JE, a jetool master with two jetool
members, and one with two of JE. Each transaction writes one record of a 16-byte key and 100 bytes; a majority
acknowledges it, and master and replicas make it durable (SYNC) or not (NO_SYNC). The groups take turns in one run. Then
a jetool secondary follows a master of JE that commits at a rate, NO_SYNC and unacknowledged: how far it is after the
last commit, and how long it takes to have that. JE's classes come from ``--je-classpath`` or JE_CLASSPATH.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from engine.db.config import EnvironmentConfig
from engine.rep.client.connection import Address, SocketNetwork
from engine.rep.client.group_state import GroupLook, look
from engine.rep.master.term import LeadConfig
from engine.rep.member.node import JoinedNode
from engine.rep.wire.feeder import NO_SYNC, SYNC
from engine.storage.disk import DiskStorage
from engine.txn.txn import Durability
from tests.support.groups.nodes import free_ports, leader
from tests.support.harness import environment
from tests.support.waiting import eventually

_SOURCE: Final = Path(__file__).with_name("JeGroup.java")
_GROUP: Final = "BENCH"
_PATIENCE_S: Final = 60
# It says how far it is with each heartbeat, and may have been asked just before.
_CAUGHT_UP_S: Final = 3
_SYNCS: Final = {"SYNC": (Durability.SYNC, SYNC), "NO_SYNC": (Durability.NO_SYNC, NO_SYNC)}
_JE, _OURS, _MIXED = "JE", "jetool", "jetool, members of JE"
# Of JE's rate in the same run.
_BOUNDS: Final = {"SYNC": 1.0, "NO_SYNC": 0.5}


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; the code is 1 where a bound is missed."""
    parser = _parser()
    options = parser.parse_args(args)
    if not options.je_classpath:
        parser.error("give --je-classpath or JE_CLASSPATH: the bounds are parts of JE's rates")
    rates: dict[tuple[str, int, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        for run in range(options.runs):
            for sync in _SYNCS:
                for kind in (_JE, _OURS, _MIXED):
                    home = Path(directory) / f"{sync}-{kind[:9]}-{run}"
                    for threads in options.threads:
                        rate = _commits(home / str(threads), kind, sync, options.commits, threads, options.je_classpath)
                        rates.setdefault((sync, threads, kind), []).append(rate)
        missed = print_rates(rates)
        return int(_follow(Path(directory), options.rate, options.seconds, options.je_classpath) or missed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.je_groups", description=__doc__)
    parser.add_argument("--commits", type=int, default=2000, help="commits of each run  [default: 2000]")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8], help="writing threads  [default: 1 8]")
    parser.add_argument("--runs", type=int, default=1, help="runs of each line  [default: 1]")
    parser.add_argument("--rate", type=int, default=5000, help="commits/s of what is followed  [default: 5000]")
    parser.add_argument("--seconds", type=int, default=10, help="for how long  [default: 10]")
    parser.add_argument("--je-classpath", default=os.environ.get("JE_CLASSPATH", ""), metavar="PATH")
    return parser


def print_rates(rates: dict[tuple[str, int, str], list[float]]) -> bool:
    """Whether a bound was missed."""
    missed = False
    for (sync, threads, kind), made in rates.items():
        rate, theirs = statistics.median(made), statistics.median(rates[sync, threads, _JE])
        bound = ""
        if kind != _JE:
            kept = rate >= theirs * _BOUNDS[sync]
            missed |= not kept
            bound = f"  {rate / theirs:5.2f} of JE's, at least {_BOUNDS[sync]}: {'kept' if kept else 'MISSED'}"
        print(f"{sync:8} {threads} threads  {kind:22} {rate:8,.0f} commits/s{bound}")
    return missed


def _commits(home: Path, kind: str, sync: str, commits: int, threads: int, class_path: str) -> float:
    """Commits per second of a new group."""
    home.mkdir(parents=True)
    addresses = free_ports(3)
    with ExitStack() as stack:
        if kind == _JE:
            master = stack.enter_context(_je(home, 0, addresses, class_path))
            for number in (1, 2):
                stack.enter_context(_je(home, number, addresses, class_path))
            # The first commits warm it up, as much as two seconds of work can.
            master.ask(f"write {commits} {threads} {sync}")
            return _rate(master.ask(f"write {commits} {threads} {sync}"))
        durability, of_replicas = _SYNCS[sync]
        lead = LeadConfig(ack_timeout_s=_PATIENCE_S, replica_sync=of_replicas)
        directory = DiskStorage(home / "n0")
        node = leader(directory, "n0", addresses[0], _GROUP, lead=lead, environment=EnvironmentConfig())
        stack.callback(node.stop)
        for number in (1, 2):
            member = _je(home, number, addresses, class_path) if kind == _MIXED else _ours(home, number, addresses)
            stack.enter_context(member)
        eventually(lambda: node.feeders() == 2, timeout_s=_PATIENCE_S)
        node.environment.create_database("t").close()
        _write(node, commits, threads, durability)
        began = time.perf_counter()
        done = _write(node, commits, threads, durability)
        return done / (time.perf_counter() - began)


def _rate(answer: str) -> float:
    done, seconds = answer.split()
    return int(done) / float(seconds)


def _write(node: JoinedNode, commits: int, threads: int, durability: Durability) -> int:
    env, share = node.environment, commits // threads

    def work(thread: int) -> None:
        with env.open_database("t") as db:
            for number in range(share):
                with env.begin(durability=durability) as txn:
                    db.put(b"%016d" % (thread * commits + number), b"x" * 100, txn)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return share * threads


class _JeNode:
    """A node of JE in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.state = self._answer()

    def ask(self, line: str) -> str:
        """What it says when it has done that."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline().strip()
        if not answer:
            raise SystemExit("a node of JE has ended")
        return answer


@contextmanager
def _je(home: Path, number: int, addresses: Sequence[Address], class_path: str) -> Iterator[_JeNode]:
    words = [_GROUP, f"n{number}", str(addresses[number][1]), str(addresses[0][1]), str(home / f"n{number}")]
    command = ["java", "-Xmx256m", "-cp", class_path, str(_SOURCE), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _JeNode(process)
        finally:
            process.communicate("stop\n", timeout=_PATIENCE_S)


@contextmanager
def _ours(
    home: Path, number: int, addresses: Sequence[Address], node_type: str = "electable"
) -> Iterator[subprocess.Popen[str]]:
    to = [f"{host}:{port}" for host, port in (addresses[number], addresses[0])]
    words = [str(home / f"n{number}"), "--node", f"n{number}", "--listen", to[0], "--join", to[1], "--type", node_type]
    command = [sys.executable, "-m", "jetool", "node", "run", *words]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, text=True, env=environment()) as process:
        try:
            yield process
        finally:
            process.terminate()


def _follow(home: Path, rate: int, seconds: int, class_path: str) -> bool:
    """Whether a secondary fell behind a master."""
    addresses = free_ports(2)
    with _je(home, 0, addresses, class_path) as master, _ours(home, 1, addresses, "secondary") as copy:
        eventually(
            lambda: [node.state for node in _look(addresses).nodes] == ["MASTER", "REPLICA"], timeout_s=_PATIENCE_S
        )
        cpu = _cpu_s(copy.pid)
        reached = _rate(master.ask(f"pace {seconds} {rate}"))
        ended = time.perf_counter()
        behind = _lag(addresses)
        eventually(lambda: _lag(addresses) == 0, timeout_s=_PATIENCE_S)
        passed = time.perf_counter() - ended
        cpu = _cpu_s(copy.pid) - cpu
    kept = passed < _CAUGHT_UP_S
    print(
        f"a jetool secondary of a master of JE that commits {reached:,.0f}/s for {seconds} s:"
        f" {behind:,} VLSNs behind at the end, all after {passed:.1f} s, CPU {cpu:.1f} s"
        f"  at most {_CAUGHT_UP_S} s: {'kept' if kept else 'MISSED'}"
    )
    return not kept


def _look(addresses: Sequence[Address]) -> GroupLook:
    return look(SocketNetwork(), addresses, _GROUP, _PATIENCE_S)


def _lag(addresses: Sequence[Address]) -> int:
    vlsns = {node.name: node.said.commit_vlsn for node in _look(addresses).nodes if node.said is not None}
    return vlsns["n0"] - vlsns["n1"]


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
