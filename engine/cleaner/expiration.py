"""The expiration profile: when the bytes of each finished file expire (R-CLN-51, je-log-format.md 10.2).

While a file is written, every record with an expiration adds its size to the hour at which it expires. Every bottom
node adds, for each expiring slot, its share of the node's entry. When the file is finished, its histogram becomes a
record of ``_jeExpiration`` at the next checkpoint. An empty histogram is stored too, so that the file need not be read
for it.

Only files that this environment has begun are counted completely. Other files have no record: files begun by an earlier
process, or whose checkpoint a crash prevented. Such a file is read when the cleaner first needs its histogram (JE reads
all of them on opening), and gets its record at the next checkpoint.

Example: file 3 holds a record of 90 bytes for day 20,000 and two of 40 bytes for the next day: the record with key 3 is
``00 | day 20,000, 90 | 1, 80``: packed numbers, in days since all values are whole days.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from engine.catalog.catalog import Catalog
from engine.errors import DamageError, FormatError, NotFoundError
from engine.format.bytecursor import pack, sorted_pack, unpack
from engine.format.codecs import decode_body
from engine.format.entry.ln import LN
from engine.format.entry.node import EXPIRES_IN_HOURS, decode_node
from engine.format.entry_types import BOTTOM_NODES
from engine.format.expiration import HOUR_MS, HOURS_A_DAY
from engine.format.fast import expiration_scan
from engine.format.fast.bin import NO_BASE
from engine.format.header import is_invisible
from engine.format.lsn import file_of, make_lsn, offset_of
from engine.format.versions import EXPIRATION
from engine.log.access import LogAccess
from engine.log.passes import LogRange, RawEntry, picked_pieces, raw_at
from engine.native import chosen
from engine.tree.context import TreeContext
from engine.tree.database_state import DatabaseState
from engine.txn.payload import USER, Payload, PutMode
from engine.txn.records import Records
from engine.txn.txn import Durability, Txn

DATABASE_NAME: Final = "_jeExpiration"
_IN_HOURS: Final = 1
_sift: Final = chosen("sift_expirations", expiration_scan.sift)


class Lockers(Protocol):
    """Creates the lockers of operations; implemented by the transaction manager."""

    def begin(self, *, transactional: bool = True, durability: Durability = Durability.SYNC) -> Txn:
        """A locker."""

    def end_operation(self, locker: Txn) -> None:
        """End the operation."""


class ExpirationProfile:
    """Counts expiring bytes by file, and writes the histograms at checkpoints.

    Arguments:
        ctx: the trees.
        catalog, records, lockers: used for writing the records.
        next_lsn: the end of the log; the first complete file begins after it.
    """

    def __init__(self, ctx: TreeContext, catalog: Catalog, records: Records, lockers: Lockers, next_lsn: int) -> None:
        self._ctx = ctx
        self._catalog = catalog
        self._records = records
        self._lockers = lockers
        self._next = file_of(next_lsn) + (1 if offset_of(next_lsn) else 0)
        self._hours: dict[int, dict[int, int]] = {}
        self._read: dict[int, dict[int, int]] = {}

    def expires(self, lsn: int, expiration: int, size: int) -> None:
        """Count bytes of an entry that expire.

        Arguments:
            expiration: days since 1970, or negative hours.
            size: in bytes.
        """
        if file_of(lsn) >= self._next:
            hours = self._hours.setdefault(file_of(lsn), {})
            hour = expiration * HOURS_A_DAY if expiration > 0 else -expiration
            hours[hour] = hours.get(hour, 0) + size

    def hours(self, number: int) -> dict[int, int] | None:
        """The counts of a file whose record is not written yet: bytes by hour; None for other files."""
        return self._hours.get(number, {}) if number >= self._next else None

    def read(self, number: int) -> dict[int, int]:
        """Determine what expires in a file without a record, from its entries; its record follows at the next
        checkpoint.

        Unreadable entries count as not expiring; in that case no record is written.
        """
        try:
            found = hours_in(self._ctx.access, number)
        except (DamageError, FormatError, NotFoundError):
            return {}
        self._read[number] = found
        return found

    # The checkpoint participant.

    def checkpoint_begins(self) -> bool:
        """Returns False: this participant releases no file."""
        return False

    def checkpoint_started(self) -> None:
        """Nothing has to be made consistent."""

    def before_checkpoint_end(self) -> None:
        """Write the histograms of the files that were finished, or read, since the last checkpoint."""
        writer = self._ctx.writer
        if writer is None or (self._next >= file_of(writer.next_lsn) and not self._read):
            return
        with self._ctx.latch:
            state = self._catalog.by_name(DATABASE_NAME)
        if state is None:
            return
        while self._read:
            number, hours = self._read.popitem()
            # The file may have been deleted meanwhile.
            if self._ctx.access.has_file(number):
                self._write(state, number, hours)
        # Evaluated each time: a record that is written here can finish another file.
        while self._next < file_of(writer.next_lsn):
            self._write(state, self._next, self._hours.pop(self._next, {}))
            self._next += 1

    def checkpoint_ended(self) -> None:
        """Do nothing: no action waits for this."""

    def _write(self, state: DatabaseState, number: int, hours: Mapping[int, int]) -> None:
        locker = self._lockers.begin(transactional=False, durability=Durability.NO_SYNC)
        payload = Payload(encode_histogram(hours), USER)
        self._records.put(state, state.order.wrap(sorted_pack(number)), payload, locker, PutMode.OVERWRITE)
        self._lockers.end_operation(locker)


def hours_in(access: LogAccess, number: int) -> dict[int, int]:
    """Bytes of a finished file by the hour at which they expire, from its entries (R-CLN-51).

    Raises:
        DamageError: a bad entry. NotFoundError: there is no such file.
    """
    found: dict[int, int] = {}
    version = access.version_of(number)
    if version >= EXPIRATION:
        layout = expiration_scan.head_layout(version)

        def pick(data: bytes, lengths: list[int], places: list[int]) -> int:
            return _sift(data, expiration_scan.KINDS, layout, lengths, places)

        for piece, places in picked_pieces(access, LogRange(make_lsn(number, 0), make_lsn(number + 1, 0)), pick):
            for pos in places:
                raw = raw_at(piece, pos)
                if not is_invisible(raw.flags, raw.version):
                    _add_hours(raw, found)
    return found


def _add_hours(raw: RawEntry, found: dict[int, int]) -> None:
    if raw.type_number in BOTTOM_NODES:
        # In most of these nodes nothing expires: then the slots need not be decoded.
        if decode_node(raw.body, raw.version, raw.type_number, with_slots=False).expiration_base == NO_BASE:
            return
        node = decode_node(raw.body, raw.version, raw.type_number)
        for slot in node.slots:
            if slot.expiration:
                value = node.expiration_base + slot.expiration - 1
                hour = value if node.flags & EXPIRES_IN_HOURS else value * HOURS_A_DAY
                found[hour] = found.get(hour, 0) + raw.size // node.n_entries
        return
    record = decode_body(raw.type_number, raw.version, raw.body)
    if isinstance(record, LN) and record.expiration:
        hour = record.expiration * HOURS_A_DAY if record.expiration > 0 else -record.expiration
        found[hour] = found.get(hour, 0) + raw.size


class ExpiredBytes(NamedTuple):
    """Expired bytes of a file: all of them, and a gradual count. The bytes that expired at the start of the current
    interval (a day or an hour) enter the gradual count in proportion to the elapsed part of the interval.
    """

    expired: int
    gradual: int


def expired_bytes(hours: Mapping[int, int], now_ms: int) -> ExpiredBytes:
    """The number of bytes in a histogram that have expired (R-CLN-51).

    Example: 100 bytes expired yesterday and 240 at midnight; at six in the morning 340 have expired, and 160 gradually.
    """
    now = now_ms // HOUR_MS
    interval = 1 if any(hour % HOURS_A_DAY for hour in hours) else HOURS_A_DAY
    begun = now - now % interval
    expired = sum(size for hour, size in hours.items() if hour <= now)
    newly = sum(size for hour, size in hours.items() if begun - interval < hour <= begun)
    # The gradual count avoids that all records of a day are cleaned at midnight.
    return ExpiredBytes(expired, expired - newly + newly * (now_ms - begun * HOUR_MS) // (interval * HOUR_MS))


def encode_histogram(hours: Mapping[int, int]) -> bytes:
    """A histogram (bytes by hour since 1970) as a record; empty if nothing expires."""
    if not hours:
        return b""
    # Days, unless a value is not a whole day.
    unit = 1 if any(hour % HOURS_A_DAY for hour in hours) else HOURS_A_DAY
    parts = [bytes((_IN_HOURS if unit == 1 else 0,))]
    before = 0
    for hour in sorted(hours):
        parts += [pack(hour // unit - before), pack(hours[hour])]
        before = hour // unit
    return b"".join(parts)


def decode_histogram(data: bytes) -> dict[int, int]:
    """The histogram of a record.

    Raises:
        FormatError, IndexError: the record is cut short.
    """
    found: dict[int, int] = {}
    unit = 1 if data[:1] == bytes((_IN_HOURS,)) else HOURS_A_DAY
    pos, value = 1, 0
    while pos < len(data):
        step, pos = unpack(data, pos)
        size, pos = unpack(data, pos)
        value += step
        found[value * unit] = size
    return found
