"""A workload that cleans: what ``BusyWorkload`` does, with files cleaned, reserved and deleted in between.

Records are larger than what is embedded, so that there is something to migrate; a transaction stays open over cleaning,
so that some of it is pending. Files are cleaned by the rules, and by force, whatever is in them.
"""

from __future__ import annotations

from typing import Any

from engine.cleaner.selection import Choice, CleaningLimits
from engine.db.environment import Environment
from tests.support.environments.busy import BusyWorkload
from tests.support.environments.workload import Workload

EAGER = CleaningLimits(min_utilization=90, min_file_utilization=50, min_age=1)


class CleaningWorkload(BusyWorkload):
    """Random operations of one seed, every fourth or so with the cleaner."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.cleaned = 0

    def step(self, env: Environment) -> None:
        """One operation."""
        choice = self.random.random()
        if choice < 0.10:
            self.cleaned += clean_by_rules(env)
        elif choice < 0.20:
            self.cleaned += clean_by_force(env, self.random.randrange(1 << 20))
        elif choice < 0.28:
            env.checkpoint(force=True, minimize=self.random.random() < 0.3)
        else:
            super().step(env)

    def _write(self, db: Any, records: dict[Any, bytes], txn: Any) -> None:
        # Shadows nothing: the records of the transactions are larger here.
        number = self.random.randrange(self.keys)
        key = b"common/prefix/%04d" % number if db.name == "prefixed" else b"%04d" % number
        data = self.random.randbytes(self.random.choice((3, 17, 60, 200)))
        if db.duplicates:
            self._write_duplicate(db, records, key, data, txn)
        elif self.random.random() < 0.25:
            db.delete(key, txn)
            records.pop(key, None)
        elif self.random.random() < 0.15:
            # It has expired long ago.
            assert db.put(key, data, txn, expiration=-1, update_expiration=True)
            records.pop(key, None)
        else:
            assert db.put(key, data, txn)
            records[key] = data


def clean_by_rules(env: Environment) -> int:
    """Everything that is worth it to an eager cleaner."""
    cleaner = env.engine.cleaner
    assert cleaner is not None
    return cleaner.clean(limits=EAGER)


def clean_by_force(env: Environment, choice: int) -> int:
    """Any one file that may be cleaned at all."""
    cleaner = env.engine.cleaner
    assert cleaner is not None
    facts = cleaner.facts()
    newest = cleaner.newest(facts, EAGER)
    candidates = [one.number for one in facts if one.number <= newest and not one.in_progress]
    if not candidates:
        return 0
    report = cleaner.clean_file(Choice(candidates[choice % len(candidates)], None, "drill"))
    return report is not None


class ManyUpdates(Workload):
    """Few keys, updated again and again, by the plain workload's transactions."""

    def step(self, env: Environment) -> None:
        """A transaction, and now and then a round of cleaning with a checkpoint."""
        if self.random.random() < 0.2:
            clean_by_rules(env)
            env.checkpoint(force=True)
        else:
            super().step(env)
