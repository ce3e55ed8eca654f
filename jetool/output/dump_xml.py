"""``dump-log --format xml``: what DbPrintLog of JE 18.3.20 prints of every entry, but well-formed (R-UTIL-12).

One line for each entry, in UTF-8, between ``PROLOGUE`` and ``EPILOGUE``::

    <DbPrintLog>
    <entry lsn="0x0/0x169" type="Commit/17" prev="0x13d" size="12" cksum="598803551"><TxnCommit id="1" ...>...</entry>
    <bad lsn="0x5/0x82c" file="00000005.jdb" length="66" reason="checksum" .../>
    </DbPrintLog>

Where JE's own output is not XML, or not of the entry, this one differs:

* ``vlsn="17"`` is an attribute, without thousands separators; JE puts a start tag of its own into that of the entry.
* Matchpoint, RollbackStart and RollbackEnd are elements with attributes; JE prints unquoted text.
* Texts are escaped. Characters that XML does not have, and bytes that are no UTF-8, show as backslash and hex digits.
* The configuration and the replaced database of a NameLN are printed where the entry holds them; JE prints those of an
  earlier entry when it has none (je-log-format.md 19).
* Damage is a ``bad`` element; JE stops. What versions after 17 add is printed in the same style.

Keys and data are decimal bytes, each with a blank behind it; times are UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from struct import Struct
from typing import Any, Final

from engine.format.codecs import Record
from engine.format.entry import checkpoint, db_tree, file_header, legacy, markers, rollback, trace, txn_end
from engine.format.entry import ln as ln_module
from engine.format.entry import ln_content as lc
from engine.format.entry import node as node_module
from engine.format.entry.ln import LN
from engine.format.entry.node import Node, Slot
from engine.format.entry_types import COMMIT, type_name
from engine.format.header import JE_PROVISIONAL, Provisional
from engine.format.lsn import NULL_LSN, file_of, format_lsn, is_null, offset_of
from engine.format.versions import LONG_LSNS_ONLY, MASTER_TERM, NODE_SIZES
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import REASONS, Damage, LogEntry

PROLOGUE: Final = "<DbPrintLog>"
EPILOGUE: Final = "</DbPrintLog>"

_EPOCH: Final = datetime(1970, 1, 1)
_SUMMARY_KEY: Final = Struct(">II")
_MAX_SEQUENCE: Final = 0x7FFFFFFF
_MAX_COMPACT_OFFSET: Final = 0xFFFFFE
_MAX_FILE_DELTA: Final = 127
_SINGLE: Final = Struct("<f")
# Before this version a slot without an LSN can lack the state "known deleted" that it should have.
_NULL_LSN_HAS_STATE: Final = 9
_NO_BASE: Final = -1

_UNSAFE: Final = re.compile('[&<>"\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]')
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def entry_line(entry: LogEntry, record: Record | None) -> str:
    """An entry as one line, without the line end.

    Arguments:
        entry: its header is printed from it.
        record: its decoded body; None when that does not fit its type, which is then said inside of the element.
    """
    body = '<bad reason="the body does not fit the type"/>' if record is None else _body(entry, record)
    return f"<entry {_header(entry)}>{body}</entry>"


def bad_line(damage: Damage) -> str:
    """A stretch of damage as one line, without the line end."""
    following = "" if damage.next_lsn == NULL_LSN else f' next="{format_lsn(damage.next_lsn)}"'
    kind = f' type="{type_name(damage.type_number)}"' if damage.type_number else ""
    found_by = f' foundBy="{_escape(damage.found_by)}"' if damage.found_by else ""
    return (
        f'<bad lsn="{format_lsn(damage.lsn)}" file="{_escape(damage.path)}" length="{damage.length}" '
        f'reason="{damage.reason}" text="{_escape(REASONS[damage.reason])}" expected="{_escape(damage.expected)}" '
        f'found="{_escape(damage.found)}"{kind}{following}{found_by} tail="{_bool(damage.is_tail)}"/>'
    )


def _body(entry: LogEntry, record: Record) -> str:
    with_header = _BODIES_WITH_HEADER.get(type(record))
    return _BODIES[type(record)](record) if with_header is None else with_header(entry, record)


def _header(entry: LogEntry) -> str:
    provisional = entry.provisional
    optional = "" if provisional is Provisional.NO else f' prov="{JE_PROVISIONAL[provisional]}"'
    if entry.vlsn != NULL_VLSN:
        optional += f' vlsn="{entry.vlsn}"'
    if entry.replicated:
        optional += ' isReplicated="1"'
    if entry.invisible:
        optional += ' isInvisible="1"'
    return (
        f'lsn="{format_lsn(entry.lsn)}" type="{entry.type_name}/{entry.version}"{optional} '
        f'prev="0x{entry.prev_offset:x}" size="{entry.item_size}" cksum="{entry.checksum}"'
    )


# Values.


def _escape(text: str) -> str:
    """A text as the value of an attribute."""
    return _UNSAFE.sub(_escaped, text) if _UNSAFE.search(text) else text


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _ENTITIES:
        return _ENTITIES[character]
    if character in "\t\n\r" or "\x7f" <= character <= "\x9f":
        return f"&#{ord(character)};"
    return "".join(f"\\{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def _decimal(data: bytes) -> str:
    return " ".join(map(str, data)) + " " if data else ""


def _bytes(tag: str, data: bytes | None) -> str:
    return f'<{tag} v="{"&lt;null&gt;" if data is None else _decimal(data)}"/>'


def _bool(value: object) -> str:
    return "true" if value else "false"


def _lsn(lsn: int) -> str:
    return format_lsn(NULL_LSN if is_null(lsn) else lsn)


def _db_lsn(lsn: int) -> str:
    return f'<DbLsn val="{_lsn(lsn)}"/>'


def _time(ms: int) -> str:
    """A time in ms, with as many digits behind the point as it needs, but one at least."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    fraction = f"{moment.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}"


