"""Splits: parts of files on this machine, which tasks read themselves with pyarrow.

If a task reads its part of a file itself, records do not pass through the JVM, and Spark's SQL engine need not start.
So splits are used if every machine sees the files; Spark's own readers read the rest.

Text is cut at bytes, Parquet between row groups, ORC between stripes. A compressed text is one split. A task may get
several splits. Example, three tasks for ``a.csv`` of 90 MB and a small ``b.csv``:

    (a.csv 0..32M) | (a.csv 32M..64M) | (a.csv 64M..90M, b.csv 0..1k)

Batches get the three columns ``WHERE``; blocks of text carry the same information. The block of a split is its start in
bytes, or a megabyte for every row group before it, so that splits have distinct, ascending blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from engine.pipeline.load.input import columnar, endings, lines, sources
from engine.pipeline.load.input.recipe import TABLE, Recipe
from engine.pipeline.load.input.sorted_runs import BLOCK_BITS, PartRead, TextBlock, read, with_places
from engine.pipeline.load.input.sources import Layout, OpenSource
from engine.pipeline.python_side import settle_arrow, settle_worker

SPLIT_BYTES: Final = 32 << 20
# Every file of columns is opened for its schema before the tasks begin.
_MOST_TABLES: Final = 2000


class Split(NamedTuple):
    """A part of a file.

    Attributes:
        origin: number of the file.
        path: of the file.
        start, stop: byte offsets of text, or numbers of Parquet row groups or ORC stripes; ``stop`` is None for the end
            of the file.
        size: in bytes, as far as known.
    """

    origin: int
    path: str
    start: int
    stop: int | None
    size: int


def opened(layout: Layout) -> OpenSource | None:
    """Inspect the files and columns of a source that can be read in splits.

    Returns:
        None if the source cannot be read in splits: files on other machines, a format or compression that pyarrow does
            not read, columns in directory names, or tables with different columns.

    Raises:
        UsageError: the text has no first line. JobError: a file cannot be read.
    """
    if layout.name == "avro" or not all(endings.is_local(path) and endings.is_plain(path) for path in layout.paths):
        return None
    files = tuple(file for path in layout.paths for file in endings.files_of(path))
    if layout.form != TABLE:
        if not all(endings.is_stream(file) for file in files):
            return None
        with sources.readable(files[0]):
            first = lines.first_lines(files[0], sources.SAMPLE_LINES)
        schema, names = sources.schema_of_lines(layout, first)
        return OpenSource(layout, schema, names, files, None)
    if len(files) > _MOST_TABLES:
        return None
    schemas = [_schema(layout.name, file) for file in files]
    same = all(schema == schemas[0] for schema in schemas)
    return OpenSource(layout, schemas[0], (), files, None) if same else None


def local_bytes(layout: Layout) -> int | None:
    """Size of a source that can be read in splits; None for a source that only Spark can read.

    Raises:
        UsageError, JobError: as ``opened``.
    """
    found = opened(layout)
    if found is None:
        return None
    total = 0
    for file in found.files:
        with sources.readable(file):
            total += Path(file).stat().st_size
    return total


def splits_of(name: str, form: str, files: tuple[str, ...], split_bytes: int = SPLIT_BYTES) -> list[Split]:
    """Cut files into splits.

    Arguments:
        name: the format.
        form: ``recipe.TABLE``, or lines.
        files: paths, in the order of the source.
        split_bytes: size of a split; a row group is never cut.

    Raises:
        JobError: a file cannot be read.
    """
    cut = _columnar if form == TABLE else _text
    return [split for origin, path in enumerate(files) for split in cut(name, origin, path, split_bytes)]


def tasks_of(splits: list[Split], split_bytes: int = SPLIT_BYTES) -> list[tuple[Split, ...]]:
    """Splits grouped into tasks, small ones together, in order."""
    tasks: list[list[Split]] = []
    room = 0
    for split in splits:
        if not tasks or split.size > room:
            tasks.append([])
            room = split_bytes
        tasks[-1].append(split)
        room -= split.size
    return [tuple(task) for task in tasks]


def read_task(recipe: Recipe, name: str, splits: tuple[Split, ...]) -> PartRead:
    """The work of one task: write the runs of its splits.

    Raises:
        JobError: see ``sorted_runs.read``; or a file cannot be read.
    """
    settle_worker()
    settle_arrow()
    return read(recipe, _batches(recipe, name, splits))


def _batches(recipe: Recipe, name: str, splits: tuple[Split, ...]) -> Iterator[Any]:
    """Batches of all splits, with the columns for the position of a record, or blocks of lines."""
    place = 0
    for split in splits:
        with sources.readable(split.path):
            if recipe.form != TABLE:
                for block in lines.blocks_of(split.path, split.start, split.stop):
                    count = lines.count_of(block)
                    yield TextBlock(split.origin, split.start, place, count, block)
                    # Never reset: ``sorted_runs`` subtracts the first place of each split.
                    place += count
                continue
            # Row groups have numbers, not byte offsets; they are scaled so that the shift in ``sorted_runs`` restores
            # the numbers.
            start = split.start << BLOCK_BITS
            for batch in columnar.batches(name, split.path, split.start, split.stop, recipe.needed()):
                yield with_places(batch, split.origin, start, place)
                place += len(batch)


def _schema(name: str, path: str) -> Any:
    with sources.readable(path):
        return columnar.schema_of(name, path)


def _text(_: str, origin: int, path: str, split_bytes: int) -> Iterator[Split]:
    with sources.readable(path):
        size = Path(path).stat().st_size
    # A compressed stream can only be read from its beginning.
    if endings.is_packed(path):
        yield Split(origin, path, 0, None, size)
        return
    for start in range(0, max(size, 1), split_bytes):
        stop = min(start + split_bytes, size)
        yield Split(origin, path, start, stop, stop - start)


def _columnar(name: str, origin: int, path: str, split_bytes: int) -> Iterator[Split]:
    """Row groups in order; neighbours are combined up to the size of a split."""
    with sources.readable(path):
        sizes = columnar.sizes(name, path)
    start = total = 0
    for number, size in enumerate(sizes):
        if number > start and total + size > split_bytes:
            yield Split(origin, path, start, number, total)
            start, total = number, 0
        total += size
    if sizes:
        yield Split(origin, path, start, len(sizes), total)
