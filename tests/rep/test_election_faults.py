"""Five nodes that elect, and many faults at once: single links cut or silent, nodes cut off, crashes, transfers.

Whatever happens, and in whichever order: when it is over all nodes have one master, the same records, and among them
every commit that was acknowledged.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time

import pytest

from engine.catalog.naming import DatabaseOptions
from engine.errors import JetoolError
from engine.rep.settings import Role
from tests.db.workload import contents
from tests.rep.nodes import ElectedGroup
from tests.rep.streams import check_index, open_replicated
from tests.rep.test_nodes import put

VOTERS = 5


class Writers:
    """One thread for each node, which commits while that node is the master."""

    def __init__(self, group: ElectedGroup) -> None:
        self._group = group
        self._mutex = threading.Lock()
        self._acknowledged: set[bytes] = set()
        self._ended = False
        self.going = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(VOTERS)]
        for thread in self._threads:
            thread.start()

    def acknowledged(self) -> set[bytes]:
        """What must never be lost."""
        with self._mutex:
            return set(self._acknowledged)

    def stop(self) -> None:
        """End the threads."""
        self._ended = True
        self.going.set()
        for thread in self._threads:
            thread.join()

    def _write(self, number: int) -> None:
        count = 0
        while not self._ended:
            self.going.wait()
            node = self._group.nodes.get(number)
            if node is None or node.role is not Role.MASTER:
                time.sleep(0.01)
                continue
            count += 1
            key = b"%d-%06d" % (number, count)
            try:
                if "t" not in node.environment.database_names():
                    node.environment.create_database("t", DatabaseOptions(max_entries=16)).close()
                put(node, key)
            except JetoolError:
                time.sleep(0.02)
                continue
            with self._mutex:
                self._acknowledged.add(key)


def fault(group: ElectedGroup, seeded: random.Random) -> None:
    """Something happens; a majority of the nodes goes on running."""
    kind = seeded.choice(("link", "link", "link", "crash", "crash", "start", "isolate", "isolate", "mend", "transfer"))
    down = [n for n in range(VOTERS) if n not in group.nodes]
    if kind == "link":
        proxy = seeded.choice(list(group.network.links.values()))
        seeded.choice((proxy.cut, proxy.freeze))()
    elif kind == "crash" and len(down) < VOTERS // 2:
        group.crash(seeded.choice(list(group.nodes)))
    elif kind == "start" and down:
        group.start(seeded.choice(down))
    elif kind == "isolate":
        group.network.isolate(seeded.randrange(VOTERS), silently=seeded.random() < 0.5)
    elif kind == "mend":
        group.network.mend()
    elif kind == "transfer":
        to = seeded.choice(list(group.nodes.values())).config.name
        for node in [node for node in group.nodes.values() if node.role is Role.MASTER]:
            with contextlib.suppress(JetoolError):
                node.transfer(to, 2)


def play(seed: int, rounds: int) -> int:
    """Rounds of faults; how many commits were acknowledged."""
    seeded = random.Random(seed)
    group = ElectedGroup([1] * VOTERS, ack_timeout_s=1)
    writers = None
    try:
        group.start(*range(VOTERS))
        group.settled()
        writers = Writers(group)
        for _ in range(rounds):
            writers.going.set()
            for _ in range(seeded.randrange(3, 7)):
                fault(group, seeded)
                time.sleep(seeded.random())
            group.network.mend()
            group.start(*(n for n in range(VOTERS) if n not in group.nodes))
            group.master()
            writers.going.clear()
            group.settled()
            for node in group.nodes.values():
                lost = writers.acknowledged() - contents(node.environment).get("t", {}).keys()
                assert not lost, f"seed {seed}: {node.config.name} lacks {len(lost)} commits: {sorted(lost)[:5]}"
    finally:
        if writers is not None:
            writers.stop()
        group.close()
    for storage in group.storages:
        with open_replicated(storage) as env:
            check_index(env)
    return len(writers.acknowledged())


def test_faults_in_any_order() -> None:
    assert play(1, 3) > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_faults_in_any_order(seed: int) -> None:
    assert play(seed, 20) > 1000
