"""An entry as ``dump-log --format ndjson --nodes slots --data`` gives it, straight from ``engine.format.describe``.

This is the reference for the command line's own renderer: the same keys, and values as design/cli.md says. Byte arrays
are hex digits, LSNs are text in JE's spelling, times ISO-8601 in UTC; what points to nothing is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from engine.format.describe import describe, describe_scan, describe_slots
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import DELTA_TYPE, EXTINCT_SCAN_LNS
from engine.format.fields import FieldValue
from engine.format.lsn import file_of, format_lsn, is_null, offset_of
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def entry_json(entry: LogEntry) -> dict[str, Any]:
    """Header and body of an entry."""
    record = entry.record()
    delta = entry.type_number == DELTA_TYPE
    body = to_json(describe(record, delta=delta))
    if isinstance(record, LN) and entry.type_number in EXTINCT_SCAN_LNS:
        body |= to_json(describe_scan(record))
    if isinstance(record, NodeRecord):
        body["slot_list"] = [to_json(fields) for fields in describe_slots(record, delta=delta)]
    return header_json(entry) | body


def header_json(entry: LogEntry) -> dict[str, Any]:
    """Header of an entry."""
    return {
        "rec": "entry",
        "lsn": format_lsn(entry.lsn),
        "file": file_of(entry.lsn),
        "offset": offset_of(entry.lsn),
        "type": entry.type_name,
        "version": entry.version,
        "provisional": entry.provisional.value,
        "replicated": entry.replicated,
        "invisible": entry.invisible,
        "vlsn": None if entry.vlsn == NULL_VLSN else entry.vlsn,
        "prev": entry.prev_offset,
        "size": entry.item_size,
        "checksum": entry.checksum,
        "checksum_ok": entry.checksum_ok,
    }


def to_json(fields: Iterable[FieldValue]) -> dict[str, Any]:
    """Fields of a record as a JSON object."""
    return {field.name: _value(field.kind, field.value) for field in fields}


def _value(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind in _LISTS:
        return [_value(_LISTS[kind], item) for item in value]
    return _VALUES[kind](value)


def time_text(ms: int) -> str:
    """A time in ms as ISO-8601 in UTC."""
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _expiration(value: int) -> str | None:
    if value == 0:
        return None
    return time_text(-value * 3_600_000) if value < 0 else time_text(value * 86_400_000).partition("T")[0]


_LISTS = {"ints": "int", "offsets": "int", "lsns": "lsn", "byteses": "bytes", "records": "record"}
_VALUES: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "hex": int,
    "level": int,
    "bool": bool,
    "text": str,
    "bytes": bytes.hex,
    "lsn": lambda value: None if is_null(value) else format_lsn(value),
    "vlsn": lambda value: None if value == NULL_VLSN else value,
    "time": time_text,
    "expiration": _expiration,
    "record": lambda value: to_json(describe(value)),
}
