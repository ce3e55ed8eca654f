"""A bottom node in memory: the slots that lead to records (R-TREE-20 to R-TREE-23, R-TREE-30 to R-TREE-41).

Besides keys and LSNs a slot has

* ``states``: KD 0x01, dirty 0x02 (differs from the last *full* version), PD 0x08, embedded 0x10, tombstone 0x80;
* ``values``: the record's data when it is embedded or cached, None when it has to be read at the LSN;
* ``sizes``: size of the LN's entry in bytes, 0 when unknown;
* ``expirations``: as in an LN, positive days or negative hours since 1970, 0 for none;
* since v19 an entry of ``times`` if the record is embedded: its LN has them too, but is not read. Records of a
  deferred-write database that exist only in memory have one as well. If no slot has times the dict is empty.

The node in memory is always complete: a delta is applied to its full version when it is read.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from engine.format.entry.node import DIRTY, KNOWN_DELETED, PENDING_DELETED, SLOT_EMBEDDED, SLOT_TOMBSTONE
from engine.format.expiration import DAY_MS, HOUR_MS
from engine.format.lsn import NULL_LSN
from engine.native import find
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key

DELETED: Final = KNOWN_DELETED | PENDING_DELETED
_NOT_DELETED: Final = bytes(state for state in range(256) if not state & DELETED)
BIN_HEIGHT: Final = 1
_OF_LIVE_RECORDS: Final = PENDING_DELETED | SLOT_EMBEDDED | SLOT_TOMBSTONE
_NODE_BYTES: Final = 600
_SLOT_BYTES: Final = 260
_TIMES_BYTES: Final = 230


class Times(NamedTuple):
    """When a record was last changed, and when it was inserted, in milliseconds since 1970; 0 if unknown.

    JE gives a record no creation time unless the application does (je-log-format.md 7.3); updates keep the creation
    time.
    """

    modified: int
    created: int


UNTIMED: Final = Times(0, 0)


def times_from(modified: int, created: int) -> Times:
    """A ``Times``; the shared UNTIMED if both are 0, so that slots need not store them."""
    return Times(modified, created) if modified or created else UNTIMED


def is_expired(expiration: int, now_ms: int) -> bool:
    """Whether a record has expired: now is after its expiration (R-CLN-50)."""
    return bool(expiration) and now_ms > (expiration * DAY_MS if expiration > 0 else -expiration * HOUR_MS)


class BIN(IN):
    """A bottom node.

    Attributes:
        delta_lsn, delta_size: the last delta; NULL_LSN and 0 if the last logged version was full.
        guessed: under a learned order, a delta was merged whose keys the full version lacks. Such a node must not be
            logged.
        no_delta: the next version must be full (R-TREE-32).
        pins: the cursors that stand on it.
        vlsns: VLSN of embedded records by key, in environments that preserve record versions.
    """

    __slots__ = (
        "data_bytes", "delta_lsn", "delta_size", "expirations", "guessed", "no_delta", "pins", "states", "times",
        "values", "vlsns",
    )  # fmt: skip

    def __init__(self, db: DatabaseState, node_id: int, level: int, ident: Key, max_entries: int) -> None:
        super().__init__(db, node_id, level, ident, max_entries)
        self.states = bytearray()
        self.values: list[bytes | None] = []
        self.expirations: list[int] = []
        self.times: dict[Key, Times] = {}
        self.vlsns: dict[Key, int] = {}
        self.delta_lsn = NULL_LSN
        self.delta_size = 0
        self.no_delta = False
        self.guessed = False
        self.pins = 0
        self.data_bytes = 0

    @property
    def is_bin(self) -> bool:
        """Always True."""
        return True

    def find(self, key: Key) -> tuple[int, bool]:
        """The slot of a key, or its insertion point, and whether the key is there."""
        if find is not None:
            place = find(self.keys, key)
            if place is not None:
                return (place, True) if place >= 0 else (~place, False)
        index = bisect_left(self.keys, key)
        return index, index < len(self.keys) and self.keys[index] == key

    def is_live(self, index: int) -> bool:
        """Whether readers see the record."""
        return not self.states[index] & DELETED and self.lsns[index] != NULL_LSN

    def is_all_live(self) -> bool:
        """Whether readers see every record, apart from expiration."""
        return not self.states.translate(None, _NOT_DELETED) and NULL_LSN not in self.lsns

    def live_records(self) -> int:
        """The number of records that readers see, apart from expiration."""
        return len(self) if self.is_all_live() else sum([self.is_live(at) for at in range(len(self))])

    def put(
        self, index: int, key: Key, exact: bool, lsn: int, state: int, value: bytes | None, size: int, expiration: int
    ) -> None:
        """Insert or overwrite a slot; it becomes dirty, and has no times until ``note_times`` is called.

        Arguments:
            index, exact: from ``find``.
            key: the current key; with partial comparators its bytes may differ from the previous ones.
            lsn: LSN of the record's LN.
            state: KD, PD and embedded bits.
            value: embedded or cached data.
            size: size of the LN's entry in bytes.
            expiration: see the head of the module.
        """
        state |= DIRTY
        if exact:
            old = self.values[index]
            self.data_bytes -= len(old) if old is not None else 0
            if self.times:
                # Use the old key: with a comparator the bytes of the new key may differ.
                self.times.pop(self.keys[index], None)
            self.keys[index] = key
            self.lsns[index] = lsn
            self.states[index] = state
            self.values[index] = value
            self.sizes[index] = size
            self.expirations[index] = expiration
        else:
            # The slot with the identifier key was removed. Recovery must find the node by a key that it contains.
            if not self.keys:
                self.ident = key
            self.keys.insert(index, key)
            self.lsns.insert(index, lsn)
            self.states.insert(index, state)
            self.values.insert(index, value)
            self.sizes.insert(index, size)
            self.expirations.insert(index, expiration)
        if value is not None:
            self.data_bytes += len(value)
        self.dirty = True

    def note_times(self, key: Key, times: Times) -> None:
        """Set the times of a record that was just put."""
        if times is not UNTIMED:
            self.times[key] = times

    def times_of(self, index: int) -> Times:
        """The times stored for a slot."""
        return self.times.get(self.keys[index], UNTIMED) if self.times else UNTIMED

    def set_known_deleted(self, index: int) -> None:
        """Mark the record as finally deleted (R-TREE-21); LSN and size stay."""
        # LSN and size stay: the LSN decides which later versions may revive the slot (R-REC-52).
        self.states[index] = (self.states[index] & ~_OF_LIVE_RECORDS) | KNOWN_DELETED | DIRTY
        self.times.pop(self.keys[index], None)
        self.drop_value(index)
        self.dirty = True

    def drop_value(self, index: int) -> None:
        """Drop the data of a slot from memory."""
        old = self.values[index]
        if old is not None:
            self.data_bytes -= len(old)
            self.values[index] = None

    def remove_slot(self, index: int) -> None:
        """Remove a slot; the caller has to mark the node dirty (R-TREE-51)."""
        self.drop_value(index)
        self.vlsns.pop(self.keys[index], None)
        self.times.pop(self.keys[index], None)
        del self.keys[index]
        del self.lsns[index]
        del self.states[index]
        del self.values[index]
        del self.sizes[index]
        del self.expirations[index]
        # A full BIN always contains its identifier key, as JE's verifier requires.
        if self.keys and self.find(self.ident)[1] is False:
            self.ident = self.keys[0]

    def dirty_slots(self) -> int:
        """The number of slots that differ from the last full version."""
        return len([state for state in bytes(self.states) if state & DIRTY])

    def clear_slot_dirt(self) -> None:
        """Clear the dirty bits of all slots, after a full version was logged."""
        self.states = bytearray([state & ~DIRTY for state in bytes(self.states)])

    def wants_delta(self, percent: int) -> bool:
        """Whether the next version may be a delta (R-TREE-30), if the caller permits deltas.

        Arguments:
            percent: je.tree.binDelta.
        """
        if self.full_lsn == NULL_LSN or self.no_delta or self.db.deferred:
            return False
        return 0 < self.dirty_slots() <= len(self.keys) * percent // 100

    def memory_bytes(self) -> int:
        """The estimated memory of the node, in bytes."""
        return _NODE_BYTES + _SLOT_BYTES * len(self.keys) + _TIMES_BYTES * len(self.times) + self.data_bytes
