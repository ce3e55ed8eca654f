"""A load from beginning to end.

1. Inspect the source before anything is changed. With the environment open (``session``), remove the remains of an
   earlier load, and create the staging directory.
2. Read the source: runs and rejects.
3. Write the parts; stitch; commit. Or, if the database already holds records, merge the runs into it.
4. Remove the staging directory in any case.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from engine.errors import StorageError
from engine.events import Listener
from engine.pipeline import failures
from engine.pipeline.load import stage
from engine.pipeline.load.input.recipe import PLACE_BITS, TABLE, Recipe, RecipeRequest, resolve, style_of
from engine.pipeline.load.input.sorted_runs import PartRead
from engine.pipeline.load.input.sources import Layout, OpenSource
from engine.pipeline.load.log_output import Share, shares
from engine.pipeline.load.plan import UNCHANGED, LoadResult, Target, TaskOutput
from engine.pipeline.load.reject_file import RejectedRecord, RejectFile
from engine.pipeline.load.runs import SortedRun, cuts_of
from engine.pipeline.load.session import LoadSession
from engine.pipeline.load.stitch import stitch
from engine.storage.base import Storage
from engine.storage.sidecar import Access

# While a task sorts a run, it holds the run three times in memory. Two runs hold the records of one split.
RUN_BYTES: Final = 18 << 20
PART_BYTES: Final = 64 << 20
_MOST_PARTS: Final = 10_000
_AGAIN: Final = "remove the cause and run the same command again"
ROOM: Final = "make room on the environment's disk for the source twice over, and run the same command again"


class Backend(Protocol):
    """What does the work: The engine that runs tasks: Spark, or processes on this machine."""

    @property
    def cores(self) -> int:
        """Number of tasks that run at a time."""

    def open(self, layout: Layout) -> OpenSource:
        """Look at a source."""

    def read(self, opened: OpenSource, recipe: Recipe) -> list[PartRead]:
        """Make runs of it."""

    def write(self, target: Target, shares: list[Share]) -> list[TaskOutput]:
        """Make log files of the runs."""


class ReadTotals(NamedTuple):
    """What was read.

    Attributes:
        read, rejected, duplicates: numbers of records; a task drops duplicates.
        runs: the sorted runs.
        rejects: the file of the rejects, or None.
    """

    read: int
    rejected: int
    duplicates: int
    runs: list[SortedRun]
    rejects: Path | None


def open_source(backend: Backend, layout: Layout, wanted: RecipeRequest, keep: str) -> tuple[OpenSource, Recipe]:
    """Inspect a source, and decide how its records become keys and values. The recipe names no staging directory yet.

    Raises:
        UsageError: the options do not fit the source. JobError: the source cannot be read.
    """
    with failures.explained("the source could not be read", consequence=UNCHANGED, hint=_AGAIN):
        opened = backend.open(layout)
    return opened, _recipe_of(opened, wanted, keep)


def _recipe_of(opened: OpenSource, wanted: RecipeRequest, keep: str) -> Recipe:
    form, schema = opened.layout.form, opened.schema
    keys, values, value_format, style = resolve(
        wanted, form, schema.names, lambda name: style_of(name, schema.field(name).type)
    )
    return Recipe(
        staging="",
        run_bytes=RUN_BYTES,
        keep=keep,
        form=form,
        names=opened.names,
        delimiter=opened.layout.delimiter,
        header=opened.layout.header,
        keys=keys,
        values=values,
        value_format=value_format,
        value_style=style,
        order_by=wanted.order_by,
        files=opened.files,
    )


def read_source(
    backend: Backend, opened: OpenSource, recipe: Recipe, directory: Path, rejects_directory: Path, access: Access
) -> ReadTotals:
    """Step 2.

    Arguments:
        directory: the staging directory.

    Raises:
        JobError: a file cannot be read, or there are equal keys that must not be dropped.
    """
    recipe = recipe._replace(staging=str(directory))
    with failures.explained("the source could not be read", consequence=UNCHANGED, hint=_AGAIN, room=ROOM):
        outcomes = backend.read(opened, recipe)
    runs = sorted(run for outcome in outcomes for run in outcome.runs)
    return ReadTotals(
        sum(outcome.read for outcome in outcomes),
        sum(outcome.rejected for outcome in outcomes),
        sum(run.duplicates for run in runs),
        runs,
        _write_rejects(recipe, outcomes, rejects_directory, access),
    )


def write_files(
    session: LoadSession, backend: Backend, found: ReadTotals, keep: str, parts: int | None, listener: Listener
) -> LoadResult:
    """Step 3, for a database without records.

    Arguments:
        parts: number of tasks that write; None for a suitable number.
    """
    size = sum(run.size for run in found.runs)
    # With parts below a quarter of the usual size, more tasks would cost more than they save.
    wanted = parts or min(max(backend.cores if size > PART_BYTES // 4 else 1, size // PART_BYTES), _MOST_PARTS)
    work = shares([run.path for run in found.runs], cuts_of(found.runs, wanted), keep)
    with failures.explained("the log files could not be written", consequence=UNCHANGED, hint=_AGAIN, room=ROOM):
        done = backend.write(session.target, work if found.runs else [])
    # So far only the staging directory has changed; the next steps change the environment.
    listener.step("commit", 0, 0)
    stitch(session, done)
    files = [file for part in done for file in part.files]
    return LoadResult(
        read=found.read,
        records=sum(part.records for part in done),
        rejected=found.rejected,
        duplicates=found.duplicates + sum(part.duplicates for part in done),
        files=len(files),
        size=sum(file.size for file in files),
        rejects=found.rejects,
    )


@contextmanager
def staging_directory(storage: Storage) -> Iterator[Path]:
    """Make the staging directory, and remove it at the end. The caller holds the environment's lock."""
    # Files left by a load that died would occupy file numbers.
    stage.clean(storage)
    directory = stage.make(storage)
    try:
        yield directory
    finally:
        stage.clean(storage)


