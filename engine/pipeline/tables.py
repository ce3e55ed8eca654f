"""Small tables as a Parquet dataset: a directory with one file for each table, made whole or not at all.

The driver writes them, since they are what is left of a job. The directory is built beside its place under another name
and renamed, so that a reader never sees half of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import RefusedError, StorageError
from engine.storage.unfinished import hold, remove_abandoned, unfinished_name

# Kinds of columns: text, int, float, bool, time (ms since 1970), ints.
_TIME: Final = "time"


class ParquetTable(NamedTuple):
    """A table: name and kind of each column, and rows of values in that order; None is null."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]


def require_new(directory: str) -> None:
    """Refuse a directory that is there and holds something.

    Raises:
        RefusedError: it does, or something else has the name, a link too.
    """
    path = Path(directory)
    if path.is_symlink():
        raise RefusedError(
            "the output directory is a symbolic link",
            file=directory,
            consequence="nothing was written",
            hint="name the directory itself, or a new one",
        )
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RefusedError(
            "the output directory is not empty",
            file=directory,
            consequence="nothing was written",
            hint="name a new directory, or remove this one",
        )


@contextmanager
def new_directory(directory: str) -> Iterator[Path]:
    """A directory to write into, which gets its name when the block ends well; everything below it is synced first.

    What earlier runs with the same name have left, because they were killed, is removed.

    Raises:
        RefusedError: the directory is there and holds something. StorageError: it cannot be written.
    """
    require_new(directory)
    target = Path(directory).absolute()
    # Beside the target, so that the rename stays within one file system.
    remove_abandoned(target)
    staging = unfinished_name(target)
    lock = -1
    try:
        staging.mkdir(parents=True)
        lock = os.open(staging, os.O_RDONLY)
        hold(lock)
        yield staging
        # Everything is durable before the directory has its name.
        for path in (*staging.rglob("*"), staging):
            sync(path)
        if target.is_dir():
            # An empty directory may be given; it fails, as it should, when somebody has put something there.
            target.rmdir()
        staging.rename(target)
        # The rename itself is in the parent.
        sync(target.parent)
    except StorageError as error:
        # Whatever stands below the other name goes.
        error.consequence = "nothing was written"
        raise
    except OSError as error:
        raise StorageError(
            "cannot write", file=directory, found=error.strerror or str(error), consequence="nothing was written"
        ) from error
    finally:
        # After the rename nothing has this name any more.
        shutil.rmtree(staging, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def write_tables(directory: str, tables: Mapping[str, ParquetTable]) -> None:
    """Write each table as ``directory/NAME.parquet``.

    Raises:
        RefusedError: the directory is there and holds something. StorageError: it cannot be written.
    """
    import pyarrow.parquet as pq

    with new_directory(directory) as staging:
        for name, table in tables.items():
            pq.write_table(_arrow(table), staging / f"{name}.parquet")


def _arrow(table: ParquetTable) -> Any:
    import pyarrow as pa

    kinds = {
        "text": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "bool": pa.bool_(),
        _TIME: pa.timestamp("ms", tz="UTC"),
        "ints": pa.list_(pa.int64()),
    }
    names = [name for name, _ in table.columns]
    arrays = [
        pa.array([row[index] for row in table.rows], kinds[kind]) for index, (_, kind) in enumerate(table.columns)
    ]
    return pa.Table.from_arrays(arrays, names)


def sync(path: Path) -> None:
    """Make a file or a directory durable."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
