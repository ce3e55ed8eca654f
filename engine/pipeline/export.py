"""Exports the records of a database, as recovery would leave them, to files that other programs can read.

Each task recovers the environment in memory and writes one key range, so that files are in key order: the first file
holds the smallest keys. A local directory has a temporary name until it is complete; elsewhere (``hdfs:``, ``s3a:``)
Spark's own commit protocol decides, and ``_SUCCESS`` marks the end.

Parquet and ORC hold raw bytes. CSV and JSON hold text, and so do the others if a text format is requested
(``engine.inspect.key_formats``). CSV has a header line and doubles quotes; JSON is one object on each line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.events import SILENT, Listener
from engine.inspect.key_formats import show
from engine.pipeline.decoded_columns import DECODED_COLUMNS
from engine.pipeline.failures import explained
from engine.pipeline.job_run import waiting
from engine.pipeline.sources import register_sources
from engine.pipeline.tables import new_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from engine.pipeline.session import Session

FORMS: Final = ("parquet", "csv", "json", "orc")
_TEXT_FORMS: Final = ("csv", "json")
_RAW: Final = "hex"
# Spark insists on creating the directory that it writes to.
_DATA: Final = "data"
_STEP: Final = "export"
_OPTIONS: Final[dict[str, dict[str, str]]] = {"csv": {"header": "true", "escape": '"'}}


class ExportReport(NamedTuple):
    """The result: records, files, and the size of the files in bytes (None if they are not on this machine)."""

    records: int
    files: int | None
    bytes: int | None


class Columns(NamedTuple):
    """How keys and data look: names of ``key_formats.FORMATS``; ``hex`` keeps raw bytes if the format has them."""

    key_format: str = _RAW
    data_format: str = _RAW


def export(
    session: Session,
    env: str,
    db: str,
    to: str,
    form: str,
    columns: Columns,
    decode: str | None = None,
    *,
    partitions: int | None = None,
    point: str | None = None,
    listener: Listener = SILENT,
) -> ExportReport:
    """Write the records of a database.

    Arguments:
        session: Spark.
        env, db: the database.
        to: a directory that does not exist or is empty; or a URL that Spark can write to.
        form: of ``FORMS``.
        columns: formats of keys and data.
        decode: the decoder whose columns are added; None for no decoder.
        partitions: number of files; by default one for each 64 MB of log.
        point: the records as they were at a point of the log (``engine.rescue.points``); None for its end.
        listener: receives progress of the step ``export``.

    Raises:
        RefusedError: the directory is not empty. NotFoundError: no such environment or database.
        StorageError: the directory cannot be written. JobError: Spark gave up.
    """
    local = _local(to)
    read = partial(_frame, session, env, db, decode, partitions, point)
    if local is None:
        with explained(
            "the export failed", consequence="what was written so far is not complete: there is no _SUCCESS"
        ):
            return ExportReport(_write(session, read, to, form, columns, decode, listener), None, None)
    with new_directory(str(local)) as staging:
        with explained("the export failed", consequence="nothing was written"):
            records = _write(session, read, (staging / _DATA).as_uri(), form, columns, decode, listener)
        for path in (staging / _DATA).iterdir():
            # ``_SUCCESS`` is moved too, so readers that wait for it find it at the top.
            path.rename(staging / path.name)
        (staging / _DATA).rmdir()
        sizes = [path.stat().st_size for path in staging.glob("part-*")]
    return ExportReport(records, len(sizes), sum(sizes))


def _local(to: str) -> Path | None:
    """The path of a target on this machine's file systems; None for other targets."""
    if to.startswith("file://"):
        return Path(to.removeprefix("file://")).absolute()
    return None if "://" in to else Path(to).absolute()


def _frame(
    session: Session, env: str, db: str, decode: str | None, partitions: int | None, point: str | None
) -> DataFrame:
    """The records of the database."""
    register_sources(session.spark)
    read = session.spark.read.format("jerecords").option("db", db).option("onDamage", "ignore")
    # If ``partitions`` is not given, the number of files depends on the size of the log.
    for name, value in (("partitions", partitions), ("decode", decode), ("asOf", point)):
        if value is not None:
            read = read.option(name, str(value))
    return read.load(env).select("key", "data", *(() if decode is None else DECODED_COLUMNS))


def _write(
    session: Session,
    read: Callable[[], DataFrame],
    to: str,
    form: str,
    columns: Columns,
    decode: str | None,
    listener: Listener,
) -> int:
    from pyspark.sql import Observation, functions

    with waiting(_STEP, listener):
        frame = _shown(read(), form, columns, decoded=decode is not None)
        # Counted while writing: a separate count would recover the environment again in every task.
        seen = Observation("export")
        write = frame.observe(seen, functions.count(functions.lit(1)).alias("records")).write.options(
            **_OPTIONS.get(form, {})
        )
    session.run(lambda: write.format(form).save(to), _STEP, listener)
    return int(seen.get["records"])


def _shown(frame: DataFrame, form: str, columns: Columns, *, decoded: bool) -> DataFrame:
    """Convert bytes to text, if requested."""
    # No column becomes text, so rows need not pass through Python again.
    if form not in _TEXT_FORMS and columns == Columns():
        return frame
    kinds = ["string" if form in _TEXT_FORMS or style != _RAW else "binary" for style in columns]
    styles = [style if kind == "string" else None for style, kind in zip(columns, kinds, strict=True)]
    schema = f"key {kinds[0]}, data {kinds[1]}"
    if decoded:
        # These columns are already text or boolean.
        styles += [None] * len(DECODED_COLUMNS)
        schema += "".join(f", {name} {kind}" for name, kind in DECODED_COLUMNS.items())
    return frame.mapInArrow(partial(_show_batches, tuple(styles)), schema)


def _show_batches(styles: tuple[str | None, ...], batches: Iterator[Any]) -> Iterator[Any]:
    """Runs on executors: columns of Arrow batches as text; a style of None leaves a column as it is."""
    import pyarrow as pa

    for batch in batches:
        arrays = [
            column if style is None else pa.array([show(value, style) for value in column.to_pylist()], pa.string())
            for column, style in zip(batch.columns, styles, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
