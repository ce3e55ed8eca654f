"""The versions of one record in one log, from LNs and slots of BINs.

A log has millions of versions, so they are tuples, and of the slots of a record only that in the newest BIN is kept,
since ``verdict`` needs no other.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.format.lsn import NULL_LSN

# Of a version.
DELETED: Final = 0x01
IN_SLOT: Final = 0x02
IN_TXN: Final = 0x04
# A rollback took it back.
VOID: Final = 0x08
# Recovery gave it.
FROM_TREE: Final = 0x10
# A slot with a main key of old duplicates (``old_duplicates``): the item is not known.
SINGLE: Final = 0x20

# A deleted slot (KNOWN_DELETED): no transaction can take that back.
FOR_GOOD: Final = 0x40
# Invisible, outside every rollback period: the flag is damaged, or the RollbackStart is lost.
HIDDEN: Final = 0x80

NO_DATA: Final = b""
_new_tuple: Final = tuple.__new__

# LSN, flags, data, transaction, VLSN, expiration.
LNVersion = tuple[int, int, bytes, int, int, int]
# LSN, flags, data, VLSN, expiration, node id, LSN of the BIN.
SlotVersion = tuple[int, int, bytes, int, int, int, int]
Packed = tuple[list[LNVersion], SlotVersion | None]
# Approximate memory of versions besides keys and data.
KEY_BYTES: Final = 330
LN_BYTES: Final = 220
SLOT_BYTES: Final = 190


class SalvagedVersion(NamedTuple):
    """A version of a record.

    Attributes:
        kind: ``ln``, ``slot`` or ``tree``.
        txn: None outside transactions, for slots, and for records from recovery.
        node, bin_lsn: for a slot, the BIN and where it was logged.
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
    """The versions of one record in one log.

    Attributes:
        lns: LNs, in the order of the log.
        slot: slot in the newest BIN with the record. An older BIN may lead to a newer LN that was undone.
    """

    __slots__ = ("lns", "slot")

    def __init__(self) -> None:
        self.lns: list[LNVersion] = []
        self.slot: SlotVersion | None = None

    def take_slot(self, slot: SlotVersion) -> None:
        """A slot of a BIN."""
        if self.slot is None or slot[6] > self.slot[6]:
            self.slot = slot

    @property
    def seen_lsn(self) -> int:
        """The newest BIN with the record; NULL_LSN if no BIN has the record."""
        return NULL_LSN if self.slot is None else self.slot[6]

    @property
    def seen_node(self) -> int:
        """The node id of this BIN; -1 if no BIN has the record."""
        return -1 if self.slot is None else self.slot[5]

    def join(self, other: Packed) -> None:
        """Add the versions of another part of the log."""
        lns, slot = other
        self.lns += lns
        if slot is not None:
            self.take_slot(slot)

    def packed(self) -> Packed:
        """As ``join`` takes it."""
        return self.lns, self.slot


def version_of_ln(row: LNVersion) -> SalvagedVersion:
    """Add an LN, or a record of recovery."""
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
    deleted, embedded = bool(flags & DELETED), bool(flags & IN_SLOT)
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
    """A record given by recovery."""
    row = (lsn, FROM_TREE, data, 0, vlsn, expiration)
    return [row], None
