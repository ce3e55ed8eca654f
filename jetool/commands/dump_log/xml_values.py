"""Values in the form of DbPrintLog, for ``dump-log --format xml``: keys and data in decimal, LSNs, times, numbers."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from struct import Struct
from typing import Final

from engine.format.entry import node as node_module
from engine.format.lsn import NULL_LSN, format_lsn, is_null

_EPOCH: Final = datetime(1970, 1, 1)
_SINGLE: Final = Struct("<f")

_UNSAFE: Final = re.compile('[&<>"\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]')
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"}


def escape(text: str) -> str:
    """A text as the value of an attribute."""
    return _UNSAFE.sub(_escaped, text) if _UNSAFE.search(text) else text


def _escaped(match: re.Match[str]) -> str:
    character = match[0]
    if character in _ENTITIES:
        return _ENTITIES[character]
    # XML allows these characters, but a parser would turn them into blanks if they were not written as references.
    if character in "\t\n\r" or "\x7f" <= character <= "\x9f":
        return f"&#{ord(character)};"
    return "".join(f"\\{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def decimal(data: bytes) -> str:
    """Bytes in decimal, each followed by a blank."""
    return " ".join(map(str, data)) + " " if data else ""


def element(tag: str, data: bytes | None) -> str:
    """Bytes as an element."""
    return f'<{tag} v="{"&lt;null&gt;" if data is None else decimal(data)}"/>'


def truth(value: object) -> str:
    """Java's spelling of a truth value."""
    return "true" if value else "false"


def lsn_text(lsn: int) -> str:
    """An LSN in JE's spelling; transient LSNs are NULL."""
    return format_lsn(NULL_LSN if is_null(lsn) else lsn)


def db_lsn(lsn: int) -> str:
    """An LSN as an element."""
    return f'<DbLsn val="{lsn_text(lsn)}"/>'


def time_text(ms: int) -> str:
    """A time given in ms, printed with as many decimals of a second as needed, but at least one."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return f"{ms} ms"
    fraction = f"{moment.microsecond // 1000:03d}".rstrip("0") or "0"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}"


def expires(expiration: int) -> str:
    """The time at which a record expires, printed to the hour; it is given in days (positive) or hours (negative)."""
    try:
        moment = _EPOCH + timedelta(hours=-expiration if expiration < 0 else 24 * expiration)
    except OverflowError:
        return f"{abs(expiration)} {'hours' if expiration < 0 else 'days'}"
    return f"{moment:%Y-%m-%d.%H}"


def single(value: float | None) -> str:
    """A float as Java prints it: with the fewest digits that identify it."""
    # In Java an average of no values is NaN.
    if value is None:
        return "NaN"
    exact = _SINGLE.pack(value)
    digits = next(text for text in (f"{value:.{n}e}" for n in range(9)) if _SINGLE.pack(float(text)) == exact)
    number, exponent = digits.split("e")
    # The bounds between plain and scientific notation in Java's Float.toString.
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(float(digits))
    return f"{float(number)}E{int(exponent)}"


def attributes(names: tuple[str, ...], values: tuple[object, ...]) -> str:
    """Names and values as attributes."""
    return " ".join(f'{name}="{value}"' for name, value in zip(names, values, strict=True))


def state_attributes(state: int) -> str:
    """Whether a slot is known or pending deleted."""
    deleted, pending = state & node_module.KNOWN_DELETED, state & node_module.PENDING_DELETED
    return f' kd="{truth(deleted)}" pd="{truth(pending)}"'
