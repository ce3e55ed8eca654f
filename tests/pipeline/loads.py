"""A load by hand: records in memory through all steps but the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from engine.catalog.name_operations import DatabaseOptions
from engine.db.config import EnvironmentConfig
from engine.db.environment import Environment
from engine.pipeline.load import stage
from engine.pipeline.load.log_output import shares, write_share
from engine.pipeline.load.plan import Target, TaskOutput
from engine.pipeline.load.runs import LAST, SCHEMA, RunWriter, SortedRun, cuts_of
from engine.pipeline.load.session import LoadSession, LoadStorage
from engine.pipeline.load.stitch import stitch
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


@contextmanager
def session_on(storage: Storage, name: str, options: DatabaseOptions | None = None) -> Iterator[LoadSession]:
    with Environment(LoadStorage(storage), EnvironmentConfig()) as env:
        yield LoadSession(env, storage, name, options or DatabaseOptions(), create=True)


def staged(
    storage: Storage, target: Target, records: Records, *, parts: int = 1, run_bytes: int = 20_000
) -> list[TaskOutput]:
    directory = stage.make(storage)
    runs = runs_of(directory, records, run_bytes=run_bytes)
    work = shares([run.path for run in runs], cuts_of(runs, parts), LAST)
    return [write_share(target, share) for share in work] if runs else []


def load(
    env: Path, name: str, records: Records, *, parts: int = 1, options: DatabaseOptions | None = None
) -> list[TaskOutput]:
    storage = DiskStorage(env)
    with session_on(storage, name, options) as session:
        done = staged(storage, session.target, records, parts=parts)
        stitch(session, done)
        stage.clean(storage)
    return done


def contents(env: Path | Storage, name: str) -> dict[bytes, bytes]:
    with Environment(env, EnvironmentConfig(read_only=True)) as opened, opened.open_database(name) as db:
        found = list(db.items())
    assert [key for key, _ in found] == sorted(key for key, _ in found)
    return dict(found)