def _expires(expiration: int) -> str:
    """The hour at whose start a record expires, from days (positive) or hours (negative)."""
    try:
        moment = _EPOCH + timedelta(hours=-expiration if expiration < 0 else 24 * expiration)
    except OverflowError:
        return f"{abs(expiration)} {'hours' if expiration < 0 else 'days'}"
    return f"{moment:%Y-%m-%d.%H}"


def _single(value: float | None) -> str:
    """A single-precision number as Java prints it: the fewest digits that name it."""
    if value is None:
        return "NaN"
    exact = _SINGLE.pack(value)
    digits = next(text for text in (f"{value:.{n}e}" for n in range(9)) if _SINGLE.pack(float(text)) == exact)
    number, exponent = digits.split("e")
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(float(digits))
    return f"{float(number)}E{int(exponent)}"


# LNs.


def _ln(ln: LN) -> str:
    content = ln.content
    tag = _CONTENT_TAGS[type(content)]
    key = _bytes("key", ln.key)
    if isinstance(content, lc.FileSummaryLN) and len(ln.key) == _SUMMARY_KEY.size:
        file, reversed_sequence = _SUMMARY_KEY.unpack(ln.key)
        sequence = _MAX_SEQUENCE - reversed_sequence
        key = f'<fileSummaryLNKey fileNumber="0x{file:x}" sequence="0x{sequence & 0xFFFFFFFF:x}"/>{key}'
    data = "" if ln.data is None else f"<data>{_decimal(ln.data)}</data>"
    inner = "" if content is None else _content(content)
    return (
        f'<dbId id="{ln.db_id}"/>{key}<{tag}>{data}{inner}</{tag}><embeddedLN val="{_bool(ln.embedded)}"/>'
        f"{_ln_times(ln)}{_prior(ln)}{_txn(ln)}{_tail(ln)}"
    )


