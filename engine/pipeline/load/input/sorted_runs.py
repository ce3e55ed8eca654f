"""Step 1 of a load: a part of the source becomes sorted runs, and rejects.

A batch has the data and three columns (``WHERE``) for the position of a record: the origin (number of the file), the
block (start of the split in the file) and the place (a number that increases by one for each record of a task). From
them
the rank is made: file, split, place in the split. It orders equal keys as in the source, and it gives the line of a
reject once the driver knows the number of lines in every split.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.errors import JobError
from engine.pipeline.load.input import columns, lines, values
from engine.pipeline.load.input.recipe import CSV, JSON, PLACE_BITS, RAW, TABLE, Recipe
from engine.pipeline.load.input.text_records import complaint
from engine.pipeline.load.runs import SCHEMA, RunWriter, SortedRun

Numbers = npt.NDArray[np.int64]
LINE: Final = "line"
# Column names that cannot occur in a source.
WHERE: Final = ("jetool_origin", "jetool_block", "jetool_place")
# Smaller than any split.
BLOCK_BITS: Final = 20
_SHOWN_BYTES: Final = 1 << 20


class TextBlock(NamedTuple):
    """Unchanged lines of a file.

    Attributes:
        origin, block: see ``WHERE``.
        place: place of the first line.
        rows: how many lines.
        text: the lines, without the end of the last one.
    """

    origin: int
    block: int
    place: int
    rows: int
    text: bytes


class PartRead(NamedTuple):
    """The result of a task that reads.

    Attributes:
        read: number of records, including rejected ones.
        rejected: number of rejected records.
        runs: the sorted runs.
        splits: for each split its rank without the place, and the number of its records or lines.
        rejects: path of the file of rejects, or None.
    """

    read: int
    rejected: int
    runs: tuple[SortedRun, ...]
    splits: tuple[tuple[int, int], ...]
    rejects: str | None


def read(recipe: Recipe, batches: Iterable[Any]) -> PartRead:
    """Make runs of batches, or of blocks of text.

    Raises:
        JobError: there are equal keys that must not be dropped; or the executors cannot see the staging directory.
    """
    if not Path(recipe.staging).is_dir():
        raise JobError(
            f"a task does not find the staging directory {recipe.staging}: all machines of the cluster must see the "
            "environment's directory under the same path"
        )
    return _SourceReader(recipe).read(batches)


class _SourceReader:
    """Reads for one task."""

    def __init__(self, recipe: Recipe) -> None:
        self._recipe = recipe
        self._splits: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._read = self._rejected = 0
        self._rejects: TextIO | None = None
        self._rejects_path = Path(recipe.staging) / f"rejects-{os.getpid()}-{time.time_ns():x}.jsonl"

    def read(self, batches: Iterable[Any]) -> PartRead:
        """See ``read``."""
        # If Spark repeats an attempt, the new one uses other names for its runs; only the runs of the successful
        # attempt are reported.
        writer = RunWriter(self._recipe.staging, self._recipe.run_bytes, self._recipe.keep)
        runs: list[SortedRun] = []
        try:
            for batch in batches:
                for table in self._records(batch):
                    runs += writer.add(table)
            runs += writer.finish()
        finally:
            if self._rejects is not None:
                self._rejects.close()
        splits = tuple((split, self._last[split] + 1) for split in sorted(self._last))
        path = str(self._rejects_path) if self._rejects is not None else None
        return PartRead(self._read, self._rejected, tuple(runs), splits, path)

    def _records(self, batch: Any) -> Iterator[Any]:
        """The records of a batch, as tables of ``runs.SCHEMA``."""
        if isinstance(batch, TextBlock):
            found = self._from_block(batch) if self._recipe.form == CSV else None
            if found is not None:
                yield found
                return
            batch = _batch_of(batch)
        if not len(batch):
            return
        # Compute the ranks before blank lines are dropped, since line numbers count blank lines too.
        ranks = self._ranks(*(batch[name].to_numpy(zero_copy_only=False).astype(np.int64) for name in WHERE))
        recipe = self._recipe
        if recipe.form == TABLE:
            self._read += len(batch)
            yield self._encoded(pa.table({name: batch[name] for name in recipe.needed()}), ranks, None)
            return
        text = pc.cast(batch[LINE], pa.large_binary())
        kept = self._is_record(text, ranks)
        text, ranks = text.filter(pa.array(kept)), ranks[kept]
        self._read += len(text)
        if len(text):
            yield self._from_json(text, ranks) if recipe.form == JSON else self._from_csv(text, ranks)

    def _is_record(self, text: Any, ranks: Numbers) -> npt.NDArray[np.bool_]:
        """Which lines are records: neither empty nor the header."""
        blank = pc.equal(pc.binary_length(text), 0).to_numpy(zero_copy_only=False)
        kept: npt.NDArray[np.bool_] = ~blank
        if self._recipe.form == CSV and self._recipe.header:
            # Only the first line of the first split is a header; other splits of the file have no header.
            first_of_file = ranks & ((1 << PLACE_BITS + self._recipe.split_bits()) - 1) == 0
            kept &= ~first_of_file
        return kept

    def _ranks(self, origin: Numbers, block: Numbers, place: Numbers) -> Numbers:
        """The rank of every record of a batch."""
        bits = self._recipe.split_bits()
        splits = origin << bits | block >> BLOCK_BITS
        # A split number that overflows would look like the next file.
        if int((block >> BLOCK_BITS).max()) >= 1 << bits:
            raise JobError("the source has too many files to be kept in order; name a column with --order-by")
        # A batch may span splits, and each counts from its own first place.
        changes = np.concatenate(([0], np.flatnonzero(np.diff(splits)) + 1))
        starts = np.empty(len(splits), np.int64)
        for at, end in zip(changes, [*changes[1:], len(splits)], strict=True):
            split = int(splits[at])
            # Only differences of places are used: Spark's count continues from split to split.
            starts[at:end] = self._splits.setdefault(split, int(place[at]))
            self._last[split] = int(place[end - 1]) - self._splits[split]
        return splits << PLACE_BITS | place - starts

    def _from_block(self, block: TextBlock) -> Any:
        """The records of a block of CSV in which every line is a record; None if lines must be parsed one by one."""
        recipe = self._recipe
        # The first line of a file may be its header.
        if (
            recipe.header
            and not block.block
            and block.place == self._splits.get(block.origin << recipe.split_bits(), block.place)
        ):
            return None
        table = lines.parse_block(block.text, block.rows, recipe.names, recipe.needed(), recipe.delimiter)
        if table is None:
            return None
        self._read += len(table)
        origin, start = np.full(2, block.origin), np.full(2, block.block)
        first, last = self._ranks(origin, start, np.array([block.place, block.place + block.rows - 1])).tolist()
        return self._encoded(table, np.arange(first, last + 1), lambda: lines.lines_of(block.text))

    def _from_csv(self, text: Any, ranks: Numbers) -> Any:
        recipe = self._recipe
        parsed = lines.parse_csv(text, recipe.names, recipe.needed(), recipe.delimiter)
        for bad in parsed.bad:
            self._reject(int(ranks[bad.row]), bad.column, bad.reason, text[bad.row].as_py())
        return self._encoded(parsed.table, ranks[parsed.rows], lambda: text.take(pa.array(parsed.rows)))

    def _from_json(self, text: Any, ranks: Numbers) -> Any:
        recipe = self._recipe
        records, rows, bad = lines.parse_json(text, None)
        for found in bad:
            self._reject(int(ranks[found.row]), found.column, found.reason, text[found.row].as_py())
        taken = [column.name for column in recipe.keys] + ([recipe.order_by] if recipe.order_by else [])
        table = {name: _texts(records, name) for name in taken}
        if recipe.value_format == RAW:
            table |= {name: _texts(records, name) for name in recipe.values}
        else:
            encode = values.encoder(recipe.value_format, None)
            wanted = recipe.values
            parts = [
                encode({name: record.get(name) for name in wanted} if wanted else _without(record, taken))
                for record in records
            ]
            table["value of the record"] = pa.array(parts, pa.large_binary())
        kept = pa.array(rows, pa.int64())
        return self._encoded(pa.table(table), ranks[np.array(rows, np.int64)], lambda: text.take(kept))

    def _encoded(self, table: Any, ranks: Numbers, text: Callable[[], Any] | None) -> Any:
        """Keys, values and ranks of parsed records; bad ones are rejected.

        Arguments:
            text: gives the lines of records that are lines.
        """
        recipe = self._recipe
        # Rows are addressed by number below, so chunks are combined first.
        table = table.combine_chunks()
        found = {name: _array(table[name]) for name in table.column_names}
        parts = [columns.encoded(found[column.name], column.style) for column in recipe.keys]
        key, value = columns.joined(parts), self._values(table, found)
        good = pc.and_(pc.is_valid(key), pc.is_valid(value)).to_numpy(zero_copy_only=False)
        if recipe.order_by is not None:
            order, unknown = columns.ranks(found[recipe.order_by])
            # Without a rank it would be unknown which of equal keys is later.
            good = good & ~unknown.to_numpy(zero_copy_only=False)
            sorted_by: Numbers = order.to_numpy(zero_copy_only=False)
        else:
            sorted_by = ranks
        if not good.all():
            shown = None if text is None else text()
            for row in np.flatnonzero(~good).tolist():
                line = None if shown is None else shown[row].as_py()
                self._reject(int(ranks[row]), *self._why(found, parts, row), line or _shown(table, row))
            keep = pa.array(good)
            key, value, sorted_by = key.filter(keep), value.filter(keep), sorted_by[good]
        return pa.table([key, value, pa.array(sorted_by)], schema=SCHEMA)

    def _values(self, table: Any, found: dict[str, Any]) -> Any:
        recipe = self._recipe
        if recipe.value_format == RAW:
            return columns.encoded(found[recipe.values[0]], recipe.value_style)
        if recipe.form == JSON:
            return found["value of the record"]
        if not recipe.values:
            # Arrow forgets the number of rows of a table without columns.
            return pa.array([values.encoder(recipe.value_format, pa.schema([]))({})] * len(table), pa.large_binary())
        chosen = table.select(list(dict.fromkeys(recipe.values)))
        if recipe.form == CSV:
            texts = [pc.cast(column, pa.large_string(), safe=False) for column in chosen.columns]
            chosen = pa.table(texts, chosen.column_names)
        encode = values.encoder(recipe.value_format, chosen.schema)
        return pa.array([encode(record) for record in chosen.to_pylist()], pa.large_binary())

    def _why(self, found: dict[str, Any], parts: list[Any], row: int) -> tuple[int | None, str]:
        """Column (from 1) and reason of a rejected record."""
        recipe = self._recipe
        for column, part in zip(recipe.keys, parts, strict=True):
            if not part[row].is_valid:
                return self._number(column.name), complaint(
                    f"key {column.name}", found[column.name][row].as_py(), column.style
                )
        if recipe.value_format == RAW:
            name = recipe.values[0]
            if not columns.encoded(found[name].slice(row, 1), recipe.value_style)[0].is_valid:
                reason = complaint(f"value {name}", found[name][row].as_py(), recipe.value_style)
                return self._number(name), reason
        name = recipe.order_by or ""
        return self._number(name), f"{name}: no number and no time to order by"

    def _number(self, name: str) -> int | None:
        return self._recipe.names.index(name) + 1 if name in self._recipe.names else None

    def _reject(self, rank: int, column: int | None, reason: str, record: bytes | str) -> None:
        self._rejected += 1
        if self._rejects is None:
            self._rejects = self._rejects_path.open("w", encoding="utf-8", errors="backslashreplace")
        text = record.decode("utf-8", "backslashreplace") if isinstance(record, bytes) else record
        self._rejects.write(json.dumps([rank, column, reason, text[:_SHOWN_BYTES]]) + "\n")


def with_places(batch: Any, origin: int, block: int, place: int) -> Any:
    """Add the columns ``WHERE`` to a batch of consecutive records of a file."""
    count = len(batch)
    where = (np.full(count, origin), np.full(count, block), np.arange(place, place + count))
    return pa.RecordBatch.from_arrays([*batch.columns, *map(pa.array, where)], [*batch.schema.names, *WHERE])


def _batch_of(block: TextBlock) -> Any:
    found = pa.record_batch([lines.lines_of(block.text)], [LINE])
    return with_places(found, block.origin, block.block, block.place)


def _texts(records: list[dict[str, Any]], name: str) -> Any:
    """A member of JSON objects as text."""
    found = [record.get(name) for record in records]
    texts = [item.encode("utf-8", "replace") if isinstance(item, str) else item for item in found]
    parts = [item if item is None or isinstance(item, bytes) else values.to_json(item) for item in texts]
    return pa.array(parts, pa.large_binary())


def _without(record: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {name: item for name, item in record.items() if name not in names}


def _array(column: Any) -> Any:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _shown(table: Any, row: int) -> str:
    """A record that is not a line, as JSON."""
    return values.to_json(table.slice(row, 1).to_pylist()[0]).decode()
