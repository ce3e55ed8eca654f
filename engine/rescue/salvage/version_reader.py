"""Reads versions from stretches of intact entries in bulk, without a record for each.

General twins: ``scan.ln_version``, ``scan.node_versions``, ``scan.end_of``. The twins take uncommon entries, one by one
and in log order: LNs with rare fields, BIN-deltas and nodes of unusual form, other log versions, unknown databases, and
LNs within a period that was rolled back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.entry.node import KNOWN_DELETED, PENDING_DELETED, SLOT_EMBEDDED
from engine.format.entry_types import BIN_TYPE, BINS, COMMIT, COMMON_LNS, DUP_NODES, TRANSACTIONAL, TXN_ENDS, USER_LNS
from engine.format.fast.bin import NO_BASE, SlotColumns, decode_head, read_records
from engine.format.fast.header import PAIRS, TYPES, header_lengths, item_size
from engine.format.fast.ln import plain_fields
from engine.format.fast.loops import KEEP, NO_TALLIES
from engine.format.fast.txn_end import txn_end_fields
from engine.format.fast.walks import sift
from engine.format.header import FLAGS_AT, HEADER_BYTES, TYPE_AT, VLSN_AT, VLSN_FIELD
from engine.format.lsn import is_null
from engine.format.versions import EXPIRATION, LONG_LSNS_ONLY
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry, entry_at
from engine.recovery.result import TxnLsns
from engine.rescue.salvage.old_duplicates import OldDuplicates
from engine.rescue.salvage.sorted_versions import SortedVersions, Table
from engine.rescue.salvage.verdict import NewestBins
from engine.rescue.salvage.versions import (
    DELETED,
    FOR_GOOD,
    IN_SLOT,
    IN_TXN,
    KEY_BYTES,
    LN_BYTES,
    NO_DATA,
    SLOT_BYTES,
    KeyVersions,
)

# Kinds of databases without a number: not a user's, removed, handled on the general path, or numbered with its first
# version.
IGNORED: Final = -1
REMOVED: Final = -2
GENERAL: Final = -3
NEW: Final = -4
_NOT_ASKED: Final = -5
_WANTED: Final = USER_LNS | BINS | DUP_NODES | TXN_ENDS
# The action for an entry, by its type number.
_AS_COMMIT: Final = 1
_AS_ABORT: Final = 2
_AS_NODE: Final = 3
_AS_LN: Final = 4
_AS_LN_IN_TXN: Final = 5
_AS_OTHER: Final = 6


def _way_of(number: int) -> int:
    if number in TXN_ENDS:
        return _AS_COMMIT if number == COMMIT else _AS_ABORT
    if number in BINS:
        return _AS_NODE
    if number in COMMON_LNS:
        return _AS_LN_IN_TXN if number in TRANSACTIONAL else _AS_LN
    return _AS_OTHER


_WAYS: Final = [_way_of(number) for number in range(TYPES)]
_ACTIONS: Final = [KEEP if number in _WANTED else 0 for number in range(TYPES)] * (PAIRS // TYPES)


class VersionTaker:
    """Takes the versions of one node's log.

    Arguments:
        rows: tables to which they are added.
        node: the number of the node.
        kind_of: kind of a database by its id, one of the constants above.
        number_of: assigns the number of a new database.
        general: takes an entry on the general path.
        rolled_back: LSN ranges in which versions may have been rolled back.
        bins: takes the complete versions of BINs.

    Attributes:
        commits, aborts: times of ended transactions.
        bins: the newest complete version of each BIN.
        removed: LNs of databases that were removed.
        old_duplicates: of log versions 6 and 7.
    """

    def __init__(
        self,
        rows: SortedVersions,
        node: int,
        commits: TxnLsns,
        kind_of: Callable[[int], int],
        number_of: Callable[[int], int],
        general: Callable[[LogEntry], None],
        rolled_back: tuple[int, int],
        bins: NewestBins,
    ) -> None:
        self._rows = rows
        self._node = node
        self._kind_of = kind_of
        self._number_of = number_of
        self._general = general
        self._low, self._high = rolled_back
        self._databases: dict[int, int] = {}
        self._last_database = -1
        self._last_table: Table = {}
        self.commits = commits
        self.aborts = TxnLsns()
        self.bins = bins
        self.old_duplicates = OldDuplicates()
        self.removed: int = 0

    def take(self, data: bytes, start: int, end: int, base_lsn: int, version: int) -> None:
        """Take a stretch.

        Arguments:
            data, start, end: plain, intact entries.
            base_lsn: LSN of ``data[0]``.
            version: log version of the file.
        """
        found: list[int] = []
        lengths, ways = header_lengths(version), _WAYS
        sift(data, start, end, _ACTIONS, lengths, found, NO_TALLIES)
        for pos in found:
            number = data[pos + TYPE_AT]
            length = lengths[number | data[pos + FLAGS_AT] << 8]
            body = pos + length
            stop = body + item_size(data, pos)
            vlsn = NULL_VLSN
            if length > HEADER_BYTES:
                vlsn = VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
            try:
                way = ways[number]
                if way >= _AS_LN:
                    done = way != _AS_OTHER and self._ln(
                        data, body, stop, version, way == _AS_LN_IN_TXN, base_lsn + pos, vlsn
                    )
                elif way == _AS_NODE:
                    done = self._bin(data[body:stop], version, number, base_lsn + pos)
                else:
                    txn, time_ms = txn_end_fields(data, body, stop, version)
                    ends = self.commits if way == _AS_COMMIT else self.aborts
                    ends.setdefault(txn, time_ms if time_ms > 0 else 0)
                    done = True
            except (FormatError, IndexError):
                # The general path skips this entry, or reads what the bulk path cannot read.
                done = False
            if not done:
                self._general(entry_at(data, pos, base_lsn, version))

    def _ln(self, data: bytes, body: int, stop: int, version: int, in_txn: bool, lsn: int, vlsn: int) -> bool:
        flags, db_id, txn, length, at = plain_fields(data, body, stop, version, in_txn)
        if flags < 0:
            return False
        database = self._known(db_id)
        if database == IGNORED:
            return True
        if database == REMOVED:
            self.removed += 1
            return True
        if database == GENERAL or self._low < lsn < self._high:
            return False
        if database == NEW:
            database = self._databases[db_id] = self._number_of(db_id)
        kept = IN_TXN if in_txn else 0
        value = NO_DATA
        if length < 0:
            kept |= DELETED
            key = data[at:stop]
        else:
            value = data[at : at + length]
            key = data[at + length : stop]
        rows = self._rows
        table = self._table(database)
        versions = table.get(key)
        if versions is None:
            versions = table[key] = KeyVersions()
            rows.held += KEY_BYTES + len(key)
        versions.lns.append((lsn, kept, value, txn, vlsn, 0))
        rows.held += LN_BYTES + len(value)
        rows.make_room()
        return True

    def _bin(self, body: bytes, version: int, number: int, lsn: int) -> bool:
        db_id, _ = unpack(body, 0)
        database = self._known(db_id)
        if database in (IGNORED, REMOVED, GENERAL):
            return True
        if number != BIN_TYPE or not EXPIRATION <= version < LONG_LSNS_ONLY:
            return False
        head = decode_head(body)
        # Records with an expiration are left to the general codec.
        if head is None or head.expiration_base != NO_BASE:
            return False
        keys: list[bytes] = []
        lsns: list[int] = []
        states = bytearray()
        values: list[bytes | None] = []
        data_bytes, end = read_records(body, head, SlotColumns(keys, lsns, states, values, [], []))
        if data_bytes < 0 or end != len(body):
            return False
        node = head.node_id
        self.bins.take(node, lsn, keys)
        if database == NEW:
            if all(is_null(one) for one in lsns):
                return True
            database = self._databases[db_id] = self._number_of(db_id)
        rows = self._rows
        table = self._table(database)
        for at in range(len(keys)):
            if is_null(lsns[at]):
                continue
            key = keys[at]
            versions = table.get(key)
            if versions is None:
                versions = table[key] = KeyVersions()
                rows.held += KEY_BYTES + len(key)
            state = states[at]
            flags, value = 0, NO_DATA
            if state & SLOT_EMBEDDED:
                flags = IN_SLOT
                value = values[at] or NO_DATA
            if state & (KNOWN_DELETED | PENDING_DELETED):
                flags |= DELETED | FOR_GOOD if state & KNOWN_DELETED else DELETED
                value = NO_DATA
            if versions.slot is None:
                rows.held += SLOT_BYTES
            versions.take_slot((lsns[at], flags, value, NULL_VLSN, 0, node, lsn))
        rows.make_room()
        return True

    def _table(self, database: int) -> Table:
        if database != self._last_database:
            # The table stays the same object when its rows become a run.
            self._last_table = self._rows.table(database, self._node)
            self._last_database = database
        return self._last_table

    def _known(self, db_id: int) -> int:
        database = self._databases.get(db_id, _NOT_ASKED)
        if database == _NOT_ASKED:
            database = self._databases[db_id] = self._kind_of(db_id)
        return database