def _ln_times(ln: LN) -> str:
    """Expiration, and what v19 and later add."""
    text = f'<expires val="{_expires(ln.expiration)}"/>' if ln.flags & ln_module.HAS_EXPIRATION else ""
    if ln.creation_time:
        text += f'<creationTime val="{_time(ln.creation_time)}"/>'
    if ln.modification_time:
        text += f'<modTime val="{_time(ln.modification_time)}"/>'
    for tag, bit in _FLAGS2:
        if ln.flags2 & bit:
            text += f'<{tag} val="true"/>'
    return text


def _prior(ln: LN) -> str:
    if not ln.flags2 & (ln_module.HAS_PRIOR_SIZE | ln_module.HAS_PRIOR_FILE):
        return ""
    return f'<prior size="{ln.prior_size}" file="{ln.prior_file & 0xFFFFFFFF}"/>'


def _txn(ln: LN) -> str:
    """Transaction, and the version of the record before it."""
    if ln.txn_id is None:
        return ""
    text = (
        f'<txn id="{ln.txn_id}">{_db_lsn(ln.last_lsn)}</txn><abortLSN val="{_lsn(ln.abort_lsn)}"/>'
        f'<abortKD val="{_bool(ln.abort_known_deleted)}"/>'
    )
    if ln.abort_key is not None:
        text += _bytes("abortKey", ln.abort_key)
    if ln.abort_data is not None:
        text += _bytes("abortData", ln.abort_data)
    if ln.abort_vlsn != NULL_VLSN:
        text += f'<abortVLSN v="{ln.abort_vlsn}"/>'
    if ln.abort_expiration:
        text += f'<abortExpires val="{_expires(ln.abort_expiration)}"/>'
    if ln.abort_modification_time:
        text += f'<abortModTime val="{_time(ln.abort_modification_time)}"/>'
    if ln.abort_creation_time:
        text += f'<abortCreationTime val="{_time(ln.abort_creation_time)}"/>'
    return text


def _content(content: ln_module.Content) -> str:
    """What internal trees hold behind the data."""
    if isinstance(content, lc.MapLN):
        return _database(content.database, with_files=False)
    if isinstance(content, lc.NameLN):
        return f'<dbId id="{content.db_id}"/>'
    if isinstance(content, lc.DupCountLN):
        return f'<count v="{content.dup_count}"/>'
    text = "" if content.summary is None else _summary(content.summary) + _offsets(content.offsets)
    return text if content.anchor_lsn == NULL_LSN else f"{text}<anchor>{_db_lsn(content.anchor_lsn)}</anchor>"


def _summary(summary: lc.FileSummary) -> str:
    numbers: tuple[object, ...] = (
        *summary,
        summary.estimated_obsolete_size,
        summary.estimated_obsolete_in_size,
        summary.estimated_obsolete_ln_size,
        summary.most_obsolete_size,
        summary.most_obsolete_ln_size,
        _single(summary.average_uncounted_ln_size),
    )
    return f"<summary {_attributes(_SUMMARY_NAMES, numbers)}/>"


def _attributes(names: tuple[str, ...], values: tuple[object, ...]) -> str:
    return " ".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))


def _offsets(offsets: tuple[int, ...]) -> str:
    if not offsets:
        return '<offsets size="0"/>'
    return f'<offsets size="{len(offsets)}">{"".join(f"0x{offset:x} " for offset in offsets)}</offsets>'


def _tail(ln: LN) -> str:
    tail = ln.tail
    if tail is None:
        return ""
    if isinstance(tail, bytes):
        return _bytes("key", tail)
    if isinstance(tail, int):
        return f'<beforeImageExpires val="{_expires(tail)}"/>' if tail else ""
    text = f'<DbOp val="{lc.OPERATIONS[tail.operation].upper()}"/>'
    if tail.config is not None:
        config = tail.config
        text += (
            f'<config{_database_flags(config.flags)} btcmpSet="{_bool(config.btree_comparator)}" '
            f'dupcmpSet="{_bool(config.duplicate_comparator)}">{_triggers(config.triggers)}</config>'
        )
    return text if tail.truncated_db_id is None else f'{text}<dbId id="{tail.truncated_db_id}"/>'


