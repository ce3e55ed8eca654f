"""A workload on the page store with a model beside it: what must be there, and what may be, after a crash."""

from __future__ import annotations

import random
from typing import Any

from engine.derby.store.page_store import PageStore, StoreOptions
from engine.derby.store.transaction import StoreTransaction
from engine.storage.base import Storage

Contents = dict[str, dict[bytes, bytes]]
SMALL = StoreOptions(buffer_bytes=8192, checkpoint_bytes=0, lock_timeout_s=0.1)


class Workload:
    """Random transactions on two tables.

    Arguments:
        seed: chooses them.
        keys: how many keys there are in a table.

    Attributes:
        committed: what every commit that returned has left.
        pending: what the commit that was under way would leave, None outside of one.
        history: instant after each commit, and what it has left.
    """

    def __init__(self, seed: int, keys: int = 60) -> None:
        self._draw = random.Random(seed)
        self._keys = keys
        self.committed: Contents = {}
        self.pending: Contents | None = None
        self.history: list[tuple[int, Contents]] = []

    def run(self, storage: Storage, transactions: int) -> None:
        """Create a store and work on it; leaves it open, with a transaction under way."""
        self.work(PageStore.create(storage, SMALL, log_file_bytes=100_000), transactions)

    def work(self, store: PageStore, transactions: int) -> None:
        """Work on a new store."""
        for name in ("first", "second"):
            self._commit(store, lambda txn, now, name=name: self._create(txn, now, name))
        for number in range(transactions):
            kind = self._draw.randrange(10)
            if kind == 0:
                store.checkpoint()
            elif kind == 1 and number > 3:
                self._commit(store, self._recreate)
            elif kind == 2:
                with store.begin() as txn:
                    self._change(txn, self._copy())
                    txn.abort()
            else:
                self._commit(store, self._change)
        loser = store.begin()
        self._change(loser, self._copy())
        store.flush()

    def allows(self, found: Contents) -> bool:
        """Whether a store may hold this after a crash."""
        return found in (self.committed, self.pending)

    def _commit(self, store: PageStore, work: Any) -> None:
        now = self._copy()
        txn = store.begin()
        work(txn, now)
        self.pending = now
        self.history.append((txn.commit(), now))
        self.committed, self.pending = now, None

    def _copy(self) -> Contents:
        return {name: dict(rows) for name, rows in self.committed.items()}

    def _create(self, txn: StoreTransaction, now: Contents, name: str) -> None:
        txn.create_table(name)
        now[name] = {}

    def _recreate(self, txn: StoreTransaction, now: Contents) -> None:
        txn.drop_table("second")
        del now["second"]
        self._create(txn, now, "second")
        txn.put("second", b"again", b"1")
        now["second"][b"again"] = b"1"

    def _change(self, txn: StoreTransaction, now: Contents) -> None:
        saved: Contents = {}
        savepoint = None
        for _ in range(self._draw.randint(1, 12)):
            rows = now[name := self._draw.choice(sorted(now))]
            key = b"key%03d" % self._draw.randrange(self._keys)
            if self._draw.random() < 0.3:
                assert txn.delete(name, key) == (rows.pop(key, None) is not None)
            else:
                rows[key] = self._draw.randbytes(self._draw.choice((3, 40, 400, 1500, 6000)))
                txn.put(name, key, rows[key])
            if self._draw.random() < 0.15:
                savepoint, saved = txn.savepoint(), {n: dict(r) for n, r in now.items()}
            elif savepoint is not None and self._draw.random() < 0.2:
                txn.roll_back_to(savepoint)
                now.clear()
                now.update({n: dict(r) for n, r in saved.items()})


def contents_of(store: PageStore) -> Contents:
    """Every record of a store."""
    found = {}
    for name in store.tables():
        rows = list(store.scan(name))
        assert rows == sorted(rows)
        assert list(store.scan(name, reverse=True)) == rows[::-1]
        found[name] = dict(rows)
    return found
