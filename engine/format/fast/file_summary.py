"""The number of the file that a FileSummaryLN describes, read from the end of its body only.

General twin: ``entry.ln_content.read_file_summary_ln``. This is a separate module since a pass that needs only the file
number should not load the codecs of internal trees.
"""

from __future__ import annotations

from typing import Final

from engine.format.versions import LN_KEY_FIRST

SUMMARY_KEY_BYTES: Final = 8
# Before v3 a key is the number in decimal digits, at most ten.
_DIGITS_OF_FILE: Final = 10
# Ten i32 counters (v6, v7); eleven since v8.
_LEAST_COUNTER_BYTES: Final = 40


def summarised_file(body: bytes, version: int) -> tuple[int, bool] | None:
    """The file number in a FileSummaryLN body, and whether it is a deletion, without reading counters and offsets.

    The log of a cleaned environment holds hundreds of thousands of offsets, which a pass over all entries does not
    need. Until v18 the key comes last; only a deletion is shorter than the counters.

    Returns:
        None since v19, where the body must be decoded.
    """
    if version >= LN_KEY_FIRST or len(body) < SUMMARY_KEY_BYTES:
        return None
    return int.from_bytes(body[-SUMMARY_KEY_BYTES:][:4], "big"), len(body) < _LEAST_COUNTER_BYTES


def summary_file(key: bytes) -> int:
    """The number of the file in the key of a FileSummaryLN; -1 if it is no such key."""
    # Eight digits would be a file number that no log of these versions has reached.
    if len(key) == SUMMARY_KEY_BYTES:
        return int.from_bytes(key[:4], "big")
    return int(key) if key.isdigit() and len(key) <= _DIGITS_OF_FILE else -1