# Databases.


def _database(database: db_tree.DatabaseImpl, *, with_files: bool) -> str:
    name = _INTERNAL_NAMES.get(database.db_id, "null") if database.name is None else database.name
    comparators = (database.btree_comparator, database.duplicate_comparator)
    btree, duplicate = (f"byteLen: {len(comparator)}" if comparator else "" for comparator in comparators)
    root = ""
    if database.root_exists:
        root = f"<ref{_state(database.root_state)}>{_bytes('key', database.root_key)}{_db_lsn(database.root_lsn)}</ref>"
    files = "".join(map(_utilization, database.utilization)) if with_files else ""
    return (
        f'<database name="{_escape(name)}"{_database_flags(database.flags)} btcmp="{btree}" dupcmp="{duplicate}">'
        f'<dbId id="{database.db_id}"/><root>{root}</root>{files}{_triggers(database.triggers)}</database>'
    )


def _database_flags(flags: int) -> str:
    return (
        f' dupsort="{_bool(flags & db_tree.DUPLICATES)}" replicated="{_bool(flags & db_tree.DB_REPLICATED)}" '
        f'temp="{_bool(flags & db_tree.TEMPORARY)}"'
    )


def _utilization(share: db_tree.FileUtilization) -> str:
    return f'<file file="{share.file}"><summary {_attributes(_UTILIZATION_NAMES, share[1:])}/></file>'


def _triggers(triggers: tuple[bytes, ...]) -> str:
    return "".join(f'<trigger name="?{number}" className="?"/>' for number in range(len(triggers)))


def _db_tree(tree: db_tree.DbTree) -> str:
    return (
        f'<dbtree lastLocalDbId="{tree.last_local_db_id}" lastReplicatedDbId="{tree.last_replicated_db_id}">'
        f"<idDb>{_database(tree.mapping_db, with_files=True)}</idDb>"
        f"<nameDb>{_database(tree.naming_db, with_files=True)}</nameDb></dbtree>"
    )


# Nodes.


def _node(entry: LogEntry, node: Node) -> str:
    tag = _NODE_TAGS[entry.type_number]
    prefix = "" if node.key_prefix is None else _bytes("keyPrefix", node.key_prefix)
    bloom = "" if node.bloom_filter is None else f"<BloomFilter>{_bits(node.bloom_filter)}</BloomFilter>"
    slot = _slot_of(node, entry.type_number, entry.version)
    return (
        f'<dbId id="{node.db_id}"/><{tag}><nodeId val="{node.node_id}"/>{_bytes("idKey", node.identifier_key)}'
        f'<isRoot val="{_bool(node.is_root)}"/><level val="{node.level & 0xFFFFFFFF:x}"/>{prefix}'
        f"<entries {_entries(entry, node)}>{''.join(map(slot, node.slots))}</entries>{bloom}{_duplicates(node)}</{tag}>"
        f"{_previous(node)}"
    )


def _entries(entry: LogEntry, node: Node) -> str:
    text = f'numEntries="{node.n_entries}" length="{node.max_entries}"'
    if entry.type_number == node_module.DELTA_TYPE:
        text += f' numFullBinEntries="{node.full_bin_entries}" maxFullBinEntries="{node.full_bin_max_entries}"'
    base_file = _base_file(node) if entry.version < LONG_LSNS_ONLY else None
    if base_file is not None:
        text += f' baseFileNumber="{base_file}"'
    if node.expiration_base != _NO_BASE:
        text += f' baseExpiration="{node.expiration_base}"'
    return text


def _base_file(node: Node) -> int | None:
    """The lowest file number of the slots, where JE keeps their LSNs in the compact form; -1 when there are none.

    A node that is stored in the long form is kept in the compact one again as soon as it can be.
    """
    if node.base_file is not None:
        return node.base_file
    lsns = [slot.lsn for slot in node.slots if slot.lsn != NULL_LSN]
    if not lsns:
        return -1
    files = [file_of(lsn) for lsn in lsns]
    fits = max(files) - min(files) <= _MAX_FILE_DELTA and max(map(offset_of, lsns)) <= _MAX_COMPACT_OFFSET
    return min(files) if fits else None


