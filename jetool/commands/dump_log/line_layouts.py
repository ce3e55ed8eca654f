"""The lines of records, Commits and Aborts in each format, as layouts for ``engine.format.fast.entry_lines``.

These entries make up most of a log. A layout makes the same lines as the general path, which has all other entries:
``text_lines.LineRenderer`` for text, ``rows.entry_row`` and the encoders of ``jetool.output`` for JSON, NDJSON and CSV.
A test compares both over the corpus.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Final

from engine.format.entry_fields import ENTRY_SHAPE
from engine.format.entry_types import type_name
from engine.format.fast.entry_lines import (
    KINDS,
    PER_SECOND,
    LineLayout,
    LinePart,
    entry_lines,
    has_lines,
    line_layout,
)
from engine.format.fast.header import PAIRS, TYPES, plain_pairs
from engine.format.header import REPLICATED, provisional_of
from engine.log.entry import Stretch
from jetool.commands.dump_log.rows import BadStretch, BodyView
from jetool.output.shape import Style, column_names, expiration_text, time_text

# Output is handed on in chunks of about this size.
_CHUNK_BYTES: Final = 1 << 20
# Times of a log repeat within seconds; more of them are not kept.
_MOST_TEXTS: Final = 1 << 16

# The labels of JSON and CSV, in this order, and of these the texts.
_LABELS: Final = ("type", "version", "provisional", "replicated", "invisible")
_QUOTED: Final = frozenset(("lsn", "last_lsn", "abort_lsn", "expiration", "abort_expiration", "time"))
_HEX: Final = frozenset(("abort_key_hex", "abort_data_hex", "key_hex", "data_hex"))
_BOOLEANS: Final = frozenset(("abort_known_deleted", "embedded", "deleted"))
_HEADER: Final = ("lsn", "file", "offset", *_LABELS, "vlsn", "prev", "size", "checksum", "checksum_ok", "db", "txn")
# Fields that every LN has, null if it has no value, and those of some LNs.
_LN_FIELDS: Final = ("last_lsn", "abort_lsn", *_BOOLEANS, "expiration", "key_hex", "data_hex", "data_size")
_OF_ABORT: Final = ("abort_key_hex", "abort_data_hex", "abort_vlsn", "abort_expiration")
_RARE_FIELDS: Final = (*_OF_ABORT, "prior_size", "prior_file")
_END_FIELDS: Final = ("last_lsn", "time", "master", "dtvlsn", "master_term")


class EntryLayouts:
    """The layouts of one run, by log version, and the texts of times that occur.

    Arguments:
        form: text, json, ndjson or csv.
        view, style: which parts of bodies to print, and how.
        selected: the names of ``--fields`` in order, or None for all.
    """

    def __init__(self, form: str, view: BodyView, style: Style, selected: Sequence[str] | None = None) -> None:
        self._form = form
        self._style = style
        self._seconds: dict[int, tuple[str, str] | None] = {}
        self._expirations: dict[int, tuple[str, str] | None] = {}
        self._layouts: dict[int, LineLayout | None] = {}
        self._records, self._ends = _parts(form, view, selected)
        self._end = ",\n" if form == "json" else "\n"

    def lines(self, stretch: Stretch, pos: int) -> tuple[bytes, int, int]:
        """Lines of the entries of a stretch from a position on, up to one that needs the general path: the lines, the
        position reached, and how many.
        """
        layout = self._layout(stretch.version)
        if layout is None:
            return b"", pos, 0
        made, count = [], 0
        size_bytes = 0
        while True:
            texts = self._seconds, self._expirations
            lines, pos, found, missing = entry_lines(
                stretch.data, pos, stretch.end, stretch.lsn, layout, texts, _CHUNK_BYTES - size_bytes
            )
            made.append(lines)
            count += found
            size_bytes += len(lines)
            if missing is None or size_bytes >= _CHUNK_BYTES:
                break
            self._add_text(*missing)
        chunk = b"".join(made) if len(made) > 1 else made[0]
        # Where lines have a separator, the caller puts it between chunks.
        return chunk.removesuffix(b",\n") if self._form == "json" else chunk, pos, count

    def _layout(self, version: int) -> LineLayout | None:
        if version not in self._layouts:
            self._layouts[version] = self._made(version) if has_lines(version) else None
        return self._layouts[version]

    def _made(self, version: int) -> LineLayout:
        labels: list[tuple[str, ...] | None] = [None] * PAIRS
        for pair in plain_pairs(version):
            if KINDS[pair % TYPES]:
                labels[pair] = _labels(self._form, pair, version)
        end = (LinePart("text", self._end),)
        return line_layout(version, labels, _joined(self._records + end), _joined(self._ends + end))

    def _add_text(self, table: int, number: int) -> None:
        known = (self._seconds, self._expirations)[table]
        if len(known) >= _MOST_TEXTS:
            known.clear()
        if known is self._seconds:
            before, point, after = time_text(number * PER_SECOND, self._style.tz).partition(".000")
            # A time outside the calendar is printed in another way.
            known[number] = (before, after) if point else None
        else:
            text = expiration_text(number)
            known[number] = None if text is None else (text, "")


def has_layouts(form: str, view: BodyView, style: Style, selected: Sequence[str] | None) -> bool:
    """Whether lines of a form are those of a layout."""
    if view.decoding is not None:
        return False
    if form == "text":
        has_hex = style.key_format == "hex" and (style.data_format == "hex" or not view.data)
        return has_hex and style.width is None and selected is None
    # A row of one empty cell is spelt in another way.
    return form in ("json", "ndjson") or (form == "csv" and (selected is None or len(selected) > 1))


def _labels(form: str, pair: int, version: int) -> tuple[str, ...]:
    number, flags = pair % TYPES, pair // TYPES
    name, provisional = type_name(number), provisional_of(flags).value
    if form == "text":
        return (f" {name + '/' + str(version):<18} {provisional:<4} ",)
    found = (name, version, provisional, bool(flags & REPLICATED), False)
    if form == "csv":
        return tuple(text if isinstance(text, str) else json.dumps(text) for text in found)
    return tuple(json.dumps(text) for text in found)


def _parts(
    form: str, view: BodyView, selected: Sequence[str] | None
) -> tuple[tuple[LinePart, ...], tuple[LinePart, ...]]:
    """The parts of the line of an LN, and of a Commit or Abort, without the end of the line."""
    if form == "text":
        return _TEXT_HEAD + _text_body(view), _TEXT_END
    if form == "csv":
        names = column_names((ENTRY_SHAPE, BadStretch), selected)
        return tuple(_cells(names, _fields_of_lns(view))), tuple(_cells(names, (*_HEADER, *_END_FIELDS)))
    names = list(dict.fromkeys(selected)) if selected is not None else ENTRY_SHAPE.names()
    head, end = (LinePart("text", '{"rec":"entry"'),), (LinePart("text", "}"),)
    records = (_member(name, is_end=False) for name in names if name in _fields_of_lns(view))
    ends = (_member(name, is_end=True) for name in names if name in (*_HEADER, *_END_FIELDS))
    return (*head, *records, *end), (*head, *ends, *end)


def _fields_of_lns(view: BodyView) -> tuple[str, ...]:
    return tuple(name for name in (*_HEADER, *_LN_FIELDS, *_RARE_FIELDS) if view.data or name != "data_hex")


def _member(name: str, *, is_end: bool) -> LinePart:
    """A field as a member of a JSON object."""
    front = f',"{name}":'
    if name == "checksum_ok":
        return LinePart("text", f"{front}true")
    if is_end and name == "db":
        return LinePart("text", f"{front}null")
    if name in _LABELS:
        return LinePart("label", front, width=_LABELS.index(name))
    if name in _BOOLEANS:
        return LinePart(name, f"{front}true", null=f"{front}false")
    mark = '"' if name in _QUOTED | _HEX else ""
    return LinePart(name, front + mark, mark, None if name in _RARE_FIELDS else f"{front}null")


def _cells(names: Iterable[str], fields: Sequence[str]) -> Iterable[LinePart]:
    """The cells of a line of CSV."""
    between = ""
    for name in names:
        if name in _LABELS:
            yield LinePart("label", between, width=_LABELS.index(name))
        elif name in _BOOLEANS and name in fields:
            yield LinePart(name, f"{between}true", null=f"{between}false")
        elif name in fields and name != "checksum_ok":
            yield LinePart(name, between, null=between)
        else:
            text = {"rec": "entry", "checksum_ok": "true"}.get(name, "")
            yield LinePart("text", between + text)
        between = ","


def _joined(parts: Iterable[LinePart]) -> tuple[LinePart, ...]:
    """The same line with fewer parts: texts that follow each other are one."""
    joined: list[LinePart] = []
    for part in parts:
        if part.field == "text" and joined and joined[-1].field == "text":
            part = LinePart("text", joined.pop().before + part.before)
        joined.append(part)
    return tuple(joined)


# Text: the columns, then words with a space between them.
_COLUMNS: Final = (
    LinePart("lsn", width=-17),
    LinePart("label"),
    LinePart("vlsn", null=f"{'-':>8}", width=8),
    LinePart("txn", " ", null=f" {'-':>8}", width=8),
)
_AFTER_DB: Final = (LinePart("size", " ", "  ", width=6), LinePart("replicated", "replicated ", null=""))
_TEXT_HEAD: Final = (*_COLUMNS, LinePart("db", " ", width=5), *_AFTER_DB, LinePart("last_lsn", "last_lsn=", " "))
_TEXT_END: Final = (
    *_COLUMNS,
    LinePart("text", f" {'-':>5}"),
    *_AFTER_DB,
    LinePart("last_lsn", "last_lsn=", " "),
    LinePart("time", "time="),
    LinePart("master", " master=", is_quiet=True),
    LinePart("dtvlsn", " dtvlsn=", is_quiet=True),
    LinePart("master_term", " master_term=", is_quiet=True),
)


def _text_body(view: BodyView) -> tuple[LinePart, ...]:
    data = (LinePart("data_hex", "data=0x", " ", is_quiet=True),) if view.data else ()
    abort_data = (LinePart("abort_data_hex", "abort_data=0x", " ", is_quiet=True),) if view.data else ()
    return (
        LinePart("abort_lsn", "abort_lsn=", " "),
        LinePart("abort_known_deleted", "abort_known_deleted ", null=""),
        LinePart("embedded", "embedded ", null=""),
        LinePart("expiration", "expiration=", " "),
        LinePart("abort_key_hex", "abort_key=0x", " ", is_quiet=True),
        *abort_data,
        LinePart("abort_vlsn", "abort_vlsn=", " ", is_quiet=True),
        LinePart("abort_expiration", "abort_expiration=", " "),
        LinePart("prior_size", "prior_size=", " ", is_quiet=True),
        LinePart("prior_file", "prior_file=", " ", is_quiet=True),
        LinePart("key_hex", "key=0x", " "),
        *data,
        LinePart("data_size", "data_size="),
        LinePart("deleted", "deleted", null=""),
    )
