"""``jetool load`` of a large dump into an empty database, as finished log files (``engine.pipeline.load``)."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import DamageError
from engine.pipeline import failures
from engine.pipeline.load import bulk
from engine.pipeline.load.local_backend import LocalBackend
from engine.pipeline.load.pairs import PairRuns
from engine.pipeline.load.plan import UNCHANGED
from engine.pipeline.load.runs import FIRST, LAST
from engine.pipeline.load.session import LoadSession
from jetool.commands.load.dump_reader import DumpReader
from jetool.frame.options import Run

_PARALLEL_BYTES: Final = 256 << 20


class BulkLoad(NamedTuple):
    """What was loaded.

    Attributes:
        read, records: number of records read from the dump, and number of records written.
        files, size: number of log files, and their size in bytes.
        damage: the damage at which reading of the dump stopped, or None.
    """

    read: int
    records: int
    files: int
    size: int
    damage: DamageError | None


def load(run: Run, session: LoadSession, reader: DumpReader, batch: int, *, overwrite: bool) -> BulkLoad:
    """Load.

    Arguments:
        batch: records per batch; of a dump with a bad line only whole batches are loaded.
        overwrite: of records with equal keys the last one stays, and all count as written; otherwise the first one
            stays, and the others are rejected.

    Raises:
        JetoolError: nothing was changed.
    """
    keep = LAST if overwrite else FIRST
    files = size = 0
    with ExitStack() as stack:
        if run.dry_run:
            # Use a temporary directory, because a dry run leaves no file in the environment.
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jetool-load-")))
        else:
            directory = stack.enter_context(bulk.staging_directory(session.storage))
        runs = PairRuns(directory, keep)
        with failures.explained("the dump could not be sorted", consequence=UNCHANGED, room=bulk.ROOM):
            damage = _read(run, reader, runs, batch)
            found = runs.finish()
        records = found.read
        if not run.dry_run:
            # Use several processes only for large runs, because starting a process takes half a second.
            jobs = run.jobs if sum(one.size for one in found.runs) >= _PARALLEL_BYTES else 1
            with LocalBackend(jobs, run.listener) as backend:
                done = bulk.write_files(session, backend, found, keep, None, run.listener)
            files, size = done.files, done.size
            records = records if overwrite else done.records
        elif not overwrite:
            records = runs.different_keys()
    return BulkLoad(found.read, records, files, size, damage)


def _read(run: Run, reader: DumpReader, runs: PairRuns, batch: int) -> DamageError | None:
    """Add the records to the runs, up to the last whole batch before a bad line; returns the error of that line."""
    keys: list[bytes] = []
    values: list[bytes] = []
    try:
        for block in reader.blocks():
            keys += block[0]
            values += block[1]
            whole = len(keys) // batch * batch
            if whole:
                runs.add(keys[:whole], values[:whole])
                del keys[:whole], values[:whole]
                run.listener.step("load", runs.read, 0)
    except DamageError as error:
        return error
    runs.add(keys, values)
    return None
