"""The work of ``dump-log``: reading, choosing and rendering entries, in this process or in several.

A ``RenderPlan`` holds everything as plain values, so that a worker process can have it. ``render_file`` does one file
and gives bytes; the parent passes them on in the order of the files. Passes that depend on order or on a count
(``--limit``, ``--tail``, ``--reverse``, ``--follow``) run in one process, entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from engine.errors import DamageError, FormatError
from engine.events import Listener
from engine.format.codecs import decode_body
from engine.format.entry.node import decode_node
from engine.format.entry_types import NODES
from engine.inspect.parallel import map_in_order
from engine.inspect.selection import Selection
from engine.log.check import check_file
from engine.log.damage import is_harmless
from engine.log.entry import REASONS, Damage, LogEntry
from engine.log.files import LogFile, LogFiles
from engine.log.reader import FileReader
from engine.storage.base import Storage
from jetool.commands.dump_log.rows import View, bad_row, entry_row
from jetool.commands.dump_log.text_lines import LineRenderer
from jetool.output.base import Encoder
from jetool.output.values import Style

if TYPE_CHECKING:
    from engine.inspect.explain import EntryExplanation, Explainer

_CHUNK_ENTRIES: Final = 2000
# A file's lines are held as a whole when another process renders them.
_LARGEST_SHARED_FILE: Final = 32 << 20

# XML shows all that DbPrintLog does.
_WHOLE: Final = View("slots", True)

Item = LogEntry | Damage


@dataclass(frozen=True, slots=True)
class RenderPlan:
    """What to print and how.

    Attributes:
        encoder: the stream's, for all formats but text and XML.
        form: the format.
        stop_on_error: end at the first damage.
        explainer: says what recovery does with each entry; None when that is not to be shown.
    """

    storage: Storage
    files: LogFiles
    selection: Selection
    view: View
    form: str
    style: Style
    encoder: Encoder
    plain_text: bool
    stop_on_error: bool = False
    explainer: Explainer | None = None

    def explained(self, item: LogEntry) -> EntryExplanation | None:
        """What recovery does with an entry, when that is to be shown."""
        return None if self.explainer is None else self.explainer.explain(item)


class RenderedLines(NamedTuple):
    """Lines, and what they stand for."""

    chunk: bytes
    entries: int
    bad: int
    skipped_bytes: int


def render_file(plan: RenderPlan, file: LogFile) -> RenderedLines:
    """Render the wanted entries of one file."""
    parts = list(render(plan, file_items(plan, file)))
    # JSON has commas between pieces; the stream adds those between files.
    chunk = plan.encoder.between.join([part.chunk for part in parts if part.chunk])
    return RenderedLines(
        chunk, sum(p.entries for p in parts), sum(p.bad for p in parts), sum(p.skipped_bytes for p in parts)
    )


def file_items(plan: RenderPlan, file: LogFile) -> Iterator[Item]:
    """Entries and damage of one file."""
    with FileReader(plan.storage, file, is_last=file.number >= plan.files.end_file()) as reader:
        yield from reader.entries()


def render_log(plan: RenderPlan, jobs: int, listener: Listener) -> Iterator[RenderedLines]:
    """Render all wanted entries in log order.

    Raises:
        DamageError: with ``stop_on_error``, at the first damage.
    """
    files = [file for file in plan.files.with_marker() if plan.selection.wants_file(file.number)]
    total, done = sum(file.size_bytes for file in files), 0
    # Workers run ahead: past the first damage nothing may be read.
    if jobs > 1 and len(files) > 1 and not plan.stop_on_error:
        shared = all(file.size_bytes <= _LARGEST_SHARED_FILE for file in files)
        if shared:
            for file, part in zip(files, map_in_order(partial(render_file, plan), files, jobs), strict=True):
                yield part
                done += file.size_bytes
                listener.step("dump", done, total)
            return
    for file in files:
        yield from render(plan, file_items(plan, file))
        done += file.size_bytes
        listener.step("dump", done, total)


def render(plan: RenderPlan, items: Iterable[Item | None], limit: int | None = None) -> Iterator[RenderedLines]:
    """Render wanted entries in pieces of a few thousand; a None among the items ends a piece.

    Raises:
        DamageError: with ``stop_on_error``, at the first damage, after what was before it.
    """
    wanted = None if plan.selection.is_open() else plan.selection.matcher()
    encode = _encoder_of(plan)
    batch: list[Item] = []
    left = limit
    for item in items:
        if item is None:
            # A reader that follows must get what is there before it waits for more.
            yield _rendered(encode, batch)
            batch = []
        elif isinstance(item, Damage):
            batch.append(item)
            if plan.stop_on_error:
                # What stands before the damage is printed first.
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
    """Whether the damage of the log is more than a torn tail; asked only when some was met."""
    end_file = plan.files.end_file()
    # Without the marker file, which is not part of the log.
    for file in plan.files.files:
        if not plan.selection.wants_file(file.number):
            continue
        with FileReader(plan.storage, file, is_last=file.number >= end_file) as reader:
            if any(not is_harmless(seen, end_file) for seen in check_file(reader).damages):
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
    out.append("")
    return _Batch("\n".join(out).encode("utf-8", "surrogateescape"), undecodable)


def _encode_rows(plan: RenderPlan, batch: list[Item]) -> _Batch:
    rows: list[tuple[str, Any]] = []
    undecodable = 0
    for item in batch:
        if isinstance(item, Damage):
            rows.append(("bad", bad_row(item)))
            continue
        record, error = decoded(item, plan.view)
        undecodable += bool(error)
        rows.append(("entry", entry_row(item, record, error, plan.view, plan.explained(item))))
    return _Batch(plan.encoder.rows(rows), undecodable)


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


def decoded(entry: LogEntry, view: View) -> tuple[tuple[Any, ...] | None, str]:
    """The record of an entry and "", or None and why it cannot be decoded."""
    number = entry.type_number
    try:
        # Slots are most of a node, and most of the time to decode one.
        if number in NODES and view.nodes != "slots":
            return decode_node(entry.body, entry.version, number, with_slots=False), ""
        return decode_body(number, entry.version, entry.body), ""
    except FormatError as error:
        return None, str(error)
    # A good checksum does not prove that the body was written rightly.
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
