"""Salvages the records of damaged environments of a fleet, and reports the losses: ``engine.rescue.salvage``, in tasks.

The nodes of a replication group, or a single environment, are one *source* and one task. It reads the logs, sorts in
files of its machine, and gives records and findings. On Spark these are rows that Spark writes; otherwise each task
writes its part of every dataset (``salvage_files``). ``jetool salvage`` uses the same code in one process. Nothing is
written to the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from engine.errors import JetoolError
from engine.events import SILENT, Listener
from engine.log.files import list_log_files
from engine.pipeline.decoded_columns import DECODED_COLUMNS
from engine.pipeline.failures import explained
from engine.pipeline.fleet.backends import FleetBackend, SparkFleet
from engine.pipeline.fleet.salvage_files import (
    DATASETS,
    LOST_REASON,
    SHOWN,
    RowCount,
    SalvageOutput,
    finish,
    write_source,
)
from engine.pipeline.fleet.salvage_tasks import DOUBT, LOST, ORPHAN, RECORD, ROWS, source_task
from engine.pipeline.inventory import EnvironmentListing
from engine.pipeline.job_run import waiting
from engine.pipeline.python_side import settle_worker
from engine.pipeline.tables import new_directory
from engine.rescue.salvage.record_choice import LOG, TREE
from engine.rescue.salvage.sources import SalvageNode, SalvageSource, look_at, sources_of
from engine.storage.disk import DiskStorage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from engine.pipeline.job_run import Tally
    from engine.pipeline.session import Session

FORMS: Final = ("parquet", "json", "csv")
_RAW_FORMS: Final = ("parquet",)
# Bytes as they are, and a header; spaces at the ends of a name are part of it.
_CSV: Final = {
    "header": "true",
    "escape": '"',
    "ignoreLeadingWhiteSpace": "false",
    "ignoreTrailingWhiteSpace": "false",
}


class Health(NamedTuple):
    """One environment before salvage.

    Attributes:
        node: the result of reading the log; None if the log cannot be read.
        problem: why recovery does not give all records; empty if it does.
    """

    env: str
    node: SalvageNode | None
    problem: str


class SalvageReport(NamedTuple):
    """The result of a salvage.

    Attributes:
        health: the state of each environment, in the given order.
        records: for each environment where its records came from, ``TREE`` or ``LOG``, and their number.
        lost: number of keys whose newest version cannot be read.
        stood_in: number of lost versions that an older version replaces.
        unconfirmed: number of records that may have a newer version or deletion in a damaged part.
        in_doubt: number of newer versions whose transaction has no end in the log.
        orphans: number of records of unnamed databases.
    """

    health: list[Health]
    records: dict[str, tuple[str, int]]
    lost: int
    stood_in: int
    unconfirmed: int
    in_doubt: int
    orphans: int


def salvage_fleet(
    backend: FleetBackend,
    fleet: Sequence[EnvironmentListing],
    to: str,
    form: str,
    listener: Listener = SILENT,
    decode: str | None = None,
) -> SalvageReport:
    """Write the datasets ``records``, ``lost``, ``doubt`` and ``orphans`` below a directory.

    Arguments:
        backend: where the tasks run.
        fleet: the environments.
        to: a directory that does not exist or is empty; it appears when it is complete.
        form: of ``FORMS``.
        listener: receives progress of the steps ``look``, ``salvage`` and, on Spark, ``count``.
        decode: a decoder, or ``auto``: adds columns with the decoded records; None for no decoder.

    Raises:
        RefusedError: the directory holds something. StorageError: the directory cannot be written. JobError: Spark gave
            up.
    """
    envs = [listed.member.env for listed in fleet if listed.files is not None]
    shown = SHOWN if decode is None else (*SHOWN, *DECODED_COLUMNS)
    with explained("the salvage failed", consequence="nothing was written"):
        health = backend.results(check, envs, "look", listener)
        sources = sources_of([one.node for one in health if one.node is not None])
        # The directory gets its final name when all datasets are complete.
        with new_directory(to) as staging:
            output = SalvageOutput(str(staging), form, shown, decode)
            if isinstance(backend, SparkFleet):
                counted = _written_by_spark(backend.session, sources, output, listener)
            else:
                counted = _written_here(backend, sources, output, listener)
    return _report(health, counted)


def _written_here(
    backend: FleetBackend, sources: Sequence[SalvageSource], output: SalvageOutput, listener: Listener
) -> Iterable[RowCount]:
    """Write the datasets, a part of each for every source; the counts of their rows."""
    counted = backend.results(partial(write_source, output), list(enumerate(sources)), "salvage", listener)
    finish(output)
    return counted


def _written_by_spark(
    session: Session, sources: Sequence[SalvageSource], output: SalvageOutput, listener: Listener
) -> Iterable[RowCount]:
    """Let Spark write the datasets; the counts of their rows."""
    from pyspark.sql import functions as f

    with waiting("salvage", listener):
        spark = session.spark
        # One task for each source, whatever the number of cores: one source may be much larger than the others.
        numbers = spark.range(0, len(sources), 1, max(1, len(sources)))
        rows = numbers.mapInArrow(partial(source_task, sources, output.decode), ROWS).persist()
    try:
        for name, (kind, silent) in DATASETS.items():
            chosen = rows.where(rows["kind"] == kind).select(*(one for one in output.shown if one not in silent))
            if kind == LOST:
                chosen = chosen.withColumn("reason", f.lit(LOST_REASON))
            session.run(partial(_save, chosen, f"{output.directory}/{name}", output.form), "salvage", listener)
        counts = rows.groupBy("kind", "environment", "from", "stood_in", "confirmed").count()
        return [RowCount(*row) for row in session.run(counts.collect, "count", listener)]
    finally:
        # Persisted frames outlive the job unless they are released.
        rows.unpersist()


def _report(health: list[Health], counted: Iterable[RowCount]) -> SalvageReport:
    """The report, from the counts of rows."""
    records: dict[str, tuple[str, int]] = {}
    sums = dict.fromkeys((LOST, DOUBT, ORPHAN), 0)
    stood_in = unconfirmed = 0
    for kind, env, origin, replaced, confirmed, count in counted:
        unconfirmed += count if kind in (RECORD, ORPHAN) and not confirmed else 0
        if kind == RECORD:
            records[env] = TREE if origin == TREE else LOG, records.get(env, ("", 0))[1] + count
        else:
            sums[kind] += count
            stood_in += count if kind == LOST and replaced else 0
    return SalvageReport(
        health=health,
        records=records,
        lost=sums[LOST],
        stood_in=stood_in,
        unconfirmed=unconfirmed,
        in_doubt=sums[DOUBT],
        orphans=sums[ORPHAN],
    )


def check(_: Tally, env: str) -> list[Health]:
    """Test whether recovery succeeds and every record can be read; runs in a task."""
    settle_worker()
    try:
        list_log_files(DiskStorage(env))
        node = look_at(env)
    except JetoolError as error:
        return [Health(env, None, str(error))]
    return [Health(env, node, node.problem)]


def _save(frame: DataFrame, path: str, form: str) -> None:
    """Write a data frame; bytes as hex if the file format has no bytes."""
    from pyspark.sql import functions as f

    if form not in _RAW_FORMS:
        for name, kind in frame.dtypes:
            if kind == "binary":
                frame = frame.withColumn(name, f.lower(f.hex(name)))
    frame.write.options(**(_CSV if form == "csv" else {})).format(form).save(path)
