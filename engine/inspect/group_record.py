"""The replication group that a log belongs to, by the record of ``_jeRepGroupDB`` in it.

The record is found by its key, ``$$GROUP_KEY$$``, in the bytes of replicated LNs: that costs a search of some hundred
bytes for an entry, and spares knowing the database's id, which stands somewhere else in the log.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.entry.group_db import GROUP_KEY, decode_group
from engine.format.entry.ln import LN
from engine.format.header import REPLICATED
from engine.log.entry import LogEntry

GROUP_KEY_BYTES: Final = GROUP_KEY.encode()
# The record is a few names and numbers.
_MOST_BYTES: Final = 4096
_MASK: Final = (1 << 64) - 1


class GroupName(NamedTuple):
    """A replication group: its name, and its UUID in hex, which no two groups share."""

    name: str
    uuid: str


def group_of(item: LogEntry) -> GroupName | None:
    """The group that an LN names, or None when it is not the group's record.

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
