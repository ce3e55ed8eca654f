"""The work of ``dump-log``: reading, choosing and rendering entries, in this process or in several.

A ``RenderPlan`` holds only plain values, so that it can be sent to worker processes. ``render_file`` renders one file
to bytes; the parent outputs them in the order of the files. Passes that depend on order or on a count (``--limit``,
``--tail``, ``--reverse``, ``--follow``) run in one process, entry by entry.

As a line of text, an entry is ``LSN TYPE/version PROV VLSN TXN DB SIZE detail``. The detail lists the fields of the
body; empty fields are left out. LNs, Commits and Aborts, which make up most of a log, have a fast path with the same
output as the general one; a test compares both.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.errors import DamageError, FormatError, plural
from engine.events import Listener
from engine.fields import named_row
from engine.format.codecs import decode_body
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
from engine.format.entry.node import NodeRecord, decode_node
from engine.format.entry.txn_end import TxnEnd
from engine.format.entry_types import DELTA_TYPE, EXTINCT_SCAN_LNS, NODES, type_name
from engine.format.fields import FieldValue
from engine.format.header import INVISIBLE, REPLICATED
from engine.format.lsn import NULL_LSN, format_lsn
from engine.format.vlsn import NULL_VLSN
from engine.inspect.selection import Selection
from engine.log.damage import is_harmless
from engine.log.entry import REASONS, Damage, LogEntry
from engine.log.files import LogFile, LogFiles, LogProgress
from engine.log.scan import scan_file
from engine.storage.base import Storage
from engine.workers.parallel import map_in_order
from jetool.commands.dump_log.json_lines import EntryJsonLines
from jetool.commands.dump_log.rows import BodyView, bad_stretch, entry_row, meaning_of
from jetool.output.base import Encoder
from jetool.output.shape import Style, fields_of, printable, time_text, to_text
from jetool.output.text import fold

if TYPE_CHECKING:
    from engine.inspect.explain import EntryExplanation, Explainer

_CHUNK_ENTRIES: Final = 2000
# A worker process holds all rendered lines of a file in memory.
_LARGEST_SHARED_FILE: Final = 32 << 20

# XML includes everything that DbPrintLog prints.
_WHOLE: Final = BodyView("slots", True)

_JSON_FORMS: Final = ("json", "ndjson")

Item = LogEntry | Damage


@dataclass(frozen=True, slots=True)
class RenderPlan:
    """What to print and how.

    Attributes:
        encoder: the encoder of the stream, for all formats except text and XML.
        form: the format.
        stop_on_error: end at the first damage.
        explainer: explains what recovery does with each entry; None if that is not printed.
        whole: whether rows are printed with all fields.
    """

    storage: Storage
    files: LogFiles
    selection: Selection
    view: BodyView
    form: str
    style: Style
    encoder: Encoder
    plain_text: bool
    stop_on_error: bool = False
    explainer: Explainer | None = None
    whole: bool = False

    def explained(self, item: LogEntry) -> EntryExplanation | None:
        """What recovery does with an entry; None if that is not printed."""
        return None if self.explainer is None else self.explainer.explain(item)


class RenderedLines(NamedTuple):
    """Rendered lines, with counts of the entries and damage in them."""

    chunk: bytes
    entries: int
    bad: int
    skipped_bytes: int


def render_file(plan: RenderPlan, file: LogFile, told: LogProgress | None = None) -> RenderedLines:
    """Render the wanted entries of one file."""
    parts = list(render(plan, file_items(plan, file, told)))
    # JSON needs separators between chunks; the stream adds those between files.
    chunk = plan.encoder.between.join([part.chunk for part in parts if part.chunk])
    return RenderedLines(
        chunk, sum(p.entries for p in parts), sum(p.bad for p in parts), sum(p.skipped_bytes for p in parts)
    )


def file_items(plan: RenderPlan, file: LogFile, told: LogProgress | None) -> Iterator[Item]:
    """The wanted entries and the damage of one file."""
    scan = scan_file(plan.storage, file, is_last=file.number >= plan.files.end_file())
    if plan.selection.is_open():
        return scan.entries() if told is None else told.along(scan.entries())
    stretches = scan.stretches()
    return plan.selection.chosen(stretches if told is None else told.along(stretches, every=1))


def render_log(plan: RenderPlan, jobs: int, listener: Listener) -> Iterator[RenderedLines]:
    """Render all wanted entries in log order.

    Raises:
        DamageError: with ``stop_on_error``, at the first damage.
    """
    files = [file for file in plan.files.with_marker() if plan.selection.wants_file(file.number)]
    told, own = LogProgress(listener, "dump", files), os.getpid()

    def work(file: LogFile) -> RenderedLines:
        # Only the parent process reports bytes; the file of a worker counts when it is done.
        return render_file(plan, file, told if os.getpid() == own else None)

    # Workers read ahead, but with ``stop_on_error`` nothing after the first damage may be read.
    if jobs > 1 and len(files) > 1 and not plan.stop_on_error:
        shared = all(file.size_bytes <= _LARGEST_SHARED_FILE for file in files)
        if shared:
            yield from map_in_order(work, files, jobs)
            told.end()
            return
    for file in files:
        yield from render(plan, file_items(plan, file, told))
    told.end()


def render(plan: RenderPlan, items: Iterable[Item | None], limit: int | None = None) -> Iterator[RenderedLines]:
    """Render wanted entries in chunks of a few thousand; a None among the items ends a chunk.

    Raises:
        DamageError: with ``stop_on_error``, at the first damage, after rendering the entries before it.
    """
    wanted = None if plan.selection.is_open() else plan.selection.matcher()
    encode = _encoder_of(plan)
    batch: list[Item] = []
    left = limit
    for item in items:
        if item is None:
            # With --follow, output all available entries before waiting for more.
            yield _rendered(encode, batch)
            batch = []
        elif isinstance(item, Damage):
            batch.append(item)
            if plan.stop_on_error:
                # Entries before the damage are printed first.
                yield _rendered(encode, batch)
                raise _stopped(plan, item)
        elif wanted is None or wanted(item):
            batch.append(item)
            if left is not None:
                left -= 1
                if left <= 0:
                    break
        if len(batch) >= _CHUNK_ENTRIES:
            yield _rendered(encode, batch)
            batch = []
    yield _rendered(encode, batch)


def harmful_damage(plan: RenderPlan) -> bool:
    """Whether the damage of the log is more than a torn tail; called only if there was damage."""
    end_file = plan.files.end_file()
    # Leave out the restore marker, which is not part of the log.
    for file in plan.files.files:
        if not plan.selection.wants_file(file.number):
            continue
        check = scan_file(plan.storage, file, is_last=file.number >= end_file).check()
        if any(not is_harmless(seen, end_file) for seen in check.damages):
            return True
    return False


class _Batch(NamedTuple):
    chunk: bytes
    undecodable: int


def _rendered(encode: Callable[[list[Item]], _Batch], batch: list[Item]) -> RenderedLines:
    chunk, undecodable = encode(batch)
    damages = [item for item in batch if isinstance(item, Damage)]
    return RenderedLines(
        chunk, len(batch) - len(damages), len(damages) + undecodable, sum(damage.length for damage in damages)
    )


def _encoder_of(plan: RenderPlan) -> Callable[[list[Item]], _Batch]:
    if plan.plain_text:
        return partial(_encode_text, LineRenderer(plan.view, plan.style), plan)
    if plan.form == "xml":
        return partial(_encode_xml, plan)
    # Explanations and decoded records need fields that the fast path lacks.
    if plan.form in _JSON_FORMS and plan.whole and plan.explainer is None and plan.view.decoding is None:
        return partial(_encode_json, EntryJsonLines(plan.view, plan.style), plan)
    return partial(_encode_rows, plan)


def _encode_text(lines: LineRenderer, plan: RenderPlan, batch: list[Item]) -> _Batch:
    out = []
    undecodable = 0
    for item in batch:
        if isinstance(item, Damage):
            out.append(lines.bad(item))
            continue
        record, error = decoded(item, plan.view)
        undecodable += bool(error)
        out.append(lines.entry(item, record, error))
        if (explained := plan.explained(item)) is not None:
            out.append(f"{'':<17} {explained.action}: {explained.why}")
    if not out:
        return _Batch(b"", 0)
    if plan.style.width is not None:
        lines_of = (line for text in out for line in text.split("\n"))
        out = [fold(line, plan.style.width, _DETAIL_INDENT) for line in lines_of]
    out.append("")
    return _Batch("\n".join(out).encode("utf-8", "surrogateescape"), undecodable)


def _encode_rows(plan: RenderPlan, batch: list[Item]) -> _Batch:
    rows: list[tuple[str, Any]] = []
    undecodable = 0
    for item in batch:
        if isinstance(item, Damage):
            rows.append(named_row(bad_stretch(item)))
            continue
        record, error = decoded(item, plan.view)
        undecodable += bool(error)
        rows.append(("entry", entry_row(item, record, error, plan.view, plan.explained(item))))
    return _Batch(plan.encoder.rows(rows), undecodable)


def _encode_json(lines: EntryJsonLines, plan: RenderPlan, batch: list[Item]) -> _Batch:
    between, end = plan.encoder.between, "" if plan.encoder.between else "\n"
    parts = []
    undecodable = 0
    for item in batch:
        if isinstance(item, Damage):
            parts.append(plan.encoder.rows([named_row(bad_stretch(item))]))
            continue
        record, error = decoded(item, plan.view)
        undecodable += bool(error)
        line = lines.line(item, record)
        if line is not None:
            parts.append(f"{line}{end}".encode())
        else:
            parts.append(plan.encoder.rows([("entry", entry_row(item, record, error, plan.view))]))
    return _Batch(between.join(parts), undecodable)


def _encode_xml(plan: RenderPlan, batch: list[Item]) -> _Batch:
    rows = []
    undecodable = 0
    for item in batch:
        record: tuple[Any, ...] | None = None
        if isinstance(item, LogEntry):
            record, error = decoded(item, _WHOLE)
            undecodable += bool(error)
        rows.append(("entry", [("item", "item", item), ("record", "record", record)]))
    return _Batch(plan.encoder.rows(rows), undecodable)


def decoded(entry: LogEntry, view: BodyView) -> tuple[tuple[Any, ...] | None, str]:
    """The record of an entry and "" as the reason; if it cannot be decoded, None and the reason."""
    number = entry.type_number
    try:
        # Slots make up most of a node, and of the time to decode it.
        if number in NODES and view.nodes != "slots":
            return decode_node(entry.body, entry.version, number, with_slots=False), ""
        return decode_body(number, entry.version, entry.body), ""
    except FormatError as error:
        return None, str(error)
    # A matching checksum does not prove that the body is valid.
    except (IndexError, ValueError) as error:
        return None, f"the body does not fit its type: {error}"


def _stopped(plan: RenderPlan, damage: Damage) -> DamageError:
    return DamageError(
        f"stopped at the first damage: {REASONS[damage.reason]}",
        file=f"{plan.storage.root}/{damage.path}",
        lsn=f"0x{damage.lsn >> 32:x}/0x{damage.lsn & 0xFFFFFFFF:x}",
        expected=damage.expected,
        found=damage.found,
        consequence="what follows it was not read",
        hint="leave out --stop-on-error to go on after the damage",
    )


HEADING: Final = f"{'LSN':<17} {'TYPE/VER':<18} {'PROV':<4} {'VLSN':>8} {'TXN':>8} {'DB':>5} {'SIZE':>6}  DETAIL"
# Indentation of continuation lines on narrow terminals.
_DETAIL_INDENT: Final = 18
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
            label = f"{type_name(number) + '/' + str(version):<18} {entry.provisional.value:<4}"
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
