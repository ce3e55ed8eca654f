"""The work of ``dump-log``: reading, choosing and rendering entries, in this process or in several.

A ``RenderPlan`` holds only plain values, so that it can be sent to worker processes. ``render_file`` renders one file
to bytes; the parent outputs them in the order of the files. Passes that depend on order or on a count (``--limit``,
``--tail``, ``--reverse``, ``--follow``) run in one process, entry by entry.

Where all entries of a file are printed, LNs, Commits and Aborts are rendered straight from its bytes, by the layouts of
``line_layouts``; everything else takes the general path, entry by entry.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.errors import DamageError, FormatError
from engine.events import Listener
from engine.fields import named_row
from engine.format.codecs import decode_body
from engine.format.entry.node import decode_node
from engine.format.entry_types import NODES
from engine.inspect.selection import Selection
from engine.log.damage import is_harmless
from engine.log.entry import REASONS, Damage, LogEntry, Stretch
from engine.log.files import LogFile, LogFiles, LogProgress
from engine.log.scan import scan_file, scan_log
from engine.storage.base import Storage
from engine.workers.parallel import map_in_order
from jetool.commands.dump_log.rows import BodyView, bad_stretch, entry_row
from jetool.commands.dump_log.text_lines import DETAIL_INDENT, LineRenderer
from jetool.output.base import Encoder
from jetool.output.shape import Style
from jetool.output.text import fold

if TYPE_CHECKING:
    from engine.inspect.explain import EntryExplanation, Explainer
    from jetool.commands.dump_log.json_lines import EntryJsonLines
    from jetool.commands.dump_log.line_layouts import EntryLayouts

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
        selected: the names of ``--fields`` in order, or None for all.
        despite_checksums: after each stretch of damage, also print the entries whose only error is their checksum.
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
    selected: tuple[str, ...] | None = None
    despite_checksums: bool = False

    def layouts(self) -> EntryLayouts | None:
        """The layouts of most lines; None: all entries need the general path."""
        from jetool.commands.dump_log.line_layouts import EntryLayouts, has_layouts

        form = self.form if self.form != "text" or self.plain_text else "columns"
        if self.explainer is not None or not has_layouts(form, self.view, self.style, self.selected):
            return None
        return EntryLayouts(form, self.view, self.style, self.selected)

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


def file_items(plan: RenderPlan, file: LogFile, told: LogProgress | None) -> Iterator[Stretch | Item]:
    """The wanted entries and the damage of one file; a stretch where all of its entries are wanted."""
    scan = scan_file(plan.storage, file, is_last=file.number >= plan.files.end_file())
    choose = plan.selection.chooser()
    for item in scan.stretches() if told is None else told.along(scan.stretches(), every=1):
        if isinstance(item, Stretch) and plan.selection.wants_all(item):
            yield item
        else:
            yield from choose(item)


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


def render(
    plan: RenderPlan, items: Iterable[Stretch | Item | None], limit: int | None = None
) -> Iterator[RenderedLines]:
    """Render wanted entries in chunks of a few thousand; a None among the items ends a chunk. All entries of a stretch
    are wanted.

    Raises:
        DamageError: with ``stop_on_error``, at the first damage, after rendering the entries before it.
    """
    wanted = None if plan.selection.is_open() else plan.selection.matcher()
    encode = _encoder_of(plan)
    batch: list[Item] = []
    left, layouts = limit, None
    for item in _with_bad_checksums(plan, items) if plan.despite_checksums else items:
        if isinstance(item, Stretch):
            yield _rendered(encode, batch)
            layouts = layouts or plan.layouts()
            yield from _stretch_lines(encode, layouts, item)
            batch = []
        elif item is None:
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


def _with_bad_checksums(plan: RenderPlan, items: Iterable[Stretch | Item | None]) -> Iterator[Stretch | Item | None]:
    """The items, and after each stretch of damage the entries in it that only their checksums make bad."""
    scan = scan_log(plan.storage, plan.files, marker=True)
    for item in items:
        yield item
        if isinstance(item, Damage):
            yield from scan.despite_checksums(item)


def _stretch_lines(
    encode: Callable[[list[Item]], _Batch], layouts: EntryLayouts | None, stretch: Stretch
) -> Iterator[RenderedLines]:
    """All entries of a stretch: by layouts, and those that need it by the general path."""
    batch: list[Item] = []
    pos = stretch.start
    while pos < stretch.end:
        chunk, reached, count = layouts.lines(stretch, pos) if layouts is not None else (b"", pos, 0)
        if count:
            if batch:
                yield _rendered(encode, batch)
                batch = []
            yield RenderedLines(chunk, count, 0, 0)
        if reached == pos:
            entry = stretch.entry_at(pos)
            batch.append(entry)
            reached += entry.total_bytes
            if len(batch) >= _CHUNK_ENTRIES:
                yield _rendered(encode, batch)
                batch = []
        pos = reached
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
    if plan.form in _JSON_FORMS and plan.selected is None and plan.explainer is None and plan.view.decoding is None:
        from jetool.commands.dump_log.json_lines import EntryJsonLines

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
        out = [fold(line, plan.style.width, DETAIL_INDENT) for line in lines_of]
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
