"""Log entries as lines of text: ``LSN TYPE/version PROV VLSN TXN DB SIZE detail``.

The detail lists the fields of the body; empty fields are left out. LNs, Commits and Aborts have a fast path with the
same output as the general one; a test compares both. Where all entries of a file are printed, most lines are not made
here but by ``line_layouts``.
"""

from __future__ import annotations

from typing import Any, Final

from engine.errors import plural
from engine.format.describe import describe, describe_scan, describe_slots
from engine.format.entry.ln import (
    ABORT_KNOWN_DELETED,
    EMBEDDED,
    HAS_ABORT_EXPIRATION,
    HAS_ABORT_KEY,
    HAS_ABORT_VLSN,
    HAS_EXPIRATION,
    HAS_PRIOR_FILE,
    HAS_PRIOR_SIZE,
    LN,
)
from engine.format.entry.node import NodeRecord
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import DELTA_TYPE, EXTINCT_SCAN_LNS, type_name
from engine.format.fields import FieldValue
from engine.format.header import INVISIBLE, REPLICATED
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.log.entry import REASONS, Damage, LogEntry
from jetool.commands.dump_log.rows import BodyView, meaning_of
from jetool.output.shape import Style, fields_of, printable, time_text, to_text

HEADING: Final = f"{'LSN':<17} {'TYPE/VER':<18} {'PROV':<4} {'VLSN':>8} {'TXN':>8} {'DB':>5} {'SIZE':>6}  DETAIL"
# Indentation of continuation lines on narrow terminals.
DETAIL_INDENT: Final = 18
# Values that are left out of the detail.
_QUIET: Final = (None, False, 0, -1, "", b"", ())
_DATA: Final = frozenset(("data", "abort_data"))
_SHOWN_AS: Final = {
    "key": "key",
    "identifier_key": "key",
    "key_prefix": "key",
    "abort_key": "key",
    "dup_key": "key",
    "main_key": "key",
    "deleted_key": "key",
    "begin_key": "key",
    "end_key": "key",
    "flushed_key": "key",
    "data": "data",
    "abort_data": "data",
    "dup_data": "data",
}
_SHOWN_IN_COLUMNS: Final = frozenset(("db", "txn"))
# Abort data is not included: it is printed only with --data, which uses the general path.
_RARE_FLAGS: Final = HAS_ABORT_KEY | HAS_ABORT_VLSN | HAS_ABORT_EXPIRATION | HAS_EXPIRATION
_RARE_FLAGS2: Final = 0xFF & ~(HAS_PRIOR_SIZE | HAS_PRIOR_FILE)
_NOT_PLAIN: Final = REPLICATED | INVISIBLE


