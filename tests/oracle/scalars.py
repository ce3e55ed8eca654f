"""Values as DbPrintLog prints them, in the terms of NDJSON, and elements that hold one value."""

from __future__ import annotations

import re
from typing import Any

from tests.support.logs.ndjson import time_text
from tests.support.logs.printlog import Taker

from .compare import Bits, NotSaid, OneOf

Fields = dict[str, Any]

_TIME = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\.(\d{1,3})(?: UTC)?")
_EXPIRES = re.compile(r"(\d{4}-\d\d-\d\d)\.(\d\d)(?: val:(\d+) (?:(days|hours)|off:\d+))?")
_UNIT_MS = {"days": 86_400_000, "hours": 3_600_000}
# Bits of the state of a slot or a reference.
_KNOWN_DELETED, _PENDING_DELETED = 0x01, 0x08


def version(text: str) -> Any:
    """The log version of an entry."""
    return NotSaid() if text == "-1" else int(text)


def vlsn(text: str | None) -> int | None:
    """A VLSN; 25.3 prints 0 where there is none."""
    return int(text.replace(",", "")) or None if text else None


def lsn(text: str | None) -> str | None:
    return None if text is None or text.startswith("0xffffffff/") else text


def hex_bytes(text: str | None) -> str | None:
    """Decimal bytes as hex digits."""
    return None if text is None else bytes(map(int, text.split())).hex()


def boolean(text: str) -> bool:
    return {"true": True, "false": False}[text]


def time(text: str | None) -> str | None:
    if text is None:
        return None
    found = _TIME.fullmatch(text)
    assert found is not None, text
    return f"{found[1]}T{found[2]}.{found[3].ljust(3, '0')}Z"


def expires(text: str | None, unit: str | None = None) -> Any:
    """The hour at which a record expires. Only 25.3 says whether the log has it in hours or in days."""
    if not text:
        return None
    found = _EXPIRES.fullmatch(text)
    assert found is not None, text
    day, hour, unit = found[1], f"{found[1]}T{found[2]}:00:00.000Z", found[4] or unit
    if found[3]:
        assert time_text(int(found[3]) * _UNIT_MS[unit or ""]) == hour, text
        return hour if unit == "hours" else day
    return hour if found[2] != "00" else OneOf((day, hour))


def bits(*pairs: tuple[int, str | None]) -> Bits:
    """Bits that JE prints as booleans; one that it does not print is left out."""
    shown = [(bit, boolean(text)) for bit, text in pairs if text is not None]
    return Bits(sum(bit for bit, _ in shown), sum(bit for bit, is_set in shown if is_set))


def nested_lsn(taker: Taker, tag: str) -> str | None:
    """``<tag><DbLsn val=".."/></tag>``."""
    child = taker.child(tag)
    value = child.value("DbLsn")
    child.finish()
    return lsn(value)


def child_text(taker: Taker, tag: str) -> str | None:
    """The text of the next child when that has the tag."""
    child = taker.child_if(tag)
    if child is None:
        return None
    text = child.text()
    child.finish()
    return text


def deleted_bits(known: str, pending: str) -> Bits:
    """The bits of a state that say whether the record is deleted."""
    return bits((_KNOWN_DELETED, known), (_PENDING_DELETED, pending))


def state_of(ref: Taker) -> Bits:
    """The same from the attributes of an element; 3.3 spells them out."""
    known = ref.take_if("kd") or ref.take("knownDeleted")
    return deleted_bits(known, ref.take_if("pd") or ref.take("pendingDeleted"))
