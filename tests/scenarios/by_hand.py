"""Logs written node by node, for examples that a checkpoint of ours would never write.

``Hand`` holds an environment with one deep database. Its methods log single entries and return their LSNs;
``recovered`` opens what the log holds, as after a crash, and says which version of a node the recovered tree uses.
"""

from __future__ import annotations

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.format.entry.checkpoint import HAS_ROOT, CkptEnd, CkptStart, encode_ckpt_end, encode_ckpt_start
from engine.format.entry_types import CKPT_END, CKPT_START
from engine.format.header import Provisional
from engine.format.versions import WRITTEN_VERSION
from engine.storage.memory import MemoryStorage
from engine.tree.in_node import IN
from engine.tree.node_log import log_node
from engine.tree.tree import find_bin


class Hand:
    """An environment with the database ``deep``, all of it in the log, and a hand on its log writer."""

    def __init__(self, records: int = 200) -> None:
        self.env = Environment(
            MemoryStorage(),
            EnvironmentConfig(create=True, node_max_entries=4, checkpoint_bytes=0, file_max_bytes=1 << 20),
        )
        self.db = self.env.create_database("deep", DatabaseOptions(max_entries=4))
        with self.env.begin() as txn:
            for number in range(records):
                self.db.put(b"%04d" % number, b"v" * 20, txn)
        self.env.checkpoint(force=True, minimize=True)
        assert self.env.engine.writer is not None
        self.writer = self.env.engine.writer
        self._start = self.env.engine.checkpointer.last_start

    def path(self, key: bytes) -> list[IN]:
        """The nodes from the BIN of a key up to the root."""
        node: IN | None = find_bin(self.env.engine.ctx, self.db.state, key)
        found = []
        while node is not None:
            found.append(node)
            node = node.parent
        return found

    def start(self) -> int:
        """Log a CkptStart."""
        self._start = self.writer.log(CKPT_START, encode_ckpt_start(CkptStart(0, 99, "api"), WRITTEN_VERSION))
        return self._start

    def end(self, first_active: int | None = None) -> int:
        """Log the CkptEnd."""
        engine, ids = self.env.engine, self.env.engine.checkpointer.ids
        record = CkptEnd(
            "api", 0, self._start, HAS_ROOT, engine.naming.root_lsn, first_active or self._start, engine.node_ids.last,
            ids.replicated_node, engine.catalog.last_local_db_id, engine.catalog.last_replicated_db_id,
            engine.txns.last_id, engine.txns.last_replicated_id, 0, 0, 99, (), (),
        )  # fmt: skip
        return self.writer.log(CKPT_END, encode_ckpt_end(record, WRITTEN_VERSION))

    def log(self, node: IN, provisional: Provisional) -> int:
        """Log a node as it is, dirty or not; its parent's slot then leads to it."""
        return log_node(self.env.engine.ctx, node, provisional)

    def files(self) -> dict[str, bytes]:
        """The log as a crash now would leave it, everything written."""
        self.writer.flush(sync=True)
        assert isinstance(self.env.engine.storage, MemoryStorage)
        return {path: data for path, data in self.env.engine.storage.contents().items() if path.endswith(".jdb")}

    def recovered(self, key: bytes, files: dict[str, bytes] | None = None) -> Recovered:
        """The log after a crash, recovered for reading."""
        return Recovered(files or self.files(), key)


class Recovered:
    """A recovered tree: the LSNs along the path to a key, BIN first, and the database's records."""

    def __init__(self, files: dict[str, bytes], key: bytes) -> None:
        env = Environment(MemoryStorage(files), EnvironmentConfig(read_only=True))
        with env, env.open_database("deep") as db:
            self.records = dict(db.items())
            node: IN | None = find_bin(env.engine.ctx, db.state, key)
            self.lsns = []
            while node is not None:
                self.lsns.append(node.lsn())
                node = node.parent
