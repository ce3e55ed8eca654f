"""Parameter types: the addresses, times and keys that an operator writes.

=========  ======================================================  ==========================
type       written                                                 value
=========  ======================================================  ==========================
``LSN``    ``0x1f/0x2a3c``, ``ckpt``, ``first-active``, ``end``    ``Address``
``PLACE``  the same, or Derby's instants: ``(1,41725)``            ``Address``
``LSNS``   ``A..B``, either end may be left out; ``A`` alone       ``AddressRange``
``VLSN``   ``17``                                                  int
``VLSNS``  ``A..B`` likewise; ``A`` alone is ``A..A``              ``VlsnRange``
``POINT``  ``lsn:0x1f/0x2a3c``, ``time:-15m``, ``commits:-3``      ``engine.rescue``'s ``Point``
``FILE``   ``0x1f``, ``0000001f.jdb``, ``0000001f``                int
``FILES``  the same, or Derby's ``log31.dat``                      ``FileNumber``
``TIME``   ``2026-11-21T14:01:01Z``, ``2026-11-21``, ``-15m``      int, ms since 1970 UTC
``KEY``    text, or ``0x`` and hex; --key-format changes the text  bytes
``DATA``   the same for --data-format                              bytes
``HOST``   ``db1.example.org:5001``, ``[::1]:5001``                host and port
``ZONE``   ``UTC``, ``local``, ``Europe/Berlin``, ``+01:00``       datetime.tzinfo
=========  ======================================================  ==========================

A bare decimal is no LSN (D-8): the same digits mean one place in hexadecimal and another in decimal, and JE's own tools
have read them both ways. A time without a zone is in the zone of ``--tz``. Parsing never touches a file, so symbolic
addresses stay symbolic; the engine resolves them.
"""

from __future__ import annotations

import os
import re
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any, Final, NamedTuple

import click

_AGO: Final = re.compile(r"-(\d{1,9})([smhd])")
_OFFSET: Final = re.compile(r"([+-])(\d{2}):?(\d{2})")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]i?b|b|)", re.IGNORECASE)
_UNITS: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 1 << 10,
    "mib": 1 << 20,
    "gib": 1 << 30,
    "tib": 1 << 40,
}
_FILE: Final = re.compile(r"0x([0-9a-f]{1,8})|([0-9a-f]{8})(?:\.jdb)?", re.IGNORECASE)
_DERBY_FILE: Final = re.compile(r"log([0-9]{1,10})\.dat")
_INSTANT: Final = re.compile(r"\(?\s*([0-9]{1,10})\s*,\s*([0-9]{1,10})\s*\)?")
_MAX_LOG_FILE: Final = (1 << 31) - 1
_MAX_POSITION: Final = (1 << 32) - 1
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SYMBOLS: Final = ("ckpt", "first-active", "end")
_MOST_CACHE_PER_CENT: Final = 90
_MAX_VLSN: Final = (1 << 63) - 1
_POINTS: Final = ("lsn:0xFILE/0xOFFSET", "vlsn:N", "time:TIME", "txn:ID", "commits:-N", "matchpoint")


class Address(NamedTuple):
    """A place in the log: one of the two is set.

    Attributes:
        lsn: a 64-bit LSN, file number in the upper half.
        symbol: ``ckpt`` (start of the last checkpoint), ``first-active`` (its firstActiveLsn) or ``end``.
        is_instant: whether it was written as an instant of a Derby log, packed like an LSN.
    """

    lsn: int | None
    symbol: str | None
    is_instant: bool = False


class FileNumber(NamedTuple):
    """A log file.

    Attributes:
        number: its number.
        kind: ``je`` or ``derby`` where the way it is written tells, else None.
    """

    number: int
    kind: str | None


class AddressRange(NamedTuple):
    """Places from ``first`` to ``last``, both included; None where an end was left out."""

    first: Address | None
    last: Address | None


class VlsnRange(NamedTuple):
    """VLSNs from ``first`` to ``last``, both included; None where an end was left out."""

    first: int | None
    last: int | None


