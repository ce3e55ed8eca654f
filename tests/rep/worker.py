"""A node as a process of its own, which writes transactions whenever it is the master.

``python -m tests.rep.worker HOME NAME PORT JOURNAL PEER,PEER [--master | --elect]``. Every commit that returned is
noted in the journal: what must never be lost. ``pause`` and ``go`` on standard input stop and start the writing; its
end stops the node.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

from engine.catalog.naming import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.errors import JetoolError
from engine.rep.node import RepNode
from engine.rep.settings import ElectionConfig, NodeConfig, Role
from tests.rep.nodes import SECRET, TIMEOUT_S

DATABASE = "t"


class Writer(threading.Thread):
    """Random transactions: a few keys that are written again and again, and one key that is written once."""

    def __init__(self, node: RepNode, journal: Path, name: str) -> None:
        super().__init__(daemon=True)
        self._node = node
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._prefix = f"{name}-{os.getpid()}"
        self._random = random.Random(os.getpid())
        self._count = 0
        self.going = threading.Event()
        self.idle = threading.Event()

    def run(self) -> None:
        while True:
            if not self.going.is_set() or self._node.role is not Role.MASTER:
                self.idle.set()
                self.going.wait(0.05)
                time.sleep(0.005)
                continue
            self.idle.clear()
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
    addresses = tuple(("127.0.0.1", int(peer)) for peer in peers.split(","))
    environment = EnvironmentConfig(file_max_bytes=1_000_000, checkpoint_bytes=300_000, lock_timeout_ms=2000)
    config = NodeConfig(
        name, ("127.0.0.1", int(port)), addresses, SECRET, "GROUP", master="--master" in words, heartbeat_s=0.2,
        retry_s=0.05, ack_timeout_s=1.0, environment=environment, rollback_limit=10,
        election=ElectionConfig(timeout_s=TIMEOUT_S) if "--elect" in words else None,
    )  # fmt: skip
    node = RepNode(home, replace(config))
    node.start()
    writer = Writer(node, Path(journal), name)
    writer.start()
    for line in sys.stdin:
        if line.strip() == "go":
            writer.going.set()
        elif line.strip() == "pause":
            writer.going.clear()
        else:
            break
        if node.failure is not None:
            break
        print("ok", flush=True)
    if node.failure is not None:
        print(f"failed: {node.failure}", file=sys.stderr, flush=True)
    node.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
