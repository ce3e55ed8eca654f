"""The records of an environment on disk."""

from __future__ import annotations

from pathlib import Path

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from tests.support.environments.workload import State, contents


def records_of(env: Path) -> State:
    with Environment(str(env), EnvironmentConfig(read_only=True)) as opened:
        return contents(opened)


def without_empty(state: State) -> State:
    return {name: records for name, records in state.items() if records}
