"""Cutting a log after each of its entries (the stepwise method, je-behaviour.md 12)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from engine.db.environment import Environment
from engine.format.entry_types import COMMIT
from engine.log.entry import LogEntry
from engine.log.files import list_log_files
from engine.log.reader import FileReader
from engine.storage.memory import MemoryStorage
from tests.support.environments.workload import State, contents, open_env


class Marked(Protocol):
    """What a log was written by: the state after each commit, with the last LSN then."""

    marks: list[tuple[int, State]]


class Cuts:
    """A log and what must be visible when it ends after each of its entries."""

    def __init__(self, storage: MemoryStorage, workload: Marked) -> None:
        self.files = {path: data for path, data in storage.contents().items() if path.endswith(".jdb")}
        self.ends: list[tuple[int, int]] = []
        commits = []
        for file in list_log_files(storage).files:
            with FileReader(storage, file, is_last=False) as reader:
                for entry in reader.entries():
                    assert isinstance(entry, LogEntry), entry
                    size = (22 if entry.vlsn != -1 else 14) + entry.item_size
                    self.ends.append((entry.lsn, (entry.lsn & 0xFFFFFFFF) + size))
                    if entry.type_number == COMMIT:
                        commits.append(entry.lsn)
        self.commits = commits
        self.states = {bisect_right(commits, lsn): state for lsn, state in workload.marks}

    def expected(self, lsn: int) -> State:
        """The state when the log ends after the entry at an LSN."""
        return self.states.get(bisect_right(self.commits, lsn), {})

    def image(self, lsn: int, end: int) -> MemoryStorage:
        """The log cut there."""
        last = lsn >> 32
        kept = {path: data for path, data in self.files.items() if int(Path(path).stem, 16) <= last}
        kept[f"{last:08x}.jdb"] = kept[f"{last:08x}.jdb"][:end]
        return MemoryStorage(kept)


def check(cuts: Cuts, step: int, look: Callable[[Environment], State] = contents, **changes: Any) -> int:
    """Cut after every so many entries, recover, compare, recover again, compare; returns how many cuts.

    Arguments:
        look: what is compared with the states of the workload.
        changes: of the configuration with which the cuts are opened.
    """
    checked = 0
    first = min(cuts.commits) if cuts.states else 0
    for lsn, end in cuts.ends[:: step or 1]:
        if lsn < first:
            continue
        expected = cuts.expected(lsn)
        image = cuts.image(lsn, end)
        before = image.contents()
        with open_env(image, read_only=True, create=False, **changes) as env:
            assert look(env) == expected, f"read-only, cut after 0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        assert image.contents() == before
        env = open_env(image, create=False, **changes)
        assert look(env) == expected, f"recovered, cut after 0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        env.engine.crash()
        with open_env(image, create=False, **changes) as env:
            assert look(env) == expected, f"recovered twice, cut after 0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        checked += 1
    return checked