def _slot_of(node: Node, type_number: int, version: int) -> Callable[[Slot], str]:
    """How the slots of a node are printed."""
    is_bin = type_number not in (node_module.IN_TYPE, node_module.DIN_TYPE)
    dirty = node_module.DIRTY if type_number == node_module.DELTA_TYPE else 0
    hours = bool(node.flags & node_module.EXPIRES_IN_HOURS)

    def slot_element(slot: Slot) -> str:
        state = slot.state
        if slot.lsn == NULL_LSN and version < _NULL_LSN_HAS_STATE:
            state |= node_module.KNOWN_DELETED
        embedded = state & node_module.SLOT_EMBEDDED
        text = (
            f'<ref{_state(state)} dirty="{_bool(state & dirty)}" embedded="{_bool(embedded)}" '
            f'noData="{_bool(state & node_module.SLOT_NO_DATA)}"'
        )
        if is_bin or version >= NODE_SIZES:
            text += f' logSize="{slot.log_size or 0}"'
        if slot.vlsn is not None and slot.vlsn != NULL_VLSN:
            text += f' vlsn="{slot.vlsn}"'
        if slot.expiration:
            value = node.expiration_base + slot.expiration - 1
            text += f' expires="{_expires(-value if hours else value)}"'
        data = _bytes("data", slot.data or b"") if embedded else ""
        return f"{text}{_slot_times(node, slot)}>{_bytes('key', node.full_key(slot))}{data}{_db_lsn(slot.lsn)}</ref>"

    return slot_element


def _slot_times(node: Node, slot: Slot) -> str:
    """What v19 and later add to a slot."""
    text = ' tombstone="true"' if slot.state & node_module.SLOT_TOMBSTONE else ""
    if slot.creation_time:
        text += f' creationTime="{_time(node.creation_base + slot.creation_time - 1)}"'
    if slot.modification_time:
        text += f' modTime="{_time(node.modification_base + slot.modification_time - 1)}"'
    return text


def _state(state: int) -> str:
    deleted, pending = state & node_module.KNOWN_DELETED, state & node_module.PENDING_DELETED
    return f' kd="{_bool(deleted)}" pd="{_bool(pending)}"'


def _bits(data: bytes) -> str:
    """Bits in order, the lowest of each byte first."""
    return "".join(f"{byte:08b}"[::-1] for byte in data)


def _duplicates(node: Node) -> str:
    """The main key of a node of an old duplicates tree, and its reference to the count."""
    text = "" if node.dup_key is None else _bytes("key", node.dup_key)
    ref = node.dup_count
    return text if ref is None else f"{text}<ref{_state(ref.state)}>{_bytes('key', ref.key)}{_db_lsn(ref.lsn)}</ref>"


def _previous(node: Node) -> str:
    text = "" if is_null(node.prev_full_lsn) else f"<prevFullLsn>{_lsn(node.prev_full_lsn)}</prevFullLsn>"
    if node.prev_full_size:
        text += f"<prevFullSize>{node.prev_full_size}</prevFullSize>"
    if not is_null(node.prev_delta_lsn):
        text += f"<prevDeltaLsn>{_lsn(node.prev_delta_lsn)}</prevDeltaLsn>"
    return f"{text}<prevDeltaSize>{node.prev_delta_size}</prevDeltaSize>" if node.prev_delta_size else text


def _old_delta(delta: legacy.OldDelta) -> str:
    slots = (f"{_bytes('key', slot.key)}{_db_lsn(slot.lsn)}<state{_state(slot.state)}/>" for slot in delta.slots)
    return (
        f'<dbId id="{delta.db_id}"/><lastFullLsn>{_lsn(delta.last_full_lsn)}</lastFullLsn>'
        f"<prevDeltaLsn>{_lsn(delta.prev_delta_lsn)}</prevDeltaLsn>"
        f'<deltas size="{len(delta.slots)}"/>{"".join(slots)}'
    )


