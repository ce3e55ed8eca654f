"""Sources: their files, formats and columns.

A format is recognised by the names of the files. Paths without a scheme are on this machine and are checked here, so
that a mistyped path is found before Spark starts; others (``hdfs:``, ``s3a:``) are left to Spark.
"""

from __future__ import annotations

import csv
import glob
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from engine.errors import JobError, NotFoundError, UsageError
from engine.pipeline.load.input.endings import ending_of, is_local, local
from engine.pipeline.load.input.recipe import CSV, JSON, TABLE

SAMPLE_LINES: Final = 100
BOM: Final = b"\xef\xbb\xbf"


class Layout(NamedTuple):
    """How the files are to be read.

    Attributes:
        paths: as the user named them.
        name: the format, a name of ``FORMATS``.
        delimiter: of CSV.
        header: the first line of a CSV file names its columns.
    """

    paths: tuple[str, ...]
    name: str
    delimiter: str
    header: bool

    @property
    def form(self) -> str:
        """What tasks get: ``TABLE``, or lines of ``CSV`` or ``JSON``."""
        return {"csv": CSV, "tsv": CSV, "jsonl": JSON}.get(self.name, TABLE)


class OpenSource(NamedTuple):
    """An inspected source.

    Attributes:
        layout: how it is read.
        schema: Arrow schema of its columns.
        names: CSV columns, in order.
        files: the files, in the order of the source.
        handle: private to the backend that opened it.
    """

    layout: Layout
    schema: Any
    names: tuple[str, ...]
    files: tuple[str, ...]
    handle: Any


def layout_of(paths: tuple[str, ...], name: str | None, delimiter: str | None, *, header: bool) -> Layout:
    """The layout of sources.

    Raises:
        NotFoundError: a path does not exist. UsageError: the format cannot be recognised.
    """
    for path in paths:
        if is_local(path) and not glob.glob(local(path)):
            raise NotFoundError("no such source", file=path, hint="check the path; hdfs: and s3a: need their scheme")
    found = {ending_of(path) for path in paths} if name is None else {name}
    if len(found) != 1 or None in found:
        raise UsageError(
            "the format of the source cannot be derived from its name",
            expected="files of one format: .csv, .tsv, .jsonl, .parquet, .orc",
            found=", ".join(paths),
            hint="name it with --input-format csv|tsv|jsonl|parquet|orc|avro",
        )
    chosen = found.pop() or ""
    if delimiter is not None and chosen not in ("csv", "tsv"):
        raise UsageError(f"--delimiter has no meaning for {chosen}", hint="leave it out")
    return Layout(paths, chosen, delimiter or ("\t" if chosen == "tsv" else ","), header)


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Read a file of the source.

    Raises:
        JobError: the file cannot be read; the error names it.
    """
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise JobError("a file of the source cannot be read", file=path, found=str(error).rstrip(". ")) from error


def schema_of_lines(layout: Layout, lines: list[bytes]) -> tuple[Any, tuple[str, ...]]:
    """Schema and CSV columns of a source, from its first lines.

    Raises:
        UsageError: the source has no lines.
    """
    import pyarrow as pa

    kinds = kinds_of_lines(layout, lines)
    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.large_string()}
    return pa.schema([(name, types[kind]) for name, kind in kinds.items()]), tuple(kinds) if layout.form == CSV else ()


def kinds_of_lines(layout: Layout, lines: list[bytes]) -> dict[str, type]:
    """The columns of a source by its first lines, and their types: bool, int, float, or str for everything else.

    Raises:
        UsageError: the source has no lines.
    """
    if not lines:
        raise UsageError("the source is empty", found=", ".join(layout.paths), consequence="its columns are not known")
    if layout.form == CSV:
        names = csv_names(lines[0], layout.delimiter, header=layout.header)
        if len(set(names)) < len(names):
            raise UsageError("two columns of the source have the same name", found=", ".join(names))
        return dict.fromkeys(names, str)
    kinds: dict[str, type] = {}
    for line in lines:
        try:
            record = json.loads(line)
        # The load itself rejects the line with a reason.
        except (ValueError, RecursionError):
            continue
        for name, value in record.items() if isinstance(record, dict) else ():
            # Null does not show the type of the column; a later line may show it.
            if value is not None:
                kinds.setdefault(name, type(value) if isinstance(value, bool | int | float) else str)
    return kinds


def csv_names(line: bytes, delimiter: str, *, header: bool) -> tuple[str, ...]:
    """The columns of a CSV file by its first line; ``c1``, ``c2`` without a header."""
    text = line.removeprefix(BOM).decode("utf-8", "replace")
    fields = next(csv.reader([text], delimiter=delimiter), [""])
    return tuple(fields) if header else tuple(f"c{number}" for number in range(1, len(fields) + 1))
