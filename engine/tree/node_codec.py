"""Converts nodes between memory and their logged form: prefixes, compact LSNs, embedded data, expiration bases.

All log versions can be read, and versions 17 to 26 written. A prefix is the longest common prefix of all keys; a node
with fewer than two slots has no prefix (R-TREE-18). Until v17 the compact LSN form is used if offsets and file numbers
fit (je-log-format.md 8.4). Since v21 slots of upper nodes contain the size of the child's entry; since v19 slots of
embedded records contain their times. A delta contains only the dirty slots and references its full version.

Example: keys ``path/a`` and ``path/b`` in a database with prefixing are logged as prefix ``path/`` and suffixes ``a``,
``b``; without prefixing, whole.

Almost every node of almost every log has the *common form*: keys in byte order, no VLSNs, no times. ``encode_usual``
encodes such nodes, ``decode_usual`` decodes such BINs, and ``decode_usual_delta`` with ``apply_usual_delta`` such
deltas, without an object for each slot; the layout is in ``format.fast.bin``. Their general twins are ``node_to``,
``node_from`` and ``apply_delta`` with ``format.entry.node``; the results are the same, byte for byte. For nodes of
other forms, and malformed nodes, the fast functions return None; the twins then convert the node or report what is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from engine.errors import DamageError, FormatError
from engine.format.bloom import bloom_filter
from engine.format.bytecursor import pack, unpack
from engine.format.entry.legacy import OldDelta
from engine.format.entry.node import (
    DIRTY,
    EXPIRES_IN_HOURS,
    HAS_BLOOM_FILTER,
    HAS_PREFIX,
    HAS_SIZES,
    HAS_VLSNS,
    LEVEL_MASK,
    MAPPING_TREE,
    ROOT,
    SLOT_EMBEDDED,
    SLOT_NO_DATA,
    NodeRecord,
    Slot,
)
from engine.format.expiration import HOURS_A_DAY
from engine.format.fast.bin import (
    NO_BASE,
    NO_EXPIRATION,
    PERSISTENT,
    BINHead,
    SlotColumns,
    add_children,
    add_records,
    compact_base,
    decode_head,
    encode_head,
    read_records,
)
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.versions import CREATION_TIMES, EXPIRATION, LN_KEY_FIRST, LONG_LSNS_ONLY, NODE_SIZES, WRITTEN_VERSION
from engine.native import read_slots
from engine.tree.bin_node import BIN, Times
from engine.tree.database_state import DatabaseState, capacity
from engine.tree.in_node import IN, LEAST_LSN
from engine.tree.keys import PLAIN, Key

# compactMaxKeySize: a hint how JE may keep the keys in memory; without the hint, JE decides by itself.
_NO_HINT: Final = -1


def node_from(db: DatabaseState, record: NodeRecord) -> IN:
    """The node for a complete logged version; it is clean."""
    # Until v7 a BIN of such a database holds main keys, not pairs (je-log-format.md 12.2).
    order = PLAIN if db.old_duplicates else db.order
    make = BIN if record.height == 1 else IN
    node = make(
        db,
        record.node_id,
        record.level,
        order.wrap(record.identifier_key),
        capacity(record.max_entries, db.max_entries),
    )
    node.is_root = record.is_root
    _check_lsns(record)
    prefix = record.key_prefix or b""
    wrap = order.wrap
    if isinstance(node, BIN):
        for slot in record.slots:
            _add_slot(node, record, slot, wrap(prefix + slot.key), 0)
        if record.modification_base != NO_BASE or record.creation_base != NO_BASE:
            _add_times(node, record, node.keys)
        return node
    node.keys = [wrap(prefix + slot.key) for slot in record.slots]
    node.lsns = [slot.lsn for slot in record.slots]
    node.sizes = [slot.log_size or 0 for slot in record.slots]
    node.kids = [None] * len(node.keys)
    return node


def _check_lsns(record: NodeRecord) -> None:
    """Refuse LSNs below those of any log: in memory they stand for spilled nodes. Raises FormatError."""
    lowest = min((slot.lsn for slot in record.slots), default=NULL_LSN)
    if lowest < LEAST_LSN:
        raise FormatError("LSN of a slot out of bounds", expected=f"{LEAST_LSN} or more", found=str(lowest))


def apply_delta(node: BIN, record: NodeRecord) -> None:
    """Apply the slots of a delta to the full version in memory (R-TREE-35)."""
    order = PLAIN if node.db.old_duplicates else node.db.order
    prefix = record.key_prefix or b""
    node.max_entries = max(node.max_entries, capacity(record.full_bin_max_entries, 0))
    _check_lsns(record)
    for slot in record.slots:
        _add_slot(node, record, slot, order.wrap(prefix + slot.key), DIRTY)
    if record.modification_base != NO_BASE or record.creation_base != NO_BASE:
        _add_times(node, record, [order.wrap(prefix + slot.key) for slot in record.slots])


def apply_old_delta(node: BIN, delta: OldDelta) -> None:
    """Apply the slots of a delta of v6 to v8 to its full version."""
    order = PLAIN if node.db.old_duplicates else node.db.order
    for slot in delta.slots:
        key = order.wrap(slot.key)
        index, exact = node.find(key)
        if not exact and node.db.order.learned is not None:
            node.guessed = True
        node.put(index, key, exact, slot.lsn, slot.state & PERSISTENT, None, 0, 0)
    node.dirty = False


def node_to(node: IN, version: int, *, delta: bool, with_filter: bool = False) -> NodeRecord:
    """The logged form of a node.

    Arguments:
        version: log version, 17 or later.
        delta: only the dirty slots of a BIN.
        with_filter: add a bloom filter over the other keys to a delta.
    """
    chosen = [i for i in range(len(node)) if not delta or node.states[i] & DIRTY] if isinstance(node, BIN) else None
    count = len(node) if chosen is None else len(chosen)
    unwrap = node.db.order.unwrap
    # Two-part keys are stored joined, and the prefix is that of the stored form.
    stored = node.keys if node.db.order.plain else [unwrap(key) for key in node.keys]
    prefix = common_prefix(stored) if node.db.prefixing and len(stored) > 1 else None
    flags = (ROOT if node.is_root else 0) | (HAS_PREFIX if prefix is not None else 0)
    cut = len(prefix) if prefix is not None else 0
    base = created_base = modified_base = NO_BASE
    slots: tuple[Slot, ...] = ()
    bloom: bytes | None = None
    delta_lsn, delta_size = (node.delta_lsn, node.delta_size) if isinstance(node, BIN) else (NULL_LSN, 0)
    if isinstance(node, BIN) and chosen is not None:
        flags |= HAS_SIZES if not node.db.duplicates else 0
        flags |= HAS_VLSNS if node.vlsns else 0
        base, hours = expiration_base(node)
        flags |= EXPIRES_IN_HOURS if hours else 0
        slots = tuple(_bin_slot(node, i, stored[i][cut:], flags, base, hours) for i in chosen)
        if node.times and version >= LN_KEY_FIRST:
            modified_base, created_base = time_bases(node, version)
            slots = tuple(
                _with_times(slot, node.times_of(i), modified_base, created_base)
                for i, slot in zip(chosen, slots, strict=True)
            )
        # The capacity that JE gives a delta: the share that its default of 25 % allows, or more if needed.
        max_entries = max(count, len(node) * 25 // 100) if delta else max(node.max_entries, count)
        # A comparator may treat keys of different bytes as equal, which a filter cannot express.
        if delta and with_filter and node.db.order.comparator is None:
            flags |= HAS_BLOOM_FILTER
            bloom = bloom_filter(prefix, [stored[i][cut:] for i in range(len(node)) if not node.states[i] & DIRTY])
    else:
        flags |= HAS_SIZES if version >= NODE_SIZES else 0
        slots = _child_slots(node, stored, cut)
        max_entries = max(node.max_entries, count)
    # From this version on LSNs have only the long form (je-log-format.md 8.4).
    base_file = compact_base([slot.lsn for slot in slots]) if version < LONG_LSNS_ONLY else None
    return NodeRecord(
        db_id=node.db.id, prev_full_lsn=node.full_lsn, prev_full_size=node.full_size, prev_delta_lsn=delta_lsn,
        prev_delta_size=delta_size, expiration_base=base, creation_base=created_base, modification_base=modified_base,
        node_id=node.node_id, identifier_key=unwrap(node.ident), flags=flags, key_prefix=prefix,
        compact_max_key_size=_NO_HINT, n_entries=count, level=node.level, max_entries=max_entries, base_file=base_file,
        slots=slots, full_bin_entries=len(node) if delta else 0,
        full_bin_max_entries=max(node.max_entries, len(node)) if delta else 0, bloom_filter=bloom, dup_key=None,
        dup_count=None,
    )  # fmt: skip


def _child_slots(node: IN, stored: list[bytes], cut: int) -> tuple[Slot, ...]:
    """The slots of an upper node with the given stored keys, which lose a prefix of ``cut`` bytes."""
    return tuple(
        Slot(
            key=stored[i][cut:],
            lsn=lsn,
            state=0,
            data=None,
            log_size=node.sizes[i],
            vlsn=None,
            expiration=None,
            creation_time=None,
            modification_time=None,
        )
        for i, lsn in enumerate(node.lsns)
    )


def common_prefix(keys: list[bytes]) -> bytes:
    """The longest common prefix of all keys, which is that of the smallest and the largest."""
    # The first and last key would not do: under a comparator the list is not in byte order.
    low, high = min(keys), max(keys)
    length = 0
    for a, b in zip(low, high, strict=False):
        if a != b:
            break
        length += 1
    return low[:length]


def expiration_base(node: BIN) -> tuple[int, bool]:
    """The expiration base of a node and whether it counts hours; -1 if nothing in it expires."""
    used = [value for value in node.expirations if value]
    if not used:
        return -1, False
    # One unit for the whole node: if a single record counts hours, all do.
    hours = any(value < 0 for value in used)
    return min(_in_unit(value, hours) for value in used), hours


def time_bases(node: BIN, version: int) -> tuple[int, int]:
    """The bases of modification and creation times: the earliest in the node; -1 if there are no times, or no such
    field.
    """
    modified = min((times.modified for times in node.times.values() if times.modified), default=NO_BASE)
    if version < CREATION_TIMES:
        return modified, NO_BASE
    return modified, min((times.created for times in node.times.values() if times.created), default=NO_BASE)


def check_level(db: DatabaseState, node: IN, lsn: int, expected: int) -> None:
    """Check that a child has the level that its parent expects (R-TREE-1).

    Raises:
        DamageError: the child has another level, or belongs to the other kind of tree (mapping tree or not).
    """
    if node.level != expected:
        raise DamageError(
            f"a node of {db.label} is not of the level that its parent says",
            lsn=format_lsn(lsn),
            expected=f"0x{expected:x}",
            found=f"0x{node.level:x}",
            hint="run jetool verify",
        )


def level_base(db_id: int) -> int:
    """The flag in the stored levels of a database."""
    return MAPPING_TREE if db_id == 0 else 0x10000


def _in_unit(expiration: int, hours: bool) -> int:
    if not hours:
        return expiration
    return -expiration if expiration < 0 else expiration * HOURS_A_DAY


def _add_slot(node: BIN, record: NodeRecord, slot: Slot, key: Key, dirt: int) -> None:
    expiration = 0
    if slot.expiration:
        value = record.expiration_base + slot.expiration - 1
        # In memory hours are negative, so that a single number also holds the unit.
        expiration = -value if record.flags & EXPIRES_IN_HOURS else value
    state = (slot.state & PERSISTENT) | dirt
    value_now = slot.data
    if slot.state & SLOT_EMBEDDED and slot.state & SLOT_NO_DATA:
        value_now = b""
    if slot.vlsn is not None and slot.vlsn != -1:
        node.vlsns[key] = slot.vlsn
    if not dirt:
        node.keys.append(key)
        node.lsns.append(slot.lsn)
        node.states.append(state)
        node.values.append(value_now)
        node.sizes.append(slot.log_size or 0)
        node.expirations.append(expiration)
        node.data_bytes += len(value_now) if value_now is not None else 0
        return
    index, exact = node.find(key)
    if not exact and node.db.order.learned is not None:
        node.guessed = True
    node.put(index, key, exact, slot.lsn, state, value_now, slot.log_size or 0, expiration)
    # Reading a node changes nothing, so the node is clean; the slots keep their dirty bits for the next delta.
    node.dirty = False


def _add_times(node: BIN, record: NodeRecord, keys: Iterable[Key]) -> None:
    """Set the times of the slots of a logged node, with the given keys, from the stored offsets.

    Offset 0 means none; otherwise it is the distance from the base plus one.
    """
    for key, slot in zip(keys, record.slots, strict=True):
        modified, created = slot.modification_time, slot.creation_time
        if modified or created:
            node.times[key] = Times(
                record.modification_base + modified - 1 if modified else 0,
                record.creation_base + created - 1 if created else 0,
            )


def _with_times(slot: Slot, times: Times, modified_base: int, created_base: int) -> Slot:
    """A slot with its time offsets from the bases; only embedded records have them."""
    return slot._replace(
        modification_time=times.modified - modified_base + 1 if times.modified else 0,
        creation_time=times.created - created_base + 1 if times.created and created_base != NO_BASE else 0,
    )


def _bin_slot(node: BIN, index: int, suffix: bytes, flags: int, base: int, hours: bool) -> Slot:
    state = node.states[index] & (PERSISTENT | DIRTY)
    data = None
    if state & SLOT_EMBEDDED:
        data = node.values[index]
        if not data:
            state |= SLOT_NO_DATA
            data = None
    offset = None
    if base != -1:
        value = node.expirations[index]
        offset = _in_unit(value, hours) - base + 1 if value else 0
    # The LN of an embedded record is not read, so its size is not needed.
    size = node.sizes[index] if flags & HAS_SIZES and not state & SLOT_EMBEDDED else None
    vlsn = node.vlsns.get(node.keys[index], -1) if flags & HAS_VLSNS and state & SLOT_EMBEDDED else None
    return Slot(
        key=suffix,
        lsn=node.lsns[index],
        state=state,
        data=data,
        log_size=size,
        vlsn=vlsn,
        expiration=offset,
        creation_time=None,
        modification_time=None,
    )


_BIN_HEIGHT: Final = 1


def encode_usual(node: IN, version: int, *, delta: bool, with_filter: bool) -> bytes | None:
    """The entry body of a node; None if the node does not have the common form.

    Arguments:
        version, delta, with_filter: see ``node_codec.node_to``.
    """
    db, keys = node.db, node.keys
    if version != WRITTEN_VERSION or not db.order.plain:
        return None
    chosen = list(range(len(keys)))
    delta_lsn, bases, flags = NULL_LSN, b"", ROOT if node.is_root else 0
    offsets: list[int] = []
    if isinstance(node, BIN):
        if node.vlsns or (delta and with_filter):
            return None
        if delta:
            chosen = [at for at, state in enumerate(bytes(node.states)) if state & DIRTY]
        delta_lsn, bases, flags = node.delta_lsn, NO_EXPIRATION, flags | HAS_SIZES
        if any(node.expirations):
            first, hours = expiration_base(node)
            bases, flags = pack(first), flags | (EXPIRES_IN_HOURS if hours else 0)
            offsets = [_in_unit(value, hours) - first + 1 if value else 0 for value in node.expirations]
    base = compact_base([node.lsns[at] for at in chosen] if delta else node.lsns)
    prefix = common_prefix(keys) if db.prefixing and len(keys) > 1 else None
    count = len(chosen)
    # The capacity that JE gives a delta: the share that its default of 25 % allows, or more if needed.
    most = max(count, len(keys) * 25 // 100) if delta else max(node.max_entries, count)
    lsns, sizes = (db.id, node.full_lsn, delta_lsn), (count, node.level, most)
    parts = [encode_head(lsns, bases, node.node_id, node.ident, flags, prefix, sizes, base)]
    cut = 0 if prefix is None else len(prefix)
    if isinstance(node, BIN):
        add_records(parts, chosen, keys, node.lsns, bytes(node.states), node.values, node.sizes, offsets, base, cut)
    else:
        add_children(parts, keys, node.lsns, base, cut)
    # Readers of the delta take the size of the full BIN from here (R-TREE-10).
    if delta:
        parts += (pack(len(keys)), pack(max(node.max_entries, len(keys))))
    return b"".join(parts)


def decode_usual(db: DatabaseState, body: bytes, version: int) -> BIN | None:
    """The BIN for a full entry, clean, with ``full_lsn`` not set; None if it does not have the common form."""
    try:
        head = _usual_head(db, body, version)
        if head is None:
            return None
        node = BIN(db, head.node_id, head.level, head.ident, capacity(head.max_entries, db.max_entries))
        node.is_root = bool(head.flags & ROOT)
        return node if _add_usual_slots(node, body, head) else None
    except (FormatError, IndexError):
        return None


def _usual_head(db: DatabaseState, body: bytes, version: int, *, is_delta: bool = False) -> BINHead | None:
    """The head of a BIN or delta of a database; None if it does not have the common form.

    Raises:
        FormatError, IndexError: the fields do not fit into the body.
    """
    if not EXPIRATION <= version < LONG_LSNS_ONLY or not db.order.plain:
        return None
    head = decode_head(body, is_delta=is_delta)
    return head if head is not None and head.db_id == db.id and head.level & LEVEL_MASK == _BIN_HEIGHT else None


def _add_usual_slots(node: BIN, body: bytes, head: BINHead) -> bool:
    """Read the slots into an empty node; False if they do not have the common form."""
    columns, node.data_bytes, end = _columns_of(body, head)
    node.keys, node.lsns, node.states, node.values, node.sizes, node.expirations = columns
    return node.data_bytes >= 0 and end == len(body)


def _columns_of(body: bytes, head: BINHead) -> tuple[SlotColumns, int, int]:
    """The slots, the bytes of their embedded data (-1: they do not have the common form), and the position after."""
    columns = SlotColumns([], [], bytearray(), [], [], [])
    if read_slots is not None:
        has_sizes, in_hours = bool(head.flags & HAS_SIZES), bool(head.flags & EXPIRES_IN_HOURS)
        found = read_slots(
            body, head.slots_at, head.slots, head.prefix, head.base, has_sizes, head.expiration_base, in_hours
        )
        if found is None:
            return columns, -1, 0
        keys, lsns, states, values, sizes, expirations, data_bytes, end = found
        columns = SlotColumns(keys, lsns, states, values, sizes, expirations)
    else:
        data_bytes, end = read_records(body, head, columns)
    # Lower LSNs stand for spilled nodes in memory; ``node_from`` reports them.
    return columns, data_bytes if min(columns.lsns, default=NULL_LSN) >= LEAST_LSN else -1, end


class UsualDelta(NamedTuple):
    """A delta of the common form.

    Attributes:
        max_entries: capacity of the full BIN.
    """

    head: BINHead
    columns: SlotColumns
    max_entries: int


def decode_usual_delta(db: DatabaseState, body: bytes, version: int) -> UsualDelta | None:
    """The delta of an entry; None if it does not have the common form.

    The bloom filter is passed over: it only saves JE the reading of full versions.
    """
    try:
        head = _usual_head(db, body, version, is_delta=True)
        if head is None:
            return None
        columns, data_bytes, end = _columns_of(body, head)
        if data_bytes < 0:
            return None
        _, end = unpack(body, end)
        max_entries, end = unpack(body, end)
        if head.flags & HAS_BLOOM_FILTER:
            length, end = unpack(body, end)
            # The sum below could wrap in the native build.
            if not 0 <= length <= len(body):
                return None
            end += length
    except (FormatError, IndexError):
        return None
    return UsualDelta(head, columns, max_entries) if end == len(body) else None


def apply_usual_delta(node: BIN, delta: UsualDelta) -> None:
    """``apply_delta`` for a delta of the common form."""
    keys, lsns, states, values, sizes, expirations = delta.columns
    node.max_entries = max(node.max_entries, capacity(delta.max_entries, 0))
    for at in range(len(keys)):
        key = keys[at]
        index, exact = node.find(key)
        node.put(index, key, exact, lsns[at], states[at] | DIRTY, values[at], sizes[at], expirations[at])
    # Reading a node changes nothing, so the node is clean; the slots keep their dirty bits for the next delta.
    node.dirty = False