def _in_delete(record: legacy.INDelete) -> str:
    inner = f'{_bytes("key", record.deleted_key)}<dbId id="{record.db_id}"/>'
    return f'<INDeleteEntry node="{record.deleted_node_id}">{inner}</INDeleteEntry>'


def _in_dup_delete(record: legacy.INDupDelete) -> str:
    inner = f'{_bytes("key", record.main_key)}{_bytes("key", record.dup_key)}<dbId id="{record.db_id}"/>'
    return f'<INDupDeleteEntry node="{record.deleted_node_id}">{inner}</INDupDeleteEntry>'


# Everything else.


def _file_header(header: file_header.FileHeader) -> str:
    return (
        f'<FileHeader num="0x{header.file_num:x}" lastEntryInPrevFileOffset="0x{header.last_entry_in_prev_file:x}" '
        f'logVersion="0x{header.log_version:x}" time="{_time(header.time)}"/>'
    )


def _ckpt_start(start: checkpoint.CkptStart) -> str:
    return f'<CkptStart invoker="{_escape(start.invoker)}" time="{_time(start.time)}" id="{start.id}"/>'


def _ckpt_end(end: checkpoint.CkptEnd) -> str:
    root_exists = end.flags & checkpoint.HAS_ROOT
    root = f"<root>{_db_lsn(end.root_lsn)}</root>" if root_exists else ""
    scans = f' completedScanIds="{" ".join(map(str, end.completed_scan_ids))}"' if end.completed_scan_ids else ""
    ids: tuple[object, ...] = tuple(end)[_CKPT_END_IDS]
    return (
        f'<CkptEnd invoker="{_escape(end.invoker)}" time="{_time(end.time)}" {_attributes(_ID_NAMES, ids)} '
        f'id="{end.id}" rootExists="{_bool(root_exists)}"{scans}><ckptStart>{_db_lsn(end.ckpt_start_lsn)}</ckptStart>'
        f"{root}<firstActive>{_db_lsn(end.first_active_lsn)}</firstActive></CkptEnd>"
    )


def _txn_end(entry: LogEntry, end: txn_end.TxnEnd) -> str:
    tag = "TxnCommit" if entry.type_number == COMMIT else "TxnAbort"
    term = f' masterTerm="{end.master_term}"' if entry.version >= MASTER_TERM else ""
    return (
        f'<{tag} id="{end.id}" time="{_time(end.time)}" master="{end.master_id}"{term} dtvlsn="{end.dtvlsn}">'
        f"{_db_lsn(end.last_lsn)}</{tag}>"
    )


def _prepare(prepare: txn_end.Prepare) -> str:
    gtrid, bqual = (
        "null" if part is None else _escape(part.decode("utf-8", "surrogateescape"))
        for part in (prepare.gtrid, prepare.bqual)
    )
    xid = f'<Xid formatId="{prepare.format_id}" gTxnId="{gtrid}" bqual="{bqual}"/>'
    return f'<TxnPrepare id="{prepare.id}" time="{_time(prepare.time)}">{xid}</TxnPrepare>'


def _rollback_start(start: rollback.RollbackStart) -> str:
    ids = " ".join(map(str, sorted(start.active_txn_ids)))
    return (
        f'<RollbackStart matchpointVLSN="{start.matchpoint_vlsn}" matchpointLSN="{_lsn(start.matchpoint_lsn)}" '
        f'activeTxnIds="{ids}" time="{_time(start.time)}"/>'
    )


def _rollback_end(end: rollback.RollbackEnd) -> str:
    return (
        f'<RollbackEnd matchpointLSN="{_lsn(end.matchpoint_lsn)}" rollbackStartLSN="{_lsn(end.rollback_start_lsn)}" '
        f'time="{_time(end.time)}"/>'
    )


