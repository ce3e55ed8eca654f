"""Runs give back what was collected, by key, and of one key in log order."""

from __future__ import annotations

import random
from itertools import pairwise
from operator import itemgetter

import pytest

from engine.recovery.redo_batch import RedoRuns
from engine.tree.apply import RecordVersion, Redo
from engine.tree.bin_node import UNTIMED, Times
from tests.support.environments.database_states import state_of

VERSIONS = (
    None,
    RecordVersion(lsn=0, size=9, known_deleted=True),
    RecordVersion(lsn=0, size=9, data=b"embedded", expiration=-7, vlsn=3),
    RecordVersion(lsn=0, size=9, data=b"", times=Times(5, 4), tombstone=True),
)


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize(("duplicates", "comparator"), [(False, None), (True, None), (False, "Down")])
def test_runs_come_to_one_stable_sort(duplicates: bool, comparator: str | None, plain: bool) -> None:
    rng = random.Random(3)
    db = state_of(duplicates, comparator)
    runs = RedoRuns(chunk=10)
    whole: list[Redo] = []
    for _ in range(7):
        batch: list[Redo] = []
        for _ in range(rng.choice((1, 150))):
            lsn = 100 + len(whole) + len(batch)
            stored = b"%02d" % rng.randrange(60) + (b"d\x01" if duplicates else b"")
            leaf = VERSIONS[0] if plain else rng.choice(VERSIONS)
            batch.append((db.order.wrap(stored), lsn, 30, leaf and leaf._replace(lsn=lsn)))
        whole += batch
        runs.add(db, batch)
    assert runs.databases() == [db.id]
    assert runs.records == len(whole)
    found = list(runs.merged(db))
    assert len(found) > 10
    merged = [row for group in found for row in group]
    assert merged == sorted(whole, key=itemgetter(0))
    # Nothing known of times is one object, by which slots go.
    assert all(row[3].times is UNTIMED for row in merged if row[3] and not row[3].times.modified)
    # A record's versions come together, so that none is brought in after one that a later call has brought in.
    assert all(before[-1][0] < after[0][0] for before, after in pairwise(found))
    runs.close()