class DirectoryType(click.ParamType[str]):
    """A directory. Whether it is there, and what it is, is for the engine to say."""

    name = "DIR"

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - Click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> list[Any]:
        """Let the shell complete directories."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="dir")]


class DatabaseType(click.ParamType[str]):
    """The name of a database. Whether it is there is for the engine to say."""

    name = "NAME"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:  # noqa: ARG002
        """The databases of the environment that stands on the line."""
        from click.shell_completion import CompletionItem

        from jetool.frame.shell_completion import database_names

        # The option has no value yet, so that Click has left the words of the line where they were.
        words = [*ctx.args, os.environ.get("JETOOL_HOME")]
        env = ctx.params.get("home") or ctx.params.get("env") or words[0]
        found = database_names(env) if isinstance(env, str) else []
        return [CompletionItem(name) for name in found if name.startswith(incomplete)]


class LsnType(click.ParamType[Address]):
    """One place in the log."""

    name = "LSN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """The place that a text names. Raises BadParameter."""
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


class PlaceType(LsnType):
    """One place in the log of a JE environment or of a Derby database."""

    name = "PLACE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        """The place that a text names. Raises BadParameter."""
        found = _INSTANT.fullmatch(str(value).strip()) if isinstance(value, str) else None
        if found is None:
            return super().convert(value, param, ctx)
        number, position = int(found[1]), int(found[2])
        # Beyond these the packed instant would name another place.
        if number > _MAX_LOG_FILE or position > _MAX_POSITION:
            self.fail(f"{value!r} is no log instant: the file or the position is too large", param, ctx)
        return Address(number << 32 | position, None, is_instant=True)


def _lsn_hint(text: str) -> str:
    decimal = re.fullmatch(r"(\d{1,10})(?:/(\d{1,10}))?", text)
    if decimal is None:
        return "write 0xFILE/0xOFFSET, or one of " + ", ".join(_SYMBOLS)
    if decimal[2] is None:
        return (
            "a bare decimal does not say which file and offset is meant: write 0xFILE/0xOFFSET "
            f"(offset {decimal[1]} of file 0 is 0x0/{int(decimal[1]):#x})"
        )
    return f"write both parts in hexadecimal with 0x; in decimal this is {int(decimal[1]):#x}/{int(decimal[2]):#x}"


class PointType(click.ParamType[Any]):
    """A point of a log: by LSN, VLSN, time, transaction, Commits from the end, or the last matchpoint."""

    name = "POINT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The point that a text names, as ``engine.rescue.points.Point``. Raises BadParameter."""
        from engine.rescue import points
        from engine.rescue.points import Point

        if isinstance(value, Point):
            return value
        text = str(value).strip()
        kind, _, rest = text.partition(":")
        if text == points.MATCHPOINT:
            return Point(points.MATCHPOINT, 0, text)
        if kind not in points.KINDS or kind == points.MATCHPOINT or not rest:
            self.fail(f"{value!r} is no point; write {', '.join(_POINTS)}", param, ctx)
        if kind == points.LSN:
            place = LSN.convert(rest, param, ctx)
            if place.lsn is None:
                self.fail(f"{rest!r} is no LSN; write lsn:0xFILE/0xOFFSET", param, ctx)
            return Point(points.LSN, place.lsn, text)
        if kind == points.VLSN:
            return Point(points.VLSN, VLSN.convert(rest, param, ctx), text)
        if kind == points.TIME:
            return Point(points.TIME, TIME.convert(rest, param, ctx), text)
        if re.fullmatch(r"-?[0-9]{1,18}", rest) is None or (kind == points.COMMITS and int(rest) >= 0):
            self.fail(f"{value!r} is no point; write {', '.join(_POINTS)}", param, ctx)
        return Point(kind, abs(int(rest)) if kind == points.COMMITS else int(rest), text)


class LsnRangeType(click.ParamType[AddressRange]):
    """A range of places."""

    name = "LSN..LSN"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> AddressRange:
        """The range that a text names. Raises BadParameter, also for a range that ends before it starts."""
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
        """The VLSN that a text names. Raises BadParameter."""
        text = str(value).strip()
        # ``int`` alone would take signs, underscores and digits of other scripts.
        if not re.fullmatch(r"\d{1,19}", text, re.ASCII) or not 1 <= int(text) <= _MAX_VLSN:
            self.fail(f"{value!r} is not a VLSN; write a plain integer from 1", param, ctx)
        return int(text)


class VlsnRangeType(click.ParamType[VlsnRange]):
    """A range of VLSNs."""

    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> VlsnRange:
        """The range that a text names. Raises BadParameter, also for a range that ends before it starts."""
        if isinstance(value, VlsnRange):
            return value
        first, last = (VLSN.convert(end, param, ctx) if end else None for end in _ends(str(value)))
        if first is not None and last is not None and first > last:
            self.fail(f"{value!r} ends before it starts", param, ctx)
        return VlsnRange(first, last)


