"""Lines by layout are those of the general path, byte for byte: every golden log, and records of every kind."""

from __future__ import annotations

import json
from datetime import UTC, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.fields import shape_of
from engine.format.entry_fields import ENTRY_SHAPE
from engine.format.entry_types import ABORT, COMMIT, COMMON_LNS
from engine.format.versions import LN_FLAGS_FIRST, LN_KEY_FIRST
from engine.log.entry import LogEntry, Stretch
from engine.log.reader import FileReader
from jetool.commands.dump_log.line_layouts import EntryLayouts, has_layouts
from jetool.commands.dump_log.renderer import decoded
from jetool.commands.dump_log.rows import BadStretch, BodyView, entry_row
from jetool.commands.dump_log.text_lines import LineRenderer
from jetool.output.base import StreamLayout
from jetool.output.csv import CsvEncoder
from jetool.output.jsonl import NdjsonEncoder
from jetool.output.shape import Style
from tests.support.harness import run
from tests.support.logs.entry_bodies import entry_bodies
from tests.support.logs.golden_logs import GOLDEN, LogMaker, golden_files, open_bytes

WITH_DATA, WITHOUT = BodyView(data=True), BodyView()
HALF_PAST = Style(tz=timezone(timedelta(hours=5, minutes=30)))
SOME = ("time", "type", "lsn", "data_hex", "abort_lsn", "version", "prior_file", "db", "checksum_ok", "deleted", "lsn")
FORMS: list[tuple[str, BodyView, Style, tuple[str, ...] | None]] = [
    ("text", WITHOUT, Style(), None),
    ("text", WITH_DATA, HALF_PAST, None),
    ("ndjson", WITHOUT, Style(), None),
    ("ndjson", WITH_DATA, HALF_PAST, SOME),
    ("json", WITH_DATA, Style(), None),
    ("csv", WITHOUT, Style(), None),
    ("csv", WITH_DATA, HALF_PAST, SOME),
]
TIMES = st.sampled_from((0, -1, -62_135_596_800_001, 1 << 60, 999, 1_700_000_000_123, 1_700_000_000_999))
each_form = pytest.mark.parametrize(
    ("form", "view", "style", "selected"),
    FORMS,
    ids=lambda value: value if isinstance(value, str) else None,
)


def by_layout(layouts: EntryLayouts, stretch: Stretch) -> dict[int, tuple[int, bytes, int]]:
    """By position: where it ends, its lines and how many, of the entries that have a layout."""
    found, pos = {}, stretch.start
    while pos < stretch.end:
        lines, reached, count = layouts.lines(stretch, pos)
        if count:
            found[pos] = reached, lines, count
        pos = reached if count else pos + stretch.entry_at(pos).total_bytes
    return found


def general(form: str, view: BodyView, style: Style, selected: tuple[str, ...] | None, items: list[LogEntry]) -> bytes:
    if form == "text":
        lines = LineRenderer(view, style)
        return "".join(f"{lines.entry(item, *decoded(item, view))}\n" for item in items).encode()
    plan = StreamLayout((ENTRY_SHAPE, shape_of(BadStretch)), selected, style)
    encoder = CsvEncoder(plan) if form == "csv" else NdjsonEncoder(plan)
    rows = [("entry", entry_row(item, *decoded(item, view), view)) for item in items]
    return encoder.rows(rows) if form != "json" else encoder.rows(rows).replace(b"\n", b",\n").removesuffix(b",\n")


def compared(reader: FileReader, form: str, view: BodyView, style: Style, selected: Any) -> tuple[int, int]:
    """The number of lines that a layout made, and of entries that it could have made."""
    assert has_layouts(form, view, style, selected)
    layouts, made, usual = EntryLayouts(form, view, style, selected), 0, 0
    for stretch in reader.stretches():
        if not isinstance(stretch, Stretch):
            continue
        items = list(stretch.entries_of(None))
        usual += sum(item.type_number in COMMON_LNS | {COMMIT, ABORT} for item in items)
        for pos, (reached, lines, count) in by_layout(layouts, stretch).items():
            there = [item for item in items if stretch.lsn + pos <= item.lsn < stretch.lsn + reached]
            assert len(there) == count
            assert lines == general(form, view, style, selected, there)
            made += count
    return made, usual


@each_form
def test_golden_logs(form: str, view: BodyView, style: Style, selected: tuple[str, ...] | None) -> None:
    total = 0
    for golden in golden_files():
        with open_bytes(golden.data, number=golden.number, is_last=golden.is_last) as reader:
            made, usual = compared(reader, form, view, style, selected)
            # Nothing usual is left to the general path.
            assert made == (usual if LN_FLAGS_FIRST <= reader.version < LN_KEY_FIRST else 0), golden
            total += made
    assert total > 1000


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(LN_FLAGS_FIRST, LN_KEY_FIRST), st.sampled_from(FORMS))
def test_generated_records(data: st.DataObject, version: int, form: Any) -> None:
    """With abort information, expirations, strange LSNs and times outside the calendar."""
    log = LogMaker(version, 3)
    for _ in range(data.draw(st.integers(1, 8))):
        number = data.draw(st.sampled_from((COMMIT, ABORT, *sorted(COMMON_LNS))))
        vlsn = data.draw(st.sampled_from((-1, len(log.offsets) + 1)))
        flags = data.draw(st.sampled_from((0, 0x40, 0x80))) | (0x28 if vlsn > 0 else 0)
        log.add(number, data.draw(entry_bodies(number, version, TIMES)), flags=flags, vlsn=vlsn)
    made, usual = compared(open_bytes(log.data, number=3), *form)
    assert made <= usual


def test_forms_without_layouts() -> None:
    assert not has_layouts("xml", WITHOUT, Style(), None)
    assert not has_layouts("columns", WITHOUT, Style(), ("lsn",))
    assert not has_layouts("csv", WITHOUT, Style(), ("vlsn",))
    assert not has_layouts("text", WITHOUT, Style(key_format="utf8"), None)
    assert not has_layouts("text", WITH_DATA, Style(tz=UTC, data_format="utf8"), None)
    assert not has_layouts("text", WITHOUT, Style(width=80), None)


@pytest.mark.parametrize("form", ["text", "ndjson"])
def test_a_part_of_a_log(form: str) -> None:
    """Files that lie within the bounds are printed by layouts, those that hold a bound entry by entry."""
    env = GOLDEN / "je-17" / "txn-crash"
    *every, _ = run("dump-log", env, "--format", form).text.splitlines()
    places = [line.split()[0] if form == "text" else str(json.loads(line)["lsn"]) for line in every if "0x" in line]
    lines = dict(zip(places, (line for line in every if "0x" in line), strict=True))
    for first, last in ((0, -1), (1, -2), (len(places) // 3, -5)):
        bounds = "--from", places[first], "--to", places[last]
        found = run("dump-log", env, *bounds, "--format", form).text.splitlines()
        expected = [lines[place] for place in places[first : places.index(places[last]) + 1]]
        assert [line for line in found if line in lines.values()] == expected
    number = places[-1].split("/")[0]
    found = run("dump-log", env, "--file", number, "--format", form).text.splitlines()
    expected = [lines[place] for place in places if place.startswith(f"{number}/")]
    assert [line for line in found if line in lines.values()] == expected
