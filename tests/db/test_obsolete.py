"""Which versions of a record are obsolete, and that each is counted once (E-CLN-1, R-CLN-5, R-CLN-6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from engine.cleaner.tracker import UtilizationTracker
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.storage.memory import MemoryStorage

CONFIG = EnvironmentConfig(create=True, checkpoint_bytes=0)
LNS = range(31, 37)


class Watch:
    """Notes the LSNs of records, and how often each is counted as obsolete; the counting itself goes on."""

    def __init__(self, inner: UtilizationTracker) -> None:
        self._inner = inner
        self.lsns: list[int] = []
        self.sizes: dict[int, int] = {}
        self.counted: Counter[int] = Counter()
        self.wrong_sizes: list[int] = []

    def logged(self, lsn: int, type_number: int, size: int, born_obsolete: bool) -> None:
        if type_number in LNS:
            self.lsns.append(lsn)
            self.sizes[lsn] = size
            self.counted[lsn] += born_obsolete
        self._inner.logged(lsn, type_number, size, born_obsolete)

    def obsolete_node(self, lsn: int, *, is_delta: bool) -> None:
        self._inner.obsolete_node(lsn, is_delta=is_delta)

    def obsolete_ln(self, lsn: int, size: int) -> None:
        self.counted[lsn] += 1
        if size not in (0, self.sizes.get(lsn, size)):
            self.wrong_sizes.append(lsn)
        self._inner.obsolete_ln(lsn, size)


# Operations before the transaction, those in it, what is obsolete after its commit, and after its abort.
TABLE = [
    ("", "p", "0", "1"),
    ("p", "p", "10", "01"),
    ("p", "d", "11", "01"),
    ("", "pp", "10", "11"),
    ("", "pd", "11", "11"),
    ("p", "pp", "110", "011"),
    ("p", "pd", "111", "011"),
    ("", "pdpdp", "11110", "11111"),
]


@pytest.mark.parametrize("embedded", [False, True], ids=["apart", "embedded"])
@pytest.mark.parametrize("commits", [True, False], ids=["committed", "aborted"])
@pytest.mark.parametrize(("before", "inside", "committed", "aborted"), TABLE)
def test_every_version_is_counted_once(
    before: str, inside: str, committed: str, aborted: str, commits: bool, embedded: bool
) -> None:
    data = b"v" * (8 if embedded else 40)
    with Environment(MemoryStorage(), CONFIG) as env, env.create_database("d") as db:
        assert env.engine.writer is not None
        watch = env.engine.writer.observer = Watch(env.engine.utilization)
        for _ in before:
            db.put(b"k", data)
        txn = env.begin()
        for operation in inside:
            if operation == "p":
                db.put(b"k", data, txn)
            else:
                db.delete(b"k", txn)
        if commits:
            txn.commit()
        else:
            txn.abort()
        expected = [int(digit) for digit in (committed if commits else aborted)]
        if embedded:
            expected = [1] * len(expected)
        assert [watch.counted[lsn] for lsn in watch.lsns] == expected
        assert watch.wrong_sizes == []


@pytest.mark.parametrize("checkpoints", [1, 2, 3])
def test_recovery_counts_no_abort_that_a_checkpoint_has_counted(checkpoints: int) -> None:
    """An open transaction keeps firstActive before aborted LNs whose summaries are older than the last checkpoint."""
    storage = MemoryStorage()
    env = Environment(storage, replace(CONFIG, file_max_bytes=2_000))
    with env.create_database("d") as db:
        db.put(b"open", b"v" * 40, env.begin())
        for number in range(40):
            txn = env.begin()
            db.put(b"k%d" % number, b"v" * 100, txn)
            txn.abort()
        for _ in range(checkpoints):
            env.checkpoint(force=True)
        before = {number: one.obsolete_ln_count for number, one in env.engine.utilization.files().items()}
        env.engine.crash()
    with Environment(storage, CONFIG) as env:
        after = {number: one.summary() for number, one in env.engine.utilization.files().items()}
    # Files that hold nothing but what was aborted.
    assert [after[number].obsolete_ln_count for number in (1, 2, 3)] == [before[number] for number in (1, 2, 3)]
    assert [after[number].total_ln_count for number in (1, 2, 3)] == [before[number] for number in (1, 2, 3)]
