"""The columns of the ``jelog`` data source, and the way they are filled from log entries.

Names and values are those of ``dump-log --format ndjson`` for entries and, where bytes are not an entry, for damage;
``environment`` and ``total_size`` are added. Only requested columns are built, one at a time over a batch of entries: a
body is decoded only if a requested column needs it. Damage is a row too: ``reason`` names the fault, ``skipped`` is the
number of skipped bytes, and the columns of entries are null.

=================  =========  =========================================================================
column             type       from
=================  =========  =========================================================================
environment, path  string     the task
file, offset, lsn  the place  header
type ... checksum  see below  header
db ... time        see below  body; null where the type has no such field or the body cannot be decoded
error              string     why the body cannot be decoded
reason, skipped    see below  damage: why the bytes are no entry, a key of ``engine.log.entry.REASONS``; how many
decoded_key ...    string     with the option ``decode``: what an LN means to its application, as JSON
=================  =========  =========================================================================

Conditions (``ColumnLimits``) are tested as soon as the column is known: on file names before a task is made, on headers
before a body is decoded, on bodies before a row is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from engine.errors import FormatError
from engine.format.codecs import Record, decode_body
from engine.format.describe import SHAPES
from engine.format.entry.legacy import OldDelta
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord, decode_node
from engine.format.entry_fields import ENTRY_SHAPE
from engine.format.entry_types import NODES
from engine.format.lsn import format_lsn, is_null
from engine.format.vlsn import NULL_VLSN
from engine.inspect.contents import DecodingPlan
from engine.log.entry import Damage, LogEntry
from engine.pipeline.decoded_columns import DECODED_COLUMNS, columns_of

Item = LogEntry | Damage


class ColumnLimits(NamedTuple):
    """Conditions on one column, which must all hold; a null never meets a condition.

    Attributes:
        values: allowed values; None for any.
        low, high: inclusive bounds; None for no bound.
    """

    values: frozenset[Any] | None = None
    low: int | None = None
    high: int | None = None

    def both(self, other: ColumnLimits) -> ColumnLimits:
        """The conditions of both."""
        values = self.values if other.values is None else other.values
        if self.values is not None and other.values is not None:
            values = self.values & other.values
        lows = [low for low in (self.low, other.low) if low is not None]
        highs = [high for high in (self.high, other.high) if high is not None]
        return ColumnLimits(values, max(lows, default=None), min(highs, default=None))

    def meets(self, value: Any) -> bool:
        """Whether a value meets the conditions."""
        # As in SQL: a comparison with null is not true.
        if value is None or (self.values is not None and value not in self.values):
            return False
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


Conditions = Mapping[str, ColumnLimits]


class LogColumn(NamedTuple):
    """One column.

    Attributes:
        name: as in ``dump-log``.
        type: Spark type: string, int, bigint, boolean, binary or timestamp.
        help: what it says.
    """

    name: str
    type: str
    help: str


# The Spark type of each kind; two counts are narrower.
_TYPES: Final = {
    "text": "string",
    "bytes": "string",
    "lsn": "string",
    "int": "bigint",
    "vlsn": "bigint",
    "level": "int",
    "bool": "boolean",
    "time": "timestamp",
}
_NARROW: Final = ("version", "slots")
_SHOWN: Final = {field.name: field for field in ENTRY_SHAPE.fields}


def _shown(*names: str) -> tuple[LogColumn, ...]:
    """Columns that ``dump-log`` shows too, with their meanings."""
    return tuple(
        LogColumn(name, "int" if name in _NARROW else _TYPES[_SHOWN[name].kind], _SHOWN[name].help) for name in names
    )


COLUMNS: Final[tuple[LogColumn, ...]] = (
    LogColumn("environment", "string", "directory of the environment"),
    LogColumn("path", "string", "the log file, relative to the environment"),
    *_shown(
        "file", "offset", "lsn", "type", "version", "provisional", "replicated", "invisible", "vlsn", "prev", "size"
    ),
    LogColumn("total_size", "bigint", "bytes with the header"),
    *_shown("checksum", "checksum_ok", "db", "txn", "node", "level", "slots", "key_hex", "data_size", "deleted"),
    *_shown("embedded", "last_lsn", "abort_lsn", "time", "dtvlsn", "error"),
    LogColumn("reason", "string", "damage: why the bytes are no entry"),
    LogColumn("skipped", "bigint", "damage: bytes up to the next entry or the end of the file"),
)
# Only on request, by name or by the option ``data``, since data is most of the bytes of most logs.
(DATA,) = _shown("data_hex")
BY_NAME: Final = {column.name: column for column in (*COLUMNS, DATA)}

# Columns determined by the file name.
OF_FILE: Final = ("environment", "path", "file")


def _lsn(value: Any) -> str | None:
    return None if is_null(value) else format_lsn(value)


def _vlsn(value: Any) -> int | None:
    return None if value == NULL_VLSN else value


_HEADER: Final[dict[str, Callable[[LogEntry], Any]]] = {
    "file": lambda e: e.lsn >> 32,
    "offset": lambda e: e.lsn & 0xFFFFFFFF,
    "lsn": lambda e: format_lsn(e.lsn),
    "type": lambda e: e.type_name,
    "version": lambda e: e.own_version,
    "provisional": lambda e: e.provisional.value,
    "replicated": lambda e: e.replicated,
    "invisible": lambda e: e.invisible,
    "vlsn": lambda e: _vlsn(e.vlsn),
    "prev": lambda e: e.prev_offset,
    "size": lambda e: e.item_size,
    "total_size": lambda e: e.total_bytes,
    "checksum": lambda e: e.checksum,
    "checksum_ok": lambda e: e.checksum_ok,
    "reason": lambda e: None,  # noqa: ARG005 - one signature
    "skipped": lambda e: None,  # noqa: ARG005
}

_DAMAGE: Final[dict[str, Callable[[Damage], Any]]] = {
    "file": lambda d: d.lsn >> 32,
    "offset": lambda d: d.lsn & 0xFFFFFFFF,
    "lsn": lambda d: format_lsn(d.lsn),
    "reason": lambda d: d.reason,
    "skipped": lambda d: d.length,
}

_Get = Callable[[Any], Any]


def _of_shapes(name: str, convert: _Get | None = None) -> dict[type, _Get]:
    """For each record type with a field of a name, the function that reads it."""
    found: dict[type, _Get] = {}
    for record, fields in SHAPES.items():
        for index, field in enumerate(fields):
            if field.name == name:
                found[record] = _item(index, convert)
    return found


def _item(index: int, convert: _Get | None) -> _Get:
    if convert is None:
        return lambda record: record[index]
    return lambda record: convert(record[index])


_BODY: Final[dict[str, dict[type, _Get]]] = {
    "db": _of_shapes("db") | {LN: lambda r: r.db_id, NodeRecord: lambda r: r.db_id},
    "txn": _of_shapes("txn") | {LN: lambda r: r.txn_id},
    "node": _of_shapes("node") | {LN: lambda r: r.node_id, NodeRecord: lambda r: r.node_id},
    "level": {NodeRecord: lambda r: r.level},
    "slots": {NodeRecord: lambda r: r.n_entries, OldDelta: lambda r: len(r.slots)},
    "key_hex": {LN: lambda r: None if r.key is None else r.key.hex()},
    "data_hex": {LN: lambda r: None if r.data is None else r.data.hex()},
    "data_size": {LN: lambda r: None if r.data is None else len(r.data)},
    "deleted": {LN: lambda r: r.data is None},
    "embedded": {LN: lambda r: r.embedded},
    "last_lsn": _of_shapes("last_lsn", _lsn) | {LN: lambda r: _lsn(r.last_lsn)},
    "abort_lsn": {LN: lambda r: _lsn(r.abort_lsn)},
    "time": _of_shapes("time"),
    "dtvlsn": _of_shapes("dtvlsn", _vlsn),
}


class ColumnFiller(NamedTuple):
    """The columns to fill, and the conditions on rows.

    Attributes:
        names: the columns, in order; the task fills ``environment`` and ``path``.
        conditions: on any columns except those of ``decode``.
        decoding: fills the columns of ``decode``; None: these columns are null.
    """

    names: tuple[str, ...]
    conditions: Conditions
    decoding: DecodingPlan | None = None

    def fill(self, items: Sequence[Item]) -> tuple[int, dict[str, list[Any]]]:
        """Rows of entries and damage that meet the conditions, as columns.

        Returns:
            The number of rows, and the values of each column.
        """
        header = [(name, limits) for name, limits in self.conditions.items() if name in _HEADER]
        body = [(name, limits) for name, limits in self.conditions.items() if name in _BODY or name == "error"]
        # Headers first: they are already decoded, and conditions on them exclude most bodies.
        for name, limits in header:
            items = [item for item in items if limits.meets(_head(item, name))]
        # No column needs a body, so bodies are not decoded.
        if not body and not any(name in _BODY or name in DECODED_COLUMNS or name == "error" for name in self.names):
            return len(items), {name: self._header(name, items) for name in self.names}
        records, errors = _decoded(items)
        for name, limits in body:
            values = errors if name == "error" else _from(name, records)
            chosen = [index for index, value in enumerate(values) if limits.meets(value)]
            items = [items[index] for index in chosen]
            records, errors = [records[index] for index in chosen], [errors[index] for index in chosen]
        columns = self._meanings(records) if any(name in DECODED_COLUMNS for name in self.names) else {}
        for name in self.names:
            if name in columns:
                continue
            if name in _BODY:
                columns[name] = _from(name, records)
            else:
                columns[name] = errors if name == "error" else self._header(name, items)
        return len(items), columns

    def _meanings(self, records: Iterable[Record | None]) -> dict[str, list[Any]]:
        """The decoded meaning of LNs; null for other entries, and for records of JE's own databases."""
        decoding = self.decoding
        return columns_of(
            decoding.logged(record.db_id, record.key, record.data)
            if decoding is not None and isinstance(record, LN) and record.key is not None
            else None
            for record in records
        )

    @staticmethod
    def _header(name: str, items: Sequence[Item]) -> list[Any]:
        return [_head(item, name) for item in items] if name in _HEADER else []