def _ends(text: str) -> tuple[str, str]:
    """The two ends of ``A..B``; a single ``A`` is both."""
    first, dots, last = text.strip().partition("..")
    return (first, last) if dots else (first, first)


class ZoneType(click.ParamType[tzinfo]):
    """A time zone."""

    name = "ZONE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tzinfo:
        """The zone that a text names. Raises BadParameter."""
        if isinstance(value, tzinfo):
            return value
        if value.upper() in ("UTC", "Z"):
            return UTC
        if value == "local":
            return _local_zone()
        offset = _OFFSET.fullmatch(value)
        if offset and int(offset[2]) < 24 and int(offset[3]) < 60:
            minutes = int(offset[2]) * 60 + int(offset[3])
            return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
        from zoneinfo import ZoneInfo

        try:
            return ZoneInfo(value)
        except (OSError, ValueError, LookupError):  # no such file, a path that leaves the database, not found
            self.fail(
                f"{value!r} is not a time zone; write UTC, local, +01:00 or a name such as Europe/Berlin", param, ctx
            )


def _local_zone() -> tzinfo:
    """The zone of ``TZ``, or the machine's, with its rules, or its offset of today where these cannot be found."""
    from zoneinfo import ZoneInfo

    try:
        named = os.environ.get("TZ")
        if named is not None:
            return ZoneInfo(named.removeprefix(":")) if named else UTC
        with open("/etc/localtime", "rb") as file:  # noqa: PTH123 - a zone file, not a file of the engine
            return ZoneInfo.from_file(file, key="local")
    except (OSError, ValueError, LookupError):
        return datetime.now().astimezone().tzinfo or UTC


class TimeType(click.ParamType[int]):
    """A point in time."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds since 1970-01-01 UTC. Raises BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value).strip()
        ago = _AGO.fullmatch(text)
        if ago:
            return int(time.time() * 1000) - int(ago[1]) * _UNIT_MS[ago[2]]
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                # ``--tz`` is eager, so it is known whatever the order of the words.
                moment = moment.replace(tzinfo=_given(ctx, "tz") or UTC)
            # Whole numbers all the way: ``timestamp()`` would round through a float.
            return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
        except (ValueError, OverflowError):
            self.fail(f"{value!r} is not a time; write ISO-8601 (2026-11-21T14:01:01Z) or -15m, -2h, -3d", param, ctx)


def _given(ctx: click.Context | None, name: str) -> Any:
    """The value of an eager option, or None when it was not given: Click has a marker for that while it parses."""
    value = ctx.params.get(name) if ctx else None
    return value if isinstance(value, str | tzinfo) else None


class BytesType(click.ParamType[bytes]):
    """A key or a datum.

    Arguments:
        name: the metavar.
        option: the parameter that holds the format, which must be eager.
    """

    def __init__(self, name: str, option: str) -> None:
        self.name = name
        self.option = option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """The bytes that a text stands for. Raises BadParameter."""
        if isinstance(value, bytes):
            return value
        from engine.inspect import key_formats

        style = _given(ctx, self.option) or "utf8"
        try:
            return key_formats.parse(value, style)
        except ValueError as error:
            self.fail(f"{error} (--{self.option.replace('_', '-')} {style})", param, ctx)


def key_as_typed(key: bytes) -> str:
    """A key in a message as the user would type it: in the format of ``--key-format``, which reads as UTF-8 by default.

    Results show keys in hex by default; a message shows the key as the user typed it.
    """
    from engine.inspect.key_formats import show

    style = _given(click.get_current_context(silent=True), KEY.option) or "utf8"
    shown = show(key, style)
    return f"0x{shown}" if style == "hex" else shown


class SizeType(click.ParamType[int]):
    """A number of bytes: ``5GiB``, ``200MB``, ``4096``."""

    name = "SIZE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes that a text says. Raises BadParameter."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(str(value).strip())
        bytes_ = int(float(found[1]) * _UNITS[(found[2] or "").lower()]) if found is not None else 0
        if bytes_ <= 0:
            self.fail(f"{value!r} is no size; write 5GiB, 200MB or a number of bytes", param, ctx)
        return bytes_


class CacheType(SizeType):
    """The memory of a cache: a size, or a share of the free memory as ``10%``."""

    name = "SIZE|N%"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The bytes that a text says. Raises BadParameter."""
        text = str(value).strip()
        if not text.endswith("%"):
            return super().convert(value, param, ctx)
        from engine.db.memory import share_of_free

        number = text[:-1].strip()
        if not number.isdecimal() or not 1 <= int(number) <= _MOST_CACHE_PER_CENT:
            self.fail(f"{value!r} is no share; write 1% to {_MOST_CACHE_PER_CENT}%", param, ctx)
        return share_of_free(int(number))


