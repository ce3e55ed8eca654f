"""Places in a log: LSNs and instants, VLSNs, points, files."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import click

from jetool.frame.param_types.times import TIME

# Compiled when a place is read: every command imports this module.
_FILE: Final = r"(?i)0x([0-9a-f]{1,8})|([0-9a-f]{8})(?:\.jdb)?"
_DERBY_FILE: Final = r"log([0-9]{1,10})\.dat"
_INSTANT: Final = r"\(?\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)?"
_MAX_LOG_FILE: Final = (1 << 31) - 1
_MAX_POSITION: Final = (1 << 32) - 1
_SYMBOLS: Final = ("ckpt", "first-active", "end")
_MAX_VLSN: Final = (1 << 63) - 1
_POINTS: Final = ("lsn:0xFILE/0xOFFSET", "vlsn:N", "time:TIME", "txn:ID", "commits:-N", "matchpoint")


class Address(NamedTuple):
    """A place in the log; either ``lsn`` or ``symbol`` is set.

    Attributes:
        lsn: a 64-bit LSN, file number in the upper half.
        symbol: ``ckpt`` (start of the last checkpoint), ``first-active`` (its firstActiveLsn) or ``end``.
        is_instant: whether it was written as an instant of a Derby log; instants are packed like LSNs.
    """

    lsn: int | None
    symbol: str | None
    is_instant: bool = False


class FileNumber(NamedTuple):
    """A log file.

    Attributes:
        number: the number of the file.
        kind: ``je`` or ``derby`` if the spelling determines the kind, else None.
    """

    number: int
    kind: str | None


class AddressRange(NamedTuple):
    """Places from ``first`` to ``last``, inclusive; None for an omitted end."""

    first: Address | None
    last: Address | None


class VlsnRange(NamedTuple):
    """VLSNs from ``first`` to ``last``, inclusive; None for an omitted end."""

    first: int | None
    last: int | None


class LsnType(click.ParamType[Address]):
    """One place in the log."""

    name = "LSN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Parse a text to a place. Raises BadParameter."""
        if isinstance(value, Address):
            return value
        text = str(value).strip()
        if text.lower() in _SYMBOLS:
            return Address(None, text.lower())
        from engine.errors import UsageError
        from engine.format.lsn import parse_lsn

        try:
            return Address(parse_lsn(text), None)
        except UsageError:
            self.fail(f"{value!r} is not an LSN; {_lsn_hint(text)}", param, ctx)


LSN: Final = LsnType()


class PlaceType(LsnType):
    """One place in the log of a JE environment or of a Derby database."""

    name = "PLACE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """Parse a text to a place. Raises BadParameter."""
        found = re.fullmatch(_INSTANT, str(value).strip()) if isinstance(value, str) else None
        if found is None:
            return super().convert(value, param, ctx)
        number, position = int(found[1]), int(found[2])
        # Larger values would change the packed instant to another place.
        if number > _MAX_LOG_FILE or position > _MAX_POSITION:
            self.fail(f"{value!r} is not a log instant: the file or the position is too large", param, ctx)
        return Address(number << 32 | position, None, is_instant=True)


def _lsn_hint(text: str) -> str:
    decimal = re.fullmatch(r"(\d{1,10})(?:/(\d{1,10}))?", text)
    if decimal is None:
        return "write 0xFILE/0xOFFSET, or one of " + ", ".join(_SYMBOLS)
    if decimal[2] is None:
        return (
            "a bare decimal does not state file and offset: write 0xFILE/0xOFFSET "
            f"(offset {decimal[1]} of file 0 is 0x0/{int(decimal[1]):#x})"
        )
    return f"write both parts in hexadecimal with 0x; in decimal this is {int(decimal[1]):#x}/{int(decimal[2]):#x}"


class PointType(click.ParamType[Any]):
    """A point of a log: by LSN, VLSN, time, transaction, Commits from the end, or the last matchpoint."""

    name = "POINT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a text to an ``engine.rescue.points.Point``. Raises BadParameter."""
        from engine.rescue import points
        from engine.rescue.points import Point

        if isinstance(value, Point):
            return value
        text = str(value).strip()
        kind, _, rest = text.partition(":")
        if text == points.MATCHPOINT:
            return Point(points.MATCHPOINT, 0, text)
        if re.fullmatch(r"0[xX][0-9a-fA-F]+/0[xX][0-9a-fA-F]+", text):
            # As ``dump-log --from`` takes it.
            kind, rest = points.LSN, text
        if kind not in points.KINDS or kind == points.MATCHPOINT or not rest:
            self.fail(f"{value!r} is not a point; write {', '.join(_POINTS)}", param, ctx)
        if kind == points.LSN:
            place = LSN.convert(rest, param, ctx)
            if place.lsn is None:
                self.fail(f"{rest!r} is not an LSN; write lsn:0xFILE/0xOFFSET", param, ctx)
            return Point(points.LSN, place.lsn, text)
        if kind == points.VLSN:
            return Point(points.VLSN, VLSN.convert(rest, param, ctx), text)
        if kind == points.TIME:
            return Point(points.TIME, TIME.convert(rest, param, ctx), text)
        if re.fullmatch(r"-?[0-9]{1,18}", rest) is None or (kind == points.COMMITS and int(rest) >= 0):
            self.fail(f"{value!r} is not a point; write {', '.join(_POINTS)}", param, ctx)
        return Point(kind, abs(int(rest)) if kind == points.COMMITS else int(rest), text)


