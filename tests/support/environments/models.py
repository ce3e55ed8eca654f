"""Environments with a model: what every point of their logs holds."""

from __future__ import annotations

from bisect import bisect_right

from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.scan import scan_log
from engine.storage.base import Storage
from engine.storage.memory import MemoryStorage
from engine.verify.environment import LEVELS, verify_environment
from engine.verify.report import NOTE
from tests.support.environments.workload import State, Workload, contents, open_env


class Modelled:
    """An environment that a workload made, and the state after each of its commits.

    Attributes:
        files: its files.
        marks: LSN of the last entry, and the state, after each commit; ascending.
    """

    def __init__(self, seed: int, steps: int = 150) -> None:
        storage = MemoryStorage()
        workload = Workload(seed)
        with open_env(storage) as env:
            workload.start(env)
            workload.run(env, steps)
        self.files = {name: content(storage, name) for name in storage.names() if name.endswith(".jdb")}
        self.marks = workload.marks
        assert len(self.marks) > steps // 3

    def storage(self) -> MemoryStorage:
        """A copy that may be changed."""
        return MemoryStorage(self.files)

    def at(self, lsn: int) -> State:
        """The state when the log ended before an LSN."""
        found = bisect_right([mark for mark, _ in self.marks], lsn - 1)
        return self.marks[found - 1][1]


def content(storage: Storage, path: str) -> bytes:
    file = storage.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


def state_of(storage: Storage) -> State:
    """What recovery finds."""
    with Environment(storage, EnvironmentConfig(read_only=True)) as env:
        return contents(env)


def entries_of(storage: Storage) -> list[LogEntry]:
    """Every good entry."""
    return list(scan_log(storage, list_log_files(storage), marker=True).good_entries())


def findings_of(storage: Storage) -> list[str]:
    """What verify finds in all its levels, but for notes."""
    found = verify_environment(storage, list_log_files(storage), LEVELS)
    return [f"{one.code} {one.message}" for one in found.findings if one.severity != NOTE]