def _matchpoint(point: rollback.Matchpoint) -> str:
    return f'<Matchpoint time="{_time(point.time)}" master="{point.master_id}"/>'


def _trace(record: trace.Trace) -> str:
    return f'<Dbg time="{_time(record.time)}"><msg val="{_escape(record.message)}"/></Dbg>'


def _restore_required(record: markers.RestoreRequired) -> str:
    return (
        f'<RestoreRequired failureType="{_escape(record.failure_type)}" time="{_time(record.time)}" '
        f'properties="{_escape(record.properties)}"/>'
    )


def _erased(record: markers.Erased) -> str:
    return f'<Erased allZeros="{_bool(record.nonzero_bytes == 0)}"/>'


_CONTENT_TAGS: Final[dict[type, str]] = {
    type(None): "ln",
    lc.MapLN: "mapLN",
    lc.NameLN: "nameLN",
    lc.FileSummaryLN: "fileSummaryLN",
    lc.DupCountLN: "dupCountLN",
}
_NODE_TAGS: Final = {
    node_module.IN_TYPE: "in",
    node_module.BIN_TYPE: "bin",
    node_module.DIN_TYPE: "din",
    node_module.DBIN_TYPE: "dbin",
    node_module.DELTA_TYPE: "bin",
}
_INTERNAL_NAMES: Final = {db_tree.MAPPING_DB_ID: "_jeIdMap", db_tree.NAMING_DB_ID: "_jeNameMap"}
_FLAGS2: Final = (
    ("tombstone", ln_module.TOMBSTONE),
    ("abortTombstone", ln_module.ABORT_TOMBSTONE),
    ("blindDeletion", ln_module.BLIND_DELETION),
    ("beforeImage", ln_module.BEFORE_IMAGE),
)
_UTILIZATION_NAMES: Final = (
    "totalINCount", "totalINSize", "totalLNCount", "totalLNSize", "obsoleteINCount", "obsoleteLNCount",
    "obsoleteLNSize", "obsoleteLNSizeCounted",
)  # fmt: skip
_SUMMARY_NAMES: Final = (
    "totalCount", "totalSize", *_UTILIZATION_NAMES[:4], "maxLNSize", *_UTILIZATION_NAMES[4:], "getObsoleteSize",
    "getObsoleteINSize", "getObsoleteLNSize", "getMaxObsoleteSize", "getMaxObsoleteLNSize",
    "getAvgObsoleteLNSizeNotCounted",
)  # fmt: skip
_ID_NAMES: Final = tuple(
    f"last{scope}{kind}Id" for kind in ("Node", "Db", "Txn", "Extinction") for scope in ("Local", "Replicated")
)
_CKPT_END_IDS: Final = slice(
    checkpoint.CkptEnd._fields.index("last_local_node_id"),
    checkpoint.CkptEnd._fields.index("last_replicated_extinction_id") + 1,
)
# Bodies whose element depends on the type or the version of the entry.
_BODIES_WITH_HEADER: Final[dict[type, Callable[[LogEntry, Any], str]]] = {Node: _node, txn_end.TxnEnd: _txn_end}
_BODIES: Final[dict[type, Callable[[Any], str]]] = {
    LN: _ln,
    legacy.OldDelta: _old_delta,
    legacy.INDelete: _in_delete,
    legacy.INDupDelete: _in_dup_delete,
    db_tree.DbTree: _db_tree,
    file_header.FileHeader: _file_header,
    checkpoint.CkptStart: _ckpt_start,
    checkpoint.CkptEnd: _ckpt_end,
    txn_end.Prepare: _prepare,
    rollback.RollbackStart: _rollback_start,
    rollback.RollbackEnd: _rollback_end,
    rollback.Matchpoint: _matchpoint,
    trace.Trace: _trace,
    markers.RestoreRequired: _restore_required,
    markers.Erased: _erased,
    markers.ImmutableFile: lambda _: "<Empty/>",
}