class LsnRangeType(click.ParamType[AddressRange]):
    """A range of places."""

    name = "LSN..LSN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AddressRange:
        """Parse a text to a range. Raises BadParameter, also for a range that ends before it starts."""
        if isinstance(value, AddressRange):
            return value
        first, last = (LSN.convert(end, param, ctx) if end else None for end in _ends(str(value)))
        if first and last and first.lsn is not None and last.lsn is not None and first.lsn > last.lsn:
            self.fail(f"{value!r} ends before it starts", param, ctx)
        return AddressRange(first, last)


class VlsnType(click.ParamType[int]):
    """One VLSN, a plain integer from 1."""

    name = "VLSN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text to a VLSN. Raises BadParameter."""
        text = str(value).strip()
        # ``int`` alone would accept signs, underscores and digits of other scripts.
        if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not 1 <= int(text) <= _MAX_VLSN:
            self.fail(f"{value!r} is not a VLSN; write a plain integer from 1", param, ctx)
        return int(text)


class VlsnRangeType(click.ParamType[VlsnRange]):
    """A range of VLSNs."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> VlsnRange:
        """Parse a text to a range. Raises BadParameter, also for a range that ends before it starts."""
        if isinstance(value, VlsnRange):
            return value
        first, last = (VLSN.convert(end, param, ctx) if end else None for end in _ends(str(value)))
        if first is not None and last is not None and first > last:
            self.fail(f"{value!r} ends before it starts", param, ctx)
        return VlsnRange(first, last)


VLSN: Final = VlsnType()


def _ends(text: str) -> tuple[str, str]:
    """The two ends of ``A..B``; a single ``A`` is both."""
    first, dots, last = text.strip().partition("..")
    return (first, last) if dots else (first, first)


class FileType(click.ParamType[int]):
    """The number of a log file."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a file name or a number such as ``0x1f`` to a file number. Raises BadParameter."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(_FILE, str(value).strip())
        if found is None:
            self.fail(f"{value!r} names no log file; write 0x1f or 0000001f.jdb", param, ctx)
        return int(found[1] or found[2], 16)


FILE: Final = FileType()


class FileRange(NamedTuple):
    """Log files by number, both ends included.

    Attributes:
        first: the first file.
        last: the last file; None: the newest.
        kind: ``je`` or ``derby`` if the spelling determines the kind, else None.
    """

    first: int
    last: int | None
    kind: str | None = None

    def holds(self, number: int) -> bool:
        """Whether a file is in the range."""
        return number >= self.first and (self.last is None or number <= self.last)


class FileRangeType(click.ParamType[FileRange]):
    """A range of log files: ``A..B``, either end may be left out; ``A`` is one file."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FileRange:
        """Parse a range of log files. Raises BadParameter."""
        if isinstance(value, FileRange):
            return value
        first, dots, last = str(value).strip().partition("..")
        ends = [FILES.convert(one, param, ctx) for one in ((first, last) if dots else (first,)) if one or not dots]
        low = ends[0].number if first or not dots else 0
        high = low if not dots else ends[-1].number if last else None
        if high is not None and high < low:
            self.fail(f"{value!r} ends before it begins", param, ctx)
        named = {one.kind for one in ends} - {None}
        if len(named) > 1:
            self.fail(f"{value!r}: one end is a file of JE, the other of Derby", param, ctx)
        return FileRange(first=low, last=high, kind=next(iter(named), None))


class AnyFileType(click.ParamType[FileNumber]):
    """A log file of a JE environment or of a Derby database."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FileNumber:
        """Parse a file name or a number such as ``0x1f`` to a file. Raises BadParameter."""
        if isinstance(value, FileNumber):
            return value
        text = str(value).strip()
        found = re.fullmatch(_DERBY_FILE, text)
        if found is not None:
            return FileNumber(int(found[1]), "derby")
        if re.fullmatch(_FILE, text) is None:
            self.fail(f"{value!r} names no log file; write 0x1f, 0000001f.jdb or (Derby) log31.dat", param, ctx)
        # ``0x1f`` is a number for both kinds; a bare name of eight digits is a JE file.
        return FileNumber(FILE.convert(text, param, ctx), None if text[:2].lower() == "0x" else "je")


FILES: Final = AnyFileType()
