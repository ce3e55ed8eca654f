"""Records of a Derby log as lines of text.

``INSTANT OPERATION TXN CONTAINER PAGE VERSION LENGTH UNDO detail``. The detail lists the fields of the operation; empty
fields are left out.
"""

from __future__ import annotations

from typing import Any, Final

from engine.errors import plural
from engine.fields import Row
from jetool.output.shape import Style, fields_of, printable, to_text

_COLUMNS: Final = f"{'OPERATION':<17} {'TXN':>8} {'CONTAINER':>9} {'PAGE':>6} {'VERSION':>7} {'LENGTH':>6}"
# Terminals of this width have room for all columns; on narrower ones the undone record is printed in the detail.
_ALL: Final = 120
# Widths of an instant in wide and in narrow output.
_WIDE, _NARROW = 16, 13
_IN_COLUMNS: Final = frozenset(
    (
        "instant",
        "file",
        "offset",
        "operation",
        "transaction",
        "undo_instant",
        "container",
        "page",
        "version",
        "length",
        "group",
        "segment",
    )
)
_QUIET: Final = (None, False, "", b"")
# Flags that add information to the columns; the other flags are not printed.
_TELLING: Final = frozenset(("commit", "abort", "prepared"))


def heading(width: int | None) -> str:
    """The names of the columns, for a terminal of ``width`` columns; None for no bound."""
    if _is_narrow(width):
        return f"{'INSTANT':<{_NARROW}} {_COLUMNS} DETAIL"
    return f"{'INSTANT':<{_WIDE}} {_COLUMNS} {'UNDOES':<{_WIDE}} DETAIL"


def _is_narrow(width: int | None) -> bool:
    return width is not None and width < _ALL


def text_line(rec: str, row: Row, style: Style) -> str:
    """A record or damage as one line, without the newline."""
    values = {name: value for name, _, value in row}
    if rec == "bad":
        return _bad(values, row, style)
    # The columns are the first fields of every row, whatever its operation.
    cell = {name: to_text(kind, value, style) for name, kind, value in row[:11]}
    words = [flag for flag in values["group"] if flag in _TELLING]
    words += [word for name, kind, value in row if (word := _word(name, kind, value, style))]
    if values["after_end"]:
        # AFTER-THE-END comes first, because it changes the meaning of the rest: Derby drops the record.
        words.insert(0, "AFTER-THE-END")
    size, undoes = _WIDE, f" {cell['undo_instant']:<{_WIDE}}"
    if _is_narrow(style.width):
        size, undoes = _NARROW, ""
        words += [f"undoes={cell['undo_instant']}"] if values["undo_instant"] else []
    return (
        f"{cell['instant']:<{size}} {cell['operation']:<17} {cell['transaction']:>8} {cell['container']:>9} "
        f"{cell['page']:>6} {cell['version']:>7} {cell['length']:>6}{undoes} {' '.join(words)}"
    ).rstrip()


def _bad(values: dict[str, Any], row: Row, style: Style) -> str:
    place = {name: to_text(kind, value, style) for name, kind, value in row}
    text = f"{place['instant']:<16} BAD {values['path']}: {printable(values['reason'])}"
    if values["skipped"]:
        following = f"next record {place['next_instant']}" if values["next_instant"] else "no record follows"
        text += f"; {plural(values['skipped'], 'byte')} skipped, {following}"
    return text


def _word(name: str, kind: str, value: Any, style: Style) -> str:
    # Zero is printed, because slot 0 and page 0 are valid places.
    if name in _IN_COLUMNS or name == "after_end" or (kind != "int" and value in _QUIET) or value is None:
        return "" if name != "checksum_ok" or value is None else "checksum-mismatch"
    if name == "checksum_ok" or (name == "data_bytes" and not value):
        return ""
    if kind == "bool":
        return name
    if kind == "records":
        return f"{name}=[{', '.join(_nested(item, style) for item in value)}]"
    return f"{name}={_shown(name, kind, value, style)}"


def _nested(record: Any, style: Style) -> str:
    return "{" + " ".join(word for field in fields_of(record) if (word := _inner(*field, style))) + "}"


def _inner(name: str, kind: str, value: Any, style: Style) -> str:
    if kind == "bool":
        return name if value else ""
    if kind == "records":
        return f"{name}=[{', '.join(_nested(item, style) for item in value)}]"
    return f"{name.removesuffix('_hex')}={_shown(name, kind, value, style)}"


def _shown(name: str, kind: str, value: Any, style: Style) -> str:
    shown_as = "data" if name == "data_hex" else kind
    text = to_text(shown_as, value, style)
    if kind == "text":
        return f'"{text}"' if " " in text else text
    return text.replace(", ", ",")
