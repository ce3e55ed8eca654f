"""A group that is played, whose nodes also serve copies of their files, and a node that joins it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from engine.db.environment import Environment
from engine.format.codecs import encode_body
from engine.format.entry.group_db import GROUP_KEY, decode_group
from engine.format.entry.ln import LN
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import COMMIT
from engine.format.tuples import string_key
from engine.rep.client.connection import Address, Connection
from engine.rep.intervals import NodeIntervals
from engine.rep.member.config import JoinConfig
from engine.rep.member.node import JoinedNode
from engine.rep.wire.entries import WireEntry
from engine.rep.wire.log_file_feeder import SERVICE
from engine.rep.wire.services import encode_service_request
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import SMALL
from tests.support.groups.copy_server import CopyServer
from tests.support.groups.group_double import HOST, GroupDouble, NodeDouble, recorded_entries
from tests.support.waiting import PATIENCE_S

OPERATIONS = "database-operations/003-Feeder-n1.jsonl.gz"
LISTEN = (HOST, 7009)
# A group that is played is never late.
NO_PAUSES = NodeIntervals(first_pause_s=0.001, longest_pause_s=0.002, voter_pause_s=0.05, name_patience_s=0.05)


def operations() -> list[WireEntry]:
    """What a recorded master of JE 18.3 streamed: everything that can be done to databases."""
    return list(recorded_entries(OPERATIONS))


def recorded_uuid() -> tuple[int, int]:
    """The UUID that the recorded group has in its database."""
    for entry in operations():
        record = entry.record()
        if isinstance(record, LN) and record.key == string_key(GROUP_KEY) and record.data is not None:
            group = decode_group(record.data)
            return group.uuid_high, group.uuid_low
    raise AssertionError


def group_of(*logs: list[WireEntry], **changes: Any) -> GroupDouble:
    """Nodes with these logs; the first one is the master."""
    nodes = [NodeDouble(f"n{at + 1}", 7001 + at, log) for at, log in enumerate(logs)]
    changes.setdefault("uuid", recorded_uuid())
    # A stream without a pause between its heartbeats would leave no time to anybody else.
    changes.setdefault("node_type", "SECONDARY")
    return GroupDouble(nodes, "n1", quiet=lambda: time.sleep(0.002), **changes)


def null_transaction(vlsn: int, txn_id: int = -9000, type_number: int = COMMIT) -> WireEntry:
    """A Commit or Abort without an LN, as a master of JE logs it."""
    end = TxnEnd(-1, txn_id, 1_700_000_000_000, 1, vlsn - 1, 0)
    return WireEntry(vlsn, type_number, 17, encode_body(type_number, 17, end))


class WholeGroup:
    """The group and the files of its nodes, as one network."""

    def __init__(self, group: GroupDouble, files: CopyServer) -> None:
        self._group = group
        self._files = files

    def connect(self, address: Address, deadline: float) -> Connection:
        """A connection whose service says who answers."""
        return _Either(self, address)

    def of_service(self, request: bytes, address: Address) -> Connection:
        """Who answers a request for a service."""
        if request == encode_service_request(SERVICE):
            return self._files.connect(address, 0)
        return self._group.connect(address, 0)


class _Either:
    def __init__(self, network: WholeGroup, address: Address) -> None:
        self._network = network
        self._address = address
        self._chosen: Connection | None = None

    def send(self, data: bytes, deadline: float) -> None:
        """The first bytes name the service."""
        if self._chosen is None:
            self._chosen = self._network.of_service(data, self._address)
        self._chosen.send(data, deadline)

    def receive(self, deadline: float) -> bytes:
        """What it answers."""
        assert self._chosen is not None
        return self._chosen.receive(deadline)

    def close(self) -> None:
        """The client has gone."""
        if self._chosen is not None:
            self._chosen.close()


def config_of(group: GroupDouble, /, **changes: Any) -> JoinConfig:
    """How a node joins it."""
    addresses = tuple((HOST, node.port) for node in group.nodes)
    plain = JoinConfig("copy1", LISTEN, addresses, answers=False, environment=SMALL, intervals=NO_PAUSES)
    return replace(plain, **changes)


@contextmanager
def joined(
    group: GroupDouble, storage: Storage, files: CopyServer | None = None, /, **changes: Any
) -> Iterator[JoinedNode]:
    """A node that follows the group, stopped at the end."""
    node = JoinedNode(storage, config_of(group, **changes), WholeGroup(group, files or CopyServer({})))
    node.start()
    try:
        yield node
    finally:
        node.stop()


def followed(group: GroupDouble, storage: Storage, files: CopyServer | None = None, /, **changes: Any) -> None:
    """Follow the group until everything has come; its failure is raised."""
    with joined(group, storage, files, **changes) as node:
        done = node.await_vlsn(group.node(group.master).last, PATIENCE_S)
    if node.failure is not None:
        raise node.failure
    assert done, node.problem


def failure_of(group: GroupDouble, storage: Storage, files: CopyServer | None = None, /, **changes: Any) -> Exception:
    """What stops a node that joins."""
    with joined(group, storage, files, **changes) as node:
        assert node.await_end(PATIENCE_S), node.problem
    assert node.failure is not None
    return node.failure


def opened(storage: Storage, **changes: Any) -> Environment:
    """The environment of a node that has stopped, or a new one."""
    return Environment(storage, replace(SMALL, replicated=True, **changes))


def described(env: Environment) -> dict[str, dict[str, object]]:
    """Databases as the manifests of the recordings describe them."""
    found: dict[str, dict[str, object]] = {}
    for name in env.database_names():
        with env.open_database(name) as db:
            lines = sorted(f"{key.hex()} {data.hex()}\n" for key, data in db)
        found[name] = {"count": len(lines), "sha256": hashlib.sha256("".join(lines).encode()).hexdigest()}
    return found


def files_of(log: list[WireEntry]) -> dict[str, bytes]:
    """The log files of a node that has followed this log to its end."""
    storage = MemoryStorage()
    followed(group_of(log), storage)
    found = {}
    for name in storage.names():
        if name.endswith(".jdb"):
            file = storage.open(name)
            found[name] = file.read(0, file.size())
            file.close()
    return found
