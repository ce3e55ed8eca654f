"""``jetool load`` of a large dump into a database without records, as finished log files (``engine.pipeline.load``)."""

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
        read, records: records of the dump that were taken, and how many of them were written.
        files, size: log files, and their bytes.
        damage: what the dump ended with instead of its end.
    """

    read: int
    records: int
    files: int
    size: int
    damage: DamageError | None


def load(run: Run, session: LoadSession, reader: DumpReader, batch: int, *, overwrite: bool) -> BulkLoad:
    """Load.

    Arguments:
        batch: records that are loaded together: of a dump with a bad line whole batches.
        overwrite: the last of equal keys stays, and all were written; otherwise the first, and the others were not.

    Raises:
        JetoolError: nothing was changed.
    """
    keep = LAST if overwrite else FIRST
    files = size = 0
    with ExitStack() as stack:
        if run.dry_run:
            # Not in the environment: a dry run leaves no file there.
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jetool-load-")))
        else:
            directory = stack.enter_context(bulk.staging_directory(session.storage))
        runs = PairRuns(directory, keep)
        with failures.explained("the dump could not be sorted", consequence=UNCHANGED, room=bulk.ROOM):
            damage = _read(run, reader, runs, batch)
            found = runs.finish()
        records = found.read
        if not run.dry_run:
            # Another process takes half a second to begin with.
            jobs = run.jobs if sum(one.size for one in found.runs) >= _PARALLEL_BYTES else 1
            with LocalBackend(jobs, run.listener) as backend:
                done = bulk.write_files(session, backend, found, keep, None, run.listener)
            files, size = done.files, done.size
            records = records if overwrite else done.records
        elif not overwrite:
            records = runs.different_keys()
    return BulkLoad(found.read, records, files, size, damage)


def _read(run: Run, reader: DumpReader, runs: PairRuns, batch: int) -> DamageError | None:
    """Give the records to the runs, whole batches before a bad line; that line."""
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
