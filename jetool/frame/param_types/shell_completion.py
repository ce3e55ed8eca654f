"""Shell completion of database names, from the environment on the command line."""

from __future__ import annotations

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.derby.store.page_store import PageStore
from engine.errors import JetoolError
from engine.storage.disk import DiskStorage
from jetool.frame.kinds import is_derby


def database_names(env: str) -> list[str]:
    """The databases, or the tables of a page store; empty if they cannot be read, because a completion must not print
    errors.

    Arguments:
        env: the directory as typed.
    """
    try:
        if is_derby(env):
            with PageStore(DiskStorage(env), read_only=True) as store:
                return sorted(store.tables())
        with Environment(env, EnvironmentConfig(read_only=True)) as found:
            return sorted(found.database_names())
    except (JetoolError, OSError):
        return []
