"""Checking the records that slots of bottom nodes refer to (R-UTIL-2 and more).

References (``--refs``): the file exists, and an entry begins at the LSN and ends inside the file. It is a record of a
type that the database holds, of the same database, of the slot's size, visible, not provisional, and not recorded as
obsolete. Only the header and the first bytes of each entry are read.

Data (``--data``): the entry's checksum matches, it can be decoded, it has the key of the slot and is not a deletion.

A record that is embedded in its slot, or belongs to a database with duplicates, was obsolete when it was logged
(R-CLN-5), so its file may be deleted and its entry erased. If the entry still exists, key and data are compared.

The same holds for an expired record: the cleaner treats it as obsolete, and JE no longer reads it. It also holds for a
range of records that is being discarded (R-CLN-53).

Most records of a database (the plain ones) are not checked during the walk over its tree, because that would read them
in random order. Instead the LSN, size and key hash of each slot are queued in ``engine.workers.spill_file``, by ranges
of the log, and the records are checked afterwards in log order. If one of them is wrong, the tree is walked again with
immediate checks of every slot, so that findings come in tree order.

Example: the slot ``k`` refers to 0x5/0x82c, 56 bytes. A flipped bit there is JE-DATA-001; a flipped bit in the slot's
LSN is JE-REF-002, since no entry begins there.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from engine.errors import DamageError, FormatError, plural
from engine.format.bytecursor import join_two_part_key
from engine.format.codecs import readable_body
from engine.format.entry.db_tree import MAPPING_DB_ID, NAMING_DB_ID
from engine.format.entry.ln import LN
from engine.format.entry.node import SLOT_EMBEDDED
from engine.format.entry_types import (
    DELETIONS,
    ERASED,
    EXTINCT_SCAN_LNS,
    FILE_SUMMARY_LNS,
    LNS,
    MAP_LNS,
    NAME_LNS,
    RESERVED_FILE_LNS,
    USER_LNS,
    is_valid_type,
    type_name,
)
from engine.format.expiration import DAY_MS, HOUR_MS
from engine.format.fast.ln import database_of, plain_key
from engine.format.fast.queued_slots import MOST_BYTES, RANGE_BITS, SLOT, Queues, queue_slots, unlike_slots
from engine.format.header import (
    HEADER_BYTES,
    HEADER_WITH_VLSN_BYTES,
    TYPE_AT,
    VERSION_BITS_V6,
    Provisional,
    decode_header,
    header_bytes,
    is_invisible,
    provisional_of,
)
from engine.format.lsn import file_of, format_lsn, is_null, offset_of
from engine.format.versions import EXPIRATION, PACKED_NUMBERS, TWO_PART_DUPLICATES
from engine.log.access import LogAccess
from engine.log.entry import LogEntry
from engine.log.files import log_file_name
from engine.tree.bin_node import BIN, DELETED
from engine.tree.database_state import DatabaseState
from engine.tree.in_node import IN
from engine.tree.keys import Key
from engine.verify import record_rules as rules
from engine.verify.collector import Collector, at
from engine.verify.obsolete import ObsoleteOffsets
from engine.verify.report import Rule

# A range is read completely if it has at least one queued record per this many bytes.
_GAP_BYTES: Final = 4096
# Read this far after the last record of a range; a longer one is examined apart.
_LONGEST_LAST: Final = 1 << 16
# Enough for a header and the fields of an LN up to the database id.
_HEAD_BYTES: Final = 64
_NOT_PLAIN: Final = DELETED | SLOT_EMBEDDED
_BY_ID: Final = {MAPPING_DB_ID: MAP_LNS, NAMING_DB_ID: NAME_LNS}
_BY_NAME: Final = {
    "_jeUtilization": FILE_SUMMARY_LNS,
    "_jeReservedFilesDb": RESERVED_FILE_LNS,
    "_jeExtinctScansDb": EXTINCT_SCAN_LNS,
}
# Records of a database without a name. Until v15 only the NameLN holds the name, so the database may be internal.
_OF_NAMELESS: Final = USER_LNS.union(*_BY_NAME.values())


class _Head(NamedTuple):
    """Facts from the header of an entry; ``size`` is in bytes, including the header."""

    type_number: int
    version: int
    flags: int
    size: int
    db_id: int


class RecordCheck:
    """Checks the slots of bottom nodes.

    Arguments:
        access: the log.
        findings: receives the findings.
        obsolete: offsets recorded as obsolete.
        end_lsn: the end of the log.
        may_be_gone: whether a record is in a range that is being discarded.
        data: read every record whole.
    """

    def __init__(
        self,
        access: LogAccess,
        findings: Collector,
        obsolete: ObsoleteOffsets,
        end_lsn: int,
        may_be_gone: Callable[[DatabaseState, Key], bool],
        *,
        data: bool,
    ) -> None:
        self._access = access
        self._may_be_gone = may_be_gone
        self._findings = findings
        self._obsolete = obsolete
        self._end_lsn = end_lsn
        self._data = data
        self._now_ms = time.time() * 1000
        self._sizes: dict[int, int] = {}
        # The queues of plain slots; None: check them immediately.
        self._waiting: Queues | None = None
        self._present = frozenset([file.number for file in access.files()])

    def may_wait(self, db: DatabaseState) -> bool:
        """Whether the plain slots of a database can be queued for a later check."""
        return self._data and db.order.plain and not db.duplicates and not db.internal

    def wait_in(self, queues: Queues | None) -> None:
        """Append plain slots to these queues for ``are_right``; None: check them immediately."""
        self._waiting = queues

    def visit(self, db: DatabaseState, node: IN) -> None:
        """Check the node's versions against the obsolete lists, and for a bottom node also its slots."""
        # Both versions of a BIN are checked: a delta in use needs its full version.
        versions = [node.full_lsn] + ([node.delta_lsn] if isinstance(node, BIN) else [])
        for lsn in versions:
            if not is_null(lsn) and lsn in self._obsolete:
                self._findings.add(rules.OBSOLETE_NODE, f"node {node.node_id}", lsn=lsn, db=db)
        if not isinstance(node, BIN):
            return
        rest: Sequence[int] = range(len(node))
        if self._waiting is not None:
            rest = self._left_over(node, self._waiting)
        elif self._data:
            right = self._plainly_right(db, node)
            rest = [index for index in rest if index not in right]
        for index in rest:
            lsn, state = node.lsns[index], node.states[index]
            if state & DELETED or is_null(lsn):
                continue
            # The slot holds the record, whose entry was obsolete when it was logged (R-CLN-5); compare them if the
            # entry still exists.
            if state & SLOT_EMBEDDED or db.duplicates:
                if self._data:
                    self._check_copy(db, node, index)
            elif self._check_reference(db, node, index) and self._data:
                self._check_record(db, node, index)

    def _left_over(self, node: BIN, waiting: Queues) -> list[int]:
        """Queue the plain slots of a node; returns the other slots."""
        return queue_slots(
            node.lsns,
            node.sizes,
            node.states,
            node.expirations,
            node.keys,
            _NOT_PLAIN,
            self._end_lsn,
            self._present,
            waiting,
        )

    def are_right(self, db: DatabaseState, number: int, queue: bytes) -> bool:
        """Whether all queued slots of a range of the log are right.

        Arguments:
            number, queue: the number of the range, and its slots (``engine.format.fast.queued_slots``).
        """
        base = number << RANGE_BITS
        try:
            obsolete = self._obsolete.between(base, 1 << RANGE_BITS)
            unlike = self._unlike(db, base, queue, obsolete)
        except DamageError:
            return False
        for index in unlike:
            place, hashed = SLOT.unpack_from(queue, SLOT.size * index)
            if place >> 32 in obsolete or not self._is_right(db, base + (place >> 32), place & MOST_BYTES, hashed):
                return False
        return True

    def _unlike(self, db: DatabaseState, base: int, queue: bytes, obsolete: array[int]) -> list[int]:
        """The indexes of the slots that are not plainly right; if slots are few, only parts of the range are read."""
        version, handle, first = self._access.version_of(base >> 32), self._access.handle(base >> 32), offset_of(base)
        most, places = self._size_of(base >> 32) - first, array("q", queue)[::2]
        start = min(places) >> 32
        # The size in a slot may be wrong; never read more than the file holds.
        end = min((max(places) >> 32) + _LONGEST_LAST, most)
        if end - start <= len(places) * _GAP_BYTES:
            return unlike_slots(handle.read(first + start, max(end - start, 0)), start, queue, version, db.id, obsolete)
        found = []
        for index, place in enumerate(places):
            entry = handle.read(first + (place >> 32), min(place & MOST_BYTES, most))
            slot = queue[SLOT.size * index : SLOT.size * (index + 1)]
            if unlike_slots(entry, place >> 32, slot, version, db.id, obsolete):
                found.append(index)
        return found

    def _is_right(self, db: DatabaseState, lsn: int, size: int, hashed: int) -> bool:
        """Whether a slot without an expiration is right; the same check as ``visit``, without findings.

        Arguments:
            hashed: the hash of the key.
        """
        head = self._head(lsn)
        if not isinstance(head, _Head) or head.type_number not in USER_LNS or head.db_id != db.id or head.size != size:
            return False
        if is_invisible(head.flags, head.version) or provisional_of(head.flags) is not Provisional.NO:
            return False
        try:
            record = self._access.read(lsn).record()
        except (DamageError, FormatError):
            return False
        if not isinstance(record, LN) or record.data is None or head.type_number in DELETIONS:
            return False
        return hash(record.key) == hashed and not (head.version >= EXPIRATION and record.expiration)

    def _plainly_right(self, db: DatabaseState, node: BIN) -> frozenset[int]:
        """Find the slots whose records have the usual form and are right (most of them); the others are checked
        individually.

        Records are read in log order, neighbours together, without creating objects.
        """
        if not db.order.plain or db.duplicates or db.id in _BY_ID or db.name in _BY_NAME:
            return frozenset()
        lsns, sizes, states, expirations = node.lsns, node.sizes, node.states, node.expirations
        try:
            chosen = [
                at
                for at, lsn in enumerate(lsns)
                if sizes[at] > 0
                and 0 <= lsn < self._end_lsn
                and not states[at] & _NOT_PLAIN
                and not expirations[at]
                and self._access.has_file(lsn >> 32)
                # The size in the slot may be wrong; never read more than the file holds.
                and offset_of(lsn) + sizes[at] <= self._size_of(lsn >> 32)
            ]
            chosen.sort(key=lsns.__getitem__)
            entries = self._access.user_entries([lsns[at] for at in chosen], [sizes[at] for at in chosen])
            versions = {number: self._access.version_of(number) for number in {lsns[at] >> 32 for at in chosen}}
        except DamageError:
            return frozenset()
        return frozenset(
            at
            for at, entry in zip(chosen, entries, strict=True)
            if entry is not None
            and plain_key(entry, versions[lsns[at] >> 32], db.id) == node.keys[at]
            and lsns[at] not in self._obsolete
        )

    def _check_reference(self, db: DatabaseState, node: BIN, index: int) -> bool:
        """Whether the slot refers to a record of the database."""
        lsn = node.lsns[index]
        head = self._head(lsn)
        gone = head[0] is rules.NO_FILE if not isinstance(head, _Head) else head.type_number == ERASED
        # The cleaner treats an expired or discarded record as obsolete, so it may have been deleted or erased.
        if gone and (has_expired(node.expirations[index], self._now_ms) or self._may_be_gone(db, node.keys[index])):
            return False
        if not isinstance(head, _Head):
            rule, message = head
            self._report(rule, message, db, node, index)
            return False
        # Each of JE's own databases holds one type of LN.
        wanted = _BY_ID.get(db.id) or _BY_NAME.get(db.name or "") or (USER_LNS if db.name else _OF_NAMELESS)
        if head.type_number not in wanted:
            self._report(rules.WRONG_TYPE, f"found {type_name(head.type_number)}", db, node, index)
            return False
        if head.db_id != db.id:
            message = f"{type_name(head.type_number)} of database {head.db_id}, expected {db.id}"
            self._report(rules.WRONG_DATABASE, message, db, node, index)
            return False
        # A size of 0 means that the slot does not record it.
        if node.sizes[index] and node.sizes[index] != head.size:
            self._report(rules.WRONG_SIZE, f"size {head.size}, expected {node.sizes[index]}", db, node, index)
        if is_invisible(head.flags, head.version):
            self._report(rules.INVISIBLE, type_name(head.type_number), db, node, index)
        if provisional_of(head.flags) is not Provisional.NO:
            self._report(rules.PROVISIONAL, type_name(head.type_number), db, node, index)
        if lsn in self._obsolete:
            self._report(rules.OBSOLETE_RECORD, type_name(head.type_number), db, node, index)
        return True

    def _head(self, lsn: int) -> _Head | tuple[Rule, str]:
        """The header at an LSN, or the problem there."""
        number, offset = file_of(lsn), offset_of(lsn)
        if not self._access.has_file(number):
            return rules.NO_FILE, log_file_name(number)
        if lsn >= self._end_lsn:
            return rules.NO_ENTRY, "it is after the end of the log"
        try:
            version = self._access.version_of(number, lsn)
            handle = self._access.handle(number)
        except DamageError as error:
            return rules.NO_FILE, error.what
        data = handle.read(offset, _HEAD_BYTES)
        if len(data) < HEADER_BYTES or not is_valid_type(data[TYPE_AT], version):
            return rules.NO_ENTRY, "no entry begins here"
        # The last entry of a file may be shorter than the longest header.
        header = decode_header(data.ljust(HEADER_WITH_VLSN_BYTES, b"\0"), 0, version)
        length = header_bytes(header.flags, version)
        if header.item_size < 0 or offset + length + header.item_size > self._size_of(number):
            return rules.NO_ENTRY, f"an entry of {plural(header.item_size, 'byte')} does not fit into the file"
        db_id = 0
        if header.type_number in LNS:
            try:
                body = data[length:]
                layout = version
                if version < PACKED_NUMBERS:
                    body = handle.read(offset + length, header.item_size)
                    layout, body = readable_body(header.type_number, version, header.flags & VERSION_BITS_V6, body)
                db_id = database_of(body, layout)
            except (FormatError, IndexError):
                return rules.NO_ENTRY, "what begins here is not a whole entry"
        return _Head(header.type_number, version, header.flags, length + header.item_size, db_id)

    def _size_of(self, number: int) -> int:
        size = self._sizes.get(number)
        if size is None:
            size = self._sizes[number] = self._access.handle(number).size()
        return size

    def _check_record(self, db: DatabaseState, node: BIN, index: int) -> None:
        try:
            # The invisible flag is already reported; here only the content matters.
            entry = self._access.read(node.lsns[index], allow_invisible=True)
            record = entry.record()
        except (DamageError, FormatError) as error:
            self._report(rules.UNREADABLE, error.what, db, node, index)
            return
        assert isinstance(record, LN)
        self._compare(db, node, index, entry, record)

    def _check_copy(self, db: DatabaseState, node: BIN, index: int) -> None:
        """Compare a slot that embeds its record with the original entry, if that is still intact."""
        lsn = node.lsns[index]
        if not self._access.has_file(file_of(lsn)) or lsn >= self._end_lsn:
            return
        try:
            entry = self._access.read(lsn, allow_invisible=True)
            record = entry.record()
        except (DamageError, FormatError):
            # Nothing reads the entry any more, so damage there loses nothing.
            return
        if entry.type_number == ERASED:
            return
        if not isinstance(record, LN):
            self._report(rules.WRONG_TYPE, f"found {entry.type_name}", db, node, index)
        elif record.db_id != db.id:
            message = f"{entry.type_name} of database {record.db_id}, expected {db.id}"
            self._report(rules.WRONG_DATABASE, message, db, node, index)
        else:
            self._compare(db, node, index, entry, record)

    def _compare(self, db: DatabaseState, node: BIN, index: int, entry: LogEntry, record: LN) -> None:
        # In v6 and v7 a slot does not mark a deletion, and a duplicate has its item in the data.
        old = entry.version < TWO_PART_DUPLICATES
        # A blind deletion in a slot was undone: its LSN replaces that of the unknown previous version
        # (``tree.apply.version_before``).
        deleted = (record.data is None or entry.type_number in DELETIONS) and not record.blind_deletion
        if deleted and not old:
            self._report(rules.DELETION, entry.type_name, db, node, index)
            return
        stored = record.key if not (old and db.duplicates) else join_two_part_key(record.key, record.data or b"")
        try:
            same = bool(db.order.wrap(stored) == node.keys[index])
        except (FormatError, LookupError, ValueError):
            same = False
        if not same:
            self._report(rules.OTHER_KEY, f"the record's is {stored[:32].hex() or 'empty'}", db, node, index)
        value = node.values[index]
        if node.states[index] & SLOT_EMBEDDED and value is not None and value != record.data:
            self._report(rules.OTHER_DATA, f"sizes {len(value)} and {len(record.data or b'')}", db, node, index)
        if entry.version >= EXPIRATION and _expires_ms(node.expirations[index]) != _expires_ms(record.expiration):
            message = f"{record.expiration} and {node.expirations[index]}"
            self._report(rules.OTHER_EXPIRATION, message, db, node, index)

    def _report(self, rule: Rule, message: str, db: DatabaseState, node: BIN, index: int) -> None:
        lsn = node.lsns[index]
        text = f"{message}; slot {index} of the BIN {at(node.full_lsn)} leads to {format_lsn(lsn)}"
        self._findings.add(rule, text, lsn=lsn, db=db, key=node.keys[index])


def has_expired(expiration: int, now_ms: float) -> bool:
    """Whether a record with this expiration value of a slot has expired (R-CLN-50)."""
    return bool(expiration) and _expires_ms(expiration) < now_ms


def _expires_ms(expiration: int) -> int:
    """Convert an expiration (days since 1970, or hours if negative) to milliseconds."""
    return expiration * DAY_MS if expiration >= 0 else -expiration * HOUR_MS