def wants_file(conditions: Conditions, environment: str, path: str, number: int) -> bool:
    """Whether a file can have rows."""
    known = {"environment": environment, "path": path, "file": number}
    return all(limits.meets(known[name]) for name, limits in conditions.items() if name in known)


def _head(item: Item, name: str) -> Any:
    if isinstance(item, LogEntry):
        return _HEADER[name](item)
    get = _DAMAGE.get(name)
    return get(item) if get is not None else None


def _from(name: str, records: Iterable[Record | None]) -> list[Any]:
    getters = _BODY[name]
    found = []
    for record in records:
        get = getters.get(type(record))
        found.append(get(record) if get is not None else None)
    return found


def _decoded(items: Sequence[Item]) -> tuple[list[Record | None], list[str | None]]:
    """Decoded bodies, without the slots of nodes, and errors for those that cannot be decoded."""
    records: list[Record | None] = []
    errors: list[str | None] = []
    for item in items:
        record: Record | None = None
        error: str | None = None
        if isinstance(item, LogEntry):
            try:
                number = item.type_number
                if number in NODES:
                    # No column needs the slots, which are most of a node.
                    record = decode_node(item.body, item.version, number, with_slots=False)
                else:
                    record = decode_body(number, item.version, item.body)
            except FormatError as problem:
                error = str(problem)
            # A good checksum does not prove that the body was written correctly.
            except (IndexError, ValueError) as problem:
                error = f"the body does not fit its type: {problem}"
        records.append(record)
        errors.append(error)
    return records, errors
