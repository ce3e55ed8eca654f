"""Tree nodes and old deltas as DbPrintLog prints them."""

from __future__ import annotations

from typing import Any

from tests.support.logs.ndjson import time_text
from tests.support.logs.printlog import Taker

from .compare import OneOf
from .scalars import Fields, boolean, child_text, deleted_bits, expires, hex_bytes, lsn, state_of, time, vlsn


def node_33(entry: Taker, fields: Fields) -> None:
    """A node in 3.3, which prints no earlier versions."""
    node(entry.child(), fields)
    fields["db"] = int(entry.value("dbId", "id"))


def node(taker: Taker, fields: Fields) -> None:
    old = taker.peek() == "node"
    fields["node"] = int((child_text(taker, "node") or "") if old else taker.value("nodeId"))
    fields["identifier_key"] = hex_bytes(taker.value("key", "v") if old else taker.value("idKey", "v"))
    fields["is_root"] = boolean(taker.value("isRoot"))
    fields["is_delta"] = fields["type"] == "NewBINDelta"
    fields["level"] = int(taker.value("level"), 16)
    fields["key_prefix"] = hex_bytes(taker.value_if("keyPrefix", "v"))
    _entries(taker.child("entries"), fields)
    filter_bits = child_text(taker, "BloomFilter")
    fields["bloom_filter"] = None if filter_bits is None else _bloom_bytes(filter_bits)
    fields["dup_key"] = hex_bytes(taker.value_if("key", "v"))
    ref = taker.child_if("ref")
    fields["dup_count"] = None if ref is None else _dup_count(ref)
    taker.finish()


def _entries(entries: Taker, fields: Fields) -> None:
    fields["slots"] = int(entries.take("numEntries"))
    fields["max_entries"] = int(entries.take("length"))
    for key, name in (("full_bin_slots", "numFullBinEntries"), ("full_bin_max_entries", "maxFullBinEntries")):
        number = entries.take_if(name)
        fields[key] = None if number is None else int(number)
    base_file = entries.take_if("baseFileNumber")
    fields["base_file"] = None if base_file is None else OneOf((int(base_file), None))
    modified = entries.take_if("baseModTime")
    fields["modification_base"] = None if modified is None else time_text(int(modified))
    base, unit = entries.take_if("baseExpiration"), entries.take_if("expirationIn")
    slots = []
    while entries.peek():
        slots.append(_slot(entries.child("ref"), unit))
    fields["slot_list"] = slots
    if base is not None or all(slot.get("expiration") is None for slot in slots):
        # 7.5 prints expirations but not their base.
        fields["expiration_base"] = _expiration_base(int(base or -1), unit)
    entries.finish()


def _expiration_base(base: int, unit: str | None) -> Any:
    if base == -1:
        return None
    day, hour = time_text(base * 86_400_000).partition("T")[0], time_text(base * 3_600_000)
    return OneOf((day, hour)) if unit is None else hour if unit == "hours" else day


def _slot(ref: Taker, unit: str | None) -> Fields:
    known = ref.take_if("kd")
    fields: Fields = {"key": hex_bytes(ref.value("key", "v"))}
    if known is None:
        fields["known_deleted"] = boolean(ref.take("knownDeleted"))
        fields["pending_deleted"] = boolean(ref.take("pendingDeleted"))
    else:
        fields["known_deleted"], fields["pending_deleted"] = boolean(known), boolean(ref.take("pd"))
        fields["dirty"], fields["embedded"] = boolean(ref.take("dirty")), boolean(ref.take("embedded"))
        fields["no_data"] = boolean(ref.take("noData"))
        fields["tombstone"] = ref.take_if("tombstone") == "true" or None
        fields["data"] = hex_bytes(ref.value_if("data", "v")) or (None if fields["no_data"] else _empty(fields))
        size = ref.take_if("logSize")
        if size is not None:
            fields["log_size"] = OneOf((None, 0)) if size == "0" else int(size)
        fields["vlsn"] = vlsn(ref.take_if("vlsn"))
        fields["expiration"] = expires(ref.take_if("expires"), unit)
        fields["modification_time"] = time(ref.take_if("modTime"))
    fields["lsn"] = lsn(ref.value("DbLsn"))
    ref.finish()
    return fields


def _empty(fields: Fields) -> str | None:
    """The data of a slot that prints none: empty when it is embedded."""
    return "" if fields["embedded"] else None


def _bloom_bytes(bits: str) -> str:
    """Bits in order, the lowest bit of each byte first, as hex digits."""
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8)).hex()


def _dup_count(ref: Taker) -> Fields:
    fields = {"state": state_of(ref), "key": hex_bytes(ref.value("key", "v")), "lsn": lsn(ref.value("DbLsn"))}
    ref.finish()
    return fields


def previous(entry: Taker, fields: Fields) -> None:
    """Earlier versions of a node: text when there are any, or (25.3) elements with a size."""
    for key, tag, new_tag in (
        ("prev_full", "prevFullLsn", "lastFullVersion"),
        ("prev_delta", "prevDeltaLsn", "lastDeltaVersion"),
    ):
        version = entry.child_if(new_tag)
        if version is None:
            fields[f"{key}_lsn"] = lsn(child_text(entry, tag))
        else:
            fields[f"{key}_lsn"] = lsn(version.take("lsn"))
            fields[f"{key}_size"] = int(version.take("size")) or None
            version.finish()


def old_delta(entry: Taker, fields: Fields) -> None:
    """A BINDelta: each changed slot is three or four elements side by side."""
    fields["db"] = int(entry.value("dbId", "id"))
    full = entry.child("lastFullLsn")
    fields["last_full_lsn"] = lsn(full.value_if("DbLsn") or full.text())
    full.finish()
    fields["prev_delta_lsn"] = lsn(child_text(entry, "prevDeltaLsn"))
    fields["slots"] = int(entry.value("deltas", "size"))
    fields["slot_list"] = []
    while entry.peek() == "key":
        slot: Fields = {"key": hex_bytes(entry.value("key", "v")), "lsn": lsn(entry.value("DbLsn"))}
        state = entry.child_if("state")
        if state is None:
            known, pending = entry.value("knownDeleted"), entry.value("pendingDeleted")
            slot["state"] = deleted_bits(known, pending)
        else:
            slot["state"] = state_of(state)
            state.finish()
        fields["slot_list"].append(slot)
