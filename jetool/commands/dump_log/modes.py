"""The modes of ``dump-log``: forward, backward, tail, follow, count."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

from engine.errors import UnsupportedError, UsageError, plural
from engine.events import Listener
from engine.fields import Float, Int, Text, record
from engine.format.entry_fields import ENTRY_SHAPE
from engine.format.lsn import NULL_LSN
from engine.inspect.follow import follow
from engine.inspect.selection import Selection
from engine.inspect.statistics import FileStats, Group, Totals, count_file, group_name, merge
from engine.log.damage import is_harmless
from engine.log.entry import Damage, LogEntry
from engine.log.files import LogFile, LogFiles, LogProgress
from engine.log.scan import scan_file, scan_log
from engine.storage.base import Storage
from engine.workers.parallel import map_small
from jetool.commands.dump_log.renderer import (
    Item,
    RenderedLines,
    RenderPlan,
    harmful_damage,
    render,
    render_log,
)
from jetool.commands.dump_log.rows import DECODED_ENTRY, BadStretch, BodyView, DumpSummary
from jetool.commands.dump_log.text_lines import HEADING
from jetool.frame import exits
from jetool.frame.options import Run
from jetool.output.base import OutputStream


@record("counted")
class EntryGroup(NamedTuple):
    """Entries of one group."""

    group: Annotated[Text, "type, file, database id or transaction id"]
    entries: Annotated[Int, "how many"]
    provisional: Annotated[Int, "how many of them are provisional (YES)"]
    before_ckpt_end: Annotated[Int, "how many of them are provisional before CkptEnd"]
    total_bytes: Annotated[Int, "their bytes, headers included"]
    min_bytes: Annotated[Int, "the smallest"]
    max_bytes: Annotated[Int, "the largest"]
    avg_bytes: Annotated[Int, "average, rounded down"]
    percent: Annotated[Float, "share of the bytes of all entries counted"]


def is_plain_text(run: Run) -> bool:
    """Whether entries are printed as the command's own text lines; with ``--fields`` they are not."""
    return run.out.format == "text" and not run.out.selected


def open_stream(run: Run, view: BodyView) -> OutputStream:
    """The output stream of entries, with the encoder for the format."""
    if run.out.format == "xml":
        from jetool.commands.dump_log.xml_encoder import XmlEncoder

        return run.out.stream(ENTRY_SHAPE, BadStretch, encoder=XmlEncoder())
    stream = run.out.stream(
        ENTRY_SHAPE if view.decoding is None else DECODED_ENTRY,
        BadStretch,
        line=_no_line if is_plain_text(run) else None,
    )
    if is_plain_text(run):
        stream.write(f"{HEADING}\n".encode())
    return stream


def _no_line(*_: object) -> str:
    """``dump_text`` renders text lines; the stream only passes them on."""
    raise AssertionError


def print_entries(run: Run, plan: RenderPlan, stream: OutputStream, options: dict[str, Any]) -> int:
    """Print the requested entries and the summary.

    Raises:
        UnsupportedError: no entry can be read, so this is not a JE log.
        UsageError: options that exclude each other.
    """
    refuse_together(options, "follow", ("reverse", "limit"))
    refuse_together(options, "tail", ("limit",))
    if options["follow"] and options["tail"]:
        parts: Iterable[RenderedLines] = render(plan, _tail_and_on(plan, options["tail"], run.listener))
    elif options["follow"]:
        parts = render(plan, follow(plan.storage, plan.selection.from_lsn))
    elif options["tail"]:
        last = _last_items(plan, options["tail"], run.listener)
        parts = render(plan, reversed(last) if options["reverse"] else last)
    elif options["reverse"]:
        parts = render(plan, _backward(plan, run.listener), options["limit"])
    elif options["limit"]:
        parts = render(plan, _forward(plan, run.listener), options["limit"])
    else:
        parts = render_log(plan, run.jobs, run.listener)
    entries = bad = skipped = 0
    with stream:
        for part in parts:
            stream.write(part.chunk)
            # With --follow each entry is printed at once, also through a pipe.
            if options["follow"]:
                stream.flush()
            entries, bad, skipped = entries + part.entries, bad + part.bad, skipped + part.skipped_bytes
        # There is damage but no entry, although no filter is set, so these .jdb files are not a JE log.
        if not entries and bad and plan.selection.is_open():
            raise _foreign(plan)
        files = sum(plan.selection.wants_file(file.number) for file in plan.files.with_marker())
        stream.end(DumpSummary(entries=entries, bad=bad, skipped_bytes=skipped, files=files, complete=True))
    return exits.FINDINGS if bad and harmful_damage(plan) else exits.DONE


def _forward(plan: RenderPlan, listener: Listener) -> Iterator[Item]:
    scan, selection = scan_log(plan.storage, plan.files, marker=True), plan.selection
    told = LogProgress(listener, "dump", plan.files.with_marker())
    if selection.is_open():
        return told.along(scan.entries())
    return selection.chosen(told.along(scan.between(selection.from_lsn).stretches(), every=1))


