"""``dump-log --format xml``: the output of DbPrintLog of JE 18.3.20, but well-formed (R-UTIL-12).

One line for each entry, in UTF-8, between ``PROLOGUE`` and ``EPILOGUE``::

    <DbPrintLog>
    <entry lsn="0x0/0x169" type="Commit/17" prev="0x13d" size="12" cksum="598803551"><TxnCommit id="1" ...>...</entry>
    <bad lsn="0x5/0x82c" file="00000005.jdb" length="66" reason="checksum" .../>
    </DbPrintLog>

The output differs where JE's output is not XML, or does not belong to the entry:

* ``vlsn="17"`` is an attribute, without thousands separators; JE puts a start tag inside the start tag of the entry.
* Matchpoint, RollbackStart and RollbackEnd are elements with attributes; JE prints unquoted text.
* Texts are escaped. Characters that XML forbids, and bytes that are not UTF-8, are printed as a backslash and hex
  digits.
* The configuration and the replaced database of a NameLN are printed only if the entry holds them; otherwise JE prints
  those of an earlier entry (je-log-format.md 19).
* Damage is a ``bad`` element; JE stops. Fields that versions after 17 add are printed in the same style.

Keys and data are decimal bytes, each followed by a blank; times are UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.format.codecs import Record
from engine.format.entry import checkpoint, db_tree, file_header, legacy, markers, rollback, trace, txn_end
from engine.format.entry.ln import LN
from engine.format.entry.node import NodeRecord
from engine.format.entry_types import COMMIT, type_name
from engine.format.header import JE_PROVISIONAL, Provisional
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.versions import MASTER_TERM
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import REASONS, Damage, LogEntry
from jetool.commands.dump_log.xml_nodes import in_delete_element, in_dup_delete_element, node_element, old_delta_element
from jetool.commands.dump_log.xml_records import db_tree_element, ln_element
from jetool.commands.dump_log.xml_values import attributes, db_lsn, escape, lsn_text, time_text, truth

PROLOGUE: Final = "<DbPrintLog>"
EPILOGUE: Final = "</DbPrintLog>"


def entry_line(entry: LogEntry, record: Record | None) -> str:
    """An entry as one line, without the line end.

    Arguments:
        entry: the entry with its header.
        record: the decoded body; None if the body does not fit the type of the entry, which the element then states.
    """
    body = '<bad reason="the body does not fit the type"/>' if record is None else _body(entry, record)
    return f"<entry {_header(entry)}>{body}</entry>"


def bad_line(damage: Damage) -> str:
    """A stretch of damage as one line, without the line end."""
    following = "" if damage.next_lsn == NULL_LSN else f' next="{format_lsn(damage.next_lsn)}"'
    kind = f' type="{type_name(damage.type_number)}"' if damage.type_number else ""
    found_by = f' foundBy="{escape(damage.found_by)}"' if damage.found_by else ""
    return (
        f'<bad lsn="{format_lsn(damage.lsn)}" file="{escape(damage.path)}" length="{damage.length}" '
        f'reason="{damage.reason}" text="{escape(REASONS[damage.reason])}" expected="{escape(damage.expected)}" '
        f'found="{escape(damage.found)}"{kind}{following}{found_by} tail="{truth(damage.is_tail)}"/>'
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
        f'lsn="{format_lsn(entry.lsn)}" type="{entry.type_name}/{entry.own_version}"{optional} '
        f'prev="0x{entry.prev_offset:x}" size="{entry.item_size}" cksum="{entry.checksum}"'
    )


def _file_header(header: file_header.FileHeader) -> str:
    return (
        f'<FileHeader num="0x{header.file_num:x}" lastEntryInPrevFileOffset="0x{header.last_entry_in_prev_file:x}" '
        f'logVersion="0x{header.log_version:x}" time="{time_text(header.time)}"/>'
    )


def _ckpt_start(start: checkpoint.CkptStart) -> str:
    return f'<CkptStart invoker="{escape(start.invoker)}" time="{time_text(start.time)}" id="{start.id}"/>'


def _ckpt_end(end: checkpoint.CkptEnd) -> str:
    root_exists = end.flags & checkpoint.HAS_ROOT
    root = f"<root>{db_lsn(end.root_lsn)}</root>" if root_exists else ""
    scans = f' completedScanIds="{" ".join(map(str, end.completed_scan_ids))}"' if end.completed_scan_ids else ""
    # The ids are adjacent in the record, in the order of JE's attributes.
    ids: tuple[object, ...] = tuple(end)[_CKPT_END_IDS]
    return (
        f'<CkptEnd invoker="{escape(end.invoker)}" time="{time_text(end.time)}" {attributes(_ID_NAMES, ids)} '
        f'id="{end.id}" rootExists="{truth(root_exists)}"{scans}><ckptStart>{db_lsn(end.ckpt_start_lsn)}</ckptStart>'
        f"{root}<firstActive>{db_lsn(end.first_active_lsn)}</firstActive></CkptEnd>"
    )


def _txn_end(entry: LogEntry, end: txn_end.TxnEnd) -> str:
    tag = "TxnCommit" if entry.type_number == COMMIT else "TxnAbort"
    # Entries of older versions have no master term, and JE prints no such attribute for them.
    term = f' masterTerm="{end.master_term}"' if entry.version >= MASTER_TERM else ""
    return (
        f'<{tag} id="{end.id}" time="{time_text(end.time)}" master="{end.master_id}"{term} dtvlsn="{end.dtvlsn}">'
        f"{db_lsn(end.last_lsn)}</{tag}>"
    )


def _prepare(prepare: txn_end.Prepare) -> str:
    gtrid, bqual = (
        # Java prints "null" for a missing part.
        "null" if part is None else escape(part.decode("utf-8", "surrogateescape"))
        for part in (prepare.gtrid, prepare.bqual)
    )
    xid = f'<Xid formatId="{prepare.format_id}" gTxnId="{gtrid}" bqual="{bqual}"/>'
    return f'<TxnPrepare id="{prepare.id}" time="{time_text(prepare.time)}">{xid}</TxnPrepare>'


def _rollback_start(start: rollback.RollbackStart) -> str:
    ids = " ".join(map(str, sorted(start.active_txn_ids)))
    return (
        f'<RollbackStart matchpointVLSN="{start.matchpoint_vlsn}" matchpointLSN="{lsn_text(start.matchpoint_lsn)}" '
        f'activeTxnIds="{ids}" time="{time_text(start.time)}"/>'
    )


def _rollback_end(end: rollback.RollbackEnd) -> str:
    return (
        f'<RollbackEnd matchpointLSN="{lsn_text(end.matchpoint_lsn)}" '
        f'rollbackStartLSN="{lsn_text(end.rollback_start_lsn)}" time="{time_text(end.time)}"/>'
    )


def _matchpoint(point: rollback.Matchpoint) -> str:
    return f'<Matchpoint time="{time_text(point.time)}" master="{point.master_id}"/>'


def _trace(record: trace.Trace) -> str:
    return f'<Dbg time="{time_text(record.time)}"><msg val="{escape(record.message)}"/></Dbg>'


def _restore_required(record: markers.RestoreRequired) -> str:
    return (
        f'<RestoreRequired failureType="{escape(record.failure_type)}" time="{time_text(record.time)}" '
        f'properties="{escape(record.properties)}"/>'
    )


def _erased(record: markers.ErasedEntry) -> str:
    return f'<Erased allZeros="{truth(record.nonzero_bytes == 0)}"/>'


_ID_NAMES: Final = tuple(
    f"last{scope}{kind}Id" for kind in ("Node", "Db", "Txn", "Extinction") for scope in ("Local", "Replicated")
)
_CKPT_END_IDS: Final = slice(
    checkpoint.CkptEnd._fields.index("last_local_node_id"),
    checkpoint.CkptEnd._fields.index("last_replicated_extinction_id") + 1,
)
# Bodies whose element depends on the type or the version of the entry.
_BODIES_WITH_HEADER: Final[dict[type, Callable[[LogEntry, Any], str]]] = {
    NodeRecord: node_element,
    txn_end.TxnEnd: _txn_end,
}
_BODIES: Final[dict[type, Callable[[Any], str]]] = {
    LN: ln_element,
    legacy.OldDelta: old_delta_element,
    legacy.INDelete: in_delete_element,
    legacy.INDupDelete: in_dup_delete_element,
    db_tree.DbTree: db_tree_element,
    file_header.FileHeader: _file_header,
    checkpoint.CkptStart: _ckpt_start,
    checkpoint.CkptEnd: _ckpt_end,
    txn_end.Prepare: _prepare,
    rollback.RollbackStart: _rollback_start,
    rollback.RollbackEnd: _rollback_end,
    rollback.Matchpoint: _matchpoint,
    trace.Trace: _trace,
    markers.RestoreRequired: _restore_required,
    markers.ErasedEntry: _erased,
    markers.ImmutableFile: lambda _: "<Empty/>",
}