class LineRenderer:
    """Renders entries and damage.

    Arguments:
        view: which parts of bodies to print.
        style: formats of keys, data and times.
    """

    __slots__ = ("_hex_keys", "_labels", "_number", "_prefix", "_style", "_view")

    def __init__(self, view: BodyView, style: Style) -> None:
        self._view = view
        self._style = style
        self._hex_keys = style.key_format == "hex" and not view.data
        self._labels: dict[int, str] = {}
        self._number, self._prefix = -1, ""

    def entry(self, entry: LogEntry, record: tuple[Any, ...] | None, error: str) -> str:
        """One entry, without the newline; with ``--nodes slots`` one more line for each slot."""
        lsn, number, version, flags, _, size, vlsn, _, _, _ = entry
        label = self._labels.get(version << 16 | flags << 8 | number)
        if label is None:
            label = f"{type_name(number) + '/' + str(entry.own_version):<18} {entry.provisional.value:<4}"
            self._labels[version << 16 | flags << 8 | number] = label
        db: int | str = "-"
        txn: int | str = "-"
        # This is the inner loop of a full dump, so the two most frequent kinds of records come first.
        if isinstance(record, LN):
            db = record.db_id
            txn = "-" if record.txn_id is None else record.txn_id
            # The fast path supports neither key formats nor the content of internal trees.
            plain = self._hex_keys and record.content is None and record.tail is None
            plain = plain and number not in EXTINCT_SCAN_LNS
            detail = _ln_detail(record) if plain else self._detail(entry, record)
        elif isinstance(record, TxnEnd):
            txn = record.id
            detail = self._txn_end_detail(record)
        elif record is not None:
            fields = {field.name: field.value for field in describe(record) if field.name in _SHOWN_IN_COLUMNS}
            db, txn = str(fields.get("db", "-")), str(fields.get("txn", "-"))
            detail = self._detail(entry, record)
        else:
            detail = f"cannot be decoded: {error}" if error else ""
        if entry.checksum_ok is False:
            detail = f"checksum-mismatch {detail}"
        if flags & _NOT_PLAIN:
            detail = f"{'invisible ' if entry.invisible else ''}{'replicated ' if entry.replicated else ''}{detail}"
        # Justifying each value separately takes half the time of format specifications.
        where = f"{self._file(lsn >> 32)}{lsn & 0xFFFFFFFF:x}".ljust(17)
        shown = "       -" if vlsn == NULL_VLSN else str(vlsn).rjust(8)
        txn_shown, db_shown, size_shown = str(txn).rjust(8), str(db).rjust(5), str(size).rjust(6)
        return f"{where} {label} {shown} {txn_shown} {db_shown} {size_shown}  {detail}"

    def _file(self, number: int) -> str:
        if number != self._number:
            self._number, self._prefix = number, f"0x{number:x}/0x"
        return self._prefix

    def bad(self, damage: Damage) -> str:
        """A stretch of damage."""
        shown = format_lsn(damage.lsn)
        what = f" of what says it is {type_name(damage.type_number)}" if damage.type_number else ""
        compared = f"expected {damage.expected}, found {damage.found}"
        text = f"{REASONS[damage.reason]}{what} ({compared})"
        if damage.length:
            text += f"; {plural(damage.length, 'byte')} skipped"
            text += f", next entry {format_lsn(damage.next_lsn)}" if damage.has_next else ""
            text += f" by {damage.found_by}" if damage.has_next else f", up to the {damage.found_by}"
        return f"{shown:<17} BAD {damage.path}: {text}"

    def _txn_end_detail(self, record: TxnEnd) -> str:
        last, _, time, master, dtvlsn, term = record
        text = f"time={time_text(time, self._style.tz)}"
        if last != NULL_LSN:
            text = f"last_lsn=0x{last >> 32:x}/0x{last & 0xFFFFFFFF:x} {text}"
        # A master id of 0 or -1 means an environment without replication.
        if master not in (0, -1):
            text += f" master={master}"
        if dtvlsn not in (0, NULL_VLSN):
            text += f" dtvlsn={dtvlsn}"
        return f"{text} master_term={term}" if term else text

    def _detail(self, entry: LogEntry, record: tuple[Any, ...]) -> str:
        if self._view.nodes == "none" and isinstance(record, NodeRecord):
            return ""
        fields = describe(record, delta=entry.type_number == DELTA_TYPE)
        if isinstance(record, LN) and entry.type_number in EXTINCT_SCAN_LNS:
            fields += describe_scan(record)
        text = self.words(fields)
        if self._view.decoding is not None and isinstance(record, LN):
            text += f" {self.words(meaning_of(record, self._view.decoding))}"
        if isinstance(record, NodeRecord) and self._view.nodes == "slots":
            for slot in describe_slots(record, delta=entry.type_number == DELTA_TYPE):
                text += f"\n{'':>20}slot {self.words(slot)}"
        return text

    def words(self, fields: list[FieldValue]) -> str:
        """The fields of any record as words of a line."""
        return " ".join([word for field in fields if (word := self._word(field))])

    def _word(self, field: FieldValue) -> str:
        name, kind, value = field
        if name == "deleted":
            return "deleted" if value else ""
        if name in _DATA and (not self._view.data or value is None):
            return ""
        if name in _SHOWN_IN_COLUMNS or (value in _QUIET and name not in ("key", "data_size", "slots", "task_id")):
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
    """The result of ``words`` for an LN, computed at a third of the cost if it has no rare fields."""
    flags, flags2 = record.flags, record.flags2
    if flags & _RARE_FLAGS or flags2 & _RARE_FLAGS2 or record.modification_time or record.node_id is not None:
        return _rare_ln_detail(record)
    text = ""
    last, abort = record.last_lsn, record.abort_lsn
    if last != NULL_LSN:
        text = f"last_lsn=0x{last >> 32:x}/0x{last & 0xFFFFFFFF:x} "
    # Transient LSNs are negative too, not only NULL_LSN.
    if abort >= 0:
        text += f"abort_lsn=0x{abort >> 32:x}/0x{abort & 0xFFFFFFFF:x} "
    if flags & ABORT_KNOWN_DELETED:
        text += "abort_known_deleted "
    if flags & EMBEDDED:
        text += "embedded "
    if flags2 & HAS_PRIOR_SIZE and record.prior_size:
        text += f"prior_size={record.prior_size} "
    if flags2 & HAS_PRIOR_FILE and record.prior_file > 0:
        text += f"prior_file={record.prior_file} "
    data = record.data
    if data is None:
        return f"{text}key=0x{record.key.hex()} deleted"
    return f"{text}key=0x{record.key.hex()} data_size={len(data)}"


_PLAIN: Final = LineRenderer(BodyView(), Style())


def _rare_ln_detail(record: LN) -> str:
    return _PLAIN.words(describe(record))
