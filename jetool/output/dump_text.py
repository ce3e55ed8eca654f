"""Log entries as lines of text.

``LSN TYPE/version PROV VLSN TXN DB SIZE detail``. The detail names what the body holds; empty fields are left out. LNs,
Commits and Aborts, which are most of every log, have a way of their own; it prints the same as the general one, and a
test holds both against each other.
"""

from __future__ import annotations

from typing import Any, Final

from engine.format.describe import describe, describe_slots
from engine.format.entry.ln import LN
from engine.format.entry.node import Node
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import type_name
from engine.format.fields import FieldValue
from engine.format.lsn import format_lsn
from engine.log.entry import REASONS, Damage, LogEntry
from jetool.output.dump_rows import DELTA_TYPE, View
from jetool.output.values import Style, fields_of, printable, to_text

HEADING: Final = f"{'LSN':<17} {'TYPE/VER':<18} {'PROV':<4} {'VLSN':>8} {'TXN':>8} {'DB':>5} {'SIZE':>6}  DETAIL"
_PROV: Final = {"no": "no", "yes": "yes", "before_ckpt_end": "before_ckpt_end"}
# Left out of the detail when they hold nothing worth a word.
_QUIET: Final = (None, False, 0, -1, "", b"", ())
_DATA: Final = frozenset(("data", "abort_data"))
_SHOWN_AS: Final = {
    "key": "key", "identifier_key": "key", "key_prefix": "key", "abort_key": "key", "dup_key": "key",
    "main_key": "key", "deleted_key": "key", "data": "data", "abort_data": "data", "dup_data": "data",
}  # fmt: skip
_SHOWN_IN_COLUMNS: Final = frozenset(("db", "txn"))
_LINE: Final = "%-17s %-18s %-4s %8s %8s %5s %6d  %s"


class LineRenderer:
    """Renders entries and damage.

    Arguments:
        view: what to show of bodies.
        style: how keys, data and times look.
    """

    __slots__ = ("_hex_keys", "_labels", "_style", "_view")

    def __init__(self, view: View, style: Style) -> None:
        self._view = view
        self._style = style
        self._hex_keys = style.key_format == "hex" and not view.data
        self._labels: dict[tuple[int, int], tuple[str, str]] = {}

    def entry(self, entry: LogEntry, record: tuple[Any, ...] | None, error: str) -> str:
        """One entry, without the newline; with ``--nodes slots`` one more line for each slot."""
        lsn, number, version, flags = entry.lsn, entry.type_number, entry.version, entry.flags
        key = (number | flags << 8, version)
        label = self._labels.get(key)
        if label is None:
            label = (f"{type_name(number)}/{version}", _PROV[entry.provisional.value])
            self._labels[key] = label
        db = txn = "-"
        # Plain values first: this is the inner loop of a full dump.
        if isinstance(record, LN):
            db = str(record.db_id)
            if record.txn_id is not None:
                txn = str(record.txn_id)
            plain = self._hex_keys and record.content is None and record.tail is None
            detail = _ln_detail(record) if plain else self._detail(entry, record)
        elif isinstance(record, TxnEnd):
            txn = str(record.id)
            detail = self._detail(entry, record)
        elif record is not None:
            fields = {field.name: field.value for field in describe(record) if field.name in _SHOWN_IN_COLUMNS}
            db, txn = str(fields.get("db", "-")), str(fields.get("txn", "-"))
            detail = self._detail(entry, record)
        else:
            detail = f"cannot be decoded: {error}" if error else ""
        if entry.replicated:
            detail = f"replicated {detail}"
        if entry.invisible:
            detail = f"invisible {detail}"
        vlsn = "-" if entry.vlsn == -1 else str(entry.vlsn)
        shown = f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"
        return _LINE % (shown, label[0], label[1], vlsn, txn, db, entry.item_size, detail)

    def bad(self, damage: Damage) -> str:
        """A stretch of damage."""
        shown = format_lsn(damage.lsn)
        what = f" of what says it is {type_name(damage.type_number)}" if damage.type_number else ""
        compared = f"expected {damage.expected}, found {damage.found}"
        text = f"{REASONS[damage.reason]}{what} ({compared})"
        if damage.length:
            text += f"; {damage.length} bytes skipped"
            text += f", next entry {format_lsn(damage.next_lsn)}" if damage.has_next else ""
            text += f" by {damage.found_by}" if damage.has_next else f", up to the {damage.found_by}"
        return f"{shown:<17} BAD {damage.path}: {text}"

    def _detail(self, entry: LogEntry, record: tuple[Any, ...]) -> str:
        if self._view.nodes == "none" and isinstance(record, Node):
            return ""
        fields = describe(record, delta=entry.type_number == DELTA_TYPE)
        text = self._words(fields)
        if isinstance(record, Node) and self._view.nodes == "slots":
            for slot in describe_slots(record, delta=entry.type_number == DELTA_TYPE):
                text += f"\n{'':>20}slot {self._words(slot)}"
        return text

    def _words(self, fields: list[FieldValue]) -> str:
        return " ".join([word for field in fields if (word := self._word(field))])

    def _word(self, field: FieldValue) -> str:
        name, kind, value = field
        if name == "deleted":
            return "deleted" if value else ""
        if name in _DATA and (not self._view.data or value is None):
            return ""
        if name in _SHOWN_IN_COLUMNS or (value in _QUIET and name not in ("key", "data_size", "slots")):
            return ""
        if kind == "bool":
            return name
        if value is None:
            return ""
        if kind == "record":
            return f"{name}={{{self._nested(value)}}}"
        if kind == "records":
            return f"{name}=[{', '.join(self._nested(item) for item in value)}]" if isinstance(value, tuple) else ""
        if kind == "text":
            return f"{name}={_quoted(str(value))}"
        return f"{name}={to_text(_SHOWN_AS.get(name, kind), value, self._style).replace(', ', ',')}"

    def _nested(self, record: object) -> str:
        return " ".join([word for field in fields_of(record) if (word := self._word(FieldValue(*field)))])


def _quoted(text: str) -> str:
    shown = printable(text)
    return f'"{shown}"' if " " in shown else shown


def _ln_detail(record: LN) -> str:
    """What ``_words`` would give for an LN without rare fields, at a third of the cost."""
    flags = record.flags
    if flags & 0xDC or record.flags2 or record.modification_time or record.creation_time or record.node_id is not None:
        return _rare_ln_detail(record)
    text = ""
    last, abort = record.last_lsn, record.abort_lsn
    if last != -1:
        text = f"last_lsn=0x{last >> 32:x}/0x{last & 0xFFFFFFFF:x} "
    if abort != -1:
        text += f"abort_lsn={format_lsn(abort)} "
    if flags & 0x01:
        text += "abort_known_deleted "
    if flags & 0x02:
        text += "embedded "
    data = record.data
    if data is None:
        return f"{text}key=0x{record.key.hex()} deleted"
    return f"{text}key=0x{record.key.hex()} data_size={len(data)}"


_PLAIN: Final = LineRenderer(View(), Style())


def _rare_ln_detail(record: LN) -> str:
    return _PLAIN._words(describe(record))
