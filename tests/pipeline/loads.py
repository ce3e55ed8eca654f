"""A load by hand: records in memory through all steps but the source."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from engine.catalog.naming import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.db.opening import WriterLock
from engine.pipeline.load import staging
from engine.pipeline.load.plan import Target, TaskOutput
from engine.pipeline.load.runs import LAST, SCHEMA, RunWriter, SortedRun, cuts_of
from engine.pipeline.load.stitch import stitch
from engine.pipeline.load.subject import LoadPreparation, prepare
from engine.pipeline.load.tasks import shares, write_share
from engine.storage.base import Storage
from engine.storage.disk import DiskStorage

Records = Sequence[tuple[bytes, bytes]]


def table_of(records: Records, first_rank: int = 0) -> pa.Table:
    columns = [
        pa.array([key for key, _ in records], pa.large_binary()),
        pa.array([value for _, value in records], pa.large_binary()),
        pa.array(range(first_rank, first_rank + len(records)), pa.int64()),
    ]
    return pa.table(columns, schema=SCHEMA)


def runs_of(directory: Path, records: Records, *, run_bytes: int, keep: str = LAST) -> list[SortedRun]:
    writer = RunWriter(str(directory), run_bytes, keep)
    found: list[SortedRun] = []
    for at in range(0, len(records), 100):
        found += writer.add(table_of(records[at : at + 100], at))
    return found + list(writer.finish())


def prepared_for(storage: Storage, name: str, options: DatabaseOptions | None = None) -> LoadPreparation:
    with Environment(storage, EnvironmentConfig()) as env:
        return prepare(env, str(staging.path_of(storage)), name, options or DatabaseOptions(), create=True)


def staged(
    storage: Storage, target: Target, records: Records, *, parts: int = 1, run_bytes: int = 20_000
) -> list[TaskOutput]:
    directory = staging.make(storage)
    runs = runs_of(directory, records, run_bytes=run_bytes)
    work = shares([run.path for run in runs], cuts_of(runs, parts), LAST, dry_run=False)
    return [write_share(target, share) for share in work] if runs else []


def load(
    env: Path, name: str, records: Records, *, parts: int = 1, options: DatabaseOptions | None = None
) -> list[TaskOutput]:
    storage = DiskStorage(env)
    prepared = prepared_for(storage, name, options)
    lock = WriterLock(storage)
    try:
        done = staged(storage, prepared.target, records, parts=parts)
        stitch(storage, EnvironmentConfig(), prepared.target, prepared.subject, done, prepared.last_offset)
        staging.clean(storage)
    finally:
        lock.release()
    return done


def contents(env: Path | Storage, name: str) -> dict[bytes, bytes]:
    with Environment(env, EnvironmentConfig(read_only=True)) as opened, opened.open_database(name) as db:
        found = list(db.items())
    assert [key for key, _ in found] == sorted(key for key, _ in found)
    return dict(found)
