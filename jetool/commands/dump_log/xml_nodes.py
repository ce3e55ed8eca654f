"""Tree nodes of all versions as elements of ``dump-log --format xml``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from engine.format.entry import legacy
from engine.format.entry import node as node_module
from engine.format.entry.node import NULL_OFFSET, NodeRecord, Slot
from engine.format.entry_types import (
    BIN_TYPE,
    BOTTOM_NODES,
    DBIN_TYPE,
    DELTA_TYPE,
    DIN_TYPE,
    IN_TYPE,
)
from engine.format.fast.bin import MOST_FILES, NO_BASE
from engine.format.lsn import NULL_LSN, file_of, is_null, offset_of
from engine.format.versions import LONG_LSNS_ONLY, NODE_SIZES
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import LogEntry
from jetool.commands.dump_log.xml_values import db_lsn, element, expires, lsn_text, state_attributes, time_text, truth

# In nodes of earlier versions a slot without an LSN can lack the state "known deleted", which it should have.
_NULL_LSN_HAS_STATE: Final = 9
_NODE_TAGS: Final = {
    IN_TYPE: "in",
    BIN_TYPE: "bin",
    DIN_TYPE: "din",
    DBIN_TYPE: "dbin",
    DELTA_TYPE: "bin",
}


def node_element(entry: LogEntry, node: NodeRecord) -> str:
    """A node or a delta."""
    tag = _NODE_TAGS[entry.type_number]
    prefix = "" if node.key_prefix is None else element("keyPrefix", node.key_prefix)
    bloom = "" if node.bloom_filter is None else f"<BloomFilter>{_bits(node.bloom_filter)}</BloomFilter>"
    slot = _slot_of(node, entry.type_number, entry.version)
    return (
        f'<dbId id="{node.db_id}"/><{tag}><nodeId val="{node.node_id}"/>{element("idKey", node.identifier_key)}'
        f'<isRoot val="{truth(node.is_root)}"/><level val="{node.level & 0xFFFFFFFF:x}"/>{prefix}'
        f"<entries {_entries(entry, node)}>{''.join(map(slot, node.slots))}</entries>{bloom}{_duplicates(node)}</{tag}>"
        f"{_previous(node)}"
    )


def _entries(entry: LogEntry, node: NodeRecord) -> str:
    text = f'numEntries="{node.n_entries}" length="{node.max_entries}"'
    if entry.type_number == DELTA_TYPE:
        text += f' numFullBinEntries="{node.full_bin_entries}" maxFullBinEntries="{node.full_bin_max_entries}"'
    base_file = _base_file(node) if entry.version < LONG_LSNS_ONLY else None
    if base_file is not None:
        text += f' baseFileNumber="{base_file}"'
    if node.expiration_base != NO_BASE:
        text += f' baseExpiration="{node.expiration_base}"'
    return text


def _base_file(node: NodeRecord) -> int | None:
    """The lowest file number in the LSNs of the slots if JE holds these in the compact form, else None; -1 without
    LSNs.

    JE converts a node that was logged with LSNs in the long form to the compact form if they fit.
    """
    if node.base_file is not None:
        return node.base_file
    # Leave out NULL LSNs, which have no file number.
    lsns = [slot.lsn for slot in node.slots if slot.lsn != NULL_LSN]
    if not lsns:
        return -1
    files = [file_of(lsn) for lsn in lsns]
    fits = max(files) - min(files) <= MOST_FILES and max(map(offset_of, lsns)) < NULL_OFFSET
    return min(files) if fits else None


def _slot_of(node: NodeRecord, type_number: int, version: int) -> Callable[[Slot], str]:
    """How the slots of a node are printed."""
    is_bin = type_number in BOTTOM_NODES
    dirty = node_module.DIRTY if type_number == DELTA_TYPE else 0
    hours = bool(node.flags & node_module.EXPIRES_IN_HOURS)

    def slot_element(slot: Slot) -> str:
        state = slot.state
        # When JE reads such a node, it adds "known deleted", and so prints it (R-TREE-22).
        if slot.lsn == NULL_LSN and version < _NULL_LSN_HAS_STATE:
            state |= node_module.KNOWN_DELETED
        embedded = state & node_module.SLOT_EMBEDDED
        text = (
            f'<ref{state_attributes(state)} dirty="{truth(state & dirty)}" embedded="{truth(embedded)}" '
            f'noData="{truth(state & node_module.SLOT_NO_DATA)}"'
        )
        if is_bin or version >= NODE_SIZES:
            text += f' logSize="{slot.log_size or 0}"'
        if slot.vlsn is not None and slot.vlsn != NULL_VLSN:
            text += f' vlsn="{slot.vlsn}"'
        if slot.expiration:
            # Stored plus 1, since 0 means that the record does not expire.
            value = node.expiration_base + slot.expiration - 1
            text += f' expires="{expires(-value if hours else value)}"'
        data = element("data", slot.data or b"") if embedded else ""
        return f"{text}{_slot_times(node, slot)}>{element('key', node.full_key(slot))}{data}{db_lsn(slot.lsn)}</ref>"

    return slot_element


def _slot_times(node: NodeRecord, slot: Slot) -> str:
    """Slot fields of v19 and later."""
    text = ' tombstone="true"' if slot.state & node_module.SLOT_TOMBSTONE else ""
    if slot.creation_time:
        text += f' creationTime="{time_text(node.creation_base + slot.creation_time - 1)}"'
    if slot.modification_time:
        text += f' modTime="{time_text(node.modification_base + slot.modification_time - 1)}"'
    return text


def _bits(data: bytes) -> str:
    """Bits in order, the lowest of each byte first."""
    return "".join(f"{byte:08b}"[::-1] for byte in data)


def _duplicates(node: NodeRecord) -> str:
    """The main key of a node of an old duplicates tree, and its reference to the count."""
    text = "" if node.dup_key is None else element("key", node.dup_key)
    ref = node.dup_count
    return (
        text
        if ref is None
        else f"{text}<ref{state_attributes(ref.state)}>{element('key', ref.key)}{db_lsn(ref.lsn)}</ref>"
    )


def _previous(node: NodeRecord) -> str:
    text = "" if is_null(node.prev_full_lsn) else f"<prevFullLsn>{lsn_text(node.prev_full_lsn)}</prevFullLsn>"
    if node.prev_full_size:
        text += f"<prevFullSize>{node.prev_full_size}</prevFullSize>"
    if not is_null(node.prev_delta_lsn):
        text += f"<prevDeltaLsn>{lsn_text(node.prev_delta_lsn)}</prevDeltaLsn>"
    return f"{text}<prevDeltaSize>{node.prev_delta_size}</prevDeltaSize>" if node.prev_delta_size else text


def old_delta_element(delta: legacy.OldDelta) -> str:
    """A delta of v6 to v8."""
    slots = (
        f"{element('key', slot.key)}{db_lsn(slot.lsn)}<state{state_attributes(slot.state)}/>" for slot in delta.slots
    )
    return (
        f'<dbId id="{delta.db_id}"/><lastFullLsn>{lsn_text(delta.last_full_lsn)}</lastFullLsn>'
        f"<prevDeltaLsn>{lsn_text(delta.prev_delta_lsn)}</prevDeltaLsn>"
        f'<deltas size="{len(delta.slots)}"/>{"".join(slots)}'
    )


def in_delete_element(record: legacy.INDelete) -> str:
    """The removal of a node, until v7."""
    inner = f'{element("key", record.deleted_key)}<dbId id="{record.db_id}"/>'
    return f'<INDeleteEntry node="{record.deleted_node_id}">{inner}</INDeleteEntry>'


def in_dup_delete_element(record: legacy.INDupDelete) -> str:
    """The removal of a node of a duplicates tree, until v7."""
    inner = f'{element("key", record.main_key)}{element("key", record.dup_key)}<dbId id="{record.db_id}"/>'
    return f'<INDupDeleteEntry node="{record.deleted_node_id}">{inner}</INDupDeleteEntry>'
