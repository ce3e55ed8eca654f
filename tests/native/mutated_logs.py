"""The functions in C on mutated logs of real JE, beside their twins.

::

    python -m tests.native.mutated_logs FIRST_SEED COUNT

Each seed is a mutation of ``tests.support.damage.mutations``: bits, numbers and headers changed with the checksum made
right, cuts, stretches of other bytes. Every function reads every file of it; the results must be those of the twin. One
in ``_COMPARED`` is compared, the others only have to end. It is meant for a build with sanitizers (``.ci/run
sanitize``), which ends the process at the first access out of bounds.
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
from array import array
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from engine.errors import FormatError
from engine.format.entry.file_header import FILE_HEADER_BYTES, VERSION_AT
from engine.format.entry.node import EXPIRES_IN_HOURS, HAS_SIZES
from engine.format.entry_types import BIN_TYPE, COMMON_LNS, DELTA_TYPE
from engine.format.fast import expiration_scan
from engine.format.fast.bin import BINHead, SlotColumns, decode_head, read_records
from engine.format.fast.entry_lines import (
    FIELDS,
    CalendarTexts,
    LinePart,
    entry_lines_plain,
    has_lines,
    line_layout,
)
from engine.format.fast.header import PAIRS, header_lengths, item_size, steps
from engine.format.fast.ln import is_user_entry, plain_data, plain_key
from engine.format.fast.loops import COUNT, KEEP, LOOK, follow_links, no_tallies, pick_open, sift
from engine.format.fast.queued_slots import SLOT, unlike_slots_plain
from engine.format.fast.txn_rows import txn_rows_plain
from engine.format.fast.walks import NativeWalk, Walk
from engine.format.header import FLAGS_AT, HEADER_BYTES, TYPE_AT
from engine.format.versions import is_supported
from tests.support.damage.mutations import mutation
from tests.support.native_core import native_core

if TYPE_CHECKING:
    from engine.native import core
else:
    core = native_core()

_COMPARED: Final = 10
# Hashes of the files that were read.
_READ: Final = set[int]()
# Longer entries are left to the twin.
_LONGEST: Final = 4096
# Every field, and the texts of times, as they are asked for.
_PARTS: Final = tuple(LinePart(field, "", ",") for field in FIELDS if field != "label")
_TEXTS: Final[CalendarTexts] = {}, {}
# Positions in a row in which an LN or a node is looked at.
_MOST_PLACES: Final = 400


def entries(data: bytes, version: int) -> Iterator[tuple[int, int, int, int]]:
    """Type, position, position of the body and end of entries, as far as their sizes lead within the buffer."""
    lengths, pos = header_lengths(version), FILE_HEADER_BYTES
    for _ in range(_MOST_PLACES):
        if pos + HEADER_BYTES > len(data):
            return
        body = pos + lengths[data[pos + TYPE_AT] | data[pos + FLAGS_AT] << 8]
        end = body + item_size(data, pos)
        if end > len(data):
            return
        yield data[pos + TYPE_AT], pos, body, end
        pos = end


def walks_of(data: bytes, version: int, rng: random.Random) -> Iterator[tuple[Any, Any]]:
    """Result of each walk over a buffer: a function in C, and a call of its twin."""
    lengths, start = header_lengths(version), rng.choice((0, FILE_HEADER_BYTES, rng.randrange(len(data) + 1)))
    links = data, start, len(data), 0, rng.choice((0, start)), 0, steps(version)
    yield core.follow(*links), lambda: follow_links(*links)
    walk = NativeWalk(version, core.walk)
    yield (walk.check(data, start, 0, 0, 0), dict(walk.take(True))), lambda: checked(Walk(version), data, start)
    actions = rng.choices((0, COUNT, KEEP, KEEP | COUNT), k=256) * (PAIRS // 256)
    yield sifted(core.sift, data, start, actions, lengths), lambda: sifted(sift, data, start, actions, lengths)
    looks = rng.choices((0, LOOK, KEEP), k=256) * (PAIRS // 256)
    front = rng.choice((1, 2)), 0x20, {0: array("q", [-1] * 256)}, 8
    yield picked(core.pick_open, data, looks, lengths, front), lambda: picked(pick_open, data, looks, lengths, front)
    layout = expiration_scan.head_layout(version)
    yield (
        expiring(core.sift_expirations, data, layout, lengths),
        lambda: expiring(expiration_scan.sift, data, layout, lengths),
    )


def checked(walk: Walk, data: bytes, start: int) -> Any:
    return walk.check(data, start, 0, 0, 0), dict(walk.take(True))


def sifted(function: Any, data: bytes, start: int, actions: list[int], lengths: list[int]) -> Any:
    found: list[int] = []
    tallies = no_tallies()
    return function(data, start, len(data), actions, lengths, found, tallies), found, list(tallies)


def picked(function: Any, data: bytes, actions: list[int], lengths: list[int], front: tuple[Any, ...]) -> Any:
    found: list[int] = []
    return function(data, actions, lengths, *front, found), found


def expiring(function: Any, data: bytes, layout: Any, lengths: list[int]) -> Any:
    found: list[int] = []
    return function(data, expiration_scan.KINDS, layout, lengths, found), found


def slots(body: bytes, head: BINHead) -> Any:
    flags = bool(head.flags & HAS_SIZES), head.expiration_base, bool(head.flags & EXPIRES_IN_HOURS)
    return core.read_slots(body, head.slots_at, head.slots, head.prefix, head.base, *flags)


def slots_by_twin(body: bytes, head: BINHead) -> Any:
    columns = SlotColumns([], [], bytearray(), [], [], [])
    try:
        size, end = read_records(body, head, columns)
    except (FormatError, IndexError):
        return None
    return None if size < 0 else (*columns, size, end)


def head_of(body: bytes) -> BINHead | None:
    try:
        return decode_head(body)
    except (FormatError, IndexError):
        return None


def nodes_of(data: bytes, version: int) -> Iterator[tuple[Any, Any]]:
    """Slots of each BIN, by C and by the twin."""
    for type_number, _, begin, end in entries(data, version):
        body = data[begin:end]
        head = head_of(body) if type_number in (BIN_TYPE, DELTA_TYPE) else None
        if head is not None:
            yield slots(body, head), lambda body=body, head=head: slots_by_twin(body, head)


def values_of(data: bytes, version: int) -> Iterator[tuple[Any, Any]]:
    """Data of each LN of a database, from a map of the file, from the file, and by the twin."""
    places = [
        (pos, end - pos)
        for type_number, pos, _, end in entries(data, version)
        if type_number in COMMON_LNS and end - pos <= _LONGEST
    ]
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        made, unread = core.FileMap(file.fileno()), core.FileMap(file.fileno())
        for at in range(0, len(data), 64 << 10):
            made.read(at, 1)
        for db_id in (1, 3):
            expected = [value_by_twin(data[pos : pos + size], version, db_id) for pos, size in places]
            lsns, sizes = [pos for pos, _ in places], [size for _, size in places]
            for at, (pos, size) in enumerate(places):
                yield core.value_at({0: (made, version)}, pos, size, db_id), lambda at=at, all=expected: all[at]
            found = core.values_at({0: (unread, version)}, lsns, sizes, list(range(len(places))), db_id)
            yield found, lambda all=expected: all
        made.close()
        unread.close()


def queues_of(data: bytes, version: int) -> Iterator[tuple[Any, Any]]:
    """Which slots are unlike the log, of one slot for each entry; half of them have the key of their entry."""
    for db_id in (1, 3):
        queue = bytearray()
        for at, (_, pos, _, end) in enumerate(entries(data, version)):
            key = plain_key(data[pos:end], version, db_id) if at & 1 else None
            queue += SLOT.pack(pos << 32 | end - pos, hash(key or b"k"))
        arguments = data, 0, bytes(queue), version, db_id, array("Q", [32, 40])
        yield core.unlike_slots(*arguments), lambda arguments=arguments: unlike_slots_plain(*arguments)


def lines_of(data: bytes, version: int) -> Iterator[tuple[Any, Any]]:
    """Lines of each entry, by C and by the twin."""
    if has_lines(version):
        layout = line_layout(version, [("",)] * PAIRS, _PARTS, _PARTS)
        for _, pos, _, end in entries(data, version):
            arguments = data, pos, end, 0, layout, _TEXTS, len(data)
            missing = core.entry_lines(*arguments)[3]
            if missing is not None:
                _TEXTS[missing[0]][missing[1]] = "then", "Z"
            yield core.entry_lines(*arguments), lambda arguments=arguments: entry_lines_plain(*arguments)


def transactions_of(data: bytes, version: int) -> Iterator[tuple[Any, Any]]:
    """Rows of the transactions, from each entry on at which the functions stop."""
    lengths, positions, at = header_lengths(version), [pos for _, pos, _, _ in entries(data, version)], 0
    while at < len(positions):
        arguments = data, positions, at, lengths, version, 0
        found = core.txn_rows(*arguments)
        if found is None:
            return
        yield found, lambda arguments=arguments: txn_rows_plain(*arguments)
        at = found[0] + 1


def value_by_twin(entry: bytes, version: int, db_id: int) -> bytes | None:
    return plain_data(entry, version, db_id) if is_user_entry(entry, len(entry), version) else None


def run(seed: int, is_compared: bool) -> int:
    """The number of results of a seed; AssertionError if C and Python differ."""
    rng, found = random.Random(seed), 0
    for name, data in sorted(mutation(seed).files.items()):
        # A mutation changes one or two files of an environment; the others are read once in a process.
        if len(data) <= FILE_HEADER_BYTES or hash(data) in _READ:
            continue
        _READ.add(hash(data))
        version = int.from_bytes(data[VERSION_AT : VERSION_AT + 4], "little")
        version = version if is_supported(version) else 17
        reads = nodes_of, values_of, queues_of, lines_of, transactions_of
        for read in (walks_of(data, version, rng), *(one(data, version) for one in reads)):
            for result, twin in read:
                found += 1
                assert not is_compared or result == twin(), (seed, name)
    return found


def _run_share(first: int, count: int, share: int, shares: int) -> int:
    core.keep_at_most(64 << 20)
    return sum(run(seed, seed % _COMPARED == 0) for seed in range(first + share, first + count, shares))


def main(first: int, count: int) -> None:
    """Run seeds on all cores."""
    shares = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(shares) as pool:
        done = sum(pool.map(_run_share, repeat(first), repeat(count), range(shares), repeat(shares)))
    print(f"{count} mutated logs, {done} results, no difference")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
