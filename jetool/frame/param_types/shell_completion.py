"""What the shell is offered beyond names of commands and options: databases of the environment on the line."""

from __future__ import annotations

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.derby.store.page_store import PageStore
from engine.errors import JetoolError
from engine.storage.disk import DiskStorage
from jetool.frame.kinds import is_derby


def database_names(env: str) -> list[str]:
    """The databases, or the tables of a page store; none where they cannot be had: a completion says nothing wrong.

    Arguments:
        env: the directory, as it stands on the line.
    """
    try:
        if is_derby(env):
            with PageStore(DiskStorage(env), read_only=True) as store:
                return sorted(store.tables())
        with Environment(env, EnvironmentConfig(read_only=True)) as found:
            return sorted(found.database_names())
    except (JetoolError, OSError):
        return []