def _write_rejects(recipe: Recipe, outcomes: list[PartRead], directory: Path, access: Access) -> Path | None:
    """Collect all rejects in one file of a directory, which is created.

    A task has only the position of a record in its split. The number of lines in earlier splits is known only after all
    splits were read, so the driver completes the line numbers. Records of formats without lines have no line number.

    Users without access to the environment must not read the rejects: ``access`` says who may.

    Returns:
        Path of the file; None when nothing was rejected.

    Raises:
        StorageError: the file cannot be written.
    """
    paths = [outcome.rejects for outcome in outcomes if outcome.rejects is not None]
    if not paths:
        return None
    before = _lines_before(recipe, outcomes)
    with RejectFile(directory, access) as out:
        for path in sorted(paths):
            try:
                with Path(path).open(encoding="utf-8") as lines:
                    for line in lines:
                        out.add(_finished(recipe, before, line))
            except OSError as error:
                raise StorageError("cannot read the rejects of a task", file=path, found=error.strerror) from error
    return out.path


def _lines_before(recipe: Recipe, outcomes: list[PartRead]) -> dict[int, int]:
    """For every split, the number of lines in its file before the split."""
    counts = dict(sorted(pair for outcome in outcomes for pair in outcome.splits))
    before: dict[int, int] = {}
    origin, seen = -1, 0
    for split, lines in counts.items():
        # Splits are in order, so a new origin begins a new file, and lines count from one again.
        if split >> recipe.split_bits() != origin:
            origin, seen = split >> recipe.split_bits(), 0
        before[split] = seen
        seen += lines
    return before


def _finished(recipe: Recipe, before: dict[int, int], line: str) -> RejectedRecord:
    rank, column, reason, record = json.loads(line)
    split, place = rank >> PLACE_BITS, rank & ((1 << PLACE_BITS) - 1)
    file = recipe.files[split >> recipe.split_bits()]
    number = before[split] + place + 1 if recipe.form != TABLE else None
    return RejectedRecord(file=file, line=number, column=column, reason=reason, record=record)
