"""The columns that ``decode`` adds to records on Spark: what they mean to their application, as JSON text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from engine.db.environment import Environment
from engine.errors import UsageError
from engine.inspect.contents import Decoding, decoding_of

DECODED_COLUMNS: Final = {"decoded_key": "string", "decoded_data": "string", "known": "boolean"}


def decoding_here(env: Environment, name: str | None) -> Decoding | None:
    """How to decode an environment in a task; None where that is not asked for.

    Raises:
        UsageError: nobody recognises the environment.
    """
    if name is None:
        return None
    found = decoding_of(env, name)
    if found is None:
        raise UsageError("nobody recognises what the environment belongs to", found=env.home, hint="name a decoder")
    return found


def decoded_columns(decoding: Decoding | None, db: str, records: Sequence[tuple[bytes, bytes]]) -> dict[str, list[Any]]:
    """The columns for some records; nulls without a decoder."""
    if decoding is None:
        return {name: [None] * len(records) for name in DECODED_COLUMNS}
    found = [decoding.record(db, key, data) for key, data in records]
    return {
        "decoded_key": [_text(one.key) for one in found],
        "decoded_data": [_text(one.data) for one in found],
        "known": [one.known for one in found],
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
