"""``python -m tests.bench.vlsn_index``: puts and look-ups of the VLSN index, and the memory of a million VLSNs.

Everything runs in one thread of one process; times are CPU times. Entries are 500 bytes apart, 20,000 to a file, every
fourth a Commit: with JE's stride of 10 a bucket ends after 1,000 mappings or with its file.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from engine.format.lsn import make_lsn
from engine.vlsn.bucket import VLSNBucket
from engine.vlsn.index import VLSNIndex
from engine.vlsn.memory_index import MemoryIndex, records_of
from engine.vlsn.scanner import ForwardScanner

_PER_FILE = 20_000
_COMMIT, _LN = 17, 33


class IndexFigures(NamedTuple):
    """Operations per second of CPU time, and bytes per million VLSNs.

    Attributes:
        puts: entries registered.
        unflushed, stored: look-ups at random of the LSN at or before a VLSN, before and after a flush.
        scanned: look-ups by a scanner, in VLSN order, as a feeder makes them.
        memory_bytes: of the unflushed buckets.
        stored_bytes: of their records.
    """

    puts: int
    unflushed: int
    stored: int
    scanned: int
    memory_bytes: int
    stored_bytes: int


def measure(vlsns: int) -> IndexFigures:
    """Fill an index and look everything up."""
    database = MemoryIndex()
    index = VLSNIndex(database)
    entries = [
        (vlsn, make_lsn(vlsn // _PER_FILE, vlsn % _PER_FILE * 500 + 30), _LN if vlsn % 4 else _COMMIT)
        for vlsn in range(1, vlsns + 1)
    ]
    wanted = [entry[0] for entry in entries]
    random.Random(1).shuffle(wanted)

    def put_all() -> None:
        for entry in entries:
            index.put(*entry)

    puts = _per_second(vlsns, put_all)
    buckets = [bucket for bucket in index.tracker.buckets if isinstance(bucket, VLSNBucket)]
    memory = sum(bucket.memory_bytes for bucket in buckets)
    unflushed = _per_second(vlsns, lambda: [index.lte_lsn(vlsn) for vlsn in wanted])
    index.flush()
    stored = _per_second(vlsns, lambda: [index.lte_lsn(vlsn) for vlsn in wanted])
    scanner = ForwardScanner(index)
    scanner.start(1)
    scanned = _per_second(vlsns, lambda: [scanner.approximate(entry[0]) for entry in entries])
    size = sum(len(key) + len(data) for key, data in records_of(database).items())
    return IndexFigures(puts, unflushed, stored, scanned, memory * 1_000_000 // vlsns, size * 1_000_000 // vlsns)


def _per_second(count: int, work: Callable[[], object]) -> int:
    start = time.process_time()
    work()
    return round(count / max(time.process_time() - start, 1e-9))


def main(args: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser("python -m tests.bench.vlsn_index", description=__doc__)
    parser.add_argument("--vlsns", type=int, default=1_000_000, help="how many  [default: 1,000,000]")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(args)
    found = measure(options.vlsns)
    if options.json:
        print(json.dumps(found._asdict()))
        return 0
    print(f"puts                       {found.puts:>12,} /s")
    print(f"look-ups, unflushed        {found.unflushed:>12,} /s")
    print(f"look-ups, stored           {found.stored:>12,} /s")
    print(f"look-ups by a scanner      {found.scanned:>12,} /s")
    print(f"memory of a million VLSNs  {found.memory_bytes:>12,} bytes")
    print(f"stored, a million VLSNs    {found.stored_bytes:>12,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
