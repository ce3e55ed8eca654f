"""Numbers in at most six or seven characters, for tables that refresh and tables of many columns.

Example: 12345 is ``12.3k``, 233476682 bytes are ``222.7M``, 9000 seconds are ``2h``.
"""

from __future__ import annotations

from typing import Final

from jetool.output.shape import size_text

_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86_400
_KILO: Final = 1000


def short_count(value: float) -> str:
    """A number or a rate."""
    for unit in ("", "k", "M", "G"):
        if abs(value) < (_KILO * 10 if not unit else _KILO):
            is_whole = float(value).is_integer() and not unit
            return f"{value:.0f}{unit}" if is_whole or abs(value) >= _KILO / 10 else f"{value:.1f}{unit}"
        value /= _KILO
    return f"{value:.0f}T"


def short_size(value: float) -> str:
    """A number of bytes, with the letter of its binary unit."""
    return size_text(round(value)).replace("iB", "").replace(" ", "")


def short_duration(seconds: float) -> str:
    """A duration in the largest unit that fits twice."""
    for unit, length in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
