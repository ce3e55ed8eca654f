"""The replication group that a log belongs to, read from the record of ``_jeRepGroupDB``.

The record is found by searching the bytes of replicated LNs for its key, ``$$GROUP_KEY$$``. That costs a search of some
hundred bytes per entry, but the id of the database, which is elsewhere in the log, is not needed.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.group_db import GROUP_KEY, decode_group
from engine.format.entry.ln import LN
from engine.format.entry_types import STREAM_LNS
from engine.format.header import REPLICATED
from engine.log.entry import LogEntry, Stretch

GROUP_KEY_BYTES: Final = GROUP_KEY.encode()
# The record is small: a few names and numbers.
_MOST_BYTES: Final = 4096
_MASK: Final = (1 << 64) - 1
UNKNOWN_UUID: Final = "0" * 32


class GroupName(NamedTuple):
    """A replication group: its name, and its UUID in hex, which no two groups share."""

    name: str
    uuid: str


def group_of(item: LogEntry) -> GroupName | None:
    """The group in an LN, or None if the LN is not the group record.

    Arguments:
        item: an entry of one of ``STREAM_LNS``.
    """
    if not item.flags & REPLICATED or item.item_size > _MOST_BYTES or GROUP_KEY_BYTES not in item.body:
        return None
    try:
        record: object = item.record()
        if not isinstance(record, LN) or not record.data or record.key.rstrip(b"\0") != GROUP_KEY_BYTES:
            return None
        group = decode_group(record.data)
    except (FormatError, IndexError, ValueError):
        return None
    return GroupName(group.name or "", f"{group.uuid_high & _MASK:016x}{group.uuid_low & _MASK:016x}")


def are_strangers(one: GroupName | None, other: GroupName | None) -> bool:
    """Whether two nodes belong to different groups; False if the group of either is unknown.

    The rule is that of the handshake between replica and feeder: both names and UUIDs must be equal. A node that has
    never joined its group has no UUID yet.
    """
    if one is None or other is None:
        return False
    return one.name != other.name or (one.uuid != other.uuid and UNKNOWN_UUID not in (one.uuid, other.uuid))


def last_group_in(stretch: Stretch, actions: list[int]) -> GroupName | None:
    """The group in the latest group record of a stretch; None if the stretch holds no group record.

    Arguments:
        actions: the argument of ``Stretch.positions`` that keeps the replicated entries.
    """
    # A log outside a group has no replicated entries; of others only a few stretches contain the key, and only their
    # entries are decoded.
    has_replicated = any(actions[pair] for pair in stretch.pairs)
    if not has_replicated or stretch.data.find(GROUP_KEY_BYTES, stretch.start, stretch.end) < 0:
        return None
    group = None
    for pos in stretch.positions(actions):
        item = stretch.entry_at(pos)
        if item.type_number in STREAM_LNS and not item.invisible:
            group = group_of(item) or group
    return group
