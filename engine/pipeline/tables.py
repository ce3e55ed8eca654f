"""Small tables as a Parquet dataset: a directory with one file for each table, created completely or not at all.

The driver writes them, since they are the results of a job. The directory is built under a temporary name beside the
target and renamed, so that a reader never sees a part of it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.errors import RefusedError, StorageError, UnsupportedError
from engine.pipeline.python_side import has
from engine.storage.unfinished import hold, remove_abandoned, unfinished_name

# Kinds of columns: text, int, float, bool, time (ms since 1970), ints.
_TIME: Final = "time"


class ParquetTable(NamedTuple):
    """A table: name and kind of each column, and rows of values in that order; None is null."""

    columns: Sequence[tuple[str, str]]
    rows: Sequence[Sequence[Any]]


def require_parquet(other: str = "") -> None:
    """Refuse to write Parquet without pyarrow.

    Arguments:
        other: what to do instead of installing it.

    Raises:
        UnsupportedError: pyarrow is not installed.
    """
    if not has("pyarrow"):
        raise UnsupportedError(
            "Parquet needs the Python package pyarrow, which is not installed",
            consequence="nothing was written",
            hint="pip install 'pyarrow>=18'" + (f", or {other}" if other else ""),
        )


def require_new(directory: str) -> None:
    """Refuse an existing directory that is not empty.

    Raises:
        RefusedError: the directory is not empty, or the path is a file or a link.
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
            hint="name a new directory, or remove this directory",
        )


@contextmanager
def new_directory(directory: str) -> Iterator[Path]:
    """A directory to write into. If the block succeeds, the content is synced and the directory gets its final name.

    Remains of killed runs with the same target are removed.

    Raises:
        RefusedError: the directory exists and is not empty. StorageError: the dataset cannot be written.
    """
    require_new(directory)
    target = Path(directory).absolute()
    # The temporary directory is beside the target, so that both are on one file system.
    remove_abandoned(target)
    staging = unfinished_name(target)
    lock = -1
    try:
        staging.mkdir(parents=True)
        lock = os.open(staging, os.O_RDONLY)
        hold(lock)
        yield staging
        # Everything is durable before the directory gets its name.
        for path in (*staging.rglob("*"), staging):
            sync(path)
        if target.is_dir():
            # An empty target directory is allowed; this fails, as it should, if it has become non-empty.
            target.rmdir()
        staging.rename(target)
        # The parent directory holds the rename, so it is synced too.
        sync(target.parent)
    except StorageError as error:
        # Remove everything under the temporary name.
        error.consequence = "nothing was written"
        raise
    except OSError as error:
        raise StorageError(
            "cannot write", file=directory, found=error.strerror or str(error), consequence="nothing was written"
        ) from error
    finally:
        # After the rename the temporary name no longer exists.
        shutil.rmtree(staging, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def write_tables(directory: str, tables: Mapping[str, ParquetTable]) -> None:
    """Write each table as ``directory/NAME.parquet``.

    Raises:
        RefusedError: the directory exists and is not empty. StorageError: the dataset cannot be written.
    """
    require_parquet()
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
