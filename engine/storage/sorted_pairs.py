"""Sorting more pairs of bytes than memory holds: sorted runs in a scratch file, merged piece by piece.

Example, runs of two pairs: ``c b | d a`` become the runs ``b c`` and ``a d``; merging them gives ``a b c d``.
"""

from __future__ import annotations

import heapq
import marshal
from collections.abc import Iterable, Iterator
from typing import Final

from engine.events import SILENT, Listener
from engine.storage.scratch import ScratchFile

Pair = tuple[bytes, bytes]
# Memory for pairs before a run is written.
RUN_BYTES: Final = 32 << 20
# Memory of a pair besides its bytes.
_OBJECT_BYTES: Final = 150
# Bytes of each run that are in memory while runs are merged.
CHUNK_BYTES: Final = 1 << 18
_TOLD: Final = 1 << 14


def in_byte_order(
    pairs: Iterable[Pair], listener: Listener = SILENT, run_bytes: int = RUN_BYTES, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Pair]:
    """Sort pairs, with bounded memory for any number of pairs.

    Arguments:
        pairs: for example records, in any order.
        listener: receives the step ``sort records`` while the pairs are read.
        run_bytes: memory for pairs before a run is written.
        chunk_bytes: how much of each run is in memory while runs are merged.

    Raises:
        StorageError: the scratch file cannot grow.
    """
    scratch, runs = ScratchFile(), list[list[int]]()
    held, size = list[Pair](), 0
    try:
        for number, pair in enumerate(pairs, 1):
            held.append(pair)
            size += len(pair[0]) + len(pair[1]) + _OBJECT_BYTES
            if size >= run_bytes:
                held.sort()
                runs.append([scratch.put(chunk) for chunk in _chunks(held, chunk_bytes)])
                held, size = [], 0
            if not number % _TOLD:
                listener.step("sort records", number, 0)
        held.sort()
        yield from heapq.merge(*(_read(scratch, places) for places in runs), held)
    finally:
        scratch.close()


def _chunks(pairs: list[Pair], chunk_bytes: int) -> Iterator[bytes]:
    chunk, size = list[Pair](), 0
    for pair in pairs:
        chunk.append(pair)
        size += len(pair[0]) + len(pair[1])
        if size >= chunk_bytes:
            yield marshal.dumps(chunk)
            chunk, size = [], 0
    if chunk:
        yield marshal.dumps(chunk)


def _read(scratch: ScratchFile, places: list[int]) -> Iterator[Pair]:
    for place in places:
        yield from marshal.loads(scratch.get(place))
