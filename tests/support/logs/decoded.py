"""The decoded body of an entry, as the record that a test expects."""

from __future__ import annotations

from typing import TypeVar

from engine.log.entry import LogEntry

Kind = TypeVar("Kind")


def record_of(entry: LogEntry, kind: type[Kind]) -> Kind:
    """The record of an entry, which must be of that kind."""
    record = entry.record()
    assert isinstance(record, kind), f"{type(record).__name__} instead of {kind.__name__}"
    return record