class PercentType(click.ParamType[int]):
    """Per cent, with or without the sign.

    Arguments:
        least, most: the range.
    """

    name = "PERCENT"

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that a text says. Raises BadParameter."""
        if isinstance(value, int):
            return value
        text = str(value).strip().removesuffix("%")
        if not text.isdecimal() or not self._least <= int(text) <= self._most:
            self.fail(f"{value!r} is not between {self._least}% and {self._most}%", param, ctx)
        return int(text)


class FileType(click.ParamType[int]):
    """The number of a log file."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number that a file name or ``0x1f`` names. Raises BadParameter."""
        if isinstance(value, int):
            return value
        found = _FILE.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} names no log file; write 0x1f or 0000001f.jdb", param, ctx)
        return int(found[1] or found[2], 16)


class AnyFileType(click.ParamType[FileNumber]):
    """A log file of a JE environment or of a Derby database."""

    name = "FILE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FileNumber:
        """The file that a name or ``0x1f`` names. Raises BadParameter."""
        if isinstance(value, FileNumber):
            return value
        text = str(value).strip()
        found = _DERBY_FILE.fullmatch(text)
        if found is not None:
            return FileNumber(int(found[1]), "derby")
        if _FILE.fullmatch(text) is None:
            self.fail(f"{value!r} names no log file; write 0x1f, 0000001f.jdb or (Derby) log31.dat", param, ctx)
        # ``0x1f`` is a number for either kind; a bare name of eight digits is JE's.
        return FileNumber(FILE.convert(text, param, ctx), None if text[:2].lower() == "0x" else "je")


class HostPortType(click.ParamType[tuple[str, int]]):
    """A network address: host and port."""

    name = "HOST:PORT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Host and port. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        # From the right: an IPv6 address has colons of its own.
        host, _, port = str(value).strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            self.fail(f"{value!r} is no address; write HOST:PORT, with a port from 1 to 65535", param, ctx)
        return host, int(port)


class NewDatabaseType(click.ParamType[tuple[str, bool, bool]]):
    """``NAME``, with ``:dups`` for sorted duplicates and ``:prefix`` for key prefixing after it."""

    name = "NAME[:dups][:prefix]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, bool, bool]:
        """Name, duplicates, key prefixing. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        marks = set()
        # Marks are taken off the end, so that a name may have colons.
        while text.endswith((":dups", ":prefix")):
            text, _, mark = text.rpartition(":")
            marks.add(mark)
        if not text:
            self.fail(f"{value!r} has no name", param, ctx)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            self.fail(f"{value!r} is not UTF-8, which names of databases are", param, ctx)
        return text, "dups" in marks, "prefix" in marks


class FieldsType(click.ParamType[tuple[str, ...]]):
    """Names of fields, with commas between them."""

    name = "A,B,C"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """The names. BadParameter: no name was given."""
        if isinstance(value, tuple):
            return value
        names = tuple(name.strip() for name in str(value).split(",") if name.strip())
        if not names:
            self.fail("names no field", param, ctx)
        return names


DIRECTORY: Final = DirectoryType()
DATABASE: Final = DatabaseType()
LSN: Final = LsnType()
PLACE: Final = PlaceType()
LSNS: Final = LsnRangeType()
VLSN: Final = VlsnType()
POINT: Final = PointType()
VLSNS: Final = VlsnRangeType()
ZONE: Final = ZoneType()
TIME: Final = TimeType()
KEY: Final = BytesType("KEY", "key_format")
DATA: Final = BytesType("DATA", "data_format")
FILE: Final = FileType()
FILES: Final = AnyFileType()
HOST: Final = HostPortType()
FIELDS: Final = FieldsType()
NEW_DATABASE: Final = NewDatabaseType()
