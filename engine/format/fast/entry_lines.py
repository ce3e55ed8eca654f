"""Lines of records, Commits and Aborts, straight from the bytes of a log of v12 to v18: no object is made for an entry.

What a line looks like is the caller's: a ``LineLayout`` lists the parts of a line, each a field with the text around
it. What needs a calendar (times and expirations) is looked up in tables that the caller fills on request. General
twins: ``codecs.decode_body`` and the renderers of ``dump-log``, which also have the entries at which ``entry_lines``
stops.

Example: with the parts ``LinePart("lsn")`` and ``LinePart("key_hex", before=" key=0x")`` an INS_LN_TX at 0x0/0x646 with
the key "ab" is the line ``0x0/0x646 key=0x6162``.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from engine.errors import FormatError
from engine.format.bytecursor import unpack
from engine.format.entry.ln import (
    ABORT_KNOWN_DELETED,
    EMBEDDED,
    HAS_ABORT_DATA,
    HAS_ABORT_EXPIRATION,
    HAS_ABORT_KEY,
    HAS_ABORT_LSN,
    HAS_ABORT_VLSN,
    HAS_EXPIRATION,
    HAS_PRIOR_FILE,
    HAS_PRIOR_SIZE,
)
from engine.format.entry_types import COMMON_LNS, TRANSACTIONAL, TXN_ENDS
from engine.format.fast.header import PAIRS, PLAIN_HEADER, TYPES, header_lengths
from engine.format.header import HEADER_BYTES, REPLICATED, VLSN_AT, VLSN_FIELD
from engine.format.lsn import NULL_LSN
from engine.format.versions import DTVLSN, LN_FLAGS_FIRST, LN_KEY_FIRST, PRIOR_VERSION
from engine.format.vlsn import NULL_VLSN
from engine.native import chosen

# How the body of an entry is read, by type number; 0 for types at which ``entry_lines`` stops.
TXN_LN: Final = 1
PLAIN_LN: Final = 2
TXN_END: Final = 3
# The tables of ``entry_lines`` for what needs a calendar.
SECONDS: Final = 0
EXPIRATIONS: Final = 1
# Times are in milliseconds.
PER_SECOND: Final = 1000
# Of a part.
MOST_WIDTH: Final = 1000

# The fields of a line, those of ``entry_fields.ENTRY_SHAPE`` and two more: ``text`` is ``before`` alone, and ``label``
# one of the texts of ``LineLayout.labels``.
_NAMES: Final = """
    text label lsn file offset replicated vlsn prev size checksum db txn last_lsn abort_lsn abort_known_deleted embedded
    expiration abort_key_hex abort_data_hex abort_vlsn abort_expiration prior_size prior_file key_hex data_hex data_size
    deleted time master dtvlsn master_term
