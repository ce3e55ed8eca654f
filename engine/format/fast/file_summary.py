"""Which file a FileSummaryLN is about, read from the end of its body and no more.

General twin: ``entry.ln_content.read_file_summary_ln``. Apart from it, since a pass that needs only this has no use for
the codecs of internal trees.
"""

from __future__ import annotations

from typing import Final

from engine.format.versions import LN_KEY_FIRST

SUMMARY_KEY_BYTES: Final = 8
# Ten i32 counters (v6, v7); eleven since v8.
_LEAST_COUNTER_BYTES: Final = 40


def summarised_file(body: bytes, version: int) -> tuple[int, bool] | None:
    """Which file a FileSummaryLN body is about, and whether it is a deletion, without its counters and offsets.

    A log that is cleaned holds hundreds of thousands of offsets, which a pass over all entries has no use for. Until
    v18 the key stands at the end; only a deletion is shorter than the counters.

    Returns:
        None since v19, where the body has to be decoded for it.
    """
    if version >= LN_KEY_FIRST or len(body) < SUMMARY_KEY_BYTES:
        return None
    return int.from_bytes(body[-SUMMARY_KEY_BYTES:][:4], "big"), len(body) < _LEAST_COUNTER_BYTES
