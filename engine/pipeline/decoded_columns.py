"""The columns that ``decode`` adds to records on Spark: their meaning to the application, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, Final

from engine.contents.base import DecodedRecord
from engine.contents.registry import AUTO, find
from engine.db.environment import Environment
from engine.inspect.contents import DecodingPlan, decoding_of
from engine.rescue.salvage.meanings import decoding_of_log
from engine.storage.disk import DiskStorage

DECODED_COLUMNS: Final = {"decoded_key": "string", "decoded_data": "string", "known": "boolean"}


def decoder_option(_: str, text: str) -> str:
    """The option ``decode`` of a source: the name of a decoder, or ``auto``.

    Raises:
        UsageError: there is no such decoder.
    """
    if text != AUTO:
        find(text)
    return text


def decoding_here(env: Environment, name: str | None) -> DecodingPlan | None:
    """How to decode an environment in a task; None if this is not requested, or if no decoder recognises it."""
    return None if name is None else decoding_of(env, name)


def decoding_of_task(env: str, name: str | None) -> DecodingPlan | None:
    """How to decode records in a task that reads only the log; None if not requested, or if no decoder fits."""
    return None if name is None else decoding_of_log(DiskStorage(env), name)


def decoded_columns(
    decoding: DecodingPlan | None, db: str, records: Sequence[tuple[bytes, bytes]]
) -> dict[str, list[Any]]:
    """The columns for some records; nulls without a decoder."""
    if decoding is None:
        return columns_of([None] * len(records))
    return columns_of([decoding.record(db, key, data) for key, data in records])


def columns_of(found: Iterable[DecodedRecord | None]) -> dict[str, list[Any]]:
    """The columns for decoded records; nulls for None."""
    values = [decoded_values(one) for one in found]
    return {name: [value[at] for value in values] for at, name in enumerate(DECODED_COLUMNS)}


def decoded_values(one: DecodedRecord | None) -> tuple[str | None, str | None, bool | None]:
    """The values of the columns for one record."""
    return (None, None, None) if one is None else (_text(one.key), _text(one.data), one.known)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
