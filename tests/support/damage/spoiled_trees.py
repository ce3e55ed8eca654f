"""Environments with damaged trees whose log is whole: written by the engine after its nodes were spoilt in memory.

The sound environment has several files, so that the log goes on after damage in the first ones; a tree of four levels
with records of their own, small records embedded in their slots, duplicates, and prefixed keys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.codecs import Record, decode_body, encode_body
from engine.format.header import HEADER_BYTES, entry_checksum
from engine.format.lsn import file_of, offset_of
from engine.log.access import LogAccess
from engine.log.files import list_log_files
from engine.storage.memory import MemoryStorage
from engine.tree.bin_node import BIN
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.tree import bins, child_of, root_of
from engine.verify.report import Finding
from engine.verify.trees import verify_trees
from engine.verify.walk.check import TreeReport

ALL = ("tree", "refs", "data", "space")
RECORDS = 200
CONFIG = EnvironmentConfig(create=True, node_max_entries=6, checkpoint_bytes=0, file_max_bytes=20_000)
Spoil = Callable[[Environment], None]


def sound() -> MemoryStorage:
    """A closed environment without a fault."""
    storage = MemoryStorage()
    with Environment(storage, CONFIG) as env:
        options = {
            "large": DatabaseOptions(max_entries=6),
            "small": DatabaseOptions(max_entries=6),
            "dups": DatabaseOptions(duplicates=True, max_entries=6),
            "prefixed": DatabaseOptions(key_prefixing=True, max_entries=6),
        }
        for name, given in options.items():
            with env.create_database(name, given) as db, env.begin() as txn:
                for i in range(RECORDS):
                    db.put(b"common/%04d" % i, b"%04d" % i + (b"." * 40 if name in ("large", "prefixed") else b""), txn)
    return storage


def spoiled(spoil: Spoil, *, checkpoints: int = 1) -> MemoryStorage:
    """The sound environment, spoilt in memory and closed, with as many checkpoints after it as asked for."""
    storage = sound()
    env = Environment(storage, CONFIG)
    spoil(env)
    for _ in range(checkpoints):
        env.checkpoint(force=True, minimize=True)
    assert env.engine.writer is not None
    env.engine.writer.flush(sync=True)
    env.engine.crash()
    return storage


def state_of(env: Environment, name: str) -> DatabaseState:
    state = env.engine.catalog.by_name(name)
    assert state is not None
    return state


def leaf(env: Environment, name: str = "large", number: int = 3) -> BIN:
    """A bottom node somewhere inside a tree."""
    return list(bins(env.engine.ctx, state_of(env, name)))[number]


def upper(env: Environment, name: str = "large") -> IN:
    """A node of level 2 that is not the first of its parent."""
    root = root_of(env.engine.ctx, state_of(env, name))
    assert root is not None
    node = child_of(env.engine.ctx, root, 1)
    while node.height > 2:
        node = child_of(env.engine.ctx, node, 1)
    return node


def soil(node: IN) -> None:
    """The next checkpoint writes the node, in full."""
    node.dirty = True
    if isinstance(node, BIN):
        node.no_delta = True


def rewrite(storage: MemoryStorage, lsn: int, change: Callable[[Any], Record], *, flags: int | None = None) -> None:
    """Change an entry of the log in place; it keeps its size and gets a right checksum."""
    entry = LogAccess(storage, list_log_files(storage).files).read(lsn)
    body = encode_body(entry.type_number, entry.version, change(decode_body(entry.type_number, 17, entry.body)))
    assert len(body) == entry.item_size
    file = storage.open_rw(f"{file_of(lsn):08x}.jdb")
    head = bytearray(file.read(offset_of(lsn), HEADER_BYTES))
    if flags is not None:
        head[5] = flags
    head[:4] = entry_checksum(bytes(head) + body, entry.version).to_bytes(4, "little")
    file.write(offset_of(lsn), bytes(head) + body)


def report(storage: MemoryStorage, levels: tuple[str, ...] = ALL) -> TreeReport:
    return verify_trees(storage, list_log_files(storage), levels)


def found(storage: MemoryStorage, levels: tuple[str, ...] = ALL) -> tuple[Finding, ...]:
    return report(storage, levels).findings


def codes(storage: MemoryStorage, levels: tuple[str, ...] = ALL) -> set[str]:
    return {finding.code for finding in found(storage, levels)}
