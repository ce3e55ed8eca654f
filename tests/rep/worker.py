"""A member of a group as a process of its own, which writes transactions whenever it is the master.

``python -m tests.rep.worker HOME NAME PORT JOURNAL PORT=PROXY,... [--master]``. Every commit that returned is noted in
the journal: what must never be lost. ``pause``, ``go`` and ``status`` on standard input stop and start the writing, and
ask how the node is; its end stops the node.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from pathlib import Path

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.rep.client.connection import Address, Connection, SocketNetwork
from engine.rep.master.term import LeadConfig
from engine.rep.member.config import JoinConfig
from engine.rep.member.node import JoinedNode
from engine.rep.status import Role
from engine.storage.disk import DiskStorage

DATABASE = "t"


class ByProxy:
    """A network that reaches each node by a proxy, which can be cut.

    Arguments:
        proxies: ports, by those of the nodes.
    """

    def __init__(self, proxies: dict[int, int]) -> None:
        self._proxies = proxies

    def connect(self, address: Address, deadline: float) -> Connection:
        return SocketNetwork().connect((address[0], self._proxies.get(address[1], address[1])), deadline)


class Writer(threading.Thread):
    """Random transactions: a few keys that are written again and again, and one key that is written once."""

    def __init__(self, node: JoinedNode, journal: Path, name: str) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._prefix = f"{name}-{os.getpid()}"
        self._random = random.Random(os.getpid())
        self._count = 0
        self.going = threading.Event()

    def run(self) -> None:
        while True:
            if not self.going.is_set() or self._node.role is not Role.MASTER:
                self.going.wait(0.05)
                time.sleep(0.005)
                continue
            try:
                self._transaction(self._node.environment)
            except JetoolError:
                time.sleep(0.02)

    def _transaction(self, env: Environment) -> None:
        if DATABASE not in env.database_names():
            env.create_database(DATABASE, DatabaseOptions(max_entries=16)).close()
        self._count += 1
        key = f"{self._prefix}-{self._count:06d}".encode()
        with env.open_database(DATABASE) as db, env.begin() as txn:
            for _ in range(self._random.randrange(4)):
                shared = b"shared-%03d" % self._random.randrange(60)
                if self._random.random() < 0.3:
                    db.delete(shared, txn)
                else:
                    db.put(shared, key * self._random.randrange(1, 3), txn)
            db.put(key, b"x" * self._random.randrange(40), txn)
        os.write(self._journal, key + b"\n")


def main(words: list[str]) -> None:
    """Run until standard input ends."""
    home, name, port, journal, peers = words[:5]
    proxies = {int(real): int(proxy) for real, proxy in (pair.split("=") for pair in peers.split(","))}
    environment = EnvironmentConfig(file_max_bytes=1_000_000, checkpoint_bytes=300_000, lock_timeout_ms=2000)
    config = JoinConfig(
        name, ("127.0.0.1", int(port)), tuple(("127.0.0.1", real) for real in proxies), "ELECTABLE", 1,
        LeadConfig(ack_timeout_s=1.0), "--master" in words, "GROUP", environment=environment,
        timeout_s=2.0,
    )  # fmt: skip
    node = JoinedNode(DiskStorage(home), config, ByProxy(proxies))
    node.start()
    writer = Writer(node, Path(journal), name)
    writer.start()
    for line in sys.stdin:
        if line.strip() == "go":
            writer.going.set()
        elif line.strip() == "pause":
            writer.going.clear()
        elif line.strip() != "status":
            break
        if node.failure is not None:
            break
        status = node.status()
        acked = [replica.acked_vlsn for replica in status.replicas if replica.connected]
        print(json.dumps({"role": status.role, "last": status.last_vlsn, "acked": acked}), flush=True)
    if node.failure is not None:
        print(f"failed: {node.failure!r}", file=sys.stderr, flush=True)
    node.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