"""
FIELDS: Final = tuple(_NAMES.split())
# Those that are true or false.
_BOOLEANS: Final = frozenset(("replicated", "abort_known_deleted", "embedded", "deleted"))

_UNCOMMON: Final = HAS_ABORT_KEY | HAS_ABORT_DATA | HAS_ABORT_VLSN | HAS_ABORT_EXPIRATION | HAS_EXPIRATION
_BY_FLAG: Final = {
    "abort_key_hex": HAS_ABORT_KEY,
    "abort_data_hex": HAS_ABORT_DATA,
    "abort_vlsn": HAS_ABORT_VLSN,
    "abort_expiration": HAS_ABORT_EXPIRATION,
    "expiration": HAS_EXPIRATION,
}
_KNOWN_FLAGS2: Final = HAS_PRIOR_SIZE | HAS_PRIOR_FILE
# Numbers that a quiet part leaves out.
_QUIET: Final = (0, -1)


class LinePart(NamedTuple):
    """A field of a line, with the text around it.

    Attributes:
        field: a name of ``FIELDS``.
        before, after: text around a value. A boolean field is ``before`` alone when it is true.
        null: text instead of a missing value, and of a boolean that is false; None: the part is left out.
        width: the value is filled up with spaces to this width, on the left; on the right if it is negative. For
            ``label`` it is the index of the label.
        is_quiet: whether the part is left out for 0, -1 and empty bytes.
    """

    field: str
    before: str = ""
    after: str = ""
    null: str | None = None
    width: int = 0
    is_quiet: bool = False


class LineLayout(NamedTuple):
    """The lines of one log version; ``line_layout`` makes it.

    Attributes:
        lengths: header lengths by ``type | flags << 8``.
        kinds: how a body is read, by type number.
        labels: texts by ``type | flags << 8``; None: ``entry_lines`` stops at the entry.
        has_flags2, has_dtvlsn: what bodies of the version have.
        records, ends: the parts of a line of an LN, and of a Commit or Abort.
        templates: made here, one for each combination of labels and missing values.
    """

    lengths: list[int]
    kinds: bytes
    labels: list[tuple[str, ...] | None]
    has_flags2: bool
    has_dtvlsn: bool
    records: tuple[LinePart, ...]
    ends: tuple[LinePart, ...]
    templates: dict[tuple[int, int], str]


# The calendar: for a second, the text before and after the milliseconds; for an expiration, two parts of a text. None:
# there is no text, and the entry is left to the caller.
CalendarTexts = tuple[dict[int, tuple[str, str] | None], dict[int, tuple[str, str] | None]]


def _kind(number: int) -> int:
    if number in COMMON_LNS:
        return TXN_LN if number in TRANSACTIONAL else PLAIN_LN
    return TXN_END if number in TXN_ENDS else 0


KINDS: Final = bytes(_kind(number) for number in range(TYPES))


def has_lines(version: int) -> bool:
    """Whether ``entry_lines`` reads the bodies of a log version."""
    return LN_FLAGS_FIRST <= version < LN_KEY_FIRST


def line_layout(
    version: int, labels: list[tuple[str, ...] | None], records: tuple[LinePart, ...], ends: tuple[LinePart, ...]
) -> LineLayout:
    """The layout of lines of a log version; arguments as the attributes of ``LineLayout``.

    Raises:
        ValueError: the version has other bodies, or a part names no field.
    """
    parts = (*records, *ends)
    wrong = [
        part
        for part in parts
        if part.field not in FIELDS
        or (part.is_quiet and part.field not in _QUIET_BITS)
        or not -MOST_WIDTH <= part.width <= MOST_WIDTH
    ]
    if wrong or not has_lines(version) or len(labels) != PAIRS:
        raise ValueError(f"no lines of version {version} with {wrong}")
    has_flags2, has_dtvlsn = version >= PRIOR_VERSION, version >= DTVLSN
    return LineLayout(header_lengths(version), KINDS, labels, has_flags2, has_dtvlsn, records, ends, {})


def entry_lines_plain(
    data: bytes, pos: int, end: int, lsn: int, layout: LineLayout, texts: CalendarTexts, most_bytes: int
) -> tuple[bytes, int, int, tuple[int, int] | None]:
    """Make lines of consecutive entries, up to the first one that is not simple.

    Arguments:
        data, pos, end: a buffer, and bounds of entries whose checksums are right.
        lsn: LSN of the first byte of the buffer.
        layout: from ``line_layout``.
        texts: the tables of the calendar, by SECONDS and EXPIRATIONS.
        most_bytes: stop when the lines have reached this size.

    Returns:
        The lines, the position of the first entry without one, the number of lines, and the table and number that
        are missing from ``texts``, if that is why it stopped.
    """
    made: list[str] = []
    size_bytes, missing = 0, None
    with_data = any(part.field == "data_hex" for part in layout.records)
    while pos < end and size_bytes < most_bytes:
        checksum, pair, prev, size = PLAIN_HEADER.unpack_from(data, pos)
        kind, length = layout.kinds[pair % TYPES], layout.lengths[pair]
        body, after = pos + length, pos + length + size
        if layout.labels[pair] is None or not kind or after > end:
            break
        read: _Values | None
        try:
            if kind == TXN_END:
                read = _end_values(data, body, after, layout.has_dtvlsn, texts)
            else:
                read = _record_values(data, body, after, kind == TXN_LN, layout.has_flags2, texts, with_data)
        except _MissingTextError as error:
            missing = error.table, error.number
            break
        except (IndexError, FormatError):
            break
        if read is None:
            break
        vlsn = NULL_VLSN if length == HEADER_BYTES else VLSN_FIELD.unpack_from(data, pos + VLSN_AT)[0]
        state = pair, read[0] << 1 | (vlsn == NULL_VLSN)
        template = layout.templates.get(state)
        if template is None:
            template = layout.templates[state] = _template(layout, *state)
        file, offset = lsn + pos >> 32, lsn + pos & 0xFFFFFFFF
        line = template.format(f"0x{file:x}/0x{offset:x}", file, offset, vlsn, prev, size, checksum, *read[1])
        made.append(line)
        size_bytes += len(line)
        pos = after
    return "".join(made).encode(), pos, len(made), missing


entry_lines = chosen("entry_lines", entry_lines_plain)

# Positions of the values of a template: those of every entry, then those of an LN, or of a Commit or Abort.
_OF_ENTRY: Final = "lsn file offset vlsn prev size checksum "
_OF_RECORD: Final = (
    _OF_ENTRY + "db txn last_lsn abort_lsn prior_size prior_file key_hex data_hex data_size "
    "abort_key_hex abort_data_hex abort_vlsn abort_expiration expiration"
).split()
_OF_END: Final = (_OF_ENTRY + "txn last_lsn time master dtvlsn master_term").split()

# What a template depends on, besides labels and flags: whether there are values, and whether a quiet part says them.
_NO_LAST: Final = 1 << 16
_NO_ABORT: Final = 1 << 17
_NO_RECORD: Final = 1 << 18
_NO_DTVLSN: Final = 1 << 19
_MAY_BE_QUIET: Final = (
    "prior_size prior_file data_hex abort_key_hex abort_data_hex abort_vlsn master dtvlsn master_term"
)
_QUIET_BITS: Final = {name: 1 << bit for bit, name in enumerate(_MAY_BE_QUIET.split(), 20)}
_QUIET_SIZE: Final = _QUIET_BITS["prior_size"]
_QUIET_FILE: Final = _QUIET_BITS["prior_file"]
_EMPTY: Final = _QUIET_BITS["data_hex"]
_NOTHING_RARE: Final = ("", "", 0, "", "")

# Bits as above, and the values after those of every entry.
_Values = tuple[int, tuple[str | int | None, ...]]


class _MissingTextError(Exception):
    """A number has no text in a table of the calendar."""

    def __init__(self, table: int, number: int) -> None:
        super().__init__(table, number)
        self.table = table
        self.number = number


def _record_values(
    data: bytes, pos: int, end: int, transactional: bool, has_flags2: bool, texts: CalendarTexts, with_data: bool
) -> _Values | None:
    """State and values of an LN; None for one that is not simple."""
    bits = flags = data[pos]
    pos += 1
    flags2 = data[pos] if has_flags2 else 0
    if flags2 & ~_KNOWN_FLAGS2:
        return None
    bits |= flags2 << 8
    abort_lsn = last_lsn = NULL_LSN
    txn_id, prior_size, prior_file = None, 0, 0
    rare: tuple[str | int, ...] = _NOTHING_RARE
    db_id, pos = unpack(data, pos + has_flags2)
    if transactional:
        if flags & HAS_ABORT_LSN:
            abort_lsn, pos = unpack(data, pos)
        txn_id, pos = unpack(data, pos)
        last_lsn, pos = unpack(data, pos)
    if not _is_usual(last_lsn) or not _is_usual(abort_lsn):
        return None
    if flags & _UNCOMMON:
        found = _rare_values(data, pos, end, flags, texts)
        if found is None:
            return None
        state, rare, pos = found
        bits |= state
    if flags2 & HAS_PRIOR_SIZE:
        prior_size, pos = unpack(data, pos)
    if flags2 & HAS_PRIOR_FILE:
        prior_file, pos = unpack(data, pos)
    length, pos = unpack(data, pos)
    key_at = pos + length if length >= 0 else pos
    if length < -1 or key_at > end or prior_size < 0 or prior_file < 0:
        return None
    record = data[pos:key_at].hex() if with_data and length > 0 else ""
    bits |= (
        (last_lsn == NULL_LSN and _NO_LAST)
        | (abort_lsn == NULL_LSN and _NO_ABORT)
        | (length < 0 and _NO_RECORD)
        | (not length and _EMPTY)
        | (not prior_size and _QUIET_SIZE)
        | (not prior_file and _QUIET_FILE)
    )
    last, abort = _lsn_text(last_lsn), _lsn_text(abort_lsn)
    key = data[key_at:end].hex()
    return bits, (db_id, txn_id, last, abort, prior_size, prior_file, key, record, length, *rare)


def _rare_values(
    data: bytes, pos: int, end: int, flags: int, texts: CalendarTexts
) -> tuple[int, tuple[str | int, ...], int] | None:
    """State and values of the abort information and the expiration, and the position after them."""
    bits, vlsn, expires = 0, 0, ["", ""]
    parts = ["", ""]
    for at, (flag, name) in enumerate(((HAS_ABORT_KEY, "abort_key_hex"), (HAS_ABORT_DATA, "abort_data_hex"))):
        if flags & flag:
            length, pos = unpack(data, pos)
            if length < 0 or pos + length > end:
                return None
            bits |= 0 if length else _QUIET_BITS[name]
            parts[at] = data[pos : pos + length].hex()
            pos += length
    if flags & HAS_ABORT_VLSN:
        vlsn, pos = unpack(data, pos)
        # A line has another text for no VLSN than for an entry without the field.
        if vlsn == NULL_VLSN:
            return None
        bits |= 0 if vlsn else _QUIET_BITS["abort_vlsn"]
    for at, flag in enumerate((HAS_ABORT_EXPIRATION, HAS_EXPIRATION)):
        if flags & flag:
            number, pos = unpack(data, pos)
            # The general way leaves these out of a line of text.
            found = None if number in (0, -1) else _text_of(texts, EXPIRATIONS, number)
            if found is None:
                return None
            expires[at] = "".join(found)
    return bits, (*parts, vlsn, *expires), pos


def _end_values(data: bytes, pos: int, end: int, has_dtvlsn: bool, texts: CalendarTexts) -> _Values | None:
    """State and values of a Commit or Abort; None for one that is not simple."""
    last_lsn, pos = unpack(data, pos)
    txn_id, pos = unpack(data, pos)
    time, pos = unpack(data, pos)
    master, pos = unpack(data, pos)
    dtvlsn, pos = unpack(data, pos) if has_dtvlsn else (0, pos)
    if pos != end or not _is_usual(last_lsn):
        return None
    second, ms = divmod(time, PER_SECOND)
    found = _text_of(texts, SECONDS, second)
    if found is None:
        return None
    bits = _QUIET_BITS["master_term"] | (last_lsn == NULL_LSN and _NO_LAST) | (dtvlsn == NULL_VLSN and _NO_DTVLSN)
    bits |= (master in _QUIET and _QUIET_BITS["master"]) | (dtvlsn in _QUIET and _QUIET_BITS["dtvlsn"])
    return bits, (txn_id, _lsn_text(last_lsn), f"{found[0]}.{ms:03d}{found[1]}", master, dtvlsn, 0)


def _is_usual(lsn: int) -> bool:
    """Whether an LSN is that of an entry, or NULL; others have a text of their own."""
    return lsn > 0 or lsn == NULL_LSN


def _lsn_text(lsn: int) -> str:
    return f"0x{lsn >> 32:x}/0x{lsn & 0xFFFFFFFF:x}"


def _text_of(texts: CalendarTexts, table: int, number: int) -> tuple[str, str] | None:
    try:
        return texts[table][number]
    except KeyError:
        raise _MissingTextError(table, number) from None


def _template(layout: LineLayout, pair: int, state: int) -> str:
    """A template for ``str.format``: labels and texts are in it, and only values that a line shows are named."""
    labels, kind = layout.labels[pair] or (), layout.kinds[pair % TYPES]
    parts, values = (layout.ends, _OF_END) if kind == TXN_END else (layout.records, _OF_RECORD)
    bits = state >> 1
    flags = 0 if kind == TXN_END else bits & 0xFF
    flags2 = 0 if kind == TXN_END else bits >> 8 & 0xFF
    true = {
        "replicated": pair >> 8 & REPLICATED,
        "abort_known_deleted": flags & ABORT_KNOWN_DELETED,
        "embedded": flags & EMBEDDED,
        "deleted": bits & _NO_RECORD,
    }
    missing = {
        "vlsn": state & 1,
        "txn": kind == PLAIN_LN,
        "last_lsn": bits & _NO_LAST,
        "abort_lsn": bits & _NO_ABORT,
        "data_hex": bits & _NO_RECORD,
        "data_size": bits & _NO_RECORD,
        "dtvlsn": bits & _NO_DTVLSN,
        "prior_size": not flags2 & HAS_PRIOR_SIZE,
        "prior_file": not flags2 & HAS_PRIOR_FILE,
        **{name: not flags & flag for name, flag in _BY_FLAG.items()},
    }
    made = []
    for field, before, after, null, width, is_quiet in parts:
        if field == "text":
            made.append(_literal(before))
        elif field == "label":
            made.append(_literal(before + labels[width] + after))
        elif field in _BOOLEANS:
            made.append(_literal(before if true[field] else null or ""))
        elif field not in values or missing.get(field):
            made.append(_literal(null or ""))
        elif not (is_quiet and bits & _QUIET_BITS.get(field, 0)):
            made.append(f"{_literal(before)}{{{values.index(field)}:{_filled(width)}}}{_literal(after)}")
    return "".join(made)


def _literal(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _filled(width: int) -> str:
    return f">{width}" if width > 0 else f"<{-width}" if width else ""
