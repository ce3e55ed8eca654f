"""What one log holds of one record: versions, and what slots of BINs say of them.

There are as many as the log has records, so versions are tuples, and of slots only two things are kept, since
``verdict`` needs no more: the slot that leads to the newest version, and the newest BIN that has the record.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN

# Of a version.
DELETED: Final = 0x01
EMBEDDED: Final = 0x02
IN_TXN: Final = 0x04
# A rollback took it back.
VOID: Final = 0x08
# Recovery gave it.
FROM_TREE: Final = 0x10

NO_DATA: Final = b""
_new_tuple: Final = tuple.__new__

# LSN, flags, data, transaction, VLSN, expiration.
LNVersion = tuple[int, int, bytes, int, int, int]
# LSN, flags, data, VLSN, expiration, node id, LSN of the BIN.
SlotVersion = tuple[int, int, bytes, int, int, int, int]
Packed = tuple[list[LNVersion], SlotVersion | None, int, int]
# What they take in memory besides keys and data, about.
KEY_BYTES: Final = 330
LN_BYTES: Final = 220
SLOT_BYTES: Final = 190


class SalvagedVersion(NamedTuple):
    """A version of a record.

    Attributes:
        kind: ``ln``, ``slot`` or ``tree``.
        txn: None outside transactions, for slots, and for what recovery gave.
        node, bin_lsn: of a slot: the BIN and where it was logged.
    """

    kind: str
    lsn: int
    deleted: bool
    embedded: bool
    data: bytes
    txn: int | None
    vlsn: int
    expiration: int
    node: int
    bin_lsn: int


class KeyVersions:
    """What one log holds of one record.

    Attributes:
        lns: LNs, in the order of the log.
        slot: the slot that leads to the newest version; of several the one of the newest BIN.
        seen_lsn, seen_node: the newest BIN with the record, and its node id; NULL_LSN without one.
    """

    __slots__ = ("lns", "seen_lsn", "seen_node", "slot")

    def __init__(self) -> None:
        self.lns: list[LNVersion] = []
        self.slot: SlotVersion | None = None
        self.seen_lsn: int = NULL_LSN
        self.seen_node: int = -1

    def take_slot(self, slot: SlotVersion) -> None:
        """A slot of a BIN."""
        known = self.slot
        if known is None or slot[0] > known[0] or (slot[0] == known[0] and slot[6] > known[6]):
            self.slot = slot
        self.see(slot[5], slot[6])

    def see(self, node: int, bin_lsn: int) -> None:
        """A BIN that has the record."""
        if bin_lsn > self.seen_lsn:
            self.seen_lsn, self.seen_node = bin_lsn, node

    def join(self, other: Packed) -> None:
        """What another part of the log holds."""
        lns, slot, seen_lsn, seen_node = other
        self.lns += lns
        if slot is not None:
            self.take_slot(slot)
        # The newest BIN need not have the slot with the newest version.
        self.see(seen_node, seen_lsn)

    def packed(self) -> Packed:
        """As ``join`` takes it."""
        return self.lns, self.slot, self.seen_lsn, self.seen_node


def version_of_ln(row: LNVersion) -> SalvagedVersion:
    """An LN, or a record of recovery."""
    lsn, flags, data, txn, vlsn, expiration = row
    in_txn = bool(flags & IN_TXN)
    kind = "tree" if flags & FROM_TREE else "ln"
    fields = (
        kind, lsn, bool(flags & DELETED), False, data, txn if in_txn else None, vlsn, expiration, -1, NULL_LSN,
    )  # fmt: skip
    # As its constructor does, in half the time.
    return _new_tuple(SalvagedVersion, fields)


def version_of_slot(row: SlotVersion) -> SalvagedVersion:
    """A slot."""
    lsn, flags, data, vlsn, expiration, node, bin_lsn = row
    deleted, embedded = bool(flags & DELETED), bool(flags & EMBEDDED)
    return SalvagedVersion(
        kind="slot",
        lsn=lsn,
        deleted=deleted,
        embedded=embedded,
        data=data,
        txn=None,
        vlsn=vlsn,
        expiration=expiration,
        node=node,
        bin_lsn=bin_lsn,
    )


def tree_version(lsn: int, data: bytes, vlsn: int, expiration: int) -> Packed:
    """A record as recovery gives it."""
    row = (lsn, FROM_TREE, data, 0, vlsn, expiration)
    return [row], None, NULL_LSN, -1
