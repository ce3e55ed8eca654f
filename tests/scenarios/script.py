"""Scripts: transactions written down one after another, with the state that each leaves, to be cut anywhere.

``Script`` runs them; ``check`` cuts the log after every entry and compares (tests.support.logs.cuts). ``live_lsns`` and
``obsolete_lsns`` say what the trees refer to and what is counted obsolete; nothing may be both.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from engine.catalog.name_operations import DatabaseOptions
from engine.db.database import Database
from engine.db.environment import Environment
from engine.db.transaction import Transaction
from engine.format.entry.ln_content import FileSummaryLN
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.lsn import NULL_LSN, make_lsn
from engine.storage.memory import MemoryStorage
from engine.tree.in_node import IN
from engine.tree.tree import bins, read_ln
from tests.support.environments.workload import State, open_env
from tests.support.logs.cuts import Cuts
from tests.support.logs.cuts import check as check_cuts

Change = tuple[bytes, bytes | None]


class Script:
    """An environment, its database ``db``, and the state after each commit.

    Arguments:
        duplicates: whether keys have several data items; changes are then pairs to insert, or (key, None).
        options: how the environment is opened.
    """

    def __init__(self, *, duplicates: bool = False, max_entries: int = 6, **options: Any) -> None:
        self.storage = MemoryStorage()
        self.env = open_env(self.storage, **options)
        self.marks: list[tuple[int, State]] = []
        self.state: State = {"db": {}}
        self.db = self.env.create_database("db", DatabaseOptions(duplicates, False, max_entries))
        self.mark()

    def mark(self) -> None:
        """What is committed now is to be found from here on."""
        assert self.env.engine.writer is not None
        self.marks.append(
            (self.env.engine.writer.last_lsn, {name: dict(records) for name, records in self.state.items()})
        )

    def txn(self, *changes: Change, abort: bool = False) -> None:
        """One transaction of changes; None deletes."""
        txn = self.env.begin()
        for key, data in changes:
            self.write(key, data, txn)
        if abort:
            txn.abort()
            return
        txn.commit()
        records = self.state["db"]
        for key, data in changes:
            self._apply(records, key, data)
        self.mark()

    def write(self, key: bytes, data: bytes | None, txn: Transaction) -> None:
        """One change, not yet committed."""
        if data is None:
            self.db.delete(key, txn)
        else:
            self.db.put(key, data, txn)

    def checkpoint(self, *, minimize: bool = False) -> None:
        """A forced checkpoint."""
        self.env.checkpoint(force=True, minimize=minimize)

    def check(self, step: int = 1) -> int:
        """Close, cut everywhere, compare; returns how many cuts."""
        self.db.close()
        self.env.close()
        return check_cuts(Cuts(self.storage, self), step)

    def _apply(self, records: dict[Any, bytes], key: bytes, data: bytes | None) -> None:
        if not self.db.duplicates:
            records.pop(key, None)
            if data is not None:
                records[key] = data
        elif data is None:
            for pair in [pair for pair in records if pair[0] == key]:
                del records[pair]
        else:
            records[(key, data)] = data


def live_lsns(env: Environment) -> set[int]:
    """Every LSN that the trees of an environment still need: nodes, deltas, records that are not embedded."""
    found: set[int] = set()
    for _, db_id in list(env.engine.catalog.names(internal=True)):
        state = env.engine.catalog.by_id(db_id)
        if state is None:
            continue
        for node in bins(env.engine.ctx, state):
            found |= _versions(node)
            for index, lsn in enumerate(node.lsns):
                if node.is_live(index) and not node.states[index] & SLOT_EMBEDDED and not state.duplicates:
                    found.add(lsn)
    return found


def _versions(node: IN) -> set[int]:
    found = set()
    current: IN | None = node
    while current is not None:
        found |= {current.lsn(), current.full_lsn}
        current = current.parent
    return found - {NULL_LSN}


def obsolete_lsns(env: Environment) -> set[int]:
    """Every LSN that is counted obsolete with its offset, in the log or waiting for the next checkpoint."""
    found = {
        make_lsn(number, offset)
        for number, counters in env.engine.utilization.files().items()
        for offset in counters.new_offsets
    }
    for key, content in _summaries(env):
        number = int.from_bytes(key[:4], "big")
        found |= {make_lsn(number, offset) for offset in content.offsets}
    return found


def _summaries(env: Environment) -> Iterator[tuple[bytes, FileSummaryLN]]:
    state = env.engine.catalog.by_name("_jeUtilization")
    assert state is not None
    for node in bins(env.engine.ctx, state):
        for index in range(len(node)):
            if node.is_live(index):
                content = read_ln(env.engine.ctx, state, node.lsns[index]).content
                assert isinstance(content, FileSummaryLN)
                yield node.keys[index], content


def keys_of(db: Database) -> list[bytes]:
    """The keys of a database in order."""
    return [key for key, _ in db.items()]
