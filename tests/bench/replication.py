"""``python -m tests.bench.replication``: commits per second of a master with two replicas on loopback.

The master runs in this process, each replica in one of its own; all logs are on the same disk. Every commit is durable
on the master (SYNC), and replicas acknowledge what they have on disk. One transaction writes one record of a 16-byte
key and 100 bytes. The policies take turns, so that a busy moment meets all of them; a figure is the median of the runs.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from engine.db.config import EnvironmentConfig
from engine.rep.acks import AckPolicy
from engine.rep.master.term import LeadConfig
from engine.rep.member.node import JoinedNode
from engine.storage.disk import DiskStorage
from tests.support.groups.nodes import free_ports, leader
from tests.support.harness import environment
from tests.support.waiting import eventually

_KEY = "%016d"
_DATA = b"x" * 100


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = _parser().parse_args(args)
    figures: dict[tuple[AckPolicy, int], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="jetool-bench-") as directory:
        for run in range(options.runs):
            for policy in AckPolicy:
                home = Path(directory) / f"{policy.value}-{run}"
                for threads, rate in _measure(home, policy, options.commits, options.threads).items():
                    figures.setdefault((policy, threads), []).append(rate)
    for (policy, threads), rates in figures.items():
        print(f"{policy.value:16} {threads:2} threads  {statistics.median(rates):8,.0f} commits/s")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.bench.replication", description=__doc__)
    parser.add_argument("--commits", type=int, default=2000, help="commits of each run  [default: 2000]")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8], help="writing threads  [default: 1 8]")
    parser.add_argument("--runs", type=int, default=3, help="runs of each policy  [default: 3]")
    return parser


def _measure(home: Path, policy: AckPolicy, commits: int, threads: Sequence[int]) -> dict[int, float]:
    home.mkdir()
    addresses = free_ports(3)
    lead, environment = LeadConfig(policy, ack_timeout_s=30), EnvironmentConfig()
    master = leader(DiskStorage(home / "n0"), "n0", addresses[0], "GROUP", lead=lead, environment=environment)
    replicas = [_replica(home, n, addresses) for n in (1, 2)]
    try:
        eventually(lambda: sum(replica.connected for replica in master.status().replicas) == 2, timeout_s=30)
        master.environment.create_database("t").close()
        return {count: _write(master, commits, count) for count in threads}
    finally:
        for replica in replicas:
            replica.communicate("stop\n", timeout=30)
        master.stop()


def _replica(home: Path, n: int, addresses: Sequence[tuple[str, int]]) -> subprocess.Popen[str]:
    port = addresses[0][1]
    words = [str(home / f"n{n}"), f"n{n}", str(addresses[n][1]), str(home / "journal"), f"{port}={port}"]
    command = [sys.executable, "-m", "tests.rep.worker", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())


def _write(master: JoinedNode, commits: int, threads: int) -> float:
    """Commits per second of some threads together."""
    env = master.environment
    share = commits // threads

    def work(thread: int) -> None:
        with env.open_database("t") as db:
            for i in range(share):
                db.put((_KEY % (thread * commits + i)).encode(), _DATA)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    started = time.perf_counter()
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return share * threads / (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
