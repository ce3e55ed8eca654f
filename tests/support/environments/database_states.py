"""States of databases of every kind."""

from __future__ import annotations

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage
from engine.tree.comparators import DescendingKey
from engine.tree.database_state import DatabaseState


def state_of(duplicates: bool, comparator: str | None) -> DatabaseState:
    env = Environment(MemoryStorage(), EnvironmentConfig(create=True))
    impl = env.create_database("db", DatabaseOptions(duplicates=duplicates)).state.impl
    env.close()
    if comparator is not None:
        serialized = b"\xac\xed\x00\x05t" + len(comparator).to_bytes(2, "big") + comparator.encode()
        impl = impl._replace(btree_comparator=serialized)
    return DatabaseState(impl, {"Down": DescendingKey})
