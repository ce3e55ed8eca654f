"""The files of a salvage without Spark: Parquet, JSON lines or CSV, as Spark writes them.

Each dataset is a directory of parts, one for each source that has rows of it; ``_SUCCESS`` marks a complete dataset.
Bytes are hex in JSON and CSV. JSON leaves out nulls; CSV has a header, an empty field for null, and ``""`` for an empty
text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from engine.pipeline.fleet.salvage_tasks import DOUBT, LOST, ORPHAN, RECORD, ROWS, arrow, batches, source_rows
from engine.pipeline.python_side import settle_worker
from engine.rescue.salvage.sources import SalvageSource

if TYPE_CHECKING:
    from engine.pipeline.job_run import Tally

SHOWN: Final = ("source", "environment", "db", "key", "data", "vlsn", "lsn", "from", "stood_in", "confirmed")
# For each dataset the kind of its rows, and the columns that are meaningless for this kind.
DATASETS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "records": (RECORD, ()),
    "lost": (LOST, ("data", "vlsn", "from", "confirmed", "decoded_data")),
    "doubt": (DOUBT, ("vlsn", "from", "stood_in", "confirmed")),
    "orphans": (ORPHAN, ()),
}
LOST_REASON: Final = "the newest version cannot be read"
_REASON: Final = "reason"
_COLUMNS: Final = tuple(column.split()[0] for column in ROWS.split(", "))
_KIND, _ENV, _FROM, _STOOD_IN, _CONFIRMED = (
    _COLUMNS.index(name) for name in ("kind", "environment", "from", "stood_in", "confirmed")
)
# Characters that JSON escapes, as Spark escapes them.
_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in range(32)},
    **dict(zip(map(ord, '"\\\b\f\n\r\t'), ('\\"', "\\\\", "\\b", "\\f", "\\n", "\\r", "\\t"), strict=True)),
}


class SalvageOutput(NamedTuple):
    """The output of a salvage.

    Attributes:
        directory: where the datasets are written.
        form: ``parquet``, ``json`` or ``csv``.
        shown: columns; each dataset leaves out those without a meaning for it.
        decode: the decoder; None for none.
    """

    directory: str
    form: str
    shown: tuple[str, ...]
    decode: str | None


class RowCount(NamedTuple):
    """A number of rows of one kind."""

    kind: str
    environment: str
    origin: str | None
    stood_in: bool | None
    confirmed: bool | None
    rows: int


class _Part(Protocol):
    """One file of a dataset."""

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""

    def close(self) -> None:
        """Complete the file."""


def write_source(output: SalvageOutput, tally: Tally, numbered: tuple[int, SalvageSource]) -> Iterator[RowCount]:
    """Salvage a source and write its part of every dataset; runs in a task. Gives the counts of its rows."""
    settle_worker()
    number, source = numbered
    counts: Counter[tuple[str, str, str | None, bool | None, bool | None]] = Counter()
    with ExitStack() as stack:
        parts: dict[str, _Part] = {}
        names = {kind: name for name, (kind, _) in DATASETS.items()}
        # The first source has a part of every dataset, so that each dataset has its columns.
        for kind in names if number == 0 else ():
            parts[kind] = _opened(output, names[kind], number, stack)
        for rows in _chunks(source_rows(source, output.decode)):
            by_kind: dict[str, list[tuple[Any, ...]]] = {}
            for row in rows:
                by_kind.setdefault(row[_KIND], []).append(row)
                counts[row[_KIND], row[_ENV], row[_FROM], row[_STOOD_IN], row[_CONFIRMED]] += 1
            for kind, chosen in by_kind.items():
                if kind not in parts:
                    parts[kind] = _opened(output, names[kind], number, stack)
                parts[kind].write(chosen)
            tally.add(len(rows))
    for key, count in counts.items():
        yield RowCount(*key, count)


def finish(output: SalvageOutput) -> None:
    """Mark every dataset as complete."""
    for name in DATASETS:
        directory = Path(output.directory) / name
        directory.mkdir(exist_ok=True)
        (directory / "_SUCCESS").touch()


def _chunks(rows: Iterator[tuple[Any, ...]], most: int = 4096) -> Iterator[list[tuple[Any, ...]]]:
    chunk: list[tuple[Any, ...]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) >= most:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _opened(output: SalvageOutput, name: str, number: int, stack: ExitStack) -> _Part:
    """A new part of a dataset; the stack closes it."""
    directory = Path(output.directory) / name
    # Other tasks make it too.
    directory.mkdir(exist_ok=True)
    path = directory / f"part-{number:05d}.{output.form}"
    kind, silent = DATASETS[name]
    columns = tuple(one for one in output.shown if one not in silent)
    part: _Part
    if output.form == "parquet":
        part = _ParquetPart(path, columns, has_reason=kind == LOST)
    else:
        part = _TextPart(path, columns, has_reason=kind == LOST, is_csv=output.form == "csv")
    stack.callback(part.close)
    return part


class _ParquetPart:
    """A file of Parquet."""

    def __init__(self, path: Path, columns: Sequence[str], *, has_reason: bool) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        whole = arrow(ROWS)
        self._whole, self._columns = whole, list(columns)
        fields = [whole.field(name) for name in columns]
        self._schema = pa.schema([*fields, pa.field(_REASON, pa.string())] if has_reason else fields)
        self._has_reason = has_reason
        self._writer = pq.ParquetWriter(path, self._schema)

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""
        import pyarrow as pa

        for batch in batches(iter(rows), self._whole):
            arrays = [batch.column(name) for name in self._columns]
            if self._has_reason:
                arrays.append(pa.repeat(LOST_REASON, batch.num_rows))
            self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def close(self) -> None:
        """Write the footer."""
        self._writer.close()


class _TextPart:
    """A file of JSON lines or CSV."""

    def __init__(self, path: Path, columns: Sequence[str], *, has_reason: bool, is_csv: bool) -> None:
        self._places = [_COLUMNS.index(name) for name in columns]
        self._names = (*columns, _REASON) if has_reason else tuple(columns)
        self._more = (LOST_REASON,) if has_reason else ()
        self._line = _csv_line if is_csv else self._json_line
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")
        if is_csv:
            self._file.write(_csv_line(self._names))

    def write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Append rows."""
        self._file.writelines(
            self._line((*(_shown(row[place]) for place in self._places), *self._more)) for row in rows
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _json_line(self, values: Sequence[Any]) -> str:
        pairs = (
            f'"{name}":{_json(value)}' for name, value in zip(self._names, values, strict=True) if value is not None
        )
        return "{" + ",".join(pairs) + "}\n"


def _shown(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def _json(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _csv_line(values: Sequence[Any]) -> str:
    return ",".join(map(_csv, values)) + "\n"


def _csv(value: Any) -> str:
    if value is None:
        return ""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not text or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text