def _backward(plan: RenderPlan, listener: Listener) -> Iterator[Item]:
    """Newest first, continuing over gaps in the files, which ``verify`` reports."""
    start, end = plan.selection.to_lsn, plan.selection.from_lsn
    told = LogProgress(listener, "dump", plan.files.with_marker(), backward=True)
    return told.along(scan_log(plan.storage, plan.files, start=start, end=end, marker=True).backward(over_gaps=True))


def _last_items(plan: RenderPlan, count: int, listener: Listener) -> deque[Item]:
    """The last wanted entries, including damage between them, oldest first."""
    wanted = plan.selection.matcher() if not plan.selection.is_open() else None
    found: deque[Item] = deque()
    entries = 0
    # Read backward, so that only the last files are read.
    for item in _backward(plan, listener):
        if isinstance(item, LogEntry):
            if wanted is not None and not wanted(item):
                continue
            entries += 1
        found.appendleft(item)
        if entries == count:
            break
    return found


def _tail_and_on(plan: RenderPlan, count: int, listener: Listener) -> Iterator[Item | None]:
    """The last wanted entries, then those that are appended."""
    last = _last_items(plan, count, listener)
    start = NULL_LSN
    # Bytes after the last entry may be an entry that is still being written, so these are read again.
    while last and isinstance(last[-1], Damage) and not last[-1].has_next:
        start = last.pop().lsn
    if start == NULL_LSN and last:
        newest = last[-1]
        start = newest.end_lsn if isinstance(newest, Damage) else newest.lsn + newest.total_bytes
    yield from last
    yield from follow(plan.storage, start)


def _foreign(plan: RenderPlan) -> UnsupportedError:
    return UnsupportedError(
        "not a Berkeley DB JE log",
        file=plan.storage.root,
        expected="entries after a file header of log version 1 to 26",
        found="no readable entry in any file",
        consequence="nothing was read",
        hint="check that the files are JE's; if they are, restore them from a backup",
    )


def refuse_together(options: dict[str, Any], name: str, others: Sequence[str]) -> None:
    """Refuse an option together with options that exclude it.

    Raises:
        UsageError: both are given.
    """
    clash = [other for other in others if options[name] and options[other]]
    if clash:
        raise UsageError(
            f"--{name} and --{clash[0].replace('_', '-')} exclude each other", hint="leave one of them out"
        )


def print_stats(run: Run, storage: Storage, files: LogFiles, selection: Selection, by: str) -> int:
    """Count the wanted entries and print a table."""
    wanted = [file for file in files.with_marker() if selection.wants_file(file.number)]
    total = sum(file.size_bytes for file in wanted)
    work = partial(_count, storage, files.end_file(), by, selection)
    done = itertools.accumulate(file.size_bytes for file in wanted)
    parts = []
    for part, so_far in zip(map_small(work, wanted, run.jobs), done, strict=True):
        parts.append(part)
        run.listener.step("count", so_far, total)
    counted = merge(iter(parts))
    rows = _stat_rows(counted, by)
    if run.out.format == "text":
        run.out.table(EntryGroup, rows)
    else:
        entries = sum(totals.entries for totals in counted.totals.values())
        skipped = sum(seen.damage.length for seen in counted.damages)
        with run.out.stream(EntryGroup) as stream:
            for row in rows:
                stream.row(row)
            stream.end(
                DumpSummary(
                    entries=entries, bad=len(counted.damages), skipped_bytes=skipped, files=len(wanted), complete=True
                )
            )
    harmful = [seen for seen in counted.damages if not is_harmless(seen, files.end_file())]
    if harmful:
        run.messages.warning(
            f"{plural(len(harmful), 'stretch', 'stretches')} of damage skipped and not counted",
            hint=f"jetool verify {storage.root}",
        )
    return exits.FINDINGS if harmful else exits.DONE


def _count(storage: Storage, end_file: int, by: str, selection: Selection, file: LogFile) -> FileStats:
    return count_file(scan_file(storage, file, is_last=file.number >= end_file), by, selection)


def _stat_rows(counted: FileStats, by: str) -> list[EntryGroup]:
    all_bytes = sum(totals.total_bytes for totals in counted.totals.values()) or 1

    def order(item: tuple[Group, Totals]) -> tuple[bool, int]:
        # Entries without a group last; None does not compare with numbers.
        return item[0] is None, item[0] or 0

    rows = []
    for group, totals in sorted(counted.totals.items(), key=order):
        rows.append(_stat_row(group_name(by, group), totals, all_bytes))
    if counted.totals:
        whole = list(counted.totals.values())
        both = whole[0]
        for totals in whole[1:]:
            both = both.plus(totals)
        rows.append(_stat_row("total", both, all_bytes))
    return rows


def _stat_row(name: str, totals: Totals, all_bytes: int) -> EntryGroup:
    return EntryGroup(
        group=name,
        entries=totals.entries,
        provisional=totals.provisional,
        before_ckpt_end=totals.before_ckpt_end,
        total_bytes=totals.total_bytes,
        min_bytes=totals.least_bytes,
        max_bytes=totals.most_bytes,
        avg_bytes=totals.total_bytes // totals.entries,
        percent=round(100 * totals.total_bytes / all_bytes, 1),
    )
